// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `results` stores the values of all turns, and computes medians, rows and the values for the
/// bars.

#include "subject.hpp" // figures
#include "timing.hpp"  // median, spread

#include <nlohmann/json.hpp>

#include <algorithm> // find_if
#include <optional>
#include <string>
#include <utility> // move
#include <vector>

namespace bench {

/// Every value of every turn, by case, subject and metric, in order.
class results {
public:
    explicit results(std::string bench) : bench_{std::move(bench)} {}

    void add(std::string const& in_case, std::string const& subject, figures const& turn) {
        for (figure const& f : turn) {
            series* found = find(in_case, subject, f.metric);
            if (found == nullptr) {
                found = &all_.emplace_back(series{in_case, subject, f.metric, f.unit, {}});
            }
            found->values.push_back(f.value);
        }
    }

    /// Removes the values of a subject that failed.
    void drop(std::string const& in_case, std::string const& subject) {
        std::erase_if(
            all_, [&](series const& s) { return s.in_case == in_case && s.subject == subject; });
    }

    /// Returns the median over the turns, or nothing if the subject was not in the run.
    [[nodiscard]] std::optional<double>
    value(std::string const& in_case, std::string const& subject, std::string const& metric) const {
        series const* const found = find(in_case, subject, metric);
        if (found == nullptr) { return {}; }
        return median(found->values);
    }
    /// Returns the spread of the turns, or nothing if there was one turn.
    [[nodiscard]] std::optional<double> spread_of(std::string const& in_case,
                                                  std::string const& subject,
                                                  std::string const& metric) const {
        series const* const found = find(in_case, subject, metric);
        if (found == nullptr || found->values.size() < 2) { return {}; }
        return spread(found->values);
    }

    /// Returns one row for each value, and for a time with several turns a second row with their
    /// spread.
    [[nodiscard]] nlohmann::json rows() const {
        auto       out = nlohmann::json::array();
        auto const add = [&](series const& s, std::string const& metric, double value,
                             std::string const& unit) {
            out.push_back({{"bench", bench_},
                           {"case", s.in_case},
                           {"subject", s.subject},
                           {"metric", metric},
                           {"value", value},
                           {"unit", unit}});
        };
        for (series const& s : all_) {
            add(s, s.metric, median(s.values), s.unit);
            if (s.unit == "ns" && s.values.size() > 1) {
                add(s, s.metric + "_spread", spread(s.values), "ratio");
            }
        }
        return out;
    }

private:
    struct series {
        std::string         in_case;
        std::string         subject;
        std::string         metric;
        std::string         unit;
        std::vector<double> values;
    };

    [[nodiscard]] series const* find(std::string const& in_case, std::string const& subject,
                                     std::string const& metric) const {
        auto const at = std::find_if(all_.begin(), all_.end(), [&](series const& s) {
            return s.in_case == in_case && s.subject == subject && s.metric == metric;
        });
        return at == all_.end() ? nullptr : &*at;
    }
    series* find(std::string const& in_case, std::string const& subject,
                 std::string const& metric) {
        return const_cast<series*>(std::as_const(*this).find(in_case, subject, metric));
    }

    std::string         bench_;
    std::vector<series> all_;
};

} // namespace bench
