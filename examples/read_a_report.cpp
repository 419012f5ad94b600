// SPDX-License-Identifier: Apache-2.0
// The reports of the simulated device: which two operations conflict, at which lines, and an
// exception at the call that made the mistake.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>
#include <string>

using namespace vram;

namespace {

/// Two streams write one block, and nothing orders them.
void race(sim_resource& memory) {
    sim_stream  one, two;
    void* const p = memory.allocate_sync(1_KiB);
    sim_launch(one, {.name = "scale", .writes = {{p, 1_KiB}}});
    sim_launch(two, {.name = "add", .writes = {{p, 1_KiB}}});
    one.synchronize();
    two.synchronize();
    memory.deallocate_sync(p, 1_KiB);
}

void read_the_parts() {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    race(memory);
    for (sim_report const& report : node.take_reports()) {
        expects(report.kind == sim_mistake::race && report.bytes == 1_KiB, "the whole block");
        sim_event_of const& now    = report.second; // the operation that found the mistake
        sim_event_of const& before = report.first;  // the operation that it conflicts with
        std::printf("%s: %s (line %u) and %s (line %u)\n", name(report.kind), now.title().c_str(),
                    static_cast<unsigned>(now.where.line()), before.title().c_str(),
                    static_cast<unsigned>(before.where.line()));
        expects(now.what == sim_event_of::kind::write && !now.host, "a kernel wrote it");
        expects(std::string{now.name} == "add" && std::string{before.name} == "scale",
                "their names");
    }
}

void throw_at_the_call() {
    sim_node     node{{.on_report = sim_on_report::throw_it}}; // for a test: the stack is known
    sim_resource memory;
    sim_stream   one, two;
    void* const  p = memory.allocate_sync(1_KiB);
    sim_launch(one, {.name = "scale", .writes = {{p, 1_KiB}}});
    bool thrown = false;
    try {
        sim_launch(two, {.name = "add", .writes = {{p, 1_KiB}}});
    } catch (sim_race const& e) {
        thrown = e.report().kind == sim_mistake::race;
        std::puts(e.what()); // the text of the report
    }
    expects(thrown, "the call that made the mistake throws");
    one.synchronize();
    two.synchronize();
    memory.deallocate_sync(p, 1_KiB);
}

void choose_the_checks() {
    // Reads of memory that was never written are reported too; refused allocations are mistakes.
    sim_checks const checks{.uninitialised = true, .capacity = true};
    sim_node     node{{.capacity = 1_MiB, .checks = checks, .on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   stream;
    void* const  p = memory.allocate_sync(1_KiB);
    sim_launch(stream, {.name = "sum", .reads = {{p, 1_KiB}}});
    stream.synchronize();
    expects(node.take_reports().size() == 1, "nothing was written to the block");

    expects(memory.try_allocate_sync(1_GiB) == nullptr, "more than the device has");
    expects(node.take_reports().size() == 1, "reported, because of the option");

    node.set_checks({.races = false}); // for a part of a program that is known to race
    race(memory);
    expects(node.take_reports().empty(), "no check, no report");
    memory.deallocate_sync(p, 1_KiB);
}

} // namespace

int main() {
    read_the_parts();
    throw_at_the_call();
    choose_the_checks();
}
