// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the two programs share: the command line, the turns, and the tables.

#include "../subjects/found.hpp" // found
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

struct options {
    std::string              device = "auto";
    std::string              json   = {};
    std::vector<std::string> subjects;
    std::vector<std::string> cases;
    unsigned                 repeat = 0; ///< turns of each subject; 0: as many as the mode says
    bool                     list   = false;
    bool                     quick  = false;
    bool                     check  = false;

    [[nodiscard]] unsigned turns() const { return repeat != 0 ? repeat : quick ? 1U : 5U; }
};

inline void add_options(CLI::App& app, options& o) {
    app.add_option("--subject", o.subjects, "only these subjects, or those whose name holds this")
        ->type_name("NAME");
    app.add_option("--case", o.cases, "only these cases, or those whose name holds this")
        ->type_name("NAME");
    app.add_option("--json", o.json, "also write the figures to this file, as an array of rows")
        ->type_name("FILE");
    app.add_option("--repeat", o.repeat, "turns of each subject (5 unless told)")
        ->check(CLI::Range(1U, 1000U));
    app.add_flag("--quick", o.quick, "one short turn each, to see that everything runs");
    app.add_flag("--list", o.list, "list the subjects and the cases, and end");
    app.add_flag("--check", o.check, "end with 1 when a bar is missed");
    app.add_option("--device", o.device, "auto (the GPU if there is one), sim or cuda")
        ->check(CLI::IsMember({"auto", "sim", "cuda"}))
        ->capture_default_str();
}

/// Those that were asked for: by the whole name where one has it, else by a part of it.
template <class Named>
std::vector<Named> chosen(std::vector<Named> all, std::vector<std::string> const& wanted,
                          char const* kind) {
    if (wanted.empty()) { return all; }
    std::vector<bool> in(all.size(), false);
    for (std::string const& name : wanted) {
        auto const mark = [&](auto matches) {
            bool some = false;
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (!matches(all[i].name)) { continue; }
                in[i] = some = true;
            }
            return some;
        };
        if (!mark([&](std::string const& n) { return n == name; }) &&
            !mark([&](std::string const& n) { return n.find(name) != n.npos; })) {
            throw cli::failure{cli::bad_usage,
                               fmt::format("no {} '{}'; --list names them", kind, name)};
        }
    }
    std::vector<Named> out;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (in[i]) { out.push_back(std::move(all[i])); }
    }
    return out;
}

/// One case: every subject in turn, again and again, so that a slow moment of the machine meets all
/// of them. A subject that fails is out of this case, with a line that says why.
template <class Case, class Turn>
void take_turns(results& into, std::vector<subject> subjects, Case const& c, unsigned turns,
                Turn turn) {
    std::erase_if(subjects, [&](subject const& s) { return !suits(s, c); });
    auto const leave_out = [&](subject const& s, std::string const& why) {
        fmt::print("left out: {} in {}: {}\n", s.name, c.name, why.substr(0, why.find('\n')));
        into.drop(c.name, s.name);
        return true;
    };
    for (unsigned i = 0; i < turns; ++i) {
        std::erase_if(subjects, [&](subject const& s) {
            try {
                if (i == 0 || !s.can.slow) { into.add(c.name, s.name, turn(s)); }
                return false;
            } catch (vram::out_of_memory const& e) {
                return leave_out(s, vram::explain(e));
            } catch (std::exception const& e) { return leave_out(s, e.what()); }
        });
    }
}

/// A line for each subject that took part, a column for each metric.
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

template <class Named>
void print_list(found const& all, std::vector<Named> const& cases) {
    fmt::print("on {}\n\nsubjects\n", all.machine);
    for (subject const& s : all.subjects) { fmt::print("  {:<44}{}\n", s.name, s.about); }
    for (std::string const& why : all.left_out) { fmt::print("  left out: {}\n", why); }
    fmt::print("\ncases\n");
    for (Named const& c : cases) { fmt::print("  {}\n", c.name); }
}

inline void print_head(found const& all, options const& o) {
    fmt::print("on {}\nmedians of {} turn{}, A B A B; spread: (90th - 10th percentile) / median\n",
               all.machine, o.turns(), o.turns() == 1 ? "" : "s");
    for (std::string const& why : all.left_out) { fmt::print("left out: {}\n", why); }
}

} // namespace bench
