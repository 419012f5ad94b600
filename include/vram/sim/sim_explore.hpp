// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_explore` runs a small program in every order of its threads, or in many random ones.

#include <vram/sim/sim_node.hpp>

#include <cstdint>
#include <cstdio>    // fprintf
#include <exception> // exception
#include <string>    // string, to_string, stoul
#include <utility>
#include <vector> // vector

namespace vram {

/// The parameters of `sim_explore`.
struct sim_exploring {
    /// The kind of exploration: `by_choice` runs all orders of the threads, up to the limits;
    /// `by_seed` runs `seeds` random orders, which may repeat.
    sim_order     order    = sim_order::by_choice;
    std::uint64_t seeds    = 1000;
    std::uint64_t max_runs = 100000; ///< with `by_choice`: the largest number of runs
    /// If not empty, repeats one run: the text that a failing run printed after "replay with".
    std::string replay = {};
    /// If true, the first failing run and the text that repeats it are printed to stderr.
    bool print = true;
    /// The options of the node (simulated machine) of each run, except `threads` and `on_report`.
    /// `preemptions` limits the orders of `by_choice`; the first run of `by_seed` has the seed
    /// `seed`.
    sim_options node = {};
};

/// The result of `sim_explore`.
struct sim_explored {
    std::uint64_t runs     = 0;
    std::uint64_t failures = 0;
    /// True if `by_choice` ran every order of the threads within the limit on preemptions.
    bool        complete = false;
    std::string first    = {}; ///< the exception and the reports of the first run that failed
    /// Text that repeats the first run that failed; empty if none failed.
    std::string replay = {};
};

namespace detail {

/// Returns the text that identifies a run, for `sim_exploring::replay`: "seed 7" or "choices
/// 0,1,1".
inline std::string sim_replay(sim_order order, std::uint64_t seed, sim_choices const& choices) {
    if (order == sim_order::by_seed) { return "seed " + std::to_string(seed); }
    std::string text = "choices ";
    for (auto const& c : choices.taken()) {
        text += (text.back() == ' ' ? "" : ",") + std::to_string(c.taken);
    }
    return text;
}

/// Sets `options` so that the next run repeats the one that `text` ("seed 7" or "choices 0,1,1")
/// identifies. Throws `std::logic_error` if a number cannot be read.
inline void sim_repeat(std::string const& text, sim_options& options) {
    if (text.starts_with("seed ")) {
        options.threads = sim_order::by_seed;
        options.seed    = std::stoull(text.substr(5));
        return;
    }
    options.threads = sim_order::by_choice;
    options.choices.clear();
    for (std::size_t at = text.find(' '); at != std::string::npos && at + 1 < text.size();
         at             = text.find(',', at + 1)) {
        options.choices.push_back(static_cast<unsigned>(std::stoul(text.substr(at + 1))));
    }
}

} // namespace detail

/// Runs `program(node)` many times, each time on a new `sim_node` and with another order of its
/// threads: random orders (`by_seed`), or all orders with at most `node.preemptions` preemptions
/// (`by_choice`). A run fails if the node reports a mistake or the program throws.
///
///     auto const found = sim_explore({.node = {.preemptions = 1}}, [](sim_node& node) { ... });
///     CHECK(found.complete);
///     CHECK(found.failures == 0);
///
/// Threads   Only one exploration may run at a time. Under ThreadSanitizer the orders are
///           arbitrary.
template <class Program>
[[nodiscard]] sim_explored sim_explore(sim_exploring how, Program program) {
    sim_explored found;
    how.node.on_report = sim_on_report::collect;
    how.node.threads   = how.order;
    bool const once    = !how.replay.empty();
    if (once) { detail::sim_repeat(how.replay, how.node); }
    bool const          all = how.node.threads == sim_order::by_choice;
    std::uint64_t const end = once ? 1 : all ? how.max_runs : how.seeds;

    while (found.runs < end) {
        std::string said;
        sim_node    node{how.node};
        try {
            program(node);
        } catch (std::exception const& e) {
            said = std::string{"exception: "} + e.what();
        } catch (...) { said = "exception"; }
        node.finish();
        for (sim_report const& r : node.reports()) {
            said += (said.empty() ? "" : "\n") + r.text();
        }
        ++found.runs;
        detail::sim_choices const& choices = node.machine().turns.choices;
        if (!said.empty() && ++found.failures == 1) {
            found.first  = said;
            found.replay = detail::sim_replay(how.node.threads, how.node.seed, choices);
            if (how.print) {
                std::fprintf(stderr, "%s\nreplay with: %s\n", said.c_str(), found.replay.c_str());
            }
        }
        if (!all) {
            ++how.node.seed;
            continue;
        }
        std::vector<detail::sim_choices::choice> taken = choices.taken();
        while (!taken.empty() && taken.back().taken + 1 == taken.back().among) { taken.pop_back(); }
        if (taken.empty()) {
            found.complete = !once;
            break;
        }
        ++taken.back().taken;
        how.node.choices.clear();
        for (auto const& c : taken) { how.node.choices.push_back(c.taken); }
    }
    return found;
}

} // namespace vram
