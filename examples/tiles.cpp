// SPDX-License-Identifier: Apache-2.0
// Smooths a volume larger than the device, tile by tile with a halo. The result is bitwise equal to
// that of the whole volume.

#if !defined VRAM_EXAMPLE_NVCC
#undef VRAM_EXAMPLE_CUDA // without nvcc there are no kernels: only the simulated device
#endif

#include "machine.hpp"
#include "tiles_kernels.hpp"

#include <vram/base/contract.hpp>
#include <vram/data/pinned_tile_source.hpp>
#include <vram/data/tile_sink.hpp>
#include <vram/data/tile_source.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/transfer/loader.hpp>

#include <algorithm>
#include <span>
#include <vector>

using namespace vram;

namespace {

constexpr std::size_t extent[] = {30, 36, 45}; // 95 KiB of voxels; the device has 64 KiB

/// Returns a volume with edges and noise.
std::vector<voxel> scanned() {
    std::vector<voxel> all(extent[0] * extent[1] * extent[2]);
    std::uint32_t      noise = 1;
    for (std::size_t i = 0; i < all.size(); ++i) {
        noise  = noise * 1664525 + 1013904223;
        all[i] = static_cast<voxel>((i / 7 % 3) * 20000 + (noise >> 20));
    }
    return all;
}

/// Smooths the whole volume on the CPU.
std::vector<voxel> smoothed_whole(std::vector<voxel> const& from, boundary outside) {
    std::vector<voxel> to(from.size());
    auto const         place = [&](std::size_t at, int step, std::size_t d) {
        return boundary_place(outside, static_cast<std::ptrdiff_t>(at) + step, extent[d]);
    };
    std::size_t i = 0;
    for (std::size_t z = 0; z < extent[0]; ++z) {
        for (std::size_t y = 0; y < extent[1]; ++y) {
            for (std::size_t x = 0; x < extent[2]; ++x) {
                to[i++] = smoothed([&](int dz, int dy, int dx) {
                    std::size_t const row = place(z, dz, 0) * extent[1] + place(y, dy, 1);
                    return from[row * extent[2] + place(x, dx, 2)];
                });
            }
        }
    }
    return to;
}

/// Smooths the volume tile by tile from pageable memory: a thread gathers the next tile while the
/// device smooths the present one.
template <class Machine>
std::vector<voxel> smoothed_in_tiles(std::vector<voxel> const& volume, boundary outside) {
    using platform = typename Machine::platform;
    typename platform::own_stream              stream{platform::current_device()};
    stream_ordered<typename Machine::resource> memory;
    std::vector<voxel>                         result(volume.size());

    // [tiles]
    tiles<3> const    cut{{.extent  = {extent[0], extent[1], extent[2]},
                           .tile    = {8, 12, 16},
                           .halo    = {smooth_reach, smooth_reach, smooth_reach},
                           .outside = outside}};
    tile_source const source{cut, volume};
    tile_sink const   sink{cut, result, tile_part::inner}; // halos belong to the neighbours
    // [/tiles]
    auto const  view = stream.view();
    buffer      scratch{memory, view, cut.elements() * sizeof(voxel)};
    auto* const smooth = static_cast<voxel*>(scratch.data());
    // [loop]
    auto fill = [&](std::span<std::byte> to, std::size_t i) { return source.fill(to, i); };
    for (auto& batch : loader{fill, view, {.batch_bytes = source.batch_bytes()}}) {
        std::size_t const i   = batch.source_index(); // that of the tile, in every order
        auto const        box = cut[i];               // position in the volume, and in the batch
        smooth_on_device(view, batch.template span<voxel const>().data(), box, smooth);
        sink.enqueue({smooth, cut.inner_elements(box)}, i, view);
    }
    // [/loop]
    platform::synchronize(view);
    return result;
}

/// Smooths the volume from and to pinned memory: the copy engines gather and scatter the tiles,
/// without a host thread.
template <class Machine>
std::vector<voxel> smoothed_from_pinned(std::vector<voxel> const& volume, boundary outside) {
    using platform = typename Machine::platform;
    typename platform::own_stream              stream{platform::current_device()};
    stream_ordered<typename Machine::resource> memory;
    typename platform::pinned_resource         pinned;
    std::size_t const                          n     = volume.size();
    std::size_t const                          bytes = n * sizeof(voxel);
    auto* const in  = static_cast<voxel*>(pinned.allocate_sync(bytes));
    auto* const out = static_cast<voxel*>(pinned.allocate_sync(bytes));
    std::copy(volume.begin(), volume.end(), in);

    // [pinned]
    tiles<3> const           cut{{.extent  = {extent[0], extent[1], extent[2]},
                                  .tile    = {10, 18, 15},
                                  .halo    = {smooth_reach, smooth_reach, smooth_reach},
                                  .outside = outside,
                                  .order   = tile_order::snake}};
    pinned_tile_source const source{cut, std::span{in, n}};
    tile_sink const          sink{cut, std::span{out, n}, tile_part::inner};
    // [/pinned]
    {
        auto const  view = stream.view();
        buffer      tile{memory, view, source.batch_bytes()};
        buffer      scratch{memory, view, source.batch_bytes()};
        auto* const batch  = static_cast<std::byte*>(tile.data());
        auto* const smooth = static_cast<voxel*>(scratch.data());
        for (std::size_t i = 0; i < source.size(); ++i) {
            source.enqueue({batch, source.batch_bytes()}, i, view);
            smooth_on_device(view, reinterpret_cast<voxel const*>(batch), cut[i], smooth);
            sink.enqueue({smooth, cut.inner_elements(cut[i])}, i, view);
        }
    }
    platform::synchronize(stream.view());
    std::vector<voxel> const result(out, out + n);
    pinned.deallocate_sync(in, bytes);
    pinned.deallocate_sync(out, bytes);
    return result;
}

template <class Machine>
int smooth(Machine& machine) {
    auto const volume = scanned();
    for (boundary const outside : {boundary::mirror, boundary::edge, boundary::wrap}) {
        auto const whole = smoothed_whole(volume, outside);
        expects(smoothed_in_tiles<Machine>(volume, outside) == whole, "bit by bit the same");
        expects(smoothed_from_pinned<Machine>(volume, outside) == whole,
                "and so from pinned memory");
    }
    fmt::print("{} voxels, smoothed tile by tile on {}\n", volume.size(), machine.name());
    return 0;
}

} // namespace

int main() {
    return on_machine("auto", {.capacity = 64_KiB}, [](auto& machine) {
        int const code = smooth(machine);
        if constexpr (requires { machine.node(); }) {
            expects(machine.node().reports().empty(), "nothing was used before it was there");
            expects(machine.node().figures().peak_used <= 64_KiB,
                    "on a device without room for it");
        }
        return code;
    });
}
