// SPDX-License-Identifier: Apache-2.0
#include <vram/data/pinned_tile_source.hpp> // first: the header stands alone

#include "volumes.hpp"

#include <vram/sim/machine/sim_register.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::pinned_tile_source<int, 2>;

namespace pinned_tile_source_tests {

/// For any division the device receives the tiles as defined element by element, and the host does
/// not wait.
template <std::size_t N>
void round(std::mt19937& random) {
    sim_node                 node;
    sim_stream               stream;
    sim_resource             memory;
    tiles<N> const           cut{volumes::any<N>(random)};
    auto                     volume = volumes::counted(cut.volume());
    sim_register const       pinned{{volume.data(), volume.size() * sizeof(int)}};
    pinned_tile_source const source{cut, volume, -1}; // all bytes are equal
    auto* const device = static_cast<std::byte*>(memory.allocate_sync(source.batch_bytes()));
    for (std::size_t i = 0; i < cut.size(); ++i) {
        auto const        wanted = volumes::gathered(cut, cut[i], volume, -1);
        auto const        waits  = node.figures().host_waits;
        std::size_t const bytes  = source.enqueue({device, source.batch_bytes()}, i, stream.view());
        REQUIRE(node.figures().host_waits == waits);
        REQUIRE(bytes == wanted.size() * sizeof(int));
        std::vector<int> back(wanted.size());
        sim_copy(stream, back.data(), device, bytes);
        stream.synchronize();
        REQUIRE(back == wanted);
    }
    REQUIRE(source.enqueue({device, source.batch_bytes()}, cut.size(), stream.view()) == 0);
    memory.deallocate_sync(device, source.batch_bytes());
    REQUIRE(node.reports().empty());
}

TEST_CASE("pinned_tile_source: with any border, a tile equals its definition element by element") {
    std::mt19937 random{29};
    for (int i = 0; i < 40; ++i) {
        round<1>(random);
        round<2>(random);
        round<3>(random);
        round<4>(random);
    }
}

TEST_CASE(
    "pinned_tile_source: an outside value that is not one repeated byte is refused when used") {
    std::vector<float> const volume(25);
    tile_options<2>          how{.extent = {5, 5}, .tile = {2, 2}, .halo = {1, 1}};
    CHECK_NOTHROW((pinned_tile_source{tiles<2>{how}, volume, 1.5F}));
    how.outside = boundary::constant;
    CHECK_NOTHROW((pinned_tile_source{tiles<2>{how}, volume}));
    CHECK_NOTHROW((pinned_tile_source{tiles<2>{how}, volume, 0.0F}));
    try {
        pinned_tile_source const source{tiles<2>{how}, volume, 1.5F};
        FAIL("its bytes are not all the same");
    } catch (layout_error const& e) {
        CHECK(e.why() == layout_error::reason::no_pattern);
        CHECK(e.value() == sizeof(float));
    }
}

TEST_CASE("pinned_tile_source: each refused call is thrown, and the tile can be requested again") {
    tiles<2> const cut{
        {.extent = {6, 6}, .tile = {3, 3}, .halo = {1, 1}, .outside = boundary::wrap}};
    std::size_t refused = 0;
    for (boundary const outside : {boundary::wrap, boundary::constant}) {
        for (unsigned n = 1; n < 6; ++n) {
            sim_node     node;
            sim_stream   stream;
            sim_resource memory;
            auto         how                  = cut.options();
            how.outside                       = outside;
            auto                       volume = volumes::counted(36);
            sim_register const         pinned{{volume.data(), volume.size() * sizeof(int)}};
            pinned_tile_source const   source{tiles<2>{how}, volume};
            auto* const                device = static_cast<std::byte*>(memory.allocate_sync(100));
            std::span<std::byte> const to{device, 100};
            node.faults().at(sim_call_kind::copy, n);
            try {
                (void)source.enqueue(to, 0, stream.view());
            } catch (sim_error const&) { ++refused; }
            node.faults().clear();
            CHECK(source.enqueue(to, 0, stream.view()) == 100);
            std::vector<int> back(25);
            sim_copy(stream, back.data(), device, 100);
            stream.synchronize();
            CHECK(back == volumes::gathered(source.cut(), source.cut()[0], volume, 0));
            memory.deallocate_sync(device, 100);
            CHECK(node.reports().empty());
        }
    }
    CHECK(refused == 4 + 2); // a corner of a wrap is four copies, a constant a fill and a copy
}

TEST_CASE("pinned_tile_source: a tile that does not fit is not copied, and without a device it is "
          "a memcpy") {
    tiles<1> const           cut{{.extent = {10}, .tile = {4}, .halo = {1}}};
    auto const               volume = volumes::counted(10);
    pinned_tile_source const source{cut, volume};
    std::vector<int>         to(6, -1);
    auto const               bytes = std::as_writable_bytes(std::span{to});
    CHECK(source.enqueue(bytes.first(19), 0, host_platform::stream{}) == 20);
    CHECK(to == std::vector<int>(6, -1));
    CHECK(source.enqueue(bytes, 1, host_platform::stream{}) == 24);
    CHECK(to == std::vector{4, 5, 6, 7, 8, 9});
}

TEST_CASE("pinned_tile_source: a loader that drops short batches keeps tiles with clipped halos") {
    tiles<1> const           cut{{.extent = {10}, .tile = {4}, .halo = {1}}};
    auto const               volume = volumes::counted(cut.volume());
    pinned_tile_source const source{cut, volume};
    std::vector<std::size_t> seen;
    for (auto& b : loader{source, host_platform::stream{}, {.last = last_batch::drop}}) {
        CHECK(b.size() == source.batch_bytes(b.source_index()));
        seen.push_back(b.source_index());
    }
    CHECK(seen == std::vector<std::size_t>{0, 1}); // the end of the volume cuts the last tile
}

} // namespace pinned_tile_source_tests
