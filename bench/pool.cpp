// SPDX-License-Identifier: Apache-2.0
// The benchmark of pools: the time of an allocation and its free, under typical loads.

#include "support/program.hpp"

#include <vram/base/bytes.hpp> // operator""_KiB

#include <chrono>
#include <cstdio>
#include <utility>

using namespace bench;
using namespace vram::literals;

namespace {

std::vector<pool_case> cases() {
    using shape = pool_case::shape;
    std::vector<pool_case> all;
    auto const             hot = [&](std::string name, std::size_t bytes) {
        all.push_back({.name  = std::move(name),
                                   .about = "an allocation and its free",
                                   .what  = shape::hot,
                                   .most  = bytes});
    };
    hot("hot_256B", 256_B);
    hot("hot_1MiB", 1_MiB);
    auto const churn = [&](std::string name, unsigned live, std::size_t most) {
        all.push_back({.name  = std::move(name),
                       .about = "one of the live blocks is replaced",
                       .what  = shape::churn,
                       .least = 256,
                       .most  = most,
                       .live  = live});
    };
    churn("churn_100", 100, 32_MiB);
    churn("churn_1k", 1000, 8_MiB);
    churn("churn_10k", 10'000, 1_MiB);
    churn("churn_50k", 50'000, 256_KiB);
    auto const threads = [&](unsigned n, std::string which, std::string about) -> pool_case& {
        all.push_back({.name    = fmt::format("threads_{}{}", n, which),
                       .about   = std::move(about),
                       .what    = shape::threads,
                       .least   = 256,
                       .most    = 4_MiB,
                       .live    = 200,
                       .threads = n});
        return all.back();
    };
    for (unsigned const n : {1U, 2U, 4U, 8U}) {
        threads(n, "", "own streams, one of 200 live blocks is replaced");
    }
    for (unsigned const n : {2U, 8U}) {
        threads(n, "_apart", "the same, each thread with a memory of its own").apart = true;
    }
    for (unsigned const n : {2U, 8U}) {
        threads(n, "_handed", "own streams, freed by the next thread, up to 200 later").handed =
            true;
    }
    auto const random = [&](std::string name, std::size_t count, std::size_t largest) {
        all.push_back({.name   = name,
                       .about  = "RMM's random_allocations",
                       .what   = shape::tape,
                       .script = random_tape(name, count, largest, 16'000_MiB)});
    };
    random("random_1k_1MiB", 1000, 1_MiB);
    random("random_1k_64MiB", 1000, 64_MiB);
    random("random_1k_1GiB", 1000, 1_GiB);
    random("random_10k_4MiB", 10'000, 4_MiB);
    auto const rotate = [&](std::string name, std::string about, std::size_t ample, bool handed) {
        all.push_back({.name    = std::move(name),
                       .about   = std::move(about),
                       .what    = shape::rotate,
                       .least   = 256,
                       .most    = 1_MiB,
                       .live    = 1000,
                       .streams = 4,
                       .ample   = ample,
                       .handed  = handed});
    };
    rotate("cross_4", "4 busy streams in turn, ample memory, freed where allocated", 4_GiB, false);
    rotate("cross_4_handed", "the same, freed on the next stream", 4_GiB, true);
    rotate("cross_4_scarce", "freed where allocated, grown on demand", 0, false);
    auto const fill = [&](std::string name, unsigned live) {
        all.push_back({.name  = std::move(name),
                       .about = "blocks of 2 MiB from a pool that is new: growing",
                       .what  = shape::fill,
                       .least = 2_MiB,
                       .most  = 2_MiB,
                       .live  = live});
    };
    fill("fill_1k", 1000);
    fill("fill_8k", 8000);
    return all;
}

/// Returns the best value of the other libraries' GPU allocators.
std::optional<double> best_peer(results const& r, found const& all, std::string const& in_case) {
    std::optional<double> best;
    for (subject const& s : all.subjects) {
        auto const value =
            s.is == role::peer ? r.value(in_case, s.name, "ns_per_op") : std::nullopt;
        if (value && (!best || *value < *best)) { best = value; }
    }
    return best;
}

/// The bars hold on the host of an H200. Without a GPU there is one bar, which is a ratio.
void judge(verdicts& v, results const& r, found const& all) {
    auto const bar = [&](subject const& s, std::string const& in_case, std::string const& what,
                         char const* metric, std::optional<double> limit) {
        v.at_most(in_case, s.name, what, r.value(in_case, s.name, metric), limit);
    };
    for (subject const& s : all.subjects) {
        bool const grows = s.is == role::plain || s.is == role::fast || s.is == role::tight;
        if (auto const few = r.value("fill_1k", s.name, "ns_per_op"); grows && few && !all.gpu) {
            bar(s, "fill_8k", "ns, twice fill_1k", "ns_per_op", 2 * *few);
        }
        if (s.is == role::threads && all.gpu) {
            bar(s, "threads_8", "ns for a pair and thread", "ns_per_op", 120);
            for (auto const& [in_case, least] : {std::pair{"threads_2", 2.0}, {"threads_8", 7.2}}) {
                v.at_least(in_case, s.name, "times one thread, on the same cores", // nearly eight
                           r.value(in_case, s.name, "times_one_thread"), least);
            }
        }
        if (s.is != role::plain) { continue; }
        for (std::string const hot : {"hot_256B", "hot_1MiB"}) {
            auto const value = r.value(hot, s.name, "ns_per_op");
            if (all.gpu) {
                bar(s, hot, "ns", "ns_per_op", 25);
                auto const peer = best_peer(r, all, hot);
                v.at_least(hot, s.name, "times faster than the best GPU peer",
                           value && peer ? std::optional{*peer / *value} : std::nullopt, 12);
            } else if (auto const scale = r.value("hot_256B", "malloc", "ns_per_op")) {
                bar(s, hot, "ns, twice malloc's hot_256B", "ns_per_op", 2 * *scale);
            }
        }
        if (all.gpu) {
            bar(s, "churn_1k", "ns", "ns_per_op", 60);
            bar(s, "churn_10k", "ns", "ns_per_op", 100);
            bar(s, "churn_50k", "ns", "ns_per_op", 150);
        }
        bar(s, "cross_4", "waits for a free", "waits_per_free", 0);
        bar(s, "cross_4", "events for a free", "events_per_free", 1.0 / 16);
    }
}

/// Cases with a ratio as their bar have more turns, so that a disturbed turn does not decide.
unsigned turns_for(pool_case const& c, options const& o) {
    using shape       = pool_case::shape;
    bool const ratios = c.what == shape::hot || c.what == shape::threads;
    return ratios && !o.quick ? 3 * o.turns() : o.turns();
}

int run(options const& o) {
    using namespace std::chrono_literals;
    found      all  = find_subjects(o.device);
    auto const todo = cases();
    if (o.list) {
        print_list(all, todo);
        return cli::success;
    }
    all.subjects             = chosen(std::move(all.subjects), o.subjects, "subject");
    auto const        picked = chosen(todo, o.cases, "case");
    nanoseconds const turn   = o.quick ? 1ms : 40ms;
    cli::output_file  json{o.json};
    results           r{"pool"};
    print_head(all, o);
    for (pool_case const& c : picked) {
        take_turns(r, all.subjects, c, turns_for(c, o),
                   [&](subject const& s) { return s.pool(c, turn); });
        std::vector<std::string> columns{"ns_per_op"};
        if (c.what == pool_case::shape::tape) { columns.push_back("us_per_run"); }
        if (c.what == pool_case::shape::threads) { columns.push_back("times_one_thread"); }
        if (c.what == pool_case::shape::rotate) {
            columns.insert(columns.end(), {"waits_per_free", "events_per_free"});
        }
        print_table(r, c.name, fmt::format("{} turns, {}", turns_for(c, o), c.about), all.subjects,
                    columns);
        keep_rows(json, r);
    }
    keep_rows(json, r, true);
    verdicts v;
    judge(v, r, all);
    v.print();
    return o.check && v.missed() != 0 ? cli::failed : cli::success;
}

} // namespace

int main(int argc, char** argv) {
    options  o;
    CLI::App app{"What an allocation and its free cost, for every pool of vram and its peers.",
                 "pool"};
    add_options(app, o);
    return cli::run(app, argc, argv, [&] { return run(o); });
}
