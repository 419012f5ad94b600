// SPDX-License-Identifier: Apache-2.0
// Two thousand random programs in which every dependency is respected, so the checker must report
// nothing. The generator keeps its own record of the order of operations, separate from the
// checker's.

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {

/// A program with a few streams, buffers and the host. Before an access, the accessor waits for
/// every earlier conflicting access, by a randomly chosen method: an event, a query, or a
/// synchronisation.
class program {
public:
    /// `forget` is the number of the wait that is left out, or 0 for none.
    explicit program(std::uint64_t seed, std::uint64_t forget = 0)
        : random_{seed},
          forget_{forget},
          node_{options(seed)},
          async_{sim_device{}, {.release_threshold = 1_MiB}} {
        std::size_t const streams = 1 + random_.below(4);
        for (std::size_t i = 0; i < streams; ++i) {
            streams_.push_back(std::make_unique<sim_stream>(
                sim_device{}, sim_stream_options{.blocking = random_.below(2) == 0}));
        }
    }

    std::vector<sim_report> run(int steps) {
        for (int i = 0; i < steps; ++i) { step(); }
        while (!buffers_.empty()) { release(buffers_.size() - 1); }
        streams_.clear();
        node_.finish();
        return node_.reports();
    }

    bool contents_right() const { return right_; }

private:
    static constexpr std::size_t host = 1000; ///< the host as an actor, beside the streams

    struct access {
        std::size_t actor;
        bool        write;
        sim_event   event; ///< recorded after it, if a stream recorded it
    };
    struct buffer {
        std::byte*          data;
        std::size_t         bytes;
        sim_kind            kind;
        std::vector<access> past;  ///< accesses that a later one may conflict with
        unsigned char       value; ///< byte that fills it
        bool                known = false;
    };

    static sim_options options(std::uint64_t seed) {
        sim_options o;
        o.capacity             = 8_MiB;
        o.pinned_capacity      = 8_MiB;
        o.compute_slots        = 1 + static_cast<int>(seed % 3);
        o.on_report            = sim_on_report::collect;
        o.checks.uninitialised = false;
        return o;
    }

    void step() {
        if (buffers_.size() < 3 || (buffers_.size() < 8 && random_.below(4) == 0)) {
            return acquire();
        }
        std::size_t const which = random_.below(buffers_.size());
        switch (random_.below(8)) {
        case 0: return release(which);
        case 1: return fill(which);
        case 2:
        case 3: return copy(which, random_.below(buffers_.size()));
        case 4: return touch(which);
        case 5: node_.work(sim_time{static_cast<int>(random_.below(5000))}); return;
        default: return kernel(which, random_.below(buffers_.size()));
        }
    }

    void acquire() {
        std::size_t const bytes = 64 + random_.below(4096);
        std::size_t const s     = random_.below(streams_.size());
        buffer            b{nullptr, bytes, sim_kind::device, {}, 0, false};
        switch (random_.below(3)) {
        case 0: b.data = static_cast<std::byte*>(device_.allocate_sync(bytes)); break;
        case 1:
            b.kind = sim_kind::pinned;
            b.data = static_cast<std::byte*>(pinned_.allocate_sync(bytes));
            break;
        default:
            b.kind = sim_kind::device_async;
            b.data = static_cast<std::byte*>(async_.allocate(*streams_[s], bytes));
            b.past.push_back(done_by(s, true)); // the allocation itself
        }
        buffers_.push_back(std::move(b));
    }

    void release(std::size_t which) {
        buffer b = std::move(buffers_[which]);
        buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(which));
        if (b.kind == sim_kind::device_async) {
            std::size_t const s = random_.below(streams_.size());
            order(b, s, true);
            async_.deallocate(*streams_[s], b.data, b.bytes);
        } else {
            order(b, host, true);
            if (b.kind == sim_kind::pinned) {
                pinned_.deallocate_sync(b.data, b.bytes);
            } else {
                device_.deallocate_sync(b.data, b.bytes);
            }
        }
    }

    void fill(std::size_t which) {
        buffer&           b = buffers_[which];
        std::size_t const s = random_.below(streams_.size());
        order(b, s, true);
        b.value = static_cast<unsigned char>(random_.below(256));
        b.known = true;
        sim_fill(*streams_[s], b.data, std::byte{b.value}, b.bytes);
        b.past.push_back(done_by(s, true));
    }

    void copy(std::size_t to, std::size_t from) {
        if (to == from) { return; }
        buffer&           t = buffers_[to];
        buffer&           f = buffers_[from];
        std::size_t const s = random_.below(streams_.size());
        std::size_t const n = std::min(t.bytes, f.bytes);
        order(f, s, false);
        order(t, s, true);
        sim_copy(*streams_[s], t.data, f.data, n);
        f.past.push_back(done_by(s, false));
        t.past.push_back(done_by(s, true));
        t.known = n == t.bytes && f.known;
        t.value = f.value;
    }

    void kernel(std::size_t in, std::size_t out) {
        if (in == out) { return; }
        buffer&           i = buffers_[in];
        buffer&           o = buffers_[out];
        std::size_t const s = random_.below(streams_.size());
        order(i, s, false);
        order(o, s, true);
        o.value = static_cast<unsigned char>(i.value + 1);
        o.known = i.known;
        sim_launch(*streams_[s],
                   {.name     = "add one",
                    .reads    = {{i.data, i.bytes}},
                    .writes   = {{o.data, o.bytes}},
                    .duration = sim_time{static_cast<int>(random_.below(3000))}},
                   [to = o.data, n = o.bytes, from = i.data] {
                       auto const one = static_cast<int>(*sim_view(from)) + 1;
                       std::memset(sim_view(to), one, n);
                   });
        i.past.push_back(done_by(s, false));
        o.past.push_back(done_by(s, true));
    }

    void touch(std::size_t which) {
        buffer& b = buffers_[which];
        if (b.kind != sim_kind::pinned) { return; }
        bool const write = random_.below(2) == 0;
        order(b, host, write);
        sim_touch({b.data, b.bytes}, write ? sim_access::write : sim_access::read);
        if (b.known) {
            right_ = right_ && static_cast<unsigned char>(b.data[0]) == b.value &&
                     static_cast<unsigned char>(b.data[b.bytes - 1]) == b.value;
        }
        if (write) {
            b.value = static_cast<unsigned char>(random_.below(256));
            b.known = true;
            std::memset(b.data, b.value, b.bytes);
        }
        b.past.push_back({host, write, sim_event{}});
    }

    access done_by(std::size_t s, bool write) {
        access a{s, write, sim_event{}};
        a.event.record(*streams_[s]);
        return a;
    }

    /// Makes `actor` wait for every access of `b` that an access of its own would conflict with.
    void order(buffer& b, std::size_t actor, bool write) {
        for (access& a : b.past) {
            if (a.actor == actor || a.actor == host || !(write || a.write)) { continue; }
            if (++waits_ == forget_) { continue; }
            switch (actor == host ? 1 + random_.below(4) : random_.below(5)) {
            case 0: a.event.wait(*streams_[actor]); break;
            case 1: a.event.synchronize(); break;
            case 2: streams_[a.actor]->synchronize(); break;
            case 3:
                while (!a.event.done()) {}
                break;
            default: sim_device{}.synchronize();
            }
        }
        if (write) {
            b.past.clear();
        } // later accesses wait for this write, which waited for all of them
    }

    sim_random                               random_;
    std::uint64_t                            forget_;
    std::uint64_t                            waits_ = 0;
    sim_node                                 node_;
    sim_resource                             device_;
    sim_pinned_resource                      pinned_;
    sim_async_resource                       async_;
    std::vector<std::unique_ptr<sim_stream>> streams_;
    std::vector<buffer>                      buffers_;
    bool                                     right_ = true;
};

} // namespace

TEST_CASE("sim: two thousand random correct programs compute the right values without a report") {
    std::uint64_t correct = 0;
    for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
        program    p{seed};
        auto const reports = p.run(30);
        if (!reports.empty()) { MESSAGE("seed ", seed, ": ", reports.front().text()); }
        if (reports.empty() && p.contents_right()) { ++correct; }
    }
    CHECK(correct == 2000);
}

TEST_CASE("sim: random programs with one wait removed are reported, unless another order makes the "
          "wait redundant") {
    int reported = 0;
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        program p{seed, 3};
        if (!p.run(30).empty()) { ++reported; }
    }
    CHECK(reported > 150);
}
