// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_explore` runs a small program in every order of its threads, or in many random ones.

#include <vram/sim/sim_error.hpp>
#include <vram/sim/sim_node.hpp>
#include <vram/sim/sim_thread.hpp> // sim_ordered_threads

#include <charconv> // from_chars
#include <cstddef>
#include <cstdint>
#include <cstdio>          // fprintf
#include <exception>       // exception
#include <source_location> // source_location
#include <string>          // string, to_string
#include <system_error>    // errc
#include <utility>
#include <vector> // vector

namespace vram {

/// The parameters of `sim_explore`.
struct sim_exploring {
    /// The kind of exploration: `by_choice` runs all orders of the threads, up to the limits;
    /// `by_seed` runs `seeds` random orders, which may repeat. The other orders make `seeds` runs,
    /// too, without a text for `replay`.
    sim_order     order    = sim_order::by_choice;
    std::uint64_t seeds    = 1000;
    std::uint64_t max_runs = 100000; ///< with `by_choice`: the largest number of runs
    /// If not empty, only one run is made, which repeats an earlier run. The value is the text that
    /// the earlier run printed after "replay with: ", such as "choices 0,1,1" or "seed 7". `node`
    /// must be equal, too.
    std::string replay = {};
    /// If true, the first failing run and the text that repeats it are printed to stderr.
    bool print = true;
    /// The options of the simulated machine (`sim_node`) of each run. `threads` and `on_report` are
    /// ignored. `preemptions` limits the orders that `by_choice` runs. `seed` is the seed of the
    /// first run of `by_seed`.
    sim_options node = {};
};

/// The result of `sim_explore`.
struct sim_explored {
    std::uint64_t runs     = 0;
    std::uint64_t failures = 0;
    /// True if `by_choice` ran every order of the threads within the limit on preemptions.
    bool        complete = false;
    std::string first    = {}; ///< the exception and the reports of the first run that failed
    /// Text for `sim_exploring::replay` that repeats the first failed run. Empty if no run failed,
    /// or if the order is neither `by_choice` nor `by_seed`.
    std::string replay = {};
};

namespace detail {

/// Returns the text that identifies one run of the explored program, for `sim_exploring::replay`.
/// Examples are "seed 7" and "choices 0,1,1". The text is empty for other orders.
inline std::string sim_replay(sim_order order, std::uint64_t seed, sim_choices const& choices) {
    if (order == sim_order::by_seed) { return "seed " + std::to_string(seed); }
    if (order != sim_order::by_choice) { return {}; }
    std::string text = "choices ";
    for (auto const& c : choices.taken()) {
        if (text.back() != ' ') { text += ','; }
        text += std::to_string(c.taken);
    }
    return text;
}

/// Sets `options` so that the next run repeats the one that `text` ("seed 7" or "choices 0,1,1")
/// identifies. Throws `sim_error` (`invalid_value`) if `text` has another form.
inline void sim_repeat(std::string const& text, sim_options& options, std::source_location where) {
    char const* const last  = text.data() + text.size();
    bool              valid = false;
    if (text.starts_with("seed ")) {
        options.threads         = sim_order::by_seed;
        auto const [end, error] = std::from_chars(text.data() + 5, last, options.seed);
        valid                   = error == std::errc{} && end == last;
    } else if (text.starts_with("choices ")) {
        options.threads = sim_order::by_choice;
        options.choices.clear();
        char const* at = text.data() + 8;
        valid          = at == last; // the text of a program that starts no threads
        while (at != last) {
            auto const [end, error] = std::from_chars(at, last, options.choices.emplace_back());
            valid = error == std::errc{} && (end == last || (*end == ',' && end + 1 != last));
            at    = valid && end != last ? end + 1 : last;
        }
    }
    if (valid) { return; }
    throw sim_error{sim_status::invalid_value, where}.in(
        "sim_exploring::replay must have the form \"choices 0,1,1\" or \"seed 7\", and is \"" +
        text + "\"");
}

/// Returns true if a run with the decisions `made` followed the list `script` to its end.
inline bool sim_followed(std::vector<unsigned> const& script, sim_choices const& made) {
    std::vector<sim_choices::choice> const& taken = made.taken();
    for (std::size_t i = 0; i < script.size(); ++i) {
        if (i == taken.size() || taken[i].taken != script[i]) { return false; }
    }
    return true;
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
/// Failure   Throws `sim_error` (`invalid_value`) if `replay` is not empty and has neither form, or
///           after a run that did not have all its choices.
/// Threads   Only one exploration may run at a time. Under ThreadSanitizer the orders are
///           arbitrary.
template <class Program>
[[nodiscard]] sim_explored
sim_explore(sim_exploring how, Program program,
            std::source_location where = std::source_location::current()) {
    sim_explored found;
    how.node.on_report = sim_on_report::collect;
    how.node.threads   = how.order;
    bool const once    = !how.replay.empty();
    if (once) { detail::sim_repeat(how.replay, how.node, where); }
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
            if (!said.empty()) { said += '\n'; }
            said += r.text();
        }
        ++found.runs;
        detail::sim_choices const& choices = node.machine().turns.choices;
        if (!said.empty() && ++found.failures == 1) {
            found.first  = said;
            found.replay = detail::sim_replay(how.node.threads, how.node.seed, choices);
            if (how.print) {
                std::fprintf(stderr, "%s\n%s%s\n", said.c_str(),
                             found.replay.empty() ? "cannot be replayed" : "replay with: ",
                             found.replay.c_str());
            }
        }
        if (once && all && sim_ordered_threads &&
            !detail::sim_followed(how.node.choices, choices)) {
            throw sim_error{sim_status::invalid_value, where}.in(
                "the program does not have the choices of sim_exploring::replay, \"" + how.replay +
                "\"");
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
