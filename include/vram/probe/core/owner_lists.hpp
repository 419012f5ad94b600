// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `owner_lists` are the lists of a layer `tracking` without the type of its upstream.

#include <vram/handle/core/layer_facts.hpp> // layer_facts, layer_visitor, visit_layers
#include <vram/probe/tracked_block.hpp>     // tracked_block, tracked_order
#include <vram/probe/tracked_owner.hpp>

#include <memory>      // addressof
#include <type_traits> // remove_cvref_t
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The lists of a `tracking` layer: the figures of its tags and lines, and its live blocks. Any
/// thread may call.
class owner_lists {
public:
    owner_lists()              = default;
    owner_lists(owner_lists&&) = delete;

    [[nodiscard]] virtual std::vector<tracked_owner> by_tag() const                    = 0;
    [[nodiscard]] virtual std::vector<tracked_owner> by_site() const                   = 0;
    [[nodiscard]] virtual std::vector<tracked_block> blocks(tracked_order order) const = 0;

protected:
    ~owner_lists() = default;
};

/// Finds the outermost layer `tracking` of a stack; `found` returns its tags, lines and live blocks
/// as `owner_lists`, or null.
class owner_finder final : public layer_visitor {
public:
    owner_finder() noexcept : layer_visitor{facts::names} {}
    void visit(layer_facts const& layer) override {
        if (found_ == nullptr) { found_ = layer.owners; }
    }
    [[nodiscard]] owner_lists const* found() const noexcept { return found_; }

private:
    owner_lists const* found_ = nullptr;
};

/// Returns true if a stack has a layer `tracking`, or a handle that may have one behind it.
template <class R>
consteval bool may_have_owners() {
    if constexpr (naming_owners<R> || hiding_the_type<R>) {
        return true;
    } else if constexpr (standing_on_one<R>) {
        return may_have_owners<std::remove_cvref_t<decltype(std::declval<R&>().upstream())>>();
    } else if constexpr (handing_on<R>) {
        return may_have_owners<std::remove_cvref_t<decltype(std::declval<R&>().get())>>();
    } else if constexpr (standing_on_two<R>) {
        return may_have_owners<std::remove_cvref_t<decltype(std::declval<R&>().first())>>() ||
               may_have_owners<std::remove_cvref_t<decltype(std::declval<R&>().second())>>();
    } else {
        return false;
    }
}

/// Returns the lists of the outermost layer `tracking` of a stack, also behind handles; null if
/// there is none.
template <class R>
[[nodiscard]] owner_lists const* owners_of(R const& memory) {
    owner_finder search;
    if constexpr (may_have_owners<R>()) { detail::visit_layers(memory, search); }
    return search.found();
}

/// Gives access to the tags, lines and live blocks of the outermost layer `tracking` of a stack.
/// Looks for the layer at each call, because a move assignment, or a new value of an
/// `any_resource`, may replace it. The stack must outlive the object.
class owner_source {
public:
    template <class R>
    explicit owner_source(R const& memory) noexcept
        : memory_{std::addressof(memory)},
          find_{[](void const* m) { return detail::owners_of(*static_cast<R const*>(m)); }} {}
    template <class R>
    explicit owner_source(R const&&) = delete;

    /// Returns the lists (tags, lines and live blocks) of the outermost layer `tracking` of the
    /// stack; null if there is none.
    [[nodiscard]] owner_lists const* lists() const { return find_(memory_); }

private:
    void const* memory_;
    owner_lists const* (*find_)(void const*);
};

} // namespace detail
} // namespace vram
