// SPDX-License-Identifier: Apache-2.0
#include <vram/pressure/calling.hpp> // first: the header stands alone

#include <vram/layer/retrying.hpp>

#include "../doubles/archetype.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace vram;

TEST_CASE("calling: the program's function frees memory, and the request succeeds") {
    doubles::archetype<>* memory = nullptr;
    void*                 cache  = nullptr;
    retrying              mr{doubles::archetype<>{100}, calling{[&](failed_attempt const& failed) {
                    CHECK(failed.bytes == 80);
                    if (cache == nullptr) { return false; }
                    memory->deallocate_sync(std::exchange(cache, nullptr), 50);
                    return true;
                }}};
    memory        = &mr.upstream();
    cache         = memory->allocate_sync(50);
    void* const p = mr.allocate_sync(80);
    CHECK(cache == nullptr);
    CHECK(mr.try_allocate_sync(80) == nullptr);
    mr.deallocate_sync(p, 80);
}

TEST_CASE("calling: a function that always returns true is not called for ever") {
    unsigned calls = 0;
    retrying mr{doubles::archetype<>{10}, calling{[&](failed_attempt const&) {
                    ++calls;
                    return true;
                }}};
    CHECK_THROWS_AS((void)mr.allocate_sync(80), out_of_memory);
    CHECK(calls == 4);
}

TEST_CASE("calling: an exception of the function ends the request") {
    retrying mr{doubles::archetype<>{10},
                calling{[](failed_attempt const&) -> bool { throw std::runtime_error{"enough"}; }}};
    CHECK_THROWS_AS((void)mr.allocate_sync(80), std::runtime_error);
}
