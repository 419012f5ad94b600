// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `site_marks` compares the figures of each tag and line at the start and the end of a scope.

#include <vram/concepts/resource.hpp>       // synchronous_resource
#include <vram/probe/core/text_of_site.hpp> // text_of_site

#include <concepts>    // same_as
#include <cstdint>     // uint64_t
#include <string>      // string, to_string
#include <string_view> // string_view
#include <type_traits> // remove_cvref_t
#include <utility>     // declval

namespace vram {
namespace detail {

/// A layer that counts for each tag and line: `tracking`.
template <class R>
concept knows_sites = requires(R const& r) {
    r.by_site().begin()->crossed;
    r.by_site().begin()->live;
};

/// Returns a pointer to the layer that counts for each tag and line, or a null pointer to `void` if
/// there is none above the first layer with two upstreams.
template <class R>
[[nodiscard]] auto layer_with_sites(R const& memory) noexcept {
    if constexpr (knows_sites<R>) {
        return &memory;
    } else if constexpr (requires(R const& r) { r.upstream(); }) {
        return detail::layer_with_sites(memory.upstream());
    } else if constexpr (requires(R const& r) {
                             requires synchronous_resource<std::remove_cvref_t<decltype(r.get())>>;
                         }) {
        return detail::layer_with_sites(memory.get());
    } else {
        return static_cast<void const*>(nullptr);
    }
}

/// A stack with a layer that counts memory for each tag and line of the program.
template <class R>
concept has_sites =
    !std::same_as<decltype(detail::layer_with_sites(std::declval<R const&>())), void const*>;

/// A figure of a site (a tag and a line) that a message can list.
enum class site_figure : unsigned char { live, allocations, crossed };

/// The figures of each site (a tag and a line) at the start of a scope, if the stack counts them.
///
/// Failure   Throws `std::bad_alloc`.
/// Threads   The rules are those of the layer.
/// Cost      None for a stack without such a layer. Otherwise a copy of the figures at the start,
///           and one for each list.
template <class R>
class site_marks {
public:
    explicit site_marks(R const&) noexcept {}

    /// Returns an empty text, because no layer of this stack counts for each tag and line.
    [[nodiscard]] std::string   risen(site_figure) const { return {}; }
    [[nodiscard]] std::uint64_t crossed() const noexcept { return 0; }
};

template <has_sites R>
class site_marks<R> {
public:
    explicit site_marks(R const& memory)
        : layer_{detail::layer_with_sites(memory)}, before_{layer_->by_site()} {}

    /// Returns one line of text for each site of which the figure `which` has risen since the
    /// start, at most five, and "..." if there are more.
    [[nodiscard]] std::string risen(site_figure which) const {
        std::string out;
        unsigned    lines = 0;
        for (auto const& now : layer_->by_site()) {
            auto const rise = raised(now, which);
            if (rise == 0) { continue; }
            if (++lines > 5) { return out + "\n  ..."; }
            out += "\n  " + line(now, rise, which);
        }
        return out;
    }
    /// Returns the number of frees since the start on another stream than that of the allocation.
    [[nodiscard]] std::uint64_t crossed() const {
        std::uint64_t sum = 0;
        for (auto const& now : layer_->by_site()) { sum += raised(now, site_figure::crossed); }
        return sum;
    }

private:
    template <class Owner>
    [[nodiscard]] static std::uint64_t figure(Owner const& owner, site_figure which) noexcept {
        switch (which) {
        case site_figure::live: return owner.live;
        case site_figure::allocations: return owner.allocations;
        case site_figure::crossed: return owner.crossed;
        }
        return 0;
    }
    template <class Owner>
    [[nodiscard]] std::uint64_t raised(Owner const& now, site_figure which) const {
        std::uint64_t then = 0;
        if (Owner const* const old = find(now)) { then = figure(*old, which); }
        std::uint64_t const value = figure(now, which);
        return value > then ? value - then : 0;
    }
    template <class Owner>
    [[nodiscard]] Owner const* find(Owner const& now) const {
        for (Owner const& each : before_) {
            if (each.owner == now.owner && each.at.line() == now.at.line() &&
                std::string_view{each.at.file()} == now.at.file()) {
                return &each;
            }
        }
        return nullptr;
    }
    template <class Owner>
    [[nodiscard]] std::string line(Owner const& now, std::uint64_t rise, site_figure which) const {
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

    using layer = decltype(detail::layer_with_sites(std::declval<R const&>()));

    layer                                      layer_;
    decltype(std::declval<layer>()->by_site()) before_;
};

} // namespace detail
} // namespace vram
