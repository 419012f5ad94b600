// SPDX-License-Identifier: Apache-2.0
// Sources that enqueue their own copies, and sinks, on the CUDA platform.
#include <vram/data/pinned_tile_source.hpp> // first: the header stands alone

#include "../data/volumes.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda.hpp>
#include <vram/data/pinned_chunks.hpp>
#include <vram/data/tile_sink.hpp>

#include <cstring> // memcpy
#include <vector>  // vector

using namespace vram;
using tests::machine;

namespace cuda_sources {

/// Pinned memory, or device memory, for a scope.
template <class Resource>
struct block {
    explicit block(std::size_t n)
        : size{n}, bytes{static_cast<std::byte*>(memory.allocate_sync(n))} {}
    block(block&&) = delete;
    ~block() { memory.deallocate_sync(bytes, size); }

    [[nodiscard]] std::span<std::byte> all() const { return {bytes, size}; }
    template <class T>
    [[nodiscard]] std::span<T> as() const {
        return {reinterpret_cast<T*>(bytes), size / sizeof(T)};
    }

    Resource    memory;
    std::size_t size;
    std::byte*  bytes;
};

/// Any cut: from pinned memory to the device, looked at there, and back to another volume.
template <std::size_t N>
void round(std::mt19937& random, cuda_stream const& stream) {
    tiles<N> const               cut{volumes::any<N>(random)};
    auto const                   counted = volumes::counted(cut.volume());
    block<pinned_resource> const in{counted.size() * sizeof(int)}, out{in.size};
    std::memcpy(in.bytes, counted.data(), in.size);
    std::memset(out.bytes, 0, out.size);
    pinned_tile_source const   source{cut, in.as<int const>(), -1};
    tile_sink const            sink{cut, out.as<int>()};
    block<cuda_resource> const device{source.batch_bytes()};
    for (std::size_t i = 0; i < cut.size(); ++i) {
        auto const        wanted = volumes::gathered(cut, cut[i], counted, -1);
        std::size_t const bytes  = source.enqueue(device.all(), i, stream.view());
        REQUIRE(bytes == wanted.size() * sizeof(int));
        sink.enqueue(device.as<int const>().first(wanted.size()), i, stream.view());
        std::vector<int> back(wanted.size());
        cuda_copy(stream, back.data(), device.bytes, bytes);
        stream.synchronize();
        CAPTURE(i);
        REQUIRE(back == wanted);
    }
    stream.synchronize();
    CHECK(std::memcmp(in.bytes, out.bytes, in.size) == 0);
}

} // namespace cuda_sources

TEST_CASE(
    "sources on CUDA: with any border, tiles reach the device element by element, and return") {
    machine const     here;
    cuda_stream const stream;
    std::mt19937      random{37};
    for (int i = 0; i < 12; ++i) {
        cuda_sources::round<1>(random, stream);
        cuda_sources::round<2>(random, stream);
        cuda_sources::round<3>(random, stream);
        cuda_sources::round<4>(random, stream);
    }
}

TEST_CASE("sources on CUDA: a volume in pageable memory works as well") {
    machine const                            here;
    cuda_stream const                        stream;
    tiles<3> const                           cut{{.extent  = {20, 21, 22},
                                                  .tile    = {8, 9, 10},
                                                  .halo    = {2, 1, 2},
                                                  .outside = boundary::mirror}};
    auto const                               volume = volumes::counted(cut.volume());
    std::vector<int>                         result(volume.size());
    pinned_tile_source const                 source{cut, volume};
    tile_sink const                          sink{cut, result};
    cuda_sources::block<cuda_resource> const device{source.batch_bytes()};
    for (std::size_t i = 0; i < cut.size(); ++i) {
        std::size_t const n = source.enqueue(device.all(), i, stream.view()) / sizeof(int);
        sink.enqueue(device.as<int const>().first(n), i, stream.view());
    }
    stream.synchronize();
    CHECK(result == volume);
}

TEST_CASE("sources on CUDA: chunks are copied from pinned memory to the device") {
    machine const                              here;
    cuda_stream const                          stream;
    cuda_sources::block<pinned_resource> const pinned{1000};
    for (std::size_t i = 0; i < 1000; ++i) { pinned.bytes[i] = static_cast<std::byte>(i % 251); }
    pinned_chunks const                      source{pinned.all(), 300, {.overlap = 100}};
    cuda_sources::block<cuda_resource> const device{300};
    std::vector<std::byte>                   back(300);
    for (std::size_t i = 0; i < source.size(); ++i) {
        std::size_t const n = source.enqueue(device.all(), i, stream.view());
        cuda_copy(stream, back.data(), device.bytes, n);
        stream.synchronize();
        CHECK(std::memcmp(back.data(), pinned.bytes + i * 200, n) == 0);
    }
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("sources on CUDA: every error of the runtime is thrown") {
    machine const     here;
    cuda_stream const stream;
    tiles<3> const    cut{
           {.extent = {6, 6, 6}, .tile = {3, 3, 3}, .halo = {1, 1, 1}, .outside = boundary::constant}};
    auto                                     volume = volumes::counted(cut.volume());
    pinned_tile_source const                 source{cut, volume};
    tile_sink const                          sink{cut, volume};
    cuda_sources::block<cuda_resource> const device{source.batch_bytes()};
    auto const                               nothing = [] {};
    // a fill and a copy there, a copy back; each refused in the two ways that there are
    CHECK(tests::walk_failures([&] { (void)source.enqueue(device.all(), 0, stream.view()); },
                               nothing) == 4);
    CHECK(tests::walk_failures(
              [&] { sink.enqueue(device.as<int const>().first(125), 0, stream.view()); },
              nothing) == 2);
    stream.synchronize();
}
#endif
