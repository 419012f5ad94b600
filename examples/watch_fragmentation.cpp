// SPDX-License-Identifier: Apache-2.0
// A load that fragments memory, with the numbers of a pool and of a pool that remaps pages.

#include "machine.hpp"

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/fragmentation.hpp>
#include <vram/pool/peak_scope.hpp>
#include <vram/pool/pool.hpp>

#include <vector>

using namespace vram;

namespace {

std::string size(std::size_t n) { return bytes{n}.text().c_str(); }

template <class Memory>
void show(char const* when, Memory const& memory) {
    // [figures]
    memory_usage const  now = memory.usage();
    fragmentation const f{now, memory.free_memory()};
    fmt::print("  {:<20}{:>10}{:>10}{:>9.2f}{:>11.2f}{:>7.3f}{:>10}{:>10}\n", when, size(now.live),
               size(now.reserved), f.unused, f.scattered, f.holes, size(f.stranded),
               size(f.rounding));
    // [/figures]
}

/// Allocates blocks, frees every other one, and requests a large one. Returns the reserved bytes.
template <class Memory>
std::size_t run(char const* name, Memory memory, auto stream) {
    constexpr std::size_t small = 3'999'900, large = 100_MiB, count = 64;
    fmt::print("{}\n  {:<20}{:>10}{:>10}{:>9}{:>11}{:>7}{:>10}{:>10}\n", name, "", "live",
               "reserved", "unused", "scattered", "holes", "stranded", "rounding");
    std::vector<void*> out;
    for (std::size_t i = 0; i < count; ++i) { out.push_back(memory.allocate(stream, small)); }
    show("64 blocks", memory);

    for (std::size_t i = 0; i < count; i += 2) { memory.deallocate(stream, out[i], small); }
    show("every other is free", memory);
    fragmentation const holes{memory.usage(), memory.free_memory()};
    expects(holes.scattered > 0.8, "much is free, and little of it in one piece");
    expects(holes.stranded > 100_MiB, "and in chunks that are all in use");

    // [peak]
    peak_scope  step{memory};
    void* const p = memory.allocate(stream, large);
    show("a large one", memory);
    expects(step.live() >= count / 2 * small + large, "the peak, from here on");
    // [/peak]
    std::size_t const held = step.reserved();

    memory.deallocate(stream, p, large);
    for (std::size_t i = 1; i < count; i += 2) { memory.deallocate(stream, out[i], small); }
    fragmentation const none{memory.usage(), memory.free_memory()};
    expects(none.stranded == 0 && none.rounding == 0, "all of it could go back");
    return held;
}

template <class Machine>
int watch(Machine& machine) {
    using source = typename Machine::virtual_resource;
    fmt::print("{}\n", machine.name());
    typename Machine::platform::own_stream const owner;

    auto const plain =
        run("pool", pool{stream_ordered{typename Machine::resource{}}}, owner.view());
    auto const moved = run("pool that moves pages",
                           pool{source{{.handle_size = 2_MiB}}, {.remap = true}}, owner.view());
    expects(moved + 50_MiB < plain, "pages out of the holes are under the large block");
    fmt::print("unused     the part of the peak reserved that was never live\n"
               "scattered  the part of the free bytes outside the largest free block\n"
               "holes      like scattered, squared: a few large holes count more\n"
               "stranded   free in chunks with live blocks: trim returns none of these chunks\n"
               "rounding   live because sizes are rounded up\n");
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    std::string device = "auto";
    CLI::App app{"A load that leaves holes behind, and the figures of it.", "watch_fragmentation"};
    add_device(app, device);
    return cli::run(app, argc, argv, [&] {
        return on_machine(device, {.backed = false}, [](auto& m) { return watch(m); });
    });
}
