// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `verdicts` holds figures against their bars, and prints one line for each.

#include <fmt/format.h>

#include <cstddef> // size_t
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// Bars belong to the machine they were set on (an H200 host, or, for ratios, any); a miss
/// elsewhere is news and no failure, unless asked for with `--check`.
class verdicts {
public:
    /// The figure must not be above the bar. One of the two missing: there is no verdict.
    void at_most(std::string const& in_case, std::string const& subject, std::string const& what,
                 std::optional<double> value, std::optional<double> bar) {
        if (value && bar) { judge({in_case, subject, what, *value, *bar, *value <= *bar}); }
    }
    /// The figure must not be below the bar.
    void at_least(std::string const& in_case, std::string const& subject, std::string const& what,
                  std::optional<double> value, std::optional<double> bar) {
        if (value && bar) { judge({in_case, subject, what, *value, *bar, *value >= *bar}); }
    }

    void print() const {
        if (lines_.empty()) {
            fmt::print("\nno bar is set for what was run here\n");
            return;
        }
        fmt::print("\n{:<28}{:<42}{:>12}{:>12}{:>8}  verdict\n", "case", "subject", "value", "bar",
                   "ratio");
        for (line const& l : lines_) {
            std::string const ratio =
                l.bar == 0 ? std::string{"-"} : fmt::format("{:.2f}", l.value / l.bar);
            fmt::print("{:<28}{:<42}{:>12.4g}{:>12.4g}{:>8}  {}  {}\n", l.in_case, l.subject,
                       l.value, l.bar, ratio, l.met ? "met   " : "MISSED", l.what);
        }
        fmt::print("{} met, {} MISSED\n", lines_.size() - missed_, missed_);
    }

    [[nodiscard]] std::size_t missed() const noexcept { return missed_; }

private:
    struct line {
        std::string in_case;
        std::string subject;
        std::string what;
        double      value;
        double      bar;
        bool        met;
    };

    void judge(line l) {
        missed_ += l.met ? 0 : 1;
        lines_.push_back(std::move(l));
    }

    std::vector<line> lines_;
    std::size_t       missed_ = 0;
};

} // namespace bench
