// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_run` runs a `memory_program` on a resource of the simulated device, and compares the
/// reports on each step with the verdict of the model.

#include "memory_program.hpp" // memory_program, memory_step, verdict

#include <vram/sim/sim.hpp>

#include <cstddef>   // size_t, byte
#include <exception> // exception
#include <memory>    // unique_ptr
#include <string>    // string
#include <utility>   // move
#include <vector>    // vector

namespace trial {

/// A resource under test, behind virtual functions so that the program is compiled once.
struct tested_memory {
    virtual ~tested_memory()                                                  = default;
    virtual void* allocate(vram::sim_stream_view s, std::size_t n)            = 0;
    virtual void  deallocate(vram::sim_stream_view s, void* p, std::size_t n) = 0;
};
template <class Resource>
class tested final : public tested_memory {
public:
    explicit tested(Resource r) : resource_{std::move(r)} {}
    void* allocate(vram::sim_stream_view s, std::size_t n) override {
        if constexpr (vram::resource<Resource>) {
            return resource_.allocate(s, n);
        } else {
            return resource_.allocate_sync(n);
        }
    }
    void deallocate(vram::sim_stream_view s, void* p, std::size_t n) override {
        if constexpr (vram::resource<Resource>) {
            resource_.deallocate(s, p, n);
        } else {
            resource_.deallocate_sync(p, n);
        }
    }

private:
    Resource resource_;
};

using make_memory = std::unique_ptr<tested_memory> (*)();

/// Runs a program. Returns the first step on which the model and the simulated device disagree, in
/// words, or an empty text. If `text` is not null, adds the steps and the reports to it.
inline std::string run_memory(memory_program const& program, make_memory make,
                              std::string* text = nullptr) {
    using kind = memory_step::kind;
    vram::sim_node node{
        {.backed = false, .checks = {.leaks = false}, .on_report = vram::sim_on_report::collect}};
    std::vector<vram::sim_stream>      own;
    std::vector<vram::sim_stream_view> streams;
    std::vector<vram::sim_event>       events(program.streams.size());
    for (stream_kind const k : program.streams) {
        if (k == stream_kind::legacy) {
            streams.push_back(vram::sim_stream_view::legacy(vram::sim_device{0}));
            continue;
        }
        own.emplace_back(vram::sim_device{0},
                         vram::sim_stream_options{.blocking = k == stream_kind::blocking});
        streams.push_back(own.back().view());
    }
    std::unique_ptr<tested_memory> const memory = make();
    vram::sim_resource                   other;
    std::vector<std::byte*>              at(program.sizes.size());
    std::vector<verdict> const           expected = program.verdicts();
    std::vector<verdict> const           strict   = program.verdicts(true);
    bool                                 after    = false; ///< true after a mistake in a pool

    auto const range = [&](memory_step const& s) {
        std::size_t const each = program.sizes[s.block] / access_history::cells;
        return vram::sim_range{at[s.block] + s.first * each, (s.last - s.first) * each + s.over};
    };
    auto const perform = [&](memory_step const& s) {
        vram::sim_stream_view const stream = streams[s.stream];
        std::size_t const           bytes  = program.sizes[s.block];
        if (s.what != kind::use) { vram::sim_work(vram::sim_time{s.time}); }
        switch (s.what) {
        case kind::allocate:
            at[s.block] = static_cast<std::byte*>(
                s.block < outside ? other.allocate_sync(bytes) : memory->allocate(stream, bytes));
            break;
        case kind::use: {
            vram::sim_kernel k{.duration = vram::sim_time{s.time}};
            (s.write ? k.writes : k.reads).push_back(range(s));
            vram::sim_launch(stream, k);
            break;
        }
        case kind::free: memory->deallocate(stream, at[s.block], bytes); break;
        case kind::event:
            events[s.other].record(streams[s.other]);
            events[s.other].wait(stream);
            break;
        case kind::host_stream: streams[s.other].synchronize(); break;
        case kind::host_event:
            events[s.other].record(streams[s.other]);
            events[s.other].synchronize();
            break;
        case kind::poll:
            events[s.other].record(streams[s.other]);
            while (!events[s.other].done()) { vram::sim_work(vram::sim_time{500}); }
            break;
        case kind::device: vram::sim_device{0}.synchronize(); break;
        }
    };
    auto const describe = [&](memory_step const& s) {
        auto const stream = [&](std::size_t i) {
            char const* const kinds[] = {"", " (blocking)", " (legacy)"};
            return "stream " + std::to_string(i) + kinds[static_cast<int>(program.streams[i])];
        };
        std::string const block = "block " + std::to_string(s.block) + " of " +
                                  std::to_string(program.sizes[s.block]) + " bytes" +
                                  (s.block < outside ? " (of another resource)" : "");
        switch (s.what) {
        case kind::allocate: return "allocate " + block + " on " + stream(s.stream);
        case kind::free: return "free " + block + " on " + stream(s.stream);
        case kind::use:
            return stream(s.stream) + (s.write ? " writes " : " reads ") + block + ", cells " +
                   std::to_string(s.first) + " to " + std::to_string(s.last) +
                   (s.over != 0 ? " and " + std::to_string(s.over) + " bytes more" : "");
        case kind::event: return stream(s.stream) + " waits for " + stream(s.other);
        case kind::host_stream: return "the host waits for " + stream(s.other);
        case kind::host_event: return "the host waits for an event on " + stream(s.other);
        case kind::poll: return "the host polls an event on " + stream(s.other);
        case kind::device: break;
        }
        return std::string{"the host waits for the device"};
    };

    try {
        for (std::size_t i = 0; i < program.steps.size(); ++i) {
            memory_step const& s = program.steps[i];
            perform(s);
            verdict found;
            if (text != nullptr) {
                *text +=
                    describe(s) + (expected[i].empty() ? "" : "  <- " + expected[i].text()) + "\n";
            }
            for (vram::sim_report const& r : node.take_reports()) {
                found |= r.kind;
                if (text != nullptr) { *text += r.text() + "\n"; }
            }
            if (after) { found = found.without_consequences(expected[i]); }
            if (expected[i].agrees(found)) {
                after = after || (program.rules.pooled && !strict[i].empty());
                continue;
            }
            return "step " + std::to_string(i) + ": " + describe(s) + ": the model finds " +
                   expected[i].text() + ", the simulated device " + found.text();
        }
        vram::sim_device{0}.synchronize();
    } catch (std::exception const& e) { return std::string{"an exception: "} + e.what(); }
    return {};
}

/// Leaves out steps of a program as long as the disagreement remains.
inline memory_program shrunk(memory_program program, make_memory make) {
    for (bool again = true; again;) {
        again = false;
        for (std::size_t b = program.sizes.size(); b-- > 0;) {
            memory_program shorter = program;
            std::erase_if(shorter.steps,
                          [&](memory_step const& s) { return !s.waits() && s.block == b; });
            if (shorter.steps.size() == program.steps.size() || run_memory(shorter, make).empty()) {
                continue;
            }
            program = shorter;
            again   = true;
        }
        for (std::size_t i = program.steps.size(); i-- > 0;) {
            if (program.steps[i].what == memory_step::kind::allocate) { continue; }
            memory_program shorter = program;
            shorter.steps.erase(shorter.steps.begin() + static_cast<std::ptrdiff_t>(i));
            if (run_memory(shorter, make).empty()) { continue; }
            program = shorter;
            again   = true;
        }
    }
    return program;
}

} // namespace trial
