// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `site_marks` compares the figures of each tag and line at the start and the end of a scope.

#include <vram/base/core/only_if_used.hpp>
#include <vram/probe/core/owner_lists.hpp> // owner_lists, owner_source
#include <vram/probe/core/text_of_site.hpp>
#include <vram/probe/tracked_owner.hpp>

#include <cstdint>
#include <string>      // string, to_string
#include <string_view> // string_view
#include <vector>      // vector

namespace vram {
namespace detail {

/// A figure that a message can list for a site (a pair of a tag and a program line): live bytes,
/// allocations, or frees on another stream than that of the allocation.
enum class site_figure : unsigned char { live, allocations, crossed };

/// Stores the figures of each site (a pair of a tag and a program line) at the start of a scope.
/// `risen` and `crossed` return the changes since then. Without a layer `tracking` in the stack,
/// there are no sites. The stack must outlive this object.
template <class = only_if_used>
class site_marks {
public:
    template <class R>
    explicit site_marks(R const& memory) : owners_{memory}, before_{now()} {}
    template <class R>
    explicit site_marks(R const&&) = delete;

    /// Returns a line of text for each site (tag and program line) at which the figure `which` has
    /// risen since the start of the scope. After five lines, the text ends with "...".
    [[nodiscard]] std::string risen(site_figure which) const {
        std::string out;
        unsigned    lines = 0;
        for (tracked_owner const& each : now()) {
            auto const rise = raised(each, which);
            if (rise == 0) { continue; }
            if (++lines > 5) { return out + "\n  ..."; }
            out += "\n  " + line(each, rise, which);
        }
        return out;
    }
    /// Returns how many frees since the start of the scope were on another stream than the
    /// allocation of the freed block.
    [[nodiscard]] std::uint64_t crossed() const {
        std::uint64_t sum = 0;
        for (tracked_owner const& each : now()) { sum += raised(each, site_figure::crossed); }
        return sum;
    }

private:
    [[nodiscard]] static std::uint64_t figure(tracked_owner const& owner,
                                              site_figure          which) noexcept {
        switch (which) {
        case site_figure::live: return owner.live;
        case site_figure::allocations: return owner.allocations;
        case site_figure::crossed: return owner.crossed;
        }
        return 0;
    }
    [[nodiscard]] std::uint64_t raised(tracked_owner const& now, site_figure which) const {
        std::uint64_t then = 0;
        if (tracked_owner const* const old = find(now)) { then = figure(*old, which); }
        std::uint64_t const value = figure(now, which);
        return value > then ? value - then : 0;
    }
    [[nodiscard]] tracked_owner const* find(tracked_owner const& now) const {
        for (tracked_owner const& each : before_) {
            if (each.owner == now.owner && each.at.line() == now.at.line() &&
                std::string_view{each.at.file()} == now.at.file()) {
                return &each;
            }
        }
        return nullptr;
    }
    [[nodiscard]] std::string line(tracked_owner const& now, std::uint64_t rise,
                                   site_figure which) const {
        std::string out;
        switch (which) {
        case site_figure::live: out = detail::text_of_size(rise) + " more live"; break;
        case site_figure::allocations: out = std::to_string(rise) + " allocations"; break;
        case site_figure::crossed:
            out = std::to_string(rise) + " frees" + text_of_site(" at ", now.crossed_at) +
                  " of blocks";
            break;
        }
        return out + text_of_owner(now.owner) + text_of_site(" allocated at ", now.at);
    }

    [[nodiscard]] std::vector<tracked_owner> now() const {
        owner_lists const* const lists = owners_.lists();
        return lists != nullptr ? lists->by_site() : std::vector<tracked_owner>{};
    }

    owner_source               owners_;
    std::vector<tracked_owner> before_;
};

} // namespace detail
} // namespace vram
