// SPDX-License-Identifier: Apache-2.0
#include <vram/data/concat.hpp> // first: the header stands alone

#include "files.hpp"

#include <vram/data/file_chunks.hpp>
#include <vram/data/memory_chunks.hpp>
#include <vram/data/pinned_chunks.hpp>
#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <span>
#include <stop_token>
#include <vector>

using namespace vram;

template class vram::concat<file_chunks<file>>;
template class vram::concat<memory_chunks>;

namespace concat_tests {

using files::content;
using files::same;

TEST_CASE("concat: files follow each other, and no batch contains two files") {
    files::folder const            here;
    std::size_t const              lengths[] = {250, 0, 100, 301, 0};
    std::vector<file_chunks<file>> parts;
    for (std::size_t i = 0; i < 5; ++i) {
        std::string const name(1, static_cast<char>('a' + i));
        parts.emplace_back(file{here.with(name, content(lengths[i], i * 1000))}, 100);
    }
    concat all{std::move(parts)};
    CHECK(all.size() == 3 + 0 + 1 + 4 + 0);
    CHECK(all.batch_bytes() == 100);
    CHECK(all.sources().size() == 5);
    struct {
        std::size_t source, index, bytes;
    } const wanted[] = {{0, 0, 100}, {0, 1, 100}, {0, 2, 50},  {2, 0, 100},
                        {3, 0, 100}, {3, 1, 100}, {3, 2, 100}, {3, 3, 1}};
    std::vector<std::byte> to(100);
    for (std::size_t i = 0; i < 8; ++i) {
        auto const& w = wanted[i];
        CHECK(all[i] == concat<file_chunks<file>>::place{w.source, w.index});
        CHECK(all.fill(to, i) == w.bytes);
        CHECK(
            same(std::span{to}.first(w.bytes), content(w.bytes, w.source * 1000 + w.index * 100)));
    }
    CHECK(all.fill(to, 8) == 0);
    CHECK(all.fill(to, unsatisfiable) == 0);
}

TEST_CASE("concat: a concatenation of empty files is empty") {
    concat<memory_chunks>  none{{}};
    std::vector<std::byte> to(1);
    CHECK(none.size() == 0);
    CHECK(none.batch_bytes() == 1);
    CHECK(none.fill(to, 0) == 0);
}

/// Each pass over it has one batch more than the pass before, with the number of the pass in it.
struct growing {
    std::size_t passes = 1;

    [[nodiscard]] std::size_t        size() const { return passes; }
    [[nodiscard]] static std::size_t batch_bytes() { return 1; }
    std::size_t fill(std::span<std::byte> to, std::size_t, std::stop_token const&) const {
        to[0] = std::byte(static_cast<unsigned char>(passes));
        return 1;
    }
    void restart() { ++passes; }
};

TEST_CASE("concat: a restart of the loader restarts each source, and queries its size again") {
    loader load{concat{std::vector<growing>(2)}, host_platform::stream{}};
    for (std::size_t pass = 1; pass < 4; ++pass) {
        std::size_t seen = 0;
        for (auto& batch : load) {
            CHECK(*batch.data() == std::byte(static_cast<unsigned char>(pass)));
            ++seen;
        }
        CHECK(seen == 2 * pass);
        CHECK(load.batches() == seen);
        load.restart();
    }
}

TEST_CASE("concat: it fills if its parts fill, and enqueues if they enqueue") {
    auto const             a = content(10), b = content(20, 10);
    concat                 pinned{std::vector{pinned_chunks{a, 8}, pinned_chunks{b, 8}}};
    std::vector<std::byte> to(8);
    CHECK(pinned.size() == 5);
    CHECK(pinned.enqueue(to, 4, host_platform::stream{}) == 4);
    CHECK(same(std::span{to}.first(4), std::span{b}.last(4)));
    CHECK(pinned.enqueue(to, 5, host_platform::stream{}) == 0);
    auto const fills = [](auto& s) { return requires { s.fill(std::span<std::byte>{}, 0U); }; };
    auto const goes  = [](auto& s) {
        return requires { s.enqueue(std::span<std::byte>{}, 0U, host_platform::stream{}); };
    };
    concat memory{std::vector{memory_chunks{a, 8}}};
    CHECK(fills(memory));
    CHECK_FALSE(goes(memory));
    CHECK_FALSE(fills(pinned));
    CHECK(goes(pinned));
}

} // namespace concat_tests
