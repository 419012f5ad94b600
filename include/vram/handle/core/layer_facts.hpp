// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `layer_facts` are the figures of one layer of a stack, for reports.

#include <vram/base/core/type_name.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/powers.hpp> // measured_resource, surveyed_resource
#include <vram/layer/layer_base.hpp>
#include <vram/pool/free_pieces.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <cstdint>
#include <optional>    // optional
#include <string_view> // string_view
#include <type_traits> // remove_cvref_t

namespace vram {
namespace detail {

class owner_lists;

/// Name and counters of one layer of a stack (a resource with all its upstreams), for reports. An
/// optional member is empty if the layer does not have it, or if the visitor did not ask for it.
struct layer_facts {
    /// Live bytes and blocks, their peaks, and totals since the start, from a layer that counts
    /// allocations, such as `statistics`.
    struct sums {
        std::uint64_t live, peak, allocated;
        std::uint64_t blocks, peak_blocks, allocations, refused;
    };
    /// Used bytes and allowed bytes of a layer with a limit, such as `limiting`.
    struct budget {
        std::size_t used, limit;
    };

    std::string_view name;             ///< name of the layer's class
    std::size_t      depth    = 0;     ///< number of layers and handles above this one
    bool             is_layer = false; ///< true for a layer over one upstream
    /// True for a layer over one upstream with `allocate(stream, ...)`, which takes a stream.
    bool is_ordered  = false;
    bool is_surveyed = false; ///< true if the layer can list its free blocks (`free_memory()`)
    /// True if the layer or resource computes `usage()` itself; false if it returns the figures of
    /// its upstreams, or has no `usage()`.
    bool                         measures_itself = false;
    std::optional<memory_usage>  usage{};
    std::optional<free_pieces>   free{};
    std::optional<sums>          counted{};
    std::optional<budget>        limited{};
    std::optional<std::uint64_t> retries{};
    /// Lists of tags, program lines and live blocks, which the layer `tracking` keeps; null for
    /// other layers.
    owner_lists const* owners = nullptr;
};

/// Base class of an object that `visit_layers` calls with the figures of each layer of a stack, the
/// outermost first.
class layer_visitor {
public:
    /// Selects the counters in the `layer_facts` that `visit` gets. `names`: no counters. `own`:
    /// counters that the layer itself keeps. `all`: also counters of its upstreams and of its free
    /// blocks.
    enum class facts : unsigned char { names, own, all };

    explicit layer_visitor(facts wanted) noexcept : wanted_{wanted} {}
    layer_visitor(layer_visitor&&) = delete;

    [[nodiscard]] facts wanted() const noexcept { return wanted_; }
    virtual void        visit(layer_facts const& layer) = 0;

protected:
    ~layer_visitor() = default;

private:
    facts wanted_;
};

/// A layer over one upstream.
template <class R>
concept standing_on_one = requires(R const& r) {
    requires synchronous_resource<std::remove_cvref_t<decltype(r.upstream())>>;
};

/// A layer over two upstreams.
template <class R>
concept standing_on_two = requires(R const& r) {
    requires synchronous_resource<std::remove_cvref_t<decltype(r.first())>>;
    requires synchronous_resource<std::remove_cvref_t<decltype(r.second())>>;
};

/// A handle with a function `get()` that returns the resource with its own type, such as `shared`.
template <class R>
concept handing_on =
    requires(R const& r) { requires synchronous_resource<std::remove_cvref_t<decltype(r.get())>>; };

/// A handle that hides the type of its resource: `resource_ref` or `any_resource`.
template <class R>
concept hiding_the_type = requires(R const& r, layer_visitor& v) { visit_hidden(r, v, 0); };

/// A layer that counts no bytes itself. Its `usage()` is the function of the base class
/// `layer_base`, which returns the counters of the upstream.
template <class R>
concept passing_on = standing_on_one<R> && requires {
    requires std::same_as<decltype(&R::usage),
                          memory_usage (layer_base<typename R::upstream_type>::*)() const>;
};

/// A resource with a `usage()` that returns counters of its own. A layer or handle that only
/// returns the counters of other resources does not satisfy this concept.
template <class R>
concept measuring_itself =
    measured_resource<R> && !passing_on<R> && !handing_on<R> && !standing_on_two<R>;

/// A layer that counts allocations, such as `statistics`.
template <class R>
concept counting = requires(R const& r) {
    r.overall().bytes.value;
    r.overall().refusals;
};

/// A layer with `used()` and `limit()`, both in bytes. `limiting` is one.
template <class R>
concept budgeted = requires(R const& r) {
    { r.used() } -> std::same_as<std::size_t>;
    { r.limit() } -> std::same_as<std::size_t>;
};

/// A layer that repeats refused requests, such as `retrying`.
template <class R>
concept repeating = requires(R const& r) {
    { r.retries() } -> std::same_as<std::uint64_t>;
};

/// A layer with `owners()`, such as `tracking`. `owners()` returns lists of the tags (names for the
/// purpose of memory) and of the program lines that have live memory.
template <class R>
concept naming_owners = requires(R const& r) {
    { r.owners() } -> std::same_as<owner_lists const&>;
};

template <class R>
void add_figures(layer_facts& facts, R const& layer, bool all) {
    if constexpr (measured_resource<R>) {
        if (measuring_itself<R> || all) { facts.usage = layer.usage(); }
    }
    if constexpr (surveyed_resource<R>) {
        if (all) { facts.free = layer.free_memory(); }
    }
    if constexpr (counting<R>) {
        auto const sums = layer.overall();
        facts.counted   = {.live        = static_cast<std::uint64_t>(sums.bytes.value),
                           .peak        = static_cast<std::uint64_t>(sums.bytes.peak),
                           .allocated   = sums.bytes.total,
                           .blocks      = static_cast<std::uint64_t>(sums.blocks.value),
                           .peak_blocks = static_cast<std::uint64_t>(sums.blocks.peak),
                           .allocations = sums.blocks.total,
                           .refused     = sums.refusals};
    }
    if constexpr (budgeted<R>) { facts.limited = {.used = layer.used(), .limit = layer.limit()}; }
    if constexpr (repeating<R>) { facts.retries = layer.retries(); }
}

/// Calls `to.visit` for each resource of a stack, from the outermost inwards. A handle is visited
/// itself, and then the stack that it refers to.
template <class R>
void visit_layers(R const& layer, layer_visitor& to, std::size_t depth = 0) {
    layer_facts facts{.name = type_name<R>(), .depth = depth};
    facts.is_layer        = standing_on_one<R>;
    facts.is_ordered      = standing_on_one<R> && resource<R>;
    facts.is_surveyed     = surveyed_resource<R>;
    facts.measures_itself = measuring_itself<R>;
    if constexpr (naming_owners<R>) { facts.owners = &layer.owners(); }
    if (to.wanted() != layer_visitor::facts::names) {
        detail::add_figures(facts, layer, to.wanted() == layer_visitor::facts::all);
    }
    to.visit(facts);
    if constexpr (standing_on_one<R>) { detail::visit_layers(layer.upstream(), to, depth + 1); }
    if constexpr (handing_on<R>) { detail::visit_layers(layer.get(), to, depth + 1); }
    if constexpr (hiding_the_type<R>) { visit_hidden(layer, to, depth + 1); }
    if constexpr (standing_on_two<R>) {
        detail::visit_layers(layer.first(), to, depth + 1);
        detail::visit_layers(layer.second(), to, depth + 1);
    }
}

} // namespace detail
} // namespace vram
