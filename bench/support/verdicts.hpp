// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `verdicts` compares values with their bars, and prints one line for each.

#include <fmt/format.h>

#include <cstddef> // size_t
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// Bars belong to the machine on which they were set (the host of an H200, or any for ratios). On
/// another machine a miss is reported but is not a failure, unless `--check` is given.
class verdicts {
public:
    /// Requires that the value is at most the bar. If one of them is missing, there is no verdict.
    void at_most(std::string const& in_case, std::string const& subject, std::string const& what,
                 std::optional<double> value, std::optional<double> bar) {
        if (value && bar) { judge({in_case, subject, what, *value, *bar, *value <= *bar}); }
    }
    /// Requires that the value is at least the bar.
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
