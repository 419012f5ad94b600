// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report` is a stack's memory as a table for the terminal, layer by layer.

#include <vram/base/align.hpp>        // unsatisfiable
#include <vram/base/bytes.hpp>        // bytes
#include <vram/base/memory_usage.hpp> // memory_usage
#include <vram/concepts/powers.hpp>   // measured_resource
#include <vram/probe/layer_name.hpp>  // layer_name
#include <vram/probe/table.hpp>       // table

#include <concepts> // same_as
#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <string>   // string, to_string

namespace vram {

namespace detail {

/// A layer with something beneath it.
template <class R>
concept standing_on_one = requires(R const& r) { r.upstream(); };

/// A layer with two things beneath it.
template <class R>
concept standing_on_two = requires(R const& r) { r.first(), r.second(); };

/// A layer that counts what passes.
template <class R>
concept counting = requires(R const& r) {
    r.overall().bytes.value;
    r.overall().refusals;
};

/// A layer that keeps to a budget.
template <class R>
concept budgeted = requires(R const& r) {
    { r.used() } -> std::same_as<std::size_t>;
    { r.limit() } -> std::same_as<std::size_t>;
};

/// A layer whose `usage()` is that of its base: what is beneath it.
template <class R>
concept passing_on = standing_on_one<R> && requires {
    requires !std::same_as<decltype(&R::usage), memory_usage (R::*)() const>;
    requires !std::same_as<decltype(&R::usage), memory_usage (R::*)() const noexcept>;
};

/// What a layer says of itself; nothing where it only passes on what is beneath it.
template <class R>
memory_usage own_usage(R const& layer) {
    memory_usage said{};
    if constexpr (counting<R>) {
        auto const all   = layer.overall();
        said.live        = static_cast<std::size_t>(all.bytes.value);
        said.peak_live   = static_cast<std::size_t>(all.bytes.peak);
        said.allocations = all.blocks.total;
    } else if constexpr (measured_resource<R> && !passing_on<R> && !standing_on_two<R>) {
        said = layer.usage(); // two have only their sum
    }
    return said;
}

inline std::string cell(bytes size) { return size.count == 0 ? "" : size.text().c_str(); }
inline std::string cell(std::uint64_t n) { return n == 0 ? "" : std::to_string(n); }

template <class R>
void add_layer(table& rows, R const& layer, std::size_t depth) {
    memory_usage const u = own_usage(layer);
    std::string        refused, budget;
    if constexpr (counting<R>) { refused = cell(layer.overall().refusals); }
    if constexpr (budgeted<R>) {
        budget = bytes{layer.used()}.text().c_str();
        budget += " of ";
        budget += layer.limit() == unsatisfiable ? "any" : bytes{layer.limit()}.text().c_str();
    }
    rows.row({std::string(2 * depth, ' ').append(layer_name<R>()), cell(bytes{u.live}),
              cell(bytes{u.peak_live}), cell(bytes{u.reserved}), cell(bytes{u.peak_reserved}),
              cell(bytes{u.largest_free}), cell(bytes{u.pending}), cell(u.allocations), refused,
              cell(u.upstream), cell(u.events), cell(u.waits), budget});
    if constexpr (standing_on_one<R>) { add_layer(rows, layer.upstream(), depth + 1); }
    if constexpr (standing_on_two<R>) {
        add_layer(rows, layer.first(), depth + 1);
        add_layer(rows, layer.second(), depth + 1);
    }
}

} // namespace detail

/// What each layer of a stack has out and holds, the outermost first.
///
///     pool<stream_ordered<cuda_resource>> memory;
///     std::fputs(report(memory).c_str(), stdout);
///
/// A figure of 0 is left blank, and so is the row of most layers that only pass on what is beneath
/// them (`locked` and `shared` repeat it); a column in which nobody has anything to say is left
/// out. The figures of one layer belong together; those of two were read one after the other.
///
/// Failure   `std::bad_alloc`
/// Threads   as `usage()` of the layers
/// Cost      one `usage()` for each layer or two, and the strings
template <synchronous_resource Resource>
[[nodiscard]] std::string report(Resource const& memory) {
    table rows{{"layer", "live", "peak", "held", "peak held", "largest free", "waiting",
                "allocations", "refused", "upstream", "events", "waits", "budget"}};
    detail::add_layer(rows, memory, 0);
    return rows.text();
}

} // namespace vram
