// SPDX-License-Identifier: Apache-2.0
// A growth policy chooses the sizes of a pool's chunks: four of vram, and one of the program.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>

using namespace vram;

namespace {

/// Doubles the reserved memory, but leaves 1 GiB of the device free.
struct sparing_growth {
    static constexpr bool asks_device = true; // the pool fills in `device_free`

    std::size_t operator()(growth_request const& request) const noexcept {
        std::size_t const spare = request.device_free > 1_GiB ? request.device_free - 1_GiB : 0;
        std::size_t const twice = request.held < spare ? request.held : spare;
        return twice > request.needed ? twice : request.needed; // at least the needed bytes
    }
};
static_assert(growth<sparing_growth>);
static_assert(growth<default_growth<sim_resource>>); // geometric; over virtual memory exact

/// Allocates three blocks of 100 MiB, and returns the reserved bytes and the upstream's calls.
template <growth Growth>
memory_usage after_three_blocks(Growth policy) {
    pool       memory{sim_resource{}, {}, policy};
    sim_stream stream;
    void*      blocks[3];
    for (void*& p : blocks) { p = memory.allocate(stream, 100_MiB); }
    memory_usage const used = memory.usage();
    for (void* p : blocks) { memory.deallocate(stream, p, 100_MiB); }
    stream.synchronize();
    return used;
}

void print(char const* name, memory_usage const& used) {
    std::printf("%-22s %4zu MiB reserved, calls of the upstream: %llu\n", name,
                used.reserved / 1_MiB, static_cast<unsigned long long>(used.upstream));
}

} // namespace

int main() {
    sim_node node{{.capacity = 4_GiB}};

    auto const exact     = after_three_blocks(exact_growth{});
    auto const fixed     = after_three_blocks(fixed_growth{.step = 512_MiB});
    auto const geometric = after_three_blocks(geometric_growth{.share = 0.5});
    auto const share     = after_three_blocks(device_share_growth{.percent = 25});
    auto const sparing   = after_three_blocks(sparing_growth{});
    print("exact_growth", exact);
    print("fixed_growth", fixed);
    print("geometric_growth", geometric);
    print("device_share_growth", share);
    print("sparing_growth", sparing);

    expects(exact.reserved == 300_MiB && exact.upstream == 3, "the least memory, the most calls");
    expects(fixed.upstream == 1, "one chunk for all three blocks");
    expects(share.reserved == 1_GiB && share.upstream == 1, "a quarter of the free memory");
    expects(sparing.reserved >= 300_MiB, "at least the needed bytes");
    expects(node.reports().empty(), "and no leak");
}
