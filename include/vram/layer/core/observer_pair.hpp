// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `observer_pair` notifies the observers of two upstreams.

#include <vram/concepts/observer.hpp> // memory_event_kind, skipping_observer

#include <memory>      // addressof
#include <type_traits> // is_same_v, is_convertible_v, remove_reference_t
#include <utility>

namespace vram {
namespace detail {

template <class First, class Second, bool Filters>
class observer_pair;

template <class O>
inline constexpr bool is_observer_pair = false;
template <class First, class Second, bool Filters>
inline constexpr bool is_observer_pair<observer_pair<First, Second, Filters>> = true;

/// Notifies the observers of two upstreams. If both upstreams have the same observer, notifies it
/// only once.
///
/// `First` and `Second`: the types of the two observers. Each is a reference to an observer or
/// another `observer_pair`. If `Filters` is true, an observer is not notified of events for which
/// its function `skips` returns true.
///
/// Cost      Compares the addresses of observers, unless their types show that they are different.
template <class First, class Second, bool Filters>
class observer_pair {
public:
    observer_pair(First&& first, Second&& second) noexcept
        : first_{std::forward<First>(first)}, second_{std::forward<Second>(second)} {}

    template <class Event>
    void observe(Event const& e) noexcept {
        notify(e, *this);
    }
    [[nodiscard]] bool skips(memory_event_kind kind) const noexcept
        requires skipping_observer<std::remove_reference_t<First>> &&
                 skipping_observer<std::remove_reference_t<Second>>
    {
        return first_.skips(kind) && second_.skips(kind);
    }

private:
    template <class, class, bool>
    friend class observer_pair;

    /// Notifies the observer `to`, or both observers of the pair `to`. Skips observers that are in
    /// `earlier`, because they were already notified of this event.
    template <class Event, class To, class... Earlier>
    static void notify(Event const& e, To& to, Earlier const&... earlier) noexcept {
        if constexpr (is_observer_pair<To>) {
            notify(e, to.first_, earlier...);
            notify(e, to.second_, earlier..., to.first_);
        } else if (!(includes(earlier, to) || ...)) {
            if constexpr (Filters && skipping_observer<To>) {
                if (to.skips(e.kind)) { return; }
            }
            to.observe(e);
        }
    }
    /// Returns true if `o` is the same observer as `among`, or as one of the observers in the pair
    /// `among`. Copies that share their state (`shares_with`) count as the same observer.
    template <class Among, class O>
    [[nodiscard]] static bool includes(Among const& among, O const& o) noexcept {
        if constexpr (is_observer_pair<Among>) {
            return includes(among.first_, o) || includes(among.second_, o);
        } else if constexpr (!std::is_same_v<Among, O>) {
            // Compares the addresses if one type derives from the other. Observers of unrelated
            // types cannot be the same object.
            if constexpr (std::is_convertible_v<O const*, Among const*> ||
                          std::is_convertible_v<Among const*, O const*>) {
                return std::addressof(among) == std::addressof(o);
            } else {
                return false;
            }
        } else if constexpr (requires(Among const& a) { a.shares_with(o); }) {
            return among.shares_with(o);
        } else {
            return std::addressof(among) == std::addressof(o);
        }
    }

    First  first_;
    Second second_;
};

} // namespace detail
} // namespace vram
