// SPDX-License-Identifier: Apache-2.0
// The replay of recorded programs on every stack: the time of an operation, and reserved over live
// bytes.

#include "support/program.hpp"
#include "support/recorded.hpp"
#include "support/recordings.hpp"

#include <cstdio>

using namespace bench;

namespace {

constexpr char const* mean = "geometric_mean";

struct replay_options : options {
    std::vector<std::string> traces;
};

/// Returns the mean of a value over all traces, or nothing if one trace is missing.
std::optional<double> mean_of(results const& r, std::vector<tape> const& tapes,
                              std::string const& subject, std::string const& metric) {
    std::vector<double> values;
    for (tape const& t : tapes) {
        auto const value = r.value(t.name, subject, metric);
        if (!value || *value <= 0) { return {}; }
        values.push_back(*value);
    }
    return values.size() < 2 ? std::nullopt : std::optional{geometric_mean(values)};
}

/// Returns the reserved bytes of these peers for a trace, from this run or else as recorded.
std::optional<double> footprint(results const& r, std::string const& trace,
                                std::vector<std::string> const& peers) {
    std::optional<double> least;
    for (std::string const& peer : peers) {
        auto value = r.value(trace, peer, "reserved_over_live");
        if (!value) { value = recorded_footprint(trace, peer); }
        if (value && (!least || *value < *least)) { least = value; }
    }
    return least;
}

class jury {
public:
    jury(verdicts& v, results const& r, found const& all, std::vector<tape> const& tapes)
        : v_{v}, r_{r}, all_{all}, tapes_{tapes} {}

    void judge() {
        for (subject const& s : all_.subjects) {
            switch (s.is) {
            case role::plain: plain(s.name); break;
            case role::fast: fast(s.name); break;
            case role::tight: tight(s.name); break;
            default: continue;
            }
            for (tape const& t : tapes_) {
                v_.at_most(t.name, s.name, "bytes held after everything was freed and trimmed",
                           r_.value(t.name, s.name, "left_after_trim"), 0);
                v_.at_most(t.name, s.name, "bytes of idle chunks after a trim at its end",
                           r_.value(t.name, s.name, "releasable_after_trim"), 0);
            }
        }
    }

private:
    void plain(std::string const& name) {
        if (all_.gpu) {
            for (tape const& t : tapes_) {
                v_.at_most(t.name, name, "ns, warm", r_.value(t.name, name, "ns_per_op"), 30);
            }
            v_.at_most(mean, name, "ns, warm", mean_time(name), 30);
        }
        footprints(name, "reserved / live: the better of PyTorch and RMM's pool",
                   {"torch", "rmm::pool"}, 1.15);
    }
    void fast(std::string const& name) {
        if (all_.gpu) { v_.at_most(mean, name, "ns, warm", mean_time(name), 30); }
        footprints(name, "reserved / live: PyTorch's expandable segments", {"torch_expandable"},
                   1.06);
    }
    void tight(std::string const& name) {
        if (all_.gpu) {
            v_.at_most(mean, name, "ns, warm: cudaMallocAsync", mean_time(name),
                       mean_time("cudaMallocAsync"));
        }
        footprints(name, "reserved / live: the best peer", footprint_peers(), 1.01);
    }
    void footprints(std::string const& name, std::string const& what,
                    std::vector<std::string> const& peers, double limit) {
        for (tape const& t : tapes_) {
            v_.at_most(t.name, name, what, r_.value(t.name, name, "reserved_over_live"),
                       footprint(r_, t.name, peers));
        }
        v_.at_most(mean, name, "reserved / live", mean_of(r_, tapes_, name, "reserved_over_live"),
                   limit);
    }
    [[nodiscard]] std::optional<double> mean_time(std::string const& name) const {
        return mean_of(r_, tapes_, name, "ns_per_op");
    }

    verdicts&                v_;
    results const&           r_;
    found const&             all_;
    std::vector<tape> const& tapes_;
};

/// A short trace ends before the processor has warmed up, so it has more turns.
unsigned turns_for(tape const& t, options const& o) {
    bool const is_short = t.operations.size() < 50'000;
    return o.repeat == 0 && !o.quick && is_short ? 5 * o.turns() : o.turns();
}

int run(replay_options const& o) {
    found      all   = find_subjects(o.device);
    auto const files = recordings(o.traces);
    if (o.list) {
        print_list(all, files);
        return cli::success;
    }
    all.subjects            = chosen(std::move(all.subjects), o.subjects, "subject");
    auto const       picked = chosen(files, o.cases, "case");
    cli::output_file json{o.json, paths(picked)};
    // All are read first, so that a malformed one ends the run at its start.
    std::vector<tape> tapes;
    for (recording const& each : picked) {
        tapes.push_back(make_tape(each.name, read_trace(each.file)));
    }
    results r{"replay"};
    print_head(all, o);
    for (tape const& t : tapes) {
        take_turns(r, all.subjects, t, turns_for(t, o),
                   [&](subject const& s) { return s.replay(t); });
        print_table(r, t.name,
                    fmt::format("{} turns, {} operations on {} streams, at most {} out",
                                turns_for(t, o), t.operations.size(), t.streams,
                                vram::bytes{t.peak_live}.text().c_str()),
                    all.subjects,
                    {"ns_per_op", "ns_per_op_cold", "reserved_over_live", "trimmed_over_live",
                     "waits", "events", "upstream_calls"});
        keep_rows(json, r);
    }
    for (subject const& s : all.subjects) {
        for (char const* const metric : {"ns_per_op", "ns_per_op_cold", "reserved_over_live"}) {
            auto const        value = mean_of(r, tapes, s.name, metric);
            char const* const unit  = metric[0] == 'n' ? "ns" : "ratio";
            if (value) { r.add(mean, s.name, {{metric, *value, unit}}); }
        }
    }
    if (tapes.size() > 1) {
        print_table(r, mean, "over the traces above", all.subjects,
                    {"ns_per_op", "ns_per_op_cold", "reserved_over_live"});
    }
    verdicts v;
    jury{v, r, all, tapes}.judge();
    v.print();
    keep_rows(json, r, true);
    return o.check && v.missed() != 0 ? cli::failed : cli::success;
}

} // namespace

int main(int argc, char** argv) {
    replay_options o;
    CLI::App app{"Recorded allocations, replayed on every stack of vram and its peers.", "replay"};
    add_options(app, o);
    app.add_option("--trace", o.traces,
                   "these traces instead of those in bench/traces: CSV of RMM's logging adaptor, "
                   "plain or gzip")
        ->type_name("FILE");
    return cli::run(app, argc, argv, [&] { return run(o); });
}
