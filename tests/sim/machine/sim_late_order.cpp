// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_late_order.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace vram;

namespace late_order {

constexpr std::size_t streams = 3, cells = 2;

/// A step of a stream: an access to a cell, a wait for a step of another stream (by an event), or a
/// write of, or a wait for, a value of one word.
struct step {
    enum class kind { read, write, after, set, until };
    kind        what   = kind::read;
    std::size_t stream = 0;
    std::size_t cell   = 0; ///< the accessed cell
    std::size_t other  = 0; ///< for `after`: the stream that is waited for
    std::size_t count  = 0; ///< for `after`: number of its steps
    unsigned    value  = 0;
};

/// Steps in the sequence in which the host queues them.
using program = std::vector<step>;

/// Returns a random program. If `late`, one stream writes the value, and waits may be queued before
/// that. Otherwise several streams do, and waits are queued behind all writes.
program draw(std::uint64_t seed, bool late) {
    std::mt19937_64 random{seed};
    auto const      below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    program         all;
    std::array<std::size_t, streams> queued{};
    std::size_t const                length = 6 + below(9), set_at = below(length);
    for (std::size_t i = 0; i < length; ++i) {
        step              s{.stream = below(streams)};
        std::size_t const drawn = below(10);
        bool const        sets  = late ? i == set_at : drawn < 3 && i < length / 2;
        if (sets) {
            s.what  = step::kind::set;
            s.value = late ? 1 : 1 + static_cast<unsigned>(below(2));
        } else if (drawn < 3 && (late || i >= length / 2)) {
            s.what  = step::kind::until;
            s.value = late ? 1 : 1 + static_cast<unsigned>(below(2));
        } else if (drawn < 5) {
            s.what  = step::kind::after;
            s.other = (s.stream + 1 + below(streams - 1)) % streams;
            s.count = queued[s.other];
        } else {
            s.what = drawn < 8 ? step::kind::write : step::kind::read;
            s.cell = late ? below(cells) : 0;
        }
        ++queued[s.stream];
        all.push_back(s);
    }
    return all;
}

/// Searches all sequences in which the streams may execute their steps.
class search {
public:
    explicit search(program const& all) {
        for (step const& s : all) { of_[s.stream].push_back(s); }
        visit({});
    }
    /// Returns true if two conflicting accesses may be executed at the same time. Null if the
    /// streams may wait for each other or for a value that is not written any more.
    [[nodiscard]] std::optional<bool> race() const {
        return stuck_ ? std::nullopt : std::optional{race_};
    }

private:
    struct state {
        std::array<std::size_t, streams> done{};
        unsigned                         value                           = 0;
        auto                             operator<=>(state const&) const = default;
    };
    [[nodiscard]] static bool is_access(step const& s) {
        return s.what == step::kind::read || s.what == step::kind::write;
    }
    void visit(state const& now) {
        if (stuck_ || !seen_.insert(now).second) { return; }
        std::vector<step const*> next;
        bool                     ended = true;
        for (std::size_t i = 0; i < streams; ++i) {
            if (now.done[i] == of_[i].size()) { continue; }
            ended         = false;
            step const& s = of_[i][now.done[i]];
            if (s.what == step::kind::after && now.done[s.other] < s.count) { continue; }
            if (s.what == step::kind::until && now.value < s.value) { continue; }
            next.push_back(&s);
        }
        stuck_ = stuck_ || (next.empty() && !ended);
        for (step const* const a : next) {
            for (step const* const b : next) {
                bool const both = a != b && is_access(*a) && is_access(*b) && a->cell == b->cell;
                race_           = race_ || (both && (a->what == step::kind::write));
            }
            state then = now;
            ++then.done[a->stream];
            if (a->what == step::kind::set) { then.value = a->value; }
            visit(then);
        }
    }

    std::array<std::vector<step>, streams> of_;
    std::set<state>                        seen_;
    bool                                   race_  = false;
    bool                                   stuck_ = false;
};

/// Runs a program on the simulated device. Returns true if it reports a race.
bool reported(program const& all) {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_resource        memory;
    sim_pinned_resource pinned;
    auto* const         p = static_cast<std::byte*>(memory.allocate_sync(64 * cells));
    auto* const         w = static_cast<std::uint32_t*>(pinned.allocate_sync(64));
    *w                    = 0;
    {
        std::array<sim_stream, streams> s;
        for (step const& each : all) {
            sim_stream const& on = s[each.stream];
            sim_range const   cell{p + 64 * each.cell, 64};
            switch (each.what) {
            case step::kind::read: sim_launch(on, {.reads = {cell}}); break;
            case step::kind::write: sim_launch(on, {.writes = {cell}}); break;
            case step::kind::set: sim_write_value(on, w, each.value); break;
            case step::kind::until: sim_wait_value(on, w, each.value); break;
            case step::kind::after: {
                sim_event e;
                e.record(s[each.other]);
                e.wait(on);
            }
            }
        }
        sim_device{}.synchronize();
    }
    memory.deallocate_sync(p, 64 * cells);
    pinned.deallocate_sync(w, 64);
    return !node.take_reports().empty();
}

std::string text(program const& all) {
    std::string lines;
    for (step const& s : all) {
        static constexpr char const* names[] = {"read", "write", "after", "set", "until"};
        lines += "\n  stream " + std::to_string(s.stream) + ": " +
                 names[static_cast<std::size_t>(s.what)];
        if (s.what == step::kind::after) {
            lines += " " + std::to_string(s.count) + " steps of " + std::to_string(s.other);
        } else if (s.what < step::kind::after) {
            lines += " cell " + std::to_string(s.cell);
        } else {
            lines += " " + std::to_string(s.value);
        }
    }
    return lines;
}

/// Compares programs for half a second, and at least ten with and ten without a race.
void compare(bool late) {
    using clock                   = std::chrono::steady_clock;
    clock::time_point const until = clock::now() + std::chrono::milliseconds{500};
    std::size_t             right = 0, wrong = 0;
    for (std::uint64_t seed = 1; right < 10 || wrong < 10 || clock::now() < until; ++seed) {
        program const             all  = draw(seed, late);
        std::optional<bool> const race = search{all}.race();
        if (!race) { continue; }
        ++(*race ? wrong : right);
        bool const found = reported(all);
        if (found == *race) { continue; }
        FAIL("seed " << seed << ": " << std::string{found ? "a report" : "no report"} << text(all));
    }
}

} // namespace late_order

TEST_CASE("sim_late_order: random waits for later values agree with all sequences of the streams") {
    late_order::compare(true);
}

TEST_CASE("sim_late_order: random waits that several writes may end agree with all sequences") {
    late_order::compare(false);
}
