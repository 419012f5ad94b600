// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `profile` collects the time and the memory of `timed` scopes, and prints them as a table.

#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/concepts/platform.hpp>
#include <vram/concepts/resource.hpp> // synchronous_resource
#include <vram/probe/core/profile_tree.hpp>
#include <vram/probe/core/table.hpp>
#include <vram/probe/core/text_of_site.hpp> // text_of_size
#include <vram/probe/core/text_of_time.hpp>
#include <vram/probe/profile_row.hpp>

#include <cstddef>
#include <string> // string, to_string
#include <vector> // vector

namespace vram {

/// Collects the time and the memory of scopes: parts of the program that objects of `timed` mark. A
/// run is one execution of a scope.
///
///     profile times{memory}; // or profile<cuda_platform> times;
///     { timed const scope{times, stream, "forward", memory}; forward(memory, stream); }
///     std::fputs(times.text().c_str(), stdout);
///
/// If a scope lies within another scope, its row is below the row of the outer scope. The row of a
/// scope has the sums of the figures of all its runs.
///
/// Failure   Functions throw `std::bad_alloc` and errors of the platform.
/// Threads   Any thread may call. The object must outlive all scopes.
/// Streams   `text`, `rows` and `clear` wait until the device has completed all ended runs.
/// Cost      Each run holds two events until the profile has read the time between them.
template <platform Platform>
class profile {
public:
    profile() = default;
    /// Creates a profile for the platform of a resource.
    template <synchronous_resource R>
        requires std::same_as<typename R::platform, Platform>
    explicit profile(R const&) noexcept {}
    profile(profile&&) = delete;
    ~profile()         = default;

    /// Returns a row for each scope, in the order in which the scopes first ran. The rows of inner
    /// scopes follow the row of their outer scope. If `by_thread` is true, returns a row for each
    /// thread of each scope.
    [[nodiscard]] std::vector<profile_row> rows(bool by_thread = false) {
        return tree_.rows(by_thread);
    }

    /// Returns the rows of all scopes as a table. The columns are the number of runs, times on the
    /// device and on the host, change and peak of the live bytes, and number of allocations. If
    /// `by_thread` is true, each thread that ran a scope has a row for it.
    [[nodiscard]] std::string text(bool by_thread = false) {
        detail::table out{by_thread ? std::size_t{11} : std::size_t{10}};
        for (char const* each : {"scope", "thread", "runs", "device", "mean", "min", "max", "host",
                                 "live", "peak", "allocations"}) {
            if (by_thread || std::string_view{each} != "thread") { out.add(each); }
        }
        for (profile_row const& row : rows(by_thread)) {
            bool const timed = row.device.count != 0;
            auto const time  = [](std::uint64_t t) { return detail::text_of_time(t); };
            out.add(std::string(2 * row.depth, ' ') + row.name);
            if (by_thread) { out.add(std::to_string(row.thread)); }
            out.add(std::to_string(row.runs));
            out.add(timed ? time(row.device.total) : "");
            out.add(timed ? time(row.device.mean()) : "");
            out.add(timed ? time(row.device.least) : "");
            out.add(timed ? time(row.device.most) : "");
            out.add(time(row.host.total));
            out.add(row.has_memory ? change(row.live) : "");
            out.add(row.has_memory
                        ? (row.peak_is_exact ? "" : "<= ") + detail::text_of_size(row.peak)
                        : "");
            out.add(row.has_memory ? std::to_string(row.allocations) : "");
        }
        return out.text();
    }

    /// Sets the figures of all scopes to zero. If a run is in progress, it is counted when it ends.
    void clear() { tree_.clear(); }

    /// Returns the stored scopes, for the class `timed`. The functions of the result are internal.
    [[nodiscard]] detail::profile_tree<Platform>& tree() noexcept { return tree_; }

private:
    [[nodiscard]] static std::string change(std::ptrdiff_t bytes) {
        std::size_t const size = bytes < 0 ? std::size_t{0} - static_cast<std::size_t>(bytes)
                                           : static_cast<std::size_t>(bytes);
        return (bytes < 0 ? "-" : "") + detail::text_of_size(size);
    }

    detail::profile_tree<Platform> tree_;
};

template <synchronous_resource R>
profile(R const&) -> profile<typename R::platform>;

} // namespace vram
