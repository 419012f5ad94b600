// SPDX-License-Identifier: Apache-2.0
#include <vram/data/tile_source.hpp> // first: the header stands alone

#include "files.hpp"
#include "volumes.hpp"

#include <vram/data/concat.hpp>
#include <vram/data/mapped_file.hpp>
#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

using namespace vram;

template class vram::tile_source<int, 1>;
template class vram::tile_source<std::byte, 4>;

namespace tile_source_tests {

/// For any division every batch equals its definition element by element, and nothing behind it is
/// written.
template <std::size_t N>
void round(std::mt19937& random) {
    tiles<N> const    cut{volumes::any<N>(random)};
    auto const        volume = volumes::counted(cut.volume());
    tile_source const source{cut, volume, -7};
    REQUIRE(source.size() == cut.size());
    std::vector<int> to(cut.elements() + 1);
    for (std::size_t i = 0; i < cut.size(); ++i) {
        auto const wanted = volumes::gathered(cut, cut[i], volume, -7);
        std::fill(to.begin(), to.end(), 12345);
        std::size_t const bytes = source.fill(std::as_writable_bytes(std::span{to}), i);
        REQUIRE(bytes == wanted.size() * sizeof(int));
        REQUIRE(bytes <= source.batch_bytes());
        REQUIRE(std::vector<int>(
                    to.begin(), to.begin() + static_cast<std::ptrdiff_t>(wanted.size())) == wanted);
        REQUIRE(to[wanted.size()] == 12345);
    }
    REQUIRE(source.fill(std::as_writable_bytes(std::span{to}), cut.size()) == 0);
}

TEST_CASE("tile_source: with any border, a batch equals its definition element by element") {
    std::mt19937 random{23};
    for (int i = 0; i < 300; ++i) {
        round<1>(random);
        round<2>(random);
        round<3>(random);
        round<4>(random);
    }
}

TEST_CASE("tile_source: a loader brings the tiles to the device one by one") {
    sim_node       node;
    sim_stream     stream;
    tiles<2> const cut{
        {.extent = {50, 70}, .tile = {16, 16}, .halo = {2, 1}, .outside = boundary::mirror}};
    auto const        volume = volumes::counted(cut.volume());
    tile_source const source{cut, volume};
    auto const  fill = [&](std::span<std::byte> to, std::size_t i) { return source.fill(to, i); };
    std::size_t seen = 0;
    for (auto& b : loader{fill, stream, {.batch_bytes = source.batch_bytes()}}) {
        auto const       batch = b.span<int>();
        std::vector<int> back(batch.size());
        sim_copy(stream, back.data(), batch.data(), batch.size_bytes());
        stream.synchronize();
        CHECK(back == volumes::gathered(cut, cut[b.index()], volume, 0));
        ++seen;
    }
    CHECK(seen == 4 * 5);
    CHECK(node.reports().empty());
}

TEST_CASE("tile_source: the volume may be a file larger than memory") {
    files::folder const here;
    tiles<2> const      cut{
             {.extent = {20, 30}, .tile = {7, 8}, .halo = {1, 1}, .outside = boundary::constant}};
    auto const        volume = volumes::counted(cut.volume());
    mapped_file const map{here.with("a", std::as_bytes(std::span{volume}))};
    tile_source const source{cut, map.span<int const>(), 9};
    std::vector<int>  to(cut.elements());
    for (std::size_t i = 0; i < cut.size(); ++i) {
        to.resize(source.fill(std::as_writable_bytes(std::span{to}), i) / sizeof(int));
        CHECK(to == volumes::gathered(cut, cut[i], volume, 9));
        to.resize(cut.elements());
    }
}

TEST_CASE("tile_source: a tile that does not fit is not written") {
    tiles<1> const cut{{.extent = {10}, .tile = {4}, .halo = {1}, .outside = boundary::constant}};
    auto const     volume = volumes::counted(10);
    tile_source const source{cut, volume, 1};
    std::vector<int>  to(6, -1);
    CHECK(source.fill(std::as_writable_bytes(std::span{to}).first(23), 0) == 24);
    CHECK(to == std::vector<int>(6, -1));
}

TEST_CASE("tile_source: a volume of another size, and a batch that overflows, are refused") {
    using r = layout_error::reason;
    tiles<2> const   cut{{.extent = {5, 5}, .tile = {2, 2}}};
    std::vector<int> volume(24);
    try {
        tile_source const source{cut, volume};
        FAIL("25 elements are needed");
    } catch (layout_error const& e) {
        CHECK(e.why() == r::wrong_size);
        CHECK(e.value() == 24 * sizeof(int));
        CHECK(e.limit() == 25 * sizeof(int));
    }
    struct large {
        char bytes[1024];
    };
    std::size_t const far = std::size_t{1} << 28;
    tiles<2> const    huge{
           {.extent = {1, 1}, .tile = {1, 1}, .halo = {far, far}, .outside = boundary::edge}};
    std::vector<large> one(1);
    try {
        tile_source const source{huge, one};
        FAIL("2^58 elements of 1 KiB have no number");
    } catch (layout_error const& e) { CHECK(e.why() == r::too_large); }
}

TEST_CASE("tile_source: many threads gather concurrently") {
    tiles<3> const cut{
        {.extent = {33, 34, 35}, .tile = {8, 8, 8}, .halo = {1, 2, 3}, .outside = boundary::wrap}};
    auto const        volume = volumes::counted(cut.volume());
    tile_source const source{cut, volume};
    std::vector<int>  right(cut.size());
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                std::vector<int> to(cut.elements());
                for (std::size_t i = t; i < cut.size(); i += 4) {
                    std::size_t const n = source.fill(std::as_writable_bytes(std::span{to}), i);
                    to.resize(n / sizeof(int));
                    right[i] = to == volumes::gathered(cut, cut[i], volume, 0) ? 1 : 0;
                    to.resize(cut.elements());
                }
            });
        }
    }
    CHECK(std::ranges::count(right, 1) == static_cast<std::ptrdiff_t>(cut.size()));
}

TEST_CASE("tile_source: a loader that drops short batches keeps tiles with clipped halos") {
    auto const left = [](tile_options<1> how, bool joined) {
        tiles<1> const           cut{how};
        auto const               volume = volumes::counted(cut.volume());
        tile_source const        source{cut, volume};
        std::vector<std::size_t> seen;
        auto const               collect = [&](auto batches) {
            CHECK(batches.batches().has_value());
            for (auto& b : batches) {
                CHECK(b.size() == source.batch_bytes(b.source_index() % cut.size()));
                seen.push_back(b.source_index());
            }
            CHECK(batches.statistics().left_out == 0);
        };
        loader_options const drop{.last = last_batch::drop};
        if (joined) {
            collect(loader{concat{std::vector{source, source}}, host_platform::stream{}, drop});
        } else {
            collect(loader{source, host_platform::stream{}, drop});
        }
        return seen;
    };
    using indices = std::vector<std::size_t>;
    // Both tiles have a clipped halo: no batch has the largest size.
    CHECK(left({.extent = {8}, .tile = {4}, .halo = {1}}, false) == indices{0, 1});
    for (boundary const outside : {boundary::clip, boundary::mirror}) {
        tile_options<1> const how{.extent = {10}, .tile = {4}, .halo = {1}, .outside = outside};
        CHECK(left(how, false) == indices{0, 1}); // the last tile is cut by the end of the volume
        CHECK(left(how, true) == indices{0, 1, 3, 4});
    }
}

} // namespace tile_source_tests
