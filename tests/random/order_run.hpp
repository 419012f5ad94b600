// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `order_run` runs an `order_program` on the simulated device and on the model, and compares the
/// verdict on each operation.

#include "order_model.hpp"   // past, verdict, operations, access_history
#include "order_program.hpp" // order_program

#include <vram/sim/sim.hpp>

#include <algorithm>     // min
#include <array>         // array
#include <cstddef>       // size_t, byte
#include <cstdint>       // uint32_t, uint64_t
#include <exception>     // exception
#include <optional>      // optional
#include <string>        // string
#include <unordered_map> // unordered_map
#include <utility>       // move
#include <vector>        // vector

namespace trial {

/// One run of a program. The members of each object that begin with `known` are the model's state.
class order_run {
public:
    explicit order_run(order_program const& program, bool explained = false)
        : program_{program},
          explained_{explained},
          node_{{.devices        = program.devices,
                 .backed         = false,
                 .peer_access    = true,
                 .default_stream = program.per_thread ? vram::sim_default_stream::per_thread
                                                      : vram::sim_default_stream::legacy,
                 .checks         = {.leaks = false},
                 .on_report      = vram::sim_on_report::collect}},
          hosts_(order_program::threads),
          threads_(order_program::threads) {
        for (int i = 0; i < program.devices; ++i) {
            async_.emplace_back(vram::sim_device{i});
            streams_.push_back({.view    = vram::sim_stream_view::legacy(vram::sim_device{i}),
                                .device  = i,
                                .blocks  = true,
                                .legacy  = true,
                                .present = true});
        }
        known_orphans_.resize(async_.size());
        known_blocking_orphans_.resize(async_.size());
        add_block(kind::pageable, 0, pageable_.data());
        for (std::size_t i = 0; i < 3; ++i) { make_stream(0, static_cast<std::uint32_t>(i * 5)); }
        for (std::uint32_t i = 0; i < 2; ++i) { make_event(i * 3); }
        allocate(0, 0, 0);
        allocate(0, 1, 0);
    }

    /// Runs the program. Returns the first disagreement in words, or an empty text.
    [[nodiscard]] std::string run() {
        perform_all(0);
        for (std::size_t i = 1; i < threads_.size(); ++i) { join(i); }
        return failed_;
    }
    /// The actions that were performed, one a line, if they are to be explained.
    [[nodiscard]] std::string const& text() const { return text_; }
    [[nodiscard]] std::size_t        actions() const { return actions_; }
    [[nodiscard]] std::size_t        mistakes() const { return mistakes_; }

private:
    enum class kind { device, async, pinned, managed, pageable };

    static constexpr std::size_t cell  = 64;
    static constexpr std::size_t bytes = cell * access_history::cells;

    struct host {
        past                                      known;
        std::array<std::optional<std::size_t>, 2> per_thread; ///< its default streams
    };
    struct stream {
        std::optional<vram::sim_stream> own     = {};
        vram::sim_stream_view           view    = {};
        int                             device  = 0;
        bool                            blocks  = false; ///< ordered with the legacy stream
        bool                            legacy  = false;
        bool                            present = false;
        int                             in_use  = 0; ///< threads that wait for it
        past                            known   = {};
    };
    struct graph;
    struct event {
        std::optional<vram::sim_event> own;
        int                            device      = 0;
        int                            in_use      = 0;
        bool                           recorded    = false;
        bool                           captured    = false; ///< last recorded in a capture
        bool                           by_luck     = false; ///< true if a mistake was found
        std::optional<std::size_t>     recorded_by = {};    ///< the call of the host
        std::vector<std::size_t>       nodes       = {};
        past                           known       = {};
    };
    struct block {
        kind           of     = kind::device;
        int            device = 0;
        void*          at     = nullptr;
        bool           live   = true;
        bool           node   = false; ///< a graph allocates it
        access_history known  = {};
    };
    /// One declared access: a range of a block, which may be longer than the block.
    struct use {
        std::size_t      block = 0;
        std::size_t      first = 0;
        std::size_t      bytes = 0;
        vram::sim_access how   = vram::sim_access::read;
    };
    struct graph_node {
        std::vector<use>           uses      = {};
        std::vector<std::size_t>   after     = {};
        verdict                    always    = {};
        std::optional<std::size_t> allocates = {};
        std::optional<std::size_t> frees     = {};
        bool                       copy      = false;
    };
    struct graph {
        std::optional<vram::sim_graph> own;
        std::vector<graph_node>        nodes;
        past                           known_last = {};
    };

    // The program.

    void perform_all(std::size_t me) {
        try {
            for (order_step const& step : program_.steps[me]) {
                if (!failed_.empty() || !operations_.room_for(80)) { return; }
                // After the second call no other thread runs until this one's clock advances.
                vram::sim_work(vram::sim_time{step.d % 3000});
                vram::sim_work(vram::sim_time{0});
                ++actions_;
                perform(me, step);
            }
        } catch (std::exception const& e) { fail(std::string{"an exception: "} + e.what()); }
    }

    void perform(std::size_t me, order_step const& s) {
        switch (s.what) {
        case action::kernel: return kernel(me, s);
        case action::copy: return copy(me, s, a_stream(me, s.a));
        case action::copy_sync: return copy_sync(me, s);
        case action::fill: return fill(me, s);
        case action::host_function: return host_function(me, s);
        case action::touch: return touch(me, s);
        case action::record: return record(me, s);
        case action::wait: return wait(me, s);
        case action::wait_host: return wait_host(me, s);
        case action::query: return query(me, s);
        case action::wait_stream: return wait_stream(me, a_stream(me, s.a));
        case action::query_stream: return query_stream(me, s);
        case action::wait_device: return wait_device(me, s);
        case action::allocate_async: return allocate_async(me, s);
        case action::free_async: return free_async(me, s);
        case action::allocate: return allocate(me, s.a, s.b);
        case action::free: return free(me, s);
        case action::create_stream: return make_stream(me, s.a);
        case action::destroy_stream: return destroy_stream(s);
        case action::create_event: return make_event(s.a);
        case action::destroy_event: return destroy_event(s);
        case action::capture: return capture(s);
        case action::launch: return launch(me, s);
        case action::destroy_graph: return destroy_graph(s);
        case action::before_token: return before_token(me, s);
        case action::after_token: return after_token(me, s);
        case action::spawn: return spawn(me, s.a);
        case action::join: return join(s.a);
        case action::count: return;
        }
    }

    // Order. `host_known` and `stream.known` contain what happens before the next step of each.

    /// The first part of each action on a stream.
    void begin(std::size_t me, std::size_t index) {
        stream& s = streams_[index];
        s.known |= hosts_[me].known;
        if (s.legacy) {
            s.known |= known_blocking(s.device);
        } else if (s.blocks) {
            s.known |= streams_[static_cast<std::size_t>(s.device)].known;
        }
    }
    /// What happens before the present end of all blocking streams of a device.
    [[nodiscard]] past known_blocking(int device) const {
        past all = known_blocking_orphans_[static_cast<std::size_t>(device)];
        for (stream const& each : streams_) {
            if (each.present && each.blocks && each.device == device) { all |= each.known; }
        }
        return all;
    }
    /// What happens before the end of a wait of the host for a stream.
    [[nodiscard]] past known_end(std::size_t index) const {
        stream const& s = streams_[index];
        return s.legacy ? s.known | known_blocking(s.device) : s.known;
    }

    void record(std::size_t me, order_step const& step) {
        std::size_t const at = a_stream(me, step.a);
        stream&           s  = streams_[at];
        event* const      e =
            an_event(step.b, [&](event const& x) { return x.device == s.device && x.in_use == 0; });
        if (e == nullptr) { return; }
        begin(me, at);
        e->recorded = true;
        e->captured = e->by_luck = false;
        e->known                 = s.known;
        e->recorded_by           = operations_.add(hosts_[me].known);
        say(me, "record " + title(*e) + " on " + title(s));
        e->own->record(s.view);
        compare({});
    }
    /// The verdict on a wait for an event, or a query.
    verdict expect_ordered(std::size_t me, event& e) {
        if (!e.recorded_by || e.by_luck || hosts_[me].known.test(*e.recorded_by)) { return {}; }
        e.by_luck = true;
        return vram::sim_mistake::unordered_wait;
    }
    void wait(std::size_t me, order_step const& step) {
        std::size_t const at = a_stream(me, step.a);
        event* const      e  = an_event(step.b, [](event const& x) { return !x.captured; });
        if (e == nullptr) { return; }
        verdict expected;
        if (e->recorded) {
            expected = expect_ordered(me, *e);
            begin(me, at);
            streams_[at].known |= e->known;
        }
        say(me, "wait for " + title(*e) + " on " + title(streams_[at]));
        e->own->wait(streams_[at].view);
        compare(expected);
    }
    void wait_host(std::size_t me, order_step const& step) {
        event* const e = an_event(step.b, [](event const& x) { return !x.captured; });
        if (e == nullptr) { return; }
        verdict expected;
        past    known;
        if (e->recorded) {
            expected = expect_ordered(me, *e);
            known    = e->known;
        }
        say(me, "host waits for " + title(*e));
        ++e->in_use;
        expected_ |= expected;
        e->own->synchronize();
        --e->in_use;
        hosts_[me].known |= known;
        compare({});
    }
    void query(std::size_t me, order_step const& step) {
        event* const e = an_event(step.b, [](event const& x) { return !x.captured; });
        if (e == nullptr) { return; }
        verdict const expected = e->recorded ? expect_ordered(me, *e) : verdict{};
        bool const    done     = e->own->done();
        if (done && e->recorded) { hosts_[me].known |= e->known; }
        say(me, "query " + title(*e) + (done ? ": complete" : ": not complete"));
        compare(expected);
    }
    void wait_stream(std::size_t me, std::size_t at) {
        stream&    s     = streams_[at];
        past const known = known_end(at);
        say(me, "host waits for " + title(s));
        ++s.in_use;
        vram::sim_stream_view const view = s.view; // another thread may add streams
        view.synchronize();
        --streams_[at].in_use;
        hosts_[me].known |= known;
        compare({});
    }
    void query_stream(std::size_t me, order_step const& step) {
        std::size_t const at   = a_stream(me, step.a);
        stream const&     s    = streams_[at];
        bool const        done = s.view.done();
        if (done) { hosts_[me].known |= known_end(at); }
        say(me, "query " + title(s) + (done ? ": complete" : ": not complete"));
        compare({});
    }
    void wait_device(std::size_t me, order_step const& step) {
        int const device = static_cast<int>(step.a % async_.size());
        past      known  = known_orphans_[static_cast<std::size_t>(device)];
        for (stream const& each : streams_) {
            if (each.present && each.device == device) { known |= each.known; }
        }
        say(me, "host waits for device " + std::to_string(device));
        vram::sim_device{device}.synchronize();
        hosts_[me].known |= known;
        compare({});
    }

    void before_token(std::size_t me, order_step const& step) {
        std::size_t const i = step.a % tokens_.size();
        known_tokens_[i] |= hosts_[me].known;
        say(me, "happens before token " + std::to_string(i));
        vram::sim_happens_before(&tokens_[i]);
        compare({});
    }
    void after_token(std::size_t me, order_step const& step) {
        std::size_t const i = step.a % tokens_.size();
        hosts_[me].known |= known_tokens_[i];
        say(me, "happens after token " + std::to_string(i));
        vram::sim_happens_after(&tokens_[i]);
        compare({});
    }
    void spawn(std::size_t me, std::size_t thread) {
        if (threads_[thread]) { return; }
        hosts_[thread].known = hosts_[me].known;
        say(me, "start thread " + std::to_string(thread));
        threads_[thread].emplace(vram::sim_device{0}, [this, thread] { perform_all(thread); });
        started_[thread] = true;
    }
    void join(std::size_t thread) {
        if (!threads_[thread] || !started_[thread]) { return; }
        started_[thread] = false;
        say(0, "join thread " + std::to_string(thread));
        threads_[thread]->join();
        hosts_[0].known |= hosts_[thread].known;
    }

    // Streams and events.

    void make_stream(std::size_t me, std::uint32_t number) {
        std::size_t slot = 0;
        while (slot < streams_.size() && (streams_[slot].present || streams_[slot].in_use != 0)) {
            ++slot;
        }
        if (slot == streams_.size()) {
            if (slot >= 9) { return; }
            streams_.emplace_back();
        }
        int const device = static_cast<int>(number / 2 % async_.size());
        stream    s{.device  = device,
                    .blocks  = number % 2 == 1,
                    .present = true,
                    .known   = hosts_[me].known};
        s.own.emplace(vram::sim_device{device}, vram::sim_stream_options{.blocking = s.blocks});
        s.view         = s.own->view();
        streams_[slot] = std::move(s);
        say(me, "create " + title(streams_[slot]));
    }
    void destroy_stream(order_step const& step) {
        std::size_t const at = step.a % streams_.size();
        stream&           s  = streams_[at];
        if (!s.own || s.in_use != 0) { return; }
        auto const device = static_cast<std::size_t>(s.device);
        known_orphans_[device] |= s.known;
        if (s.blocks) { known_blocking_orphans_[device] |= s.known; }
        say(0, "destroy " + title(s));
        s.present = false;
        s.own.reset();
        compare({});
    }
    void make_event(std::uint32_t number) {
        std::size_t slot = 0;
        while (slot < events_.size() && events_[slot].own) { ++slot; }
        if (slot == events_.size()) { return; }
        int const device     = static_cast<int>(number / 2 % async_.size());
        events_[slot]        = {};
        events_[slot].device = device;
        events_[slot].own.emplace(vram::sim_device{device}, number % 3 == 1);
        say(0, "create " + title(events_[slot]));
    }
    void destroy_event(order_step const& step) {
        event* const e = an_event(step.a, [](event const& x) { return x.in_use == 0; });
        if (e == nullptr) { return; }
        say(0, "destroy " + title(*e));
        e->own.reset();
    }

    // Memory.

    std::size_t add_block(kind of, int device, void* at) {
        latest_[at] = blocks_.size();
        blocks_.push_back({.of = of, .device = device, .at = at});
        return blocks_.size() - 1;
    }
    void allocate(std::size_t me, std::uint32_t what, std::uint32_t number) {
        if (blocks_.size() > 40) { return; }
        int const              device = static_cast<int>(number % async_.size());
        vram::sim_device const on{device};
        void*                  p  = nullptr;
        kind                   of = kind::device;
        std::size_t const      op = operations_.add(hosts_[me].known);
        switch (what % 3) {
        case 0: p = vram::sim_resource{on}.allocate_sync(bytes); break;
        case 1:
            p  = vram::sim_pinned_resource{on}.allocate_sync(bytes);
            of = kind::pinned;
            break;
        default: p = vram::sim_managed_resource{on}.allocate_sync(bytes); of = kind::managed;
        }
        std::size_t const i = add_block(of, of == kind::device ? device : 0, p);
        blocks_[i].known.allocate(op);
        say(me, "allocate " + title(i));
        compare({});
    }
    void free(std::size_t me, order_step const& step) {
        std::optional<std::size_t> const i = a_block(step.a, [](block const& b) {
            return b.live && !b.node && b.of != kind::async && b.of != kind::pageable;
        });
        if (!i) { return; }
        block b = blocks_[*i];
        operations_.add(hosts_[me].known);
        verdict const expected = b.known.release(hosts_[me].known);
        blocks_[*i].live       = false;
        say(me, "free " + title(*i));
        expected_ |= expected;
        vram::sim_device const on{b.device};
        switch (b.of) {
        case kind::device: vram::sim_resource{on}.deallocate_sync(b.at, bytes); break;
        case kind::pinned: vram::sim_pinned_resource{on}.deallocate_sync(b.at, bytes); break;
        default: vram::sim_managed_resource{on}.deallocate_sync(b.at, bytes);
        }
        compare({});
    }
    void allocate_async(std::size_t me, order_step const& step) {
        if (blocks_.size() > 40) { return; }
        std::size_t const at = a_stream(me, step.a);
        stream&           s  = streams_[at];
        begin(me, at);
        std::size_t const op = operations_.add(s.known);
        void* const       p  = async_[static_cast<std::size_t>(s.device)].allocate(s.view, bytes);
        std::size_t const i  = add_block(kind::async, s.device, p);
        blocks_[i].known.allocate(op);
        say(me, "allocate " + title(i) + " on " + title(s));
        compare({});
    }
    void free_async(std::size_t me, order_step const& step) {
        std::optional<std::size_t> const i = a_block(
            step.a, [](block const& b) { return b.live && !b.node && b.of == kind::async; });
        if (!i) { return; }
        block& b = blocks_[*i];
        // The stream may be of another device.
        std::size_t const at = a_stream(me, step.b);
        stream&           s  = streams_[at];
        begin(me, at);
        operations_.add(s.known);
        verdict const expected = b.known.release(s.known);
        b.live                 = false;
        say(me, "free " + title(*i) + " on " + title(s));
        async_[static_cast<std::size_t>(b.device)].deallocate(s.view, b.at, bytes);
        compare(expected);
    }

    /// The verdict on one access, by a stream of `device` or, without it, by the host. `node` is
    /// true for a node of a graph.
    verdict access(past const& known, std::size_t op, use const& u, std::optional<int> device,
                   bool copies, bool node = false) {
        block& b = blocks_[latest_.at(blocks_[u.block].at)];
        if (b.of == kind::pageable) {
            if (device && !copies) { return vram::sim_mistake::pageable_access; }
            tracked_ = tracked_ || node;
            // A copy outside a graph has read pageable memory when the call returns.
            bool const staged = copies && !node && u.how == vram::sim_access::read;
            if (!tracked_ || staged) { return {}; }
            return b.known.access(known, op, u.first, u.first + u.bytes / cell, u.how);
        }
        if (!b.live) { return vram::sim_mistake::use_after_free; }
        if (u.first * cell + u.bytes > bytes) { return vram::sim_mistake::out_of_bounds; }
        if (!device && (b.of == kind::device || b.of == kind::async)) {
            return vram::sim_mistake::host_access;
        }
        return b.known.access(known, op, u.first, u.first + u.bytes / cell, u.how);
    }

    // Work.

    /// Returns random accesses for a kernel of `device`.
    std::vector<use> some_uses(order_step const& step, int device) {
        std::vector<use> all;
        for (std::uint32_t const number : {step.b, step.c}) {
            if (!all.empty() && number % 4 != 0) { break; }
            all.push_back(a_use(
                number, [&](block const& b) { return b.of != kind::async || b.device == device; }));
            all.back().how =
                number % 9 == 0 ? vram::sim_access::atomic : read_or_write(number >> 7);
        }
        return all;
    }
    template <class Suits>
    use a_use(std::uint32_t number, Suits suits) {
        bool const        also_freed = number % 31 == 0;
        std::size_t const b          = a_block(number, [&](block const& x) {
                                  return (x.live || also_freed) && suits(x);
                              }).value_or(0);
        std::size_t const first      = (number >> 8) % access_history::cells;
        std::size_t       n          = 1 + (number >> 12) % (access_history::cells - first);
        if (number % 61 == 7) { n = access_history::cells - first + 1; } // out of bounds
        if ((number >> 16) % 4 == 0) { return {b, 0, bytes}; }
        return {b, first, n * cell};
    }
    [[nodiscard]] vram::sim_range range_of(use const& u) const {
        return {static_cast<std::byte*>(blocks_[u.block].at) + u.first * cell, u.bytes};
    }
    [[nodiscard]] vram::sim_kernel kernel_of(std::vector<use> const& uses, std::uint32_t n) const {
        vram::sim_kernel k{.duration = vram::sim_time{100 + n % 4000}};
        declare(k, uses);
        return k;
    }

    void kernel(std::size_t me, order_step const& step) {
        std::size_t const      at   = a_stream(me, step.a);
        stream&                s    = streams_[at];
        std::vector<use> const uses = some_uses(step, s.device);
        begin(me, at);
        std::size_t const op = operations_.add(s.known);
        verdict           expected;
        for (use const& u : in_order(uses)) { expected |= access(s.known, op, u, s.device, false); }
        say(me, "kernel on " + title(s) + title(uses));
        vram::sim_launch(s.view, kernel_of(uses, step.d));
        compare(expected);
    }
    void declare(auto& work, std::vector<use> const& uses) const {
        for (use const& u : uses) {
            auto& ranges = u.how == vram::sim_access::read    ? work.reads
                           : u.how == vram::sim_access::write ? work.writes
                                                              : work.atomics;
            ranges.push_back(range_of(u));
        }
    }
    /// A kernel's reads come before its writes, and these before its atomic accesses.
    static std::vector<use> in_order(std::vector<use> const& uses) {
        std::vector<use> all;
        for (auto const how :
             {vram::sim_access::read, vram::sim_access::write, vram::sim_access::atomic}) {
            for (use const& u : uses) {
                if (u.how == how) { all.push_back(u); }
            }
        }
        return all;
    }
    void host_function(std::size_t me, order_step const& step) {
        std::size_t const at = a_stream(me, step.a);
        stream&           s  = streams_[at];
        use               u  = a_use(step.b,
                                     [](block const& b) { return b.of == kind::pinned || b.of == kind::managed; });
        tracked_ = tracked_ || blocks_[latest_.at(blocks_[u.block].at)].of == kind::pageable;
        u.how    = read_or_write(step.c);
        begin(me, at);
        std::size_t const   op       = operations_.add(s.known);
        verdict const       expected = access(s.known, op, u, {}, false);
        vram::sim_host_work work{.duration = vram::sim_time{step.c % 2000}};
        declare(work, {u});
        say(me, "host function on " + title(s) + title({u}));
        vram::sim_call_host(s.view, work, [] {});
        compare(expected);
    }
    static vram::sim_access read_or_write(std::uint32_t number) {
        return number % 2 == 0 ? vram::sim_access::read : vram::sim_access::write;
    }
    void fill(std::size_t me, order_step const& step) {
        std::size_t const at = a_stream(me, step.a);
        stream&           s  = streams_[at];
        use               u  = a_use(step.b, [](block const& b) { return b.of != kind::pageable; });
        if (blocks_[u.block].of == kind::pageable) { return; }
        u.how = vram::sim_access::write;
        begin(me, at);
        std::size_t const op       = operations_.add(s.known);
        verdict const     expected = access(s.known, op, u, s.device, true);
        say(me, "fill on " + title(s) + title({u}));
        vram::sim_fill(s.view, const_cast<void*>(range_of(u).data), std::byte{}, u.bytes);
        compare(expected);
    }
    void touch(std::size_t me, order_step const& step) {
        bool const anything        = step.d % 16 == 0;
        use        u               = a_use(step.a, [&](block const& b) {
            return anything || b.of == kind::pinned || b.of == kind::managed;
        });
        u.how                      = read_or_write(step.b);
        std::size_t const op       = operations_.add(hosts_[me].known);
        verdict const     expected = access(hosts_[me].known, op, u, {}, false);
        say(me, "host" + title({u}));
        vram::sim_touch(range_of(u), u.how);
        compare(expected);
    }

    /// Source and destination of a copy, of equal size.
    struct route {
        use  from, to;
        bool host_end    = false; ///< the call returns after the copy
        bool within      = false; ///< from device memory to device memory
        int  from_device = 0, to_device = 0;
    };
    [[nodiscard]] bool on_device(use const& u) const {
        kind const of = blocks_[u.block].of;
        return of == kind::device || of == kind::async || of == kind::managed;
    }
    route a_route(order_step const& step) {
        auto const any = [](block const&) { return true; };
        route      r{.from = a_use(step.b, any), .to = a_use(step.c, any)};
        r.from.bytes = r.to.bytes = std::min(r.from.bytes, r.to.bytes);
        r.to.how                  = vram::sim_access::write;
        bool const from = on_device(r.from), to = on_device(r.to);
        r.within      = from && to;
        r.host_end    = blocks_[r.to.block].of == kind::pageable || (!from && !to);
        r.from_device = blocks_[r.from.block].device;
        r.to_device   = blocks_[r.to.block].device;
        return r;
    }
    verdict accesses_of(past const& known, std::size_t op, route const& r, int device) {
        verdict           found;
        std::size_t const end = r.from.first * cell + r.from.bytes;
        if (blocks_[r.from.block].at == blocks_[r.to.block].at && r.to.first * cell < end &&
            r.from.first * cell < r.to.first * cell + r.to.bytes) {
            found |= vram::sim_mistake::overlapping_copy;
        }
        found |= access(known, op, r.from, device, true);
        found |= access(known, op, r.to, device, true);
        return found;
    }
    void copy(std::size_t me, order_step const& step, std::size_t at) {
        stream&     s        = streams_[at];
        route const r        = a_route(step);
        verdict     expected = enqueue_copy(me, at, r);
        past const  known    = s.known;
        say(me, "copy on " + title(s) + title({r.from, r.to}));
        ++s.in_use;
        vram::sim_stream_view const view = s.view;
        expected_ |= expected;
        vram::sim_copy(view, const_cast<void*>(range_of(r.to).data), range_of(r.from).data,
                       r.to.bytes);
        --streams_[at].in_use;
        if (r.host_end) { hosts_[me].known |= known; }
        compare({});
    }
    /// The model of a copy. In the NULL stream, a copy between devices is ordered with those of
    /// both devices.
    verdict enqueue_copy(std::size_t me, std::size_t at, route const& r) {
        bool const serial = streams_[at].legacy && r.within && r.from_device != r.to_device;
        auto const order  = [&](std::size_t after, std::size_t before) {
            begin(me, before);
            begin(me, after);
            streams_[after].known |= streams_[before].known;
        };
        for (int const device : {r.to_device, r.from_device}) {
            auto const other = static_cast<std::size_t>(device);
            if (serial && other != at) { order(at, other); }
        }
        begin(me, at);
        stream&           s        = streams_[at];
        std::size_t const op       = operations_.add(s.known);
        verdict const     expected = accesses_of(s.known, op, r, s.device);
        for (int const device : {r.to_device, r.from_device}) {
            auto const other = static_cast<std::size_t>(device);
            if (serial && other != at) { order(other, at); }
        }
        return expected;
    }
    /// A copy in the calling thread's default stream, with the waits of cudaMemcpy.
    void copy_sync(std::size_t me, order_step const& step) {
        std::size_t const at       = program_.per_thread ? per_thread(me, 0) : 0;
        route const       r        = a_route(step);
        bool const        pageable = blocks_[r.from.block].of == kind::pageable;
        // With two waits in one call, other threads could run between them.
        bool const alone = !started_[1] && !started_[2];
        if (!alone && (r.host_end || pageable)) { return; }
        if (pageable && on_device(r.to)) { hosts_[me].known |= known_end(at); }
        verdict const expected = enqueue_copy(me, at, r);
        past const    known    = known_end(at);
        past const    own      = streams_[at].known;
        say(me, "copy_sync" + title({r.from, r.to}));
        expected_ |= expected;
        vram::sim_copy_sync(const_cast<void*>(range_of(r.to).data), range_of(r.from).data,
                            r.to.bytes);
        if (r.host_end) { hosts_[me].known |= own; }
        if (!r.within && !pageable) { hosts_[me].known |= known; }
        compare({});
    }

    // Graphs.

    /// Captures a graph on one stream, and on another one that joins through an event.
    void capture(order_step const& step) {
        if (graphs_.size() >= 4 || blocks_.size() > 36) { return; }
        dice       d{(std::uint64_t{step.a} << 32) | step.b};
        auto const free_stream = [&](std::size_t i) {
            return streams_[i].own && streams_[i].in_use == 0;
        };
        std::array<std::size_t, 2> on{};
        on[0] = d.below(streams_.size());
        on[1] = d.below(streams_.size());
        if (!free_stream(on[0])) { return; }
        bool const                              two = on[1] != on[0] && free_stream(on[1]);
        graph                                   g;
        std::array<std::vector<std::size_t>, 2> ends;
        bool                                    joined = false;
        std::vector<std::size_t>                live;
        say(0, "capture on " + title(streams_[on[0]]));
        vram::sim_graph::begin(streams_[on[0]].view, vram::sim_capture_mode::relaxed);
        auto const add = [&](std::size_t branch, graph_node n) {
            n.after      = ends[branch];
            ends[branch] = {g.nodes.size()};
            g.nodes.push_back(std::move(n));
        };
        auto const order = [&](std::size_t after, std::size_t before) {
            event* const e = an_event(static_cast<std::uint32_t>(d.next()), [&](event const& x) {
                return x.in_use == 0 && x.device == streams_[on[before]].device;
            });
            if (e == nullptr) { return false; }
            say(0, "  record " + title(*e) + " on " + title(streams_[on[before]]) + ", wait on " +
                       title(streams_[on[after]]));
            e->own->record(streams_[on[before]].view);
            e->own->wait(streams_[on[after]].view);
            e->recorded = e->captured = true;
            ends[after].insert(ends[after].end(), ends[before].begin(), ends[before].end());
            return true;
        };
        std::size_t const length = 1 + d.below(8);
        for (std::size_t i = 0; i < length; ++i) {
            std::size_t const branch = joined ? d.below(2) : 0;
            stream&           s      = streams_[on[branch]];
            std::size_t const device = static_cast<std::size_t>(s.device);
            order_step const  numbers{action::kernel, 0, static_cast<std::uint32_t>(d.next()),
                                     static_cast<std::uint32_t>(d.next()), 0};
            switch (d.below(7)) {
            case 0:
            case 1:
                if (two && !joined) {
                    joined = order(1, 0);
                } else if (joined) {
                    order(branch, 1 - branch);
                }
                break;
            case 2: {
                void* const       p = async_[device].allocate(s.view, bytes);
                std::size_t const b = add_block(kind::async, s.device, p);
                blocks_[b].live     = false;
                blocks_[b].node     = true;
                live.push_back(b);
                add(branch, {.allocates = b});
                say(0, "  allocate " + title(b) + " on " + title(s));
                break;
            }
            case 3:
                if (!live.empty()) {
                    std::size_t const b = live.back();
                    live.pop_back();
                    auto& memory = async_[static_cast<std::size_t>(blocks_[b].device)];
                    memory.deallocate(s.view, blocks_[b].at, bytes);
                    add(branch, {.frees = b});
                    say(0, "  free " + title(b) + " on " + title(s));
                }
                break;
            case 4: {
                route const r = a_route(numbers);
                say(0, "  copy on " + title(s) + title({r.from, r.to}));
                vram::sim_copy(s.view, const_cast<void*>(range_of(r.to).data),
                               range_of(r.from).data, r.to.bytes);
                std::size_t const end = r.from.first * cell + r.from.bytes;
                if (blocks_[r.from.block].at == blocks_[r.to.block].at && r.to.first * cell < end &&
                    r.from.first * cell < r.to.first * cell + r.to.bytes) {
                    expected_ |= vram::sim_mistake::overlapping_copy;
                }
                add(branch, {.uses = {r.from, r.to}, .copy = true});
                break;
            }
            default: {
                std::vector<use> uses = some_uses(numbers, s.device);
                if (!live.empty() && blocks_[live.back()].device == s.device && d.one_in(2)) {
                    uses.front() = {live.back(), 0, bytes,
                                    read_or_write(static_cast<std::uint32_t>(d.below(2)))};
                }
                say(0, "  kernel on " + title(s) + title(uses));
                vram::sim_launch(s.view, kernel_of(uses, numbers.b));
                add(branch, {.uses = in_order(uses)});
            }
            }
        }
        for (std::size_t const b : live) {
            say(0, "  free " + title(b));
            async_[static_cast<std::size_t>(blocks_[b].device)].deallocate(streams_[on[0]].view,
                                                                           blocks_[b].at, bytes);
            add(0, {.frees = b});
        }
        // If there is no event of the other stream's device, the capture may be invalid.
        bool const whole = !joined || order(0, 1);
        try {
            g.own = vram::sim_graph::end(streams_[on[0]].view);
            graphs_.push_back(std::move(g));
        } catch (vram::sim_error const&) {
            if (whole) { throw; }
        }
        compare({});
    }
    void launch(std::size_t me, order_step const& step) {
        if (graphs_.empty()) { return; }
        graph&            g  = graphs_[step.b % graphs_.size()];
        std::size_t const at = a_stream(me, step.a);
        stream&           s  = streams_[at];
        begin(me, at);
        s.known |= g.known_last;
        std::vector<past> known(g.nodes.size());
        verdict           expected;
        for (std::size_t i = 0; i < g.nodes.size(); ++i) {
            graph_node const& n = g.nodes[i];
            known[i]            = n.after.empty() ? s.known : past{};
            for (std::size_t const before : n.after) { known[i] |= known[before]; }
            std::size_t const op = operations_.add(known[i]);
            if (n.allocates) {
                blocks_[*n.allocates].live = true;
                blocks_[*n.allocates].known.allocate(op);
            }
            if (n.frees) {
                expected |= blocks_[*n.frees].known.release(known[i]);
                blocks_[*n.frees].live = false;
            }
            for (use const& u : n.uses) { expected |= access(known[i], op, u, 0, n.copy, true); }
        }
        for (past const& each : known) { s.known |= each; }
        g.known_last = s.known;
        say(me, "launch graph " + std::to_string(&g - graphs_.data()) + " on " + title(s));
        g.own->launch(s.view);
        compare(expected);
    }
    void destroy_graph(order_step const& step) {
        if (graphs_.empty()) { return; }
        say(0, "destroy graph " + std::to_string(step.a % graphs_.size()));
        graphs_.erase(graphs_.begin() + static_cast<std::ptrdiff_t>(step.a % graphs_.size()));
    }

    // The objects that an action uses.

    std::size_t a_stream(std::size_t me, std::uint32_t number) {
        if (number % 16 == 0) { return per_thread(me, number / 16); }
        for (std::size_t i = number >> 4;; ++i) {
            // The per-thread stream of another thread has no handle here.
            stream const& s = streams_[i % streams_.size()];
            if (s.present && (s.own || s.legacy)) { return i % streams_.size(); }
        }
    }
    std::size_t per_thread(std::size_t me, std::uint32_t number) {
        std::size_t const           device = number % async_.size();
        std::optional<std::size_t>& mine   = hosts_[me].per_thread[device];
        if (!mine) {
            mine = streams_.size();
            streams_.push_back(
                {.view    = vram::sim_stream_view::per_thread(vram::sim_device{int(device)}),
                 .device  = static_cast<int>(device),
                 .blocks  = true,
                 .present = true,
                 .known   = hosts_[me].known});
        }
        return *mine;
    }
    template <class Suits>
    event* an_event(std::uint32_t number, Suits suits) {
        for (std::size_t i = 0; i < events_.size(); ++i) {
            event& e = events_[(number + i) % events_.size()];
            if (e.own && suits(e)) { return &e; }
        }
        return nullptr;
    }
    template <class Suits>
    std::optional<std::size_t> a_block(std::uint32_t number, Suits suits) const {
        for (std::size_t i = 0; i < blocks_.size(); ++i) {
            std::size_t const at = (number + i) % blocks_.size();
            if (suits(blocks_[at])) { return at; }
        }
        return {};
    }

    // Comparison.

    /// Compares the reports since the last call with the verdict of the model.
    void compare(verdict expected) {
        expected |= expected_;
        expected_ = {};
        verdict found;
        for (vram::sim_report const& r : node_.take_reports()) {
            found |= r.kind;
            if (explained_) { text_ += r.text() + "\n"; }
        }
        mistakes_ += !expected.empty();
        if (explained_ && !expected.empty()) { text_ += "    model: " + expected.text() + "\n"; }
        if (!expected.agrees(found)) {
            fail("the model finds " + expected.text() + ", the simulated device " + found.text());
        }
    }
    void fail(std::string what) {
        if (failed_.empty()) { failed_ = std::move(what); }
    }
    void say(std::size_t me, std::string const& line) {
        if (explained_) { text_ += "thread " + std::to_string(me) + ": " + line + "\n"; }
    }
    [[nodiscard]] std::string title(stream const& s) const {
        if (!explained_) { return {}; }
        return (s.legacy ? "the legacy stream" : "stream " + std::to_string(&s - streams_.data())) +
               (s.blocks && !s.legacy ? " (blocking)" : "") + " of device " +
               std::to_string(s.device);
    }
    [[nodiscard]] std::string title(event const& e) const {
        return explained_ ? "event " + std::to_string(&e - events_.data()) : std::string{};
    }
    [[nodiscard]] std::string title(std::size_t b) const {
        if (!explained_) { return {}; }
        char const* const kinds[] = {"device", "async", "pinned", "managed", "pageable"};
        return std::string{"block "} + std::to_string(b) + " (" +
               kinds[static_cast<int>(blocks_[b].of)] + ")";
    }
    [[nodiscard]] std::string title(std::vector<use> const& uses) const {
        std::string all;
        if (!explained_) { return all; }
        for (use const& u : uses) {
            char const* const verbs[] = {" reads ", " writes ", " updates "};
            all += verbs[static_cast<int>(u.how)] + title(u.block) + " + " +
                   std::to_string(u.first * cell) + ", " + std::to_string(u.bytes) + " bytes;";
        }
        return all;
    }

    order_program const& program_;
    bool                 explained_;

    vram::sim_node                         node_;
    operations                             operations_;
    std::vector<host>                      hosts_;
    std::vector<stream>                    streams_;
    std::array<event, 5>                   events_;
    std::vector<block>                     blocks_;
    std::unordered_map<void*, std::size_t> latest_; ///< the last block at an address
    std::vector<graph>                     graphs_;
    std::vector<vram::sim_async_resource>  async_;
    std::array<std::byte, bytes + cell>    pageable_{}; ///< a use may exceed `bytes` by a cell
    /// True after the first access to pageable memory by a host function or by a graph: from then
    /// on, such accesses have an order.
    bool                tracked_ = false;
    std::array<char, 2> tokens_{};
    std::array<past, 2> known_tokens_;
    std::vector<past>   known_orphans_, known_blocking_orphans_;

    std::vector<std::optional<vram::sim_thread>> threads_;
    std::array<bool, order_program::threads>     started_{};

    verdict     expected_; ///< of a call that another thread's calls interrupt
    std::string failed_, text_;
    std::size_t actions_ = 0, mistakes_ = 0;
};

/// Leaves out steps of a program as long as the disagreement remains.
inline order_program shrunk(order_program program) {
    for (std::size_t chunk = 16; chunk != 0; chunk /= 2) {
        for (std::size_t thread = 0; thread < program.steps.size(); ++thread) {
            for (std::size_t at = 0; at < program.steps[thread].size();) {
                order_program     shorter = program;
                auto&             steps   = shorter.steps[thread];
                auto const        from    = steps.begin() + static_cast<std::ptrdiff_t>(at);
                std::size_t const n       = std::min(chunk, steps.size() - at);
                steps.erase(from, from + static_cast<std::ptrdiff_t>(n));
                if (order_run{shorter}.run().empty()) {
                    at += chunk;
                } else {
                    program = shorter;
                }
            }
        }
    }
    return program;
}

struct order_counts {
    std::uint64_t actions = 0, mistakes = 0;
};

/// Runs the program of a seed. Returns an empty text, or a short program with a disagreement.
inline std::string run_orders(std::uint64_t seed, order_counts& counts) {
    order_program const program{seed};
    order_run           run{program};
    std::string const   what = run.run();
    counts.actions += run.actions();
    counts.mistakes += run.mistakes();
    if (what.empty()) { return what; }
    order_program const small = shrunk(program);
    order_run           again{small, true};
    std::string const   why = again.run();
    return what + "\n" + again.text() + why;
}
inline std::string explained_orders(std::uint64_t seed) {
    order_program const program{seed};
    order_run           run{program, true};
    std::string const   what = run.run();
    return run.text() + what;
}

} // namespace trial
