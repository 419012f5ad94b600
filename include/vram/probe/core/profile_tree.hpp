// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `profile_tree` stores the scopes of a `profile`, and the events of their ends.

#include <vram/base/core/smaller_of.hpp>      // larger_of
#include <vram/concepts/core/observation.hpp> // resource_call
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/platform.hpp>
#include <vram/probe/profile_row.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <cstdint>
#include <list>        // list
#include <memory>      // unique_ptr, make_unique
#include <string>      // string
#include <string_view> // string_view
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// A platform with events that measure time.
template <class P>
concept times_events = requires(typename P::device d, typename P::event const& e) {
    { P::timed_event(d) } -> std::same_as<typename P::event>;
    P::elapsed(e, e);
};

/// The scopes of a `profile`, with their figures. The device time of a run (an execution of a
/// scope) is the time between two events. `rows` and `clear` wait for the events of all ended runs.
/// Any thread may call.
template <platform Platform>
class profile_tree {
    using device_type = typename Platform::device;

public:
    /// A scope of a `profile`, with the figures of each thread (`threads`) and the scopes that were
    /// entered within it (`inner`).
    struct scope {
        std::string                         name{};
        std::vector<profile_row>            threads{};
        std::vector<std::unique_ptr<scope>> inner{};

        [[nodiscard]] profile_row& of_thread(unsigned thread) {
            for (profile_row& each : threads) {
                if (each.thread == thread) { return each; }
            }
            threads.push_back({.thread = thread});
            return threads.back();
        }
    };
    struct events {
        typename Platform::event from, to;
        device_type              where;
    };

    /// Returns the scope `name` inside the scope `outer` (null: at the top level). Creates it if
    /// there is none.
    [[nodiscard]] scope& enter(scope* outer, std::string_view name) {
        auto const held  = lock_.hold();
        auto&      where = (outer != nullptr ? *outer : top_).inner;
        for (auto const& each : where) {
            if (each->name == name) { return *each; }
        }
        where.push_back(std::make_unique<scope>());
        where.back()->name = name;
        return *where.back();
    }

    /// Returns two events of the device `where`, for the start and the end of one run of a scope.
    /// Reuses events that an earlier run no longer needs, or makes new ones.
    [[nodiscard]] events take_events(device_type where) {
        {
            auto const held = lock_.hold();
            for (std::size_t i = spare_.size(); i-- != 0;) {
                if (!(spare_[i].where == where)) { continue; }
                events out = std::move(spare_[i]);
                if (i + 1 != spare_.size()) { spare_[i] = std::move(spare_.back()); }
                spare_.pop_back();
                return out;
            }
        }
        return {Platform::timed_event(where), Platform::timed_event(where), where};
    }

    /// Adds `run`, the host time and the memory of one execution of the scope `of`, to the figures
    /// that the scope has for the thread number `thread`.
    void add(scope& of, unsigned thread, profile_row const& run) {
        auto const held = lock_.hold();
        of.of_thread(thread).merge(run);
    }
    /// Stores the events at the start and the end of a run of the scope `into`. The time between
    /// them is read after the device has completed the run.
    void add(scope& into, unsigned thread, events&& of) {
        auto const held = lock_.hold();
        waiting_.push_back({&into, thread, std::move(of)});
        if (waiting_.size() < enough_) { return; }
        read();
        enough_ = larger_of(std::size_t{64}, 2 * waiting_.size());
    }

    /// Waits until the device has completed all stored runs of scopes. Returns a row for each
    /// scope, or, if `by_thread` is true, a row for each thread of each scope. The rows of inner
    /// scopes follow those of their outer scope.
    [[nodiscard]] std::vector<profile_row> rows(bool by_thread) {
        auto const               one = reading_.hold();
        std::vector<profile_row> out;
        wait();
        auto const held = lock_.hold();
        read();
        for (auto const& each : top_.inner) { list(out, *each, 0, by_thread); }
        return out;
    }
    void clear() {
        auto const one = reading_.hold();
        wait();
        auto const held = lock_.hold();
        read();
        reset(top_);
    }

private:
    /// A run of the scope `into` that has ended on the host. The time between its two events, `of`,
    /// is not yet read.
    struct unread {
        scope*   into;
        unsigned thread;
        events   of;
    };

    /// Waits until the device has completed all runs (executions of scopes) in `waiting_`.
    void wait() {
        if constexpr (times_events<Platform>) {
            resource_call<Platform> const own;
            std::list<unread>             runs;
            {
                auto const held = lock_.hold();
                runs.swap(waiting_);
            }
            auto const put_back = [&]() noexcept {
                auto const held = lock_.hold();
                waiting_.splice(waiting_.begin(), runs);
            };
            try {
                for (unread const& each : runs) { Platform::synchronize(each.of.to); }
            } catch (...) {
                put_back();
                throw;
            }
            put_back();
        }
    }
    /// Finds the runs that the device has completed, adds their device times to the figures of
    /// their scopes, and removes the runs from `waiting_`. The caller holds `lock_`.
    void read() {
        if constexpr (times_events<Platform>) {
            resource_call<Platform> const internal;
            spare_.reserve(spare_.size() + waiting_.size());
            for (auto at = waiting_.begin(); at != waiting_.end();) {
                unread& each = *at;
                if (!Platform::done(each.of.to)) {
                    ++at;
                    continue;
                }
                each.into->of_thread(each.thread)
                    .device.add(
                        static_cast<std::uint64_t>(Platform::elapsed(each.of.from, each.of.to)));
                spare_.push_back(std::move(each.of));
                at = waiting_.erase(at);
            }
        }
    }
    static void list(std::vector<profile_row>& out, scope const& of, std::size_t depth,
                     bool by_thread) {
        profile_row all{.name = of.name, .depth = depth};
        for (profile_row each : of.threads) {
            all.merge(each);
            each.name  = of.name;
            each.depth = depth;
            if (by_thread) { out.push_back(std::move(each)); }
        }
        if (!by_thread) { out.push_back(std::move(all)); }
        for (auto const& each : of.inner) { list(out, *each, depth + 1, by_thread); }
    }
    static void reset(scope& of) noexcept {
        of.threads.clear();
        for (auto const& each : of.inner) { reset(*each); }
    }

    platform_lock<Platform> reading_; ///< lets `rows` and `clear` run one at a time
    platform_lock<Platform> lock_;
    scope                   top_; ///< root of the tree: `top_.inner` are the outermost scopes
    std::list<unread>       waiting_;
    std::vector<events>     spare_;
    std::size_t             enough_ = 64;
};

} // namespace detail
} // namespace vram
