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

/// The lists that a `tracking` layer offers: its tags and program lines with their figures, and its
/// live blocks. Any thread may call.
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

/// Finds the outermost layer `tracking` of a stack (a resource with its upstreams). `found` returns
/// the lists of the layer (tags, program lines and live blocks), or null if there is no such layer.
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

/// Returns true if the stack `R` (a resource with its upstreams) may have a layer `tracking`. A
/// handle that hides the type of its resource may have one.
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

/// Returns the lists (tags, program lines and live blocks) of the outermost layer `tracking` in the
/// stack `memory`. Returns null if there is no such layer.
template <class R>
[[nodiscard]] owner_lists const* owners_of(R const& memory) {
    owner_finder search;
    if constexpr (may_have_owners<R>()) { detail::visit_layers(memory, search); }
    return search.found();
}

/// Gives access to the tags, program lines and live blocks of the outermost layer `tracking` of a
/// stack. `lists` searches for the layer in each call, because the program may assign another
/// resource to the stack. The stack must outlive this object.
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
