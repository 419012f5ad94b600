// SPDX-License-Identifier: Apache-2.0
#include <vram/data/tile_sink.hpp> // first: the header stands alone

#include "volumes.hpp"

#include <vram/data/pinned_tile_source.hpp>
#include <vram/data/tile_source.hpp>
#include <vram/sim/machine/sim_register.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::tile_sink<int, 2>;

namespace tile_sink_tests {

/// Any cut, there and back, tiles in any order: on the host, and through the device.
template <std::size_t N>
void round(std::mt19937& random) {
    tiles<N> const    cut{volumes::any<N>(random)};
    auto              volume = volumes::counted(cut.volume());
    std::vector<int>  host(cut.volume(), -1), back(cut.volume(), -1), batch(cut.elements());
    tile_source const source{cut, volume};
    tile_sink const   sink{cut, host};
    REQUIRE(sink.size() == cut.size());
    std::vector<std::size_t> order(cut.size());
    for (std::size_t i = 0; i < order.size(); ++i) { order[i] = i; }
    std::ranges::shuffle(order, random);
    for (std::size_t const i : order) {
        auto const bytes = source.fill(std::as_writable_bytes(std::span{batch}), i);
        sink.put(std::span{batch}.first(bytes / sizeof(int)), i);
    }
    REQUIRE(host == volume);

    sim_node                 node;
    sim_stream               stream;
    sim_resource             memory;
    sim_register const       in{{volume.data(), volume.size() * sizeof(int)}};
    sim_register const       out{{back.data(), back.size() * sizeof(int)}};
    pinned_tile_source const pinned{cut, volume};
    tile_sink const          results{cut, back};
    auto* const device = static_cast<std::byte*>(memory.allocate_sync(pinned.batch_bytes()));
    for (std::size_t const i : order) {
        auto const n = pinned.enqueue({device, pinned.batch_bytes()}, i, stream.view());
        results.enqueue({reinterpret_cast<int const*>(device), n / sizeof(int)}, i, stream.view());
    }
    stream.synchronize();
    REQUIRE(back == volume);
    memory.deallocate_sync(device, pinned.batch_bytes());
    REQUIRE(node.reports().empty());
}

TEST_CASE("tile_sink: any volume is restored, in any order of its tiles") {
    std::mt19937 random{31};
    for (int i = 0; i < 40; ++i) {
        round<1>(random);
        round<2>(random);
        round<3>(random);
        round<4>(random);
    }
}

TEST_CASE("tile_sink: tiles without halos are assembled as well") {
    tiles<2> const   cut{{.extent = {5, 7}, .tile = {2, 3}, .halo = {1, 1}}};
    std::vector<int> volume(35);
    tile_sink const  sink{cut, volume, tile_part::inner};
    for (std::size_t i = 0; i < cut.size(); ++i) {
        sink.put(std::vector<int>(tiles<2>::inner_elements(cut[i]), static_cast<int>(i)), i);
    }
    for (std::size_t y = 0; y < 5; ++y) {
        for (std::size_t x = 0; x < 7; ++x) {
            CHECK(volume[y * 7 + x] == static_cast<int>(cut.index_of({y, x})));
        }
    }
}

TEST_CASE("tile_sink: a tile or volume of the wrong size is refused") {
    using r = layout_error::reason;
    tiles<2> const   cut{{.extent = {5, 7}, .tile = {2, 3}, .halo = {1, 1}}};
    std::vector<int> volume(35, 1), small(34), batch(12);
    CHECK_THROWS_AS((tile_sink{cut, small}), layout_error);
    tile_sink const whole{cut, volume};
    tile_sink const inner{cut, volume, tile_part::inner};
    sim_node        node;
    sim_stream      stream;
    CHECK_NOTHROW(whole.put(batch, 0)); // 3 rows of 4
    try {
        inner.put(batch, 0);
        FAIL("2 rows of 3 are needed");
    } catch (layout_error const& e) {
        CHECK(e.why() == r::wrong_size);
        CHECK(e.value() == 12 * sizeof(int));
        CHECK(e.limit() == 6 * sizeof(int));
    }
    CHECK_THROWS_AS(whole.put(std::span{batch}.first(11), 0), layout_error);
    CHECK_THROWS_AS(whole.enqueue(std::span{batch}.first(11), 0, stream.view()), layout_error);
}

TEST_CASE("tile_sink: many threads write different tiles concurrently") {
    tiles<3> const cut{
        {.extent = {33, 34, 35}, .tile = {8, 8, 8}, .halo = {1, 2, 3}, .outside = boundary::edge}};
    auto const        volume = volumes::counted(cut.volume());
    std::vector<int>  result(cut.volume());
    tile_source const source{cut, volume};
    tile_sink const   sink{cut, result};
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                std::vector<int> batch(cut.elements());
                for (std::size_t i = t; i < cut.size(); i += 4) {
                    auto const n = source.fill(std::as_writable_bytes(std::span{batch}), i);
                    sink.put(std::span{batch}.first(n / sizeof(int)), i);
                }
            });
        }
    }
    CHECK(result == volume);
}

} // namespace tile_sink_tests
