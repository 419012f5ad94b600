// SPDX-License-Identifier: Apache-2.0
// The reports of the simulated device: which two operations conflict, at which lines, an exception
// at the call that made the mistake, and reports that are expected or ignored.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstddef>
#include <cstdio>
#include <regex>
#include <span>
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

/// Returns the text of a report without addresses and folders, which differ between machines.
std::string shown(sim_report const& report) {
    std::string text = report.text();
    text             = std::regex_replace(text, std::regex{"0x[0-9a-f]+"}, "0x...");
    return std::regex_replace(text, std::regex{"[^ ]*/([a-z_]+[.]cpp)"}, "$1");
}

void read_the_text() {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    sim_stream   copies{sim_device{}, {.name = "copies"}}, train{sim_device{}, {.name = "train"}};
    void* const  p      = memory.allocate_sync(4_KiB);
    auto         pinned = sim_pinned_resource{};
    void* const  host   = pinned.allocate_sync(1_KiB);
    sim_name({p, 4_KiB}, "weights");
    for (int i = 0; i < 100; ++i) { // 100 times the same mistake is one report
        sim_copy(copies, static_cast<std::byte*>(p) + 1_KiB, host, 1_KiB);
        copies.synchronize();
        sim_launch(train, {.name = "step", .reads = {{p, 4_KiB}}});
    }
    train.synchronize();
    pinned.deallocate_sync(host, 1_KiB);
    memory.deallocate_sync(p, 4_KiB);
    for (sim_report const& report : node.take_reports()) {
        std::printf("%s\nkey: %s\n", shown(report).c_str(), report.key().c_str());
    }
}

/// The kernel runs on a stream that the loader does not know.
void forget_record_stream() {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream stream, side{sim_device{}, {.name = "side"}};
    sim_event  ready;
    auto const fill = [](std::span<std::byte> to, std::size_t index) {
        return index < 8 ? to.size() : 0;
    };
    loader batches{fill, stream, {.batch_bytes = 1_KiB, .depth = 2}};
    for (auto& batch : batches) {
        ready.record(stream);
        ready.wait(side);
        sim_launch(side, {.name = "train", .reads = {{batch.data(), batch.size()}}});
    }
    side.synchronize();
    for (sim_report const& report : node.take_reports()) {
        expects(report.second.part == sim_part::loader, "the loader overwrites the batch");
        std::puts(report.missing.c_str());
    }
}

void expect_and_ignore() {
    // [expect]
    sim_node     node;
    sim_resource memory;
    {
        sim_expect const wrong{sim_mistake::race}; // not printed; reported if it does not occur
        race(memory);
    }
    // The key of a report is the same in each run; `key` came from an earlier report:
    std::string const key = "race: read_a_report.cpp:22, read_a_report.cpp:23";
    node.ignore(key);
    node.ignore([](sim_report const& r) { return r.kind == sim_mistake::leak && r.bytes < 4096; });
    race(memory);
    expects(node.reports().empty(), "the reports were expected or ignored");
    sim_unchecked const numbers = node.unchecked(); // of accesses that no check has seen
    std::puts(numbers.text().c_str());
    // [/expect]
    expects(numbers.ignored == 1, "the second race");
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
    read_the_text();
    forget_record_stream();
    expect_and_ignore();
    throw_at_the_call();
    choose_the_checks();
}
