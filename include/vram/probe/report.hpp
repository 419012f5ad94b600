// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report` returns the figures of each layer of a stack as a table.

#include <vram/base/align.hpp>           // unsatisfiable
#include <vram/base/bytes.hpp>           // bytes
#include <vram/base/core/heap_array.hpp> // heap_array
#include <vram/base/memory_usage.hpp>    // memory_usage
#include <vram/concepts/powers.hpp>      // measured_resource, surveyed_resource
#include <vram/concepts/resource.hpp>    // resource, synchronous_resource
#include <vram/layer/layer_base.hpp>     // layer_base
#include <vram/probe/core/table.hpp>     // table
#include <vram/probe/layer_name.hpp>     // layer_name

#include <array>       // array
#include <concepts>    // same_as
#include <cstddef>     // size_t
#include <cstdint>     // uint64_t
#include <string>      // string, to_string
#include <type_traits> // remove_cvref_t
#include <utility>     // move

namespace vram {

namespace detail {

/// A layer over one upstream.
template <class R>
concept standing_on_one = requires(R const& r) { r.upstream(); };

/// A layer over two upstreams.
template <class R>
concept standing_on_two = requires(R const& r) { r.first(), r.second(); };

/// A layer that counts allocations: `statistics`.
template <class R>
concept counting = requires(R const& r) {
    r.overall().bytes.value;
    r.overall().refusals;
};

/// A layer with a limit of its own: `limiting`.
template <class R>
concept budgeted = requires(R const& r) {
    { r.used() } -> std::same_as<std::size_t>;
    { r.limit() } -> std::same_as<std::size_t>;
};

/// A layer that inherits `usage()` from `layer_base` and so returns the figures of its upstream.
/// The report does not repeat these.
template <class R>
concept passing_on = standing_on_one<R> && requires {
    requires std::same_as<decltype(&R::usage),
                          memory_usage (layer_base<typename R::upstream_type>::*)() const>;
};

/// A handle of a resource with a known type: `shared`.
template <class R>
concept handing_on =
    requires(R const& r) { requires synchronous_resource<std::remove_cvref_t<decltype(r.get())>>; };

/// A layer or resource with figures of its own: `usage()` is not just that of its upstreams.
template <class R>
concept measuring_itself =
    measured_resource<R> && !passing_on<R> && !handing_on<R> && !standing_on_two<R>;

/// The columns of a report after the name of the layer.
enum class column : unsigned char {
    live,
    peak_live,
    reserved,
    peak_reserved,
    largest_free,
    pending,
    allocations,
    refused,
    upstream_calls,
    events,
    waits,
    limit
};
struct column_style {
    char const* heading;
    bool        is_size; ///< true if the figure is a number of bytes
    /// True if the column is shown once a layer has the figure; false if only once one is not 0.
    bool always;
};
inline constexpr std::array<column_style, 12> columns{{{"live", true, true},
                                                       {"peak live", true, true},
                                                       {"reserved", true, true},
                                                       {"peak reserved", true, true},
                                                       {"largest free", true, false},
                                                       {"pending", true, false},
                                                       {"allocations", false, true},
                                                       {"refused", false, false},
                                                       {"upstream calls", false, false},
                                                       {"events", false, false},
                                                       {"waits", false, false},
                                                       {"limit", true, true}}};

/// The figures of one layer. Figures that the layer does not have are blank in the report.
class layer_row {
public:
    explicit layer_row(std::string name) : name_{std::move(name)} {}

    void set(column which, std::uint64_t value, bool is_known = true) {
        figures_[index(which)] = {value, is_known || value != 0};
    }
    [[nodiscard]] bool any(std::size_t c) const {
        return figures_[c].known && (columns[c].always || figures_[c].value != 0);
    }
    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    [[nodiscard]] std::string        text(std::size_t c) const {
        figure const f = figures_[c];
        if (!f.known) { return ""; }
        if (!columns[c].is_size) { return std::to_string(f.value); }
        if (c == index(column::limit) && f.value == unsatisfiable) { return "none"; }
        return bytes{f.value}.text().c_str();
    }

private:
    struct figure {
        std::uint64_t value = 0;
        bool          known = false;
    };
    [[nodiscard]] static constexpr std::size_t index(column which) noexcept {
        return static_cast<std::size_t>(which);
    }

    std::string                        name_;
    std::array<figure, columns.size()> figures_{};
};

/// Sets the figures of `row` to `layer.usage()`. `memory_usage` has 0 for a figure that the layer
/// does not count: such a 0 is blank in the report.
template <class R>
void set_usage(layer_row& row, R const& layer) {
    memory_usage const u        = layer.usage();
    constexpr bool     is_layer = standing_on_one<R>;
    constexpr bool     ordered  = is_layer && resource<R>;
    row.set(column::live, u.live);
    row.set(column::peak_live, u.peak_live, u.live == 0);
    row.set(column::reserved, u.reserved, u.live == 0);
    row.set(column::peak_reserved, u.peak_reserved, u.reserved == 0 && u.live == 0);
    row.set(column::largest_free, u.largest_free, surveyed_resource<R>);
    row.set(column::pending, u.pending, ordered);
    row.set(column::allocations, u.allocations, u.peak_live == 0);
    row.set(column::upstream_calls, u.upstream, is_layer);
    row.set(column::events, u.events, ordered);
    row.set(column::waits, u.waits, ordered);
}

template <class R>
void add_layer(heap_array<layer_row>& rows, R const& layer, std::size_t depth) {
    layer_row row{std::string(2 * depth, ' ').append(layer_name<R>())};
    if constexpr (counting<R>) {
        auto const all = layer.overall();
        row.set(column::live, static_cast<std::uint64_t>(all.bytes.value));
        row.set(column::peak_live, static_cast<std::uint64_t>(all.bytes.peak));
        row.set(column::allocations, all.blocks.total);
        row.set(column::refused, all.refusals);
    } else if constexpr (measuring_itself<R>) {
        set_usage(row, layer);
    }
    if constexpr (budgeted<R>) {
        row.set(column::live, layer.used());
        row.set(column::limit, layer.limit());
    }
    rows.push(std::move(row));
    if constexpr (standing_on_one<R>) { add_layer(rows, layer.upstream(), depth + 1); }
    if constexpr (handing_on<R>) { add_layer(rows, layer.get(), depth + 1); }
    if constexpr (standing_on_two<R>) {
        add_layer(rows, layer.first(), depth + 1);
        add_layer(rows, layer.second(), depth + 1);
    }
}

} // namespace detail

/// The figures of each layer of a stack as a table, the outermost layer first.
///
///     pool<stream_ordered<cuda_resource>> memory;
///     std::fputs(report(memory).c_str(), stdout);
///
/// The columns are live bytes, reserved bytes and their peaks; the largest free block; free bytes
/// that some stream cannot use yet without a wait (*pending*); allocations that succeeded and that
/// were refused; calls of the upstream, recorded events, waits; and the limit of a `limiting`
/// layer. A cell is blank if its layer does not have the figure: most layers that only forward to
/// their upstream have none. A column is left out if no layer has the figure; the columns from
/// *largest free* to *waits*, except *allocations*, also if every figure is 0. `locked`
/// repeats the figures of its upstream.
///
/// Failure   Throws `std::bad_alloc`.
/// Threads   The rules are those of `usage()` of the layers. The layers are read one after another,
///           so figures of two layers may belong to different times.
/// Cost      One call of `usage()` for each layer, and the strings.
template <synchronous_resource Resource>
[[nodiscard]] std::string report(Resource const& memory) {
    detail::heap_array<detail::layer_row> rows;
    detail::add_layer(rows, memory, 0);

    detail::table text{1 + detail::columns.size()};
    text.add("layer");
    for (auto const& each : detail::columns) { text.add(each.heading); }
    for (auto const& row : rows) {
        text.add(row.name());
        for (std::size_t c = 0; c < detail::columns.size(); ++c) {
            bool shown = false;
            for (auto const& each : rows) { shown = shown || each.any(c); }
            text.add(shown ? row.text(c) : "");
        }
    }
    return text.text();
}

} // namespace vram
