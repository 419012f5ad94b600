// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_report_log` stores the reports of a node, one for each pair of source lines.

#include <vram/sim/sim_options.hpp> // sim_on_report
#include <vram/sim/sim_report.hpp>

#include <cstddef>
#include <cstdio>      // fprintf
#include <cstdlib>     // abort
#include <functional>  // function
#include <map>         // map
#include <optional>    // optional
#include <string>      // string
#include <string_view> // string_view
#include <tuple>       // tuple
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The reports that the program expects by a `sim_expect`, by their kind or key
/// (`sim_report::key`), and their number.
struct sim_expected {
    std::optional<sim_mistake> kind  = {};
    std::string                key   = {};
    std::size_t                count = 0; ///< number of expected reports so far

    [[nodiscard]] bool matches(sim_report const& r) const {
        return kind ? *kind == r.kind : r.key() == key;
    }
};

/// The reports about the program. Reports of one kind and one pair of source lines are stored once
/// and counted. A report may also be printed, thrown later, or followed by an abort
/// (`sim_options::on_report`).
///
/// Failure   Members throw `std::bad_alloc`.
/// Threads   The caller holds the machine's lock.
class sim_report_log {
public:
    explicit sim_report_log(sim_options const& options)
        : mode_{options.on_report}, merge_{options.merge_reports} {}

    /// If a report of this kind and these lines is stored, counts it once more and returns true.
    /// Returns false if the caller must pass the report to `add`.
    bool repeated(sim_mistake kind, sim_event_of const& second, sim_event_of const& first) {
        bool const filters = !expected_.empty() || !keys_.empty() || !predicates_.empty();
        if (filters || mode_ == sim_on_report::throw_it) { return false; }
        return count_again(place_of(kind, second, first));
    }
    /// If the program expects or ignores the report `r`, only counts it. Otherwise, stores `r`. If
    /// a stored report has the same kind and source lines, increases the count of that report
    /// instead (see `merges`).
    void add(sim_report r) {
        for (auto each = expected_.rbegin(); each != expected_.rend(); ++each) {
            if (!(*each)->matches(r)) { continue; }
            ++(*each)->count;
            return;
        }
        if (is_ignored(r)) {
            ++ignored_;
            return;
        }
        pair_of_lines const place = place_of(r.kind, r.second, r.first);
        if (!count_again(place)) {
            if (mode_ == sim_on_report::print || mode_ == sim_on_report::abort_here) {
                std::fprintf(stderr, "%s\n", r.text().c_str());
            }
            if (mode_ == sim_on_report::abort_here) { std::abort(); }
            if (merges(r, place)) { stored_[place] = reports_.size(); }
            printed_.push_back(1);
            reports_.push_back(r);
            tell(r);
        }
        if (mode_ == sim_on_report::throw_it && !thrown_) { thrown_ = std::move(r); }
    }

    /// Returns the first report since the last call, which the caller throws as `sim_race`; empty
    /// if there is none, or without `sim_on_report::throw_it`.
    [[nodiscard]] std::optional<sim_report> take_thrown() { return std::exchange(thrown_, {}); }

    [[nodiscard]] std::vector<sim_report> const& all() const noexcept { return reports_; }
    /// Calls `print_totals`, then returns the reports and removes them from the log.
    [[nodiscard]] std::vector<sim_report> take() {
        print_totals();
        stored_.clear();
        printed_.clear();
        return std::exchange(reports_, {});
    }
    /// If `sim_on_report::print` is set, prints a line for each report that has occurred again
    /// since the last line about it. The line gives the total count of the report.
    void print_totals() {
        if (mode_ != sim_on_report::print) { return; }
        for (std::size_t i = 0; i < reports_.size(); ++i) {
            sim_report const& r = reports_[i];
            if (std::exchange(printed_[i], r.count) == r.count) { continue; }
            std::fprintf(stderr, "vram::sim: %zu times in all: %s\n", r.count, r.key().c_str());
        }
    }

    /// Suppresses later reports `r` with `r.key() == key`, or with `predicate(r) == true`.
    void ignore(std::string key) { keys_.try_emplace(std::move(key), false); }
    void ignore(std::function<bool(sim_report const&)> predicate) {
        predicates_.push_back(std::move(predicate));
    }
    [[nodiscard]] std::size_t ignored() const noexcept { return ignored_; }
    /// Returns the ignored keys that no report has had since `ignore`.
    [[nodiscard]] std::vector<std::string> unused_keys() const {
        std::vector<std::string> unused;
        for (auto const& [key, is_used] : keys_) {
            if (!is_used) { unused.push_back(key); }
        }
        return unused;
    }

    /// Makes `expected` count the reports that match it, until `forget`; they are then not stored.
    /// If several objects match a report, the last one added counts it.
    void add_expected(sim_expected& expected) { expected_.push_back(&expected); }
    void forget(sim_expected& expected) noexcept { std::erase(expected_, &expected); }

private:
    /// A kind of mistake, and the file and line of each of its two operations.
    using pair_of_lines =
        std::tuple<sim_mistake, std::string_view, unsigned, std::string_view, unsigned>;

    static pair_of_lines place_of(sim_mistake kind, sim_event_of const& second,
                                  sim_event_of const& first) {
        auto one = std::tuple{std::string_view{second.where.file_name()}, second.where.line()};
        auto two = std::tuple{std::string_view{first.where.file_name()}, first.where.line()};
        if (kind == sim_mistake::race && two < one) { one.swap(two); }
        return std::tuple_cat(std::tuple{kind}, one, two);
    }
    /// Returns true if later reports with the kind and source lines of `r` (`place`) are not
    /// stored, but only increase the count of `r`.
    [[nodiscard]] bool merges(sim_report const& r, pair_of_lines const& place) const noexcept {
        bool const known = std::get<2>(place) != 0 || std::get<4>(place) != 0;
        return merge_ && known && (r.kind != sim_mistake::leak || *r.block.resource != '\0');
    }
    bool count_again(pair_of_lines const& place) {
        auto const found = stored_.find(place);
        if (found == stored_.end()) { return false; }
        sim_report& r = reports_[found->second];
        ++r.count;
        tell(r);
        return true;
    }
    [[nodiscard]] bool is_ignored(sim_report const& r) {
        if (!keys_.empty()) {
            auto const found = keys_.find(r.key());
            if (found != keys_.end()) { return found->second = true; }
        }
        for (auto const& predicate : predicates_) {
            if (predicate(r)) { return true; }
        }
        return false;
    }
    void tell(sim_report const& r) const {
        if (mode_ != sim_on_report::print) { return; }
        if (sim_report_sink const told = sim_sink.load()) { told(r); }
    }

    sim_on_report           mode_;
    bool                    merge_;
    std::vector<sim_report> reports_;
    /// Index of the stored report with this kind and these lines.
    std::map<pair_of_lines, std::size_t> stored_;
    /// For each report, the number of its occurrences that were printed.
    std::vector<std::size_t>  printed_;
    std::optional<sim_report> thrown_;
    /// The keys of reports to ignore; true if a report had the key.
    std::map<std::string, bool>                         keys_;
    std::vector<std::function<bool(sim_report const&)>> predicates_;
    std::size_t                                         ignored_ = 0;
    std::vector<sim_expected*>                          expected_;
};

} // namespace detail
} // namespace vram
