// SPDX-License-Identifier: Apache-2.0
// Injected faults show that a program loses nothing if calls of the device fail: each call once, a
// late failure, a lost device, and slow calls at random.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>
#include <cstdint>

using namespace vram;
using namespace std::chrono_literals;

namespace {

/// The work under test: two blocks and a copy between them.
void work(sim_stream_view stream, pool<stream_ordered<sim_resource>>& memory) {
    buffer from{memory, stream, 1_MiB}, to{memory, stream, 32_MiB};
    sim_fill(stream, from.data(), std::byte{1}, 1_MiB);
    sim_copy(stream, to.data(), from.data(), 1_MiB);
    stream.synchronize();
}

/// Fails the first call of a kind, then the second, and so on, until the work makes no such call.
/// Returns the number of calls that failed.
std::uint64_t fail_each(sim_call_kind kind) {
    for (std::uint64_t nth = 1;; ++nth) {
        sim_node   node{{.on_report = sim_on_report::collect}};
        sim_stream stream;

        pool<stream_ordered<sim_resource>> memory;
        sim_faults&                        faults = node.faults();
        faults.clear();
        faults.at(kind, nth);
        try {
            work(stream, memory);
        } catch (sim_error const&) {      // the call failed,
        } catch (out_of_memory const&) {} // or a smaller chunk was refused too
        bool const injected = faults.calls(kind) >= nth;
        faults.clear();
        expects(memory.usage().live == 0, "each block is free again");
        work(stream, memory); // and the next attempt succeeds
        expects(node.reports().empty(), "no access to freed memory");
        if (!injected) { return nth - 1; }
    }
}

void late_failure() {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream stream;
    // As an illegal address in a kernel: the launch succeeds, and the next wait throws.
    sim_fault const illegal{.status = sim_status::launch_failed, .later = true};
    node.faults().at(sim_call_kind::launch, 1, illegal);
    sim_launch(stream, {.name = "wrong"});
    bool thrown = false;
    try {
        stream.synchronize();
    } catch (sim_error const& e) { thrown = e.status() == sim_status::launch_failed; }
    expects(thrown, "the wait throws the error of the kernel");
}

void lost_device() {
    sim_node node{{.devices = 2, .on_report = sim_on_report::collect}};
    node.faults().when(
        [](sim_call_info const& call) {
            return call.device == 1 && call.kind == sim_call_kind::allocate && call.bytes > 1_GiB;
        },
        {.lost = true});
    sim_resource first{sim_device{0}}, second{sim_device{1}};
    expects(second.try_allocate_sync(2_GiB) == nullptr, "device 1 is lost");
    expects(second.try_allocate_sync(1_MiB) == nullptr, "and every later call on it fails");
    first.deallocate_sync(first.allocate_sync(2_GiB), 2_GiB); // device 0 works
}

void slow_calls() {
    auto const time_with_seed = [](std::uint64_t seed) {
        sim_node   node;
        sim_stream stream;

        pool<stream_ordered<sim_resource>> memory;
        // One copy in four takes 5 ms longer, and each wait stalls the host for 1 ms.
        node.faults().randomly(sim_call_kind::copy, 0.25, seed, {.slow = 5ms});
        node.faults().randomly(sim_call_kind::synchronize, 1, seed, {.stall = 1ms});
        for (int i = 0; i < 20; ++i) { work(stream, memory); }
        return node.now();
    };
    expects(time_with_seed(7) == time_with_seed(7), "one seed gives one run");
    expects(time_with_seed(7) > 20ms, "with late copies and stalled waits");
}

} // namespace

int main() {
    expects(fail_each(sim_call_kind::allocate) >= 2, "the pool allocates two chunks");
    expects(fail_each(sim_call_kind::copy) == 2, "a fill and a copy");
    late_failure();
    lost_device();
    slow_calls();
}
