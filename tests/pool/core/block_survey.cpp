// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_survey.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using namespace vram;
using namespace vram::detail;
using doubles::at;

template class vram::detail::block_survey<false>;
template class vram::detail::block_survey<true>;

namespace {

constexpr auto all_ready    = [](auto const&...) { return availability::ready; };
constexpr auto all_of       = [](block const& b) { return b.bytes; };
constexpr auto all_complete = [](tag const&) { return true; };
constexpr auto pending      = [](tag const&) { return false; };

block* take(block_heaps<false>& heaps, std::size_t bytes, std::size_t asked) {
    block_heap& heap = heaps.of(bytes);
    heap.reserve();
    block* const b = heap.take(heap.find(bytes, 256, all_ready, false), bytes);
    b->slack       = static_cast<std::uint16_t>(bytes - asked);
    b->alignment   = 8;
    return b;
}

} // namespace

TEST_CASE("block_survey: requested, pending and reserved bytes and the largest free block") {
    block_heaps<false> heaps;
    heaps.of(256).add(at(0x1000000), 4096, 256, {});
    heaps.of(8_MiB).add(at(0x2000000), 8_MiB, 256, tags{{0x2000000, 0x2000000 + 1_MiB, 1, 0}});
    (void)take(heaps, 512, 300);
    take(heaps, 256, 256)->now = block::state::reserved;
    block_survey<false> const survey{heaps};
    memory_usage              now{};
    survey.measure(now, all_of, pending);
    CHECK(now.requested == 300);
    CHECK(now.pending == 1_MiB);
    CHECK(now.reserved == 8_MiB + 4096);
    CHECK(now.largest_free == 8_MiB);
    memory_usage after{};
    survey.measure(after, [](block const&) { return std::size_t{512}; }, pending);
    CHECK(after.pending == 512); // never more than the bytes with memory
    CHECK(after.largest_free == 512);
    memory_usage done{};
    survey.measure(done, all_of, all_complete);
    CHECK(done.pending == 0);
}

TEST_CASE("block_survey: chunks without live and graph-retained blocks can be returned") {
    block_heaps<false> heaps;
    heaps.of(256).add(at(0x1000000), 4096, 256, {});
    heaps.of(256).add(at(0x1100000), 2048, 256, tags{{0x1100000, 0x1100800, tag::captured, 0}});
    heaps.of(256).add(at(0x1200000), 1024, 256, tags{{0x1200000, 0x1200400, 7, 0}});
    block_survey<false> const survey{heaps};
    auto const                now = survey.free_memory(all_of);
    CHECK(now.bytes == 4096 + 2048 + 1024);
    CHECK(now.releasable == 4096 + 1024);
    take(heaps, 512, 512)->now = block::state::reserved;
    auto const later           = survey.free_memory(all_of);
    CHECK(later.bytes == 4096 + 2048 + 1024 - 512);
    CHECK(later.releasable < now.releasable);
}

TEST_CASE("block_survey: a leak has the number and the first address of the live blocks") {
    block_heaps<false> heaps;
    heaps.of(256).add(at(0x1000000), 4096, 256, {});
    block* const first = take(heaps, 512, 300);
    (void)take(heaps, 512, 512);
    take(heaps, 512, 512)->now = block::state::cached;
    error const e              = block_survey<false>{heaps}.leak(1024);
    CHECK(e.kind == error_kind::leak);
    CHECK(e.bytes == 1024);
    CHECK(e.blocks == 2);
    CHECK(e.pointer == first->pointer());
}

TEST_CASE("block_survey: a rejected free names the block at its address") {
    block_heaps<false> heaps;
    heaps.of(256).add(at(0x1000000), 4096, 256, {});
    block* const              b = take(heaps, 512, 300);
    block_survey<false> const survey{heaps};
    auto const                kind_of = [&](std::uintptr_t p, std::size_t bytes) {
        refused_free e{"pool", at(p), bytes, 256};
        survey.explain_refusal(e);
        return e.what.kind;
    };
    CHECK(kind_of(b->address, 301) == error_kind::wrong_size);
    CHECK(kind_of(b->address + 16, 300) == error_kind::interior_pointer);
    CHECK(kind_of(b->address + 512, 300) == error_kind::double_free);
    CHECK(kind_of(0x9000000, 300) == error_kind::foreign_pointer);
}
