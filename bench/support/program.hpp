// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Common parts of the programs: the command line, the turns, and the tables.

#include "../subjects/found.hpp" // found
#include "options.hpp"           // options, chosen
#include "quiet_core.hpp"        // quiet_core
#include "results.hpp"           // results
#include "verdicts.hpp"          // verdicts

#include <cli.hpp>         // failure
#include <output_file.hpp> // output_file

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <string>
#include <vector>

namespace bench {

/// Runs one case: all subjects in turn, repeatedly, so that a slow phase of the machine affects all
/// of them, and forwards and backwards, because each subject affects the next. A subject that fails
/// leaves this case, with a line that gives the reason. If threads are not compared, each turn
/// begins on a core that is quiet.
template <class Case, class Turn>
void take_turns(results& into, std::vector<subject> subjects, Case const& c, unsigned turns,
                Turn turn) {
    std::erase_if(subjects, [&](subject const& s) { return !suits(s, c); });
    auto const leave_out = [&](subject const& s, std::string const& why) {
        fmt::print("left out: {} in {}: {}\n", s.name, c.name, why.substr(0, why.find('\n')));
        into.drop(c.name, s.name);
        return true;
    };
    quiet_core& core = quiet_core::here();
    for (unsigned i = 0; i < turns; ++i) {
        std::erase_if(subjects, [&](subject const& s) {
            on_one_core(c) ? (void)core.go() : core.leave();
            try {
                if (i == 0 || !s.can.slow) { into.add(c.name, s.name, turn(s)); }
                return false;
            } catch (vram::out_of_memory const& e) {
                return leave_out(s, vram::explain(e));
            } catch (std::exception const& e) { return leave_out(s, e.what()); }
        });
        std::reverse(subjects.begin(), subjects.end());
    }
    core.leave();
}

/// Prints a line for each subject that took part, and a column for each metric.
inline void print_table(results const& r, std::string const& in_case, std::string const& about,
                        std::vector<subject> const&     subjects,
                        std::vector<std::string> const& metrics) {
    fmt::print("\n{:<44}", in_case);
    for (std::string const& m : metrics) { fmt::print("{:>20}", m); }
    fmt::print("{:>9}   {}\n", "spread", about);
    for (subject const& s : subjects) {
        if (!r.value(in_case, s.name, "ns_per_op")) { continue; }
        fmt::print("  {:<42}", s.name);
        for (std::string const& m : metrics) {
            auto const value = r.value(in_case, s.name, m);
            fmt::print("{:>20}", value ? fmt::format("{:.4g}", *value) : std::string{"-"});
        }
        auto const apart = r.spread_of(in_case, s.name, "ns_per_op");
        fmt::print("{:>9}\n", apart ? fmt::format("{:.1f}%", *apart * 100) : std::string{"-"});
    }
    std::fflush(stdout);
}

/// Replaces the stored rows by the present ones, so that an interrupted long run has results. A
/// pipe gets all rows at the end.
inline void keep_rows(cli::output_file& json, results const& r, bool all = false) {
    if (all || json.can_be_replaced()) { json.write(r.rows().dump(1) + "\n"); }
}

template <class Named>
void print_list(found const& all, std::vector<Named> const& cases) {
    fmt::print("on {}\n\nsubjects\n", all.machine);
    for (subject const& s : all.subjects) { fmt::print("  {:<44}{}\n", s.name, s.about); }
    for (std::string const& why : all.left_out) { fmt::print("  left out: {}\n", why); }
    fmt::print("\ncases\n");
    for (Named const& c : cases) { fmt::print("  {}\n", c.name); }
}

inline void print_head(found const& all, options const& o) {
    fmt::print("on {}\nmedians of {} turn{}, A B B A; spread: (90th - 10th percentile) / median\n",
               all.machine, o.turns(), o.turns() == 1 ? "" : "s");
    for (std::string const& why : all.left_out) { fmt::print("left out: {}\n", why); }
}

} // namespace bench
