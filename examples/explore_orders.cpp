// SPDX-License-Identifier: Apache-2.0
// A race between two threads that most runs do not show: all orders of the threads are run, and
// the one that fails is repeated.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <atomic>
#include <cstdio>
#include <string>

using namespace vram;

namespace {

/// A producer writes a block and records an event; a consumer reads the block. The consumer waits
/// for the event, but not if it looks too early: then it reads before the write.
void produce_and_consume(sim_node&, bool correct) {
    sim_pinned_resource memory;
    void* const         block = memory.allocate_sync(1_KiB);
    {
        sim_stream        writing, reading;
        sim_event         written;
        std::atomic<bool> recorded{false};

        sim_thread producer{sim_device{}, [&] {
                                sim_launch(writing, {.name = "write", .writes = {{block, 1_KiB}}});
                                written.record(writing);
                                sim_happens_before(&recorded); // the checker does not see atomics
                                recorded = true;
                            }};
        if (correct) { producer.join(); }
        sim_thread consumer{sim_device{}, [&] {
                                if (recorded) { // the mistake: no else
                                    sim_happens_after(&recorded);
                                    written.wait(reading);
                                }
                                sim_launch(reading, {.name = "read", .reads = {{block, 1_KiB}}});
                            }};
        sim_thread::join_together(producer, consumer);
        writing.synchronize();
        reading.synchronize();
    }
    memory.deallocate_sync(block, 1_KiB);
}

} // namespace

int main() {
    if (!sim_ordered_threads) { return 0; } // under ThreadSanitizer the order is arbitrary

    // Every order with at most one preemption.
    sim_exploring const all{.print = false, .node = {.preemptions = 1}};
    sim_explored const  found =
        sim_explore(all, [](sim_node& node) { produce_and_consume(node, false); });
    std::printf("%llu of %llu orders fail; %s\n", static_cast<unsigned long long>(found.failures),
                static_cast<unsigned long long>(found.runs), found.replay.c_str());
    expects(found.failures != 0 && found.failures < found.runs, "some orders fail");
    expects(found.first.find("race") != std::string::npos, "with a race");

    // The failing order again, as often as necessary: in a debugger, or with more output.
    sim_exploring one = all;
    one.replay        = found.replay;
    sim_explored const same =
        sim_explore(one, [](sim_node& node) { produce_and_consume(node, false); });
    expects(same.runs == 1 && same.failures == 1, "it fails each time");

    // A program with many threads has too many orders: 200 random ones, each from its seed.
    sim_explored const random =
        sim_explore({.order = sim_order::by_seed, .seeds = 200, .print = false},
                    [](sim_node& node) { produce_and_consume(node, false); });
    expects(random.runs == 200 && random.failures != 0, "a random order fails too");

    sim_explored const corrected =
        sim_explore(all, [](sim_node& node) { produce_and_consume(node, true); });
    expects(corrected.complete && corrected.failures == 0, "the correct program never fails");
}
