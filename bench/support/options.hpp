// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `options` is the common command line of all programs.

#include <cli.hpp> // failure

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace bench {

struct options {
    std::string              device = "auto";
    std::string              json   = {};
    std::vector<std::string> subjects;
    std::vector<std::string> cases;
    unsigned                 repeat = 0; ///< turns of each subject; 0: the default of the mode
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
    app.add_option("--repeat", o.repeat, "turns of each subject (default: 5)")
        ->check(CLI::Range(1U, 1000U));
    app.add_flag("--quick", o.quick, "one short turn each, to see that everything runs");
    app.add_flag("--list", o.list, "list the subjects and the cases, and end");
    app.add_flag("--check", o.check, "end with 1 when a bar is missed");
    app.add_option("--device", o.device, "auto (the GPU if there is one), sim or cuda")
        ->check(CLI::IsMember({"auto", "sim", "cuda"}))
        ->capture_default_str();
}

/// Returns the requested items: by the whole name if one has it, otherwise by a part of it.
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

} // namespace bench
