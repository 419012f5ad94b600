// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/chunk_map.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <new>
#include <random>

using namespace vram;
using namespace vram::detail;

namespace {

void* address_at(std::uintptr_t n) { return reinterpret_cast<void*>(n); }

} // namespace

TEST_CASE("chunk_map: an address belongs to a chunk from its first byte to its last") {
    chunk_map all;
    all.reserve(2);
    CHECK(all.find(address_at(4096)) == chunk_map::nobody);
    all.insert(address_at(8192), 4096, 7);
    all.insert(address_at(4096), 100, 3);
    CHECK(all.find(address_at(4095)) == chunk_map::nobody);
    CHECK(all.find(address_at(4096)) == 3);
    CHECK(all.find(address_at(4195)) == 3);
    CHECK(all.find(address_at(4196)) == chunk_map::nobody);
    CHECK(all.find(address_at(8192)) == 7);
    CHECK(all.find(address_at(12287)) == 7);
    CHECK(all.find(address_at(12288)) == chunk_map::nobody);
    all.erase(address_at(4096));
    CHECK(all.find(address_at(4096)) == chunk_map::nobody);
    CHECK(all.find(address_at(8192)) == 7);
    CHECK(all.size() == 1);
}

TEST_CASE("chunk_map: it agrees with std::map over random operations") {
    chunk_map                                           all;
    std::map<std::uintptr_t, std::pair<unsigned, bool>> model; // by page
    std::mt19937_64                                     random{5};
    for (unsigned i = 0; i < 3000; ++i) {
        std::uintptr_t const page = 1 + random() % 64;
        if (model.count(page) == 0) {
            all.reserve(1);
            all.insert(address_at(page * 4096), 4096, i);
            model[page] = {i, true};
        } else {
            all.erase(address_at(page * 4096));
            model.erase(page);
        }
        std::uintptr_t const asked = random() % 66;
        auto const           found = model.find(asked);
        CHECK(all.find(address_at(asked * 4096 + random() % 4096)) ==
              (found == model.end() ? chunk_map::nobody : found->second.first));
    }
}

TEST_CASE("chunk_map: without host memory nothing has changed, and after reserve none is needed") {
    chunk_map all;
    all.reserve(1);
    all.insert(address_at(4096), 4096, 1);
    {
        doubles::bombing const armed{1};
        CHECK_THROWS_AS(all.reserve(1000), std::bad_alloc);
    }
    CHECK(all.find(address_at(4096)) == 1);
    all.reserve(50);
    auto const before = doubles::host_allocations();
    for (std::uintptr_t i = 2; i < 52; ++i) { all.insert(address_at(i * 4096), 4096, 2); }
    CHECK(doubles::host_allocations() == before);
}

TEST_CASE("chunk_map: its tables double, instead of growing with each chunk") {
    chunk_map  all;
    auto const before = doubles::host_allocations();
    for (std::uintptr_t i = 1; i <= 1000; ++i) {
        all.reserve(1);
        all.insert(address_at(i * 4096), 4096, 1);
    }
    CHECK(doubles::host_allocations() - before <= 2 * 11); // a table and its cells each time
}

TEST_CASE("chunk_map: a move takes its chunks along") {
    chunk_map all;
    all.reserve(1);
    all.insert(address_at(4096), 4096, 1);
    chunk_map moved{std::move(all)};
    CHECK(moved.find(address_at(5000)) == 1);
    CHECK(moved.try_find(address_at(5000)) == 1);
    CHECK(all.size() == 0);
    CHECK(all.find(address_at(5000)) == chunk_map::nobody);
    chunk_map& same = moved;
    moved           = std::move(same);
    all             = std::move(moved);
    CHECK(all.find(address_at(5000)) == 1);
    CHECK(moved.try_find(address_at(5000)) == chunk_map::nobody);
}

TEST_CASE("chunk_map: a lookup beside concurrent changes finds the chunks that stay") {
    chunk_map all;
    for (std::uintptr_t i = 1; i <= 8; ++i) { // every 16th page stays
        all.reserve(1);
        all.insert(address_at(i * 16 * 4096), 4096, static_cast<unsigned>(i));
    }
    std::atomic<bool> over   = false;
    std::atomic<int>  wrong  = 0;
    std::atomic<int>  looked = 0;
    auto const        look   = [&] {
        for (std::uintptr_t i = 1; !over || looked < 1000; i = i % 8 + 1) {
            unsigned const stays = all.try_find(address_at(i * 16 * 4096 + 5));
            wrong += stays != i && stays != chunk_map::contended;
            unsigned const other = all.try_find(address_at(i * 16 * 4096 + 2 * 4096 + 5));
            wrong += other != 100 && other != chunk_map::nobody && other != chunk_map::contended;
            looked += stays == i;
        }
    };
    {
        worker const a{0, look}, b{0, look};
        for (unsigned round = 0; round < 200 || looked < 1000; ++round) {
            for (std::uintptr_t i = 0; i < 9; ++i) {
                for (std::uintptr_t j = 1; j < 16; j += round % 3 + 1) {
                    all.reserve(1); // its tables grow during a lookup of another thread
                    all.insert(address_at((i * 16 + j) * 4096), 4096, 100);
                }
            }
            for (std::uintptr_t i = 0; i < 9; ++i) {
                for (std::uintptr_t j = 1; j < 16; j += round % 3 + 1) {
                    all.erase(address_at((i * 16 + j) * 4096));
                }
            }
        }
        over = true;
    }
    CHECK(wrong == 0);
    CHECK(all.size() == 8);
}
