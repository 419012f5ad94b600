// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report` returns the figures of each layer of a stack as a table.

#include <vram/base/align.hpp>                 // unsatisfiable
#include <vram/base/bytes.hpp>                 // bytes
#include <vram/base/core/heap_array.hpp>       // heap_array
#include <vram/base/memory_usage.hpp>          // memory_usage
#include <vram/concepts/powers.hpp>            // measured_resource, surveyed_resource
#include <vram/concepts/resource.hpp>          // resource, synchronous_resource
#include <vram/layer/layer_base.hpp>           // layer_base
#include <vram/probe/core/report_sections.hpp> // report_sections
#include <vram/probe/core/table.hpp>           // table
#include <vram/probe/layer_name.hpp>           // layer_name

#include <array>       // array
#include <concepts>    // same_as
#include <cstddef>     // size_t
#include <cstdint>     // uint64_t
#include <optional>    // optional
#include <string>      // string, to_string
#include <string_view> // string_view
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

/// A layer that knows the owners of memory: `tracking`.
template <class R>
concept naming_owners = requires(R const& r) {
    r.by_tag();
    r.blocks();
};

/// A layer that repeats requests: `retrying`.
template <class R>
concept repeating = requires(R const& r) {
    { r.retries() } -> std::same_as<std::uint64_t>;
};

/// A handle of a resource whose type is not known: `resource_ref`, `any_resource`.
template <class R>
concept hiding_the_type = requires(R const& r) {
    { r.resource_name() } -> std::same_as<std::string_view>;
    { r.usage() } -> std::same_as<std::optional<memory_usage>>;
};

/// The columns of a report, after the first one, which has the name of the layer.
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
    /// If false, the column is left out if all its figures are 0 or unknown. If true, only if all
    /// are unknown.
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

/// Adds a row for the resource behind a handle that hides its type: its name and its usage.
template <class R>
void add_hidden(heap_array<layer_row>& rows, R const& handle, std::size_t depth) {
    layer_row row{std::string(2 * depth, ' ').append(handle.resource_name())};
    if (std::optional<memory_usage> const u = handle.usage()) {
        row.set(column::live, u->live);
        row.set(column::peak_live, u->peak_live, u->live == 0);
        row.set(column::reserved, u->reserved, u->live == 0);
        row.set(column::peak_reserved, u->peak_reserved, u->reserved == 0 && u->live == 0);
        row.set(column::largest_free, u->largest_free, false);
        row.set(column::pending, u->pending, false);
        row.set(column::allocations, u->allocations, u->peak_live == 0);
        row.set(column::upstream_calls, u->upstream, false);
        row.set(column::events, u->events, false);
        row.set(column::waits, u->waits, false);
    }
    rows.push(std::move(row));
}

/// Adds the figures of a layer, and of those below it, to the sections of the report.
template <class R>
void add_sections(report_sections& all, R const& layer) {
    if constexpr (counting<R>) {
        auto const sums = layer.overall();
        all.keep(all.allocated, sums.bytes.total);
        all.keep(all.freed, sums.bytes.total - static_cast<std::uint64_t>(sums.bytes.value));
        all.keep(all.blocks, static_cast<std::uint64_t>(sums.blocks.value));
        all.keep(all.peak_blocks, static_cast<std::uint64_t>(sums.blocks.peak));
        all.keep(all.allocations, sums.blocks.total);
        all.keep(all.frees, sums.blocks.total - static_cast<std::uint64_t>(sums.blocks.value));
        all.keep(all.refused, sums.refusals);
    }
    if constexpr (naming_owners<R>) { all.add_owners(layer.by_tag(), layer.blocks()); }
    if constexpr (repeating<R>) { all.keep(all.retried, layer.retries()); }
    if constexpr (measured_resource<R>) { all.keep(all.usage, layer.usage()); }
    if constexpr (surveyed_resource<R> && !hiding_the_type<R>) {
        all.keep(all.free, layer.free_memory());
    }
    if constexpr (hiding_the_type<R>) {
        if (auto const u = layer.usage()) { all.keep(all.usage, *u); }
        if (auto const f = layer.free_memory()) { all.keep(all.free, *f); }
    }
    if constexpr (standing_on_one<R>) { add_sections(all, layer.upstream()); }
    if constexpr (handing_on<R>) { add_sections(all, layer.get()); }
    if constexpr (standing_on_two<R>) {
        add_sections(all, layer.first());
        add_sections(all, layer.second());
    }
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
    } else if constexpr (naming_owners<R>) { // `usage()` is that of the upstream
        std::uint64_t live = 0, allocations = 0;
        for (auto const& each : layer.by_tag()) {
            live += each.live;
            allocations += each.allocations;
        }
        row.set(column::live, live);
        row.set(column::allocations, allocations);
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
    if constexpr (hiding_the_type<R>) { add_hidden(rows, layer, depth + 1); }
    if constexpr (standing_on_two<R>) {
        add_layer(rows, layer.first(), depth + 1);
        add_layer(rows, layer.second(), depth + 1);
    }
}

} // namespace detail

/// The contents of a report.
enum class report_kind : unsigned char {
    layers, ///< a table of the layers
    full    ///< sections for the whole stack, then the table of the layers
};

/// The figures of each layer of a stack as a table, the outermost layer first.
///
///     pool<stream_ordered<cuda_resource>> memory;
///     std::fputs(report(memory).c_str(), stdout);
///     std::fputs(report(memory, report_kind::full).c_str(), stdout);
///
/// The columns are live bytes, reserved bytes and their peaks; the largest free block; free bytes
/// that some stream cannot use yet without a wait (*pending*); allocations that succeeded and that
/// were refused; calls of the upstream, recorded events, waits; and the limit of a `limiting`
/// layer. A cell is blank if its layer does not have the figure: most layers that only forward to
/// their upstream have none. A column is left out if no layer has the figure; the columns from
/// *largest free* to *waits*, except *allocations*, also if every figure is 0. `locked`
/// repeats the figures of its upstream. Below a handle whose resource has a known type (`shared`)
/// all layers are shown; below `resource_ref` and `any_resource`, such as that of `current`, the
/// name and the usage of the resource.
///
/// `report_kind::full` begins with the sections of PyTorch's memory_summary (allocated, active,
/// requested, reserved and non-releasable bytes, blocks, refusals, retries), then the figures of
/// fragmentation, then, if there is a layer `tracking`, the tags and the streams of live blocks. A
/// figure is that of the outermost layer that has it. Sums over time and refusals need a layer
/// `statistics`; `tracking` has the sums too.
///
/// Failure   Throws `std::bad_alloc`.
/// Threads   The rules are those of `usage()` of the layers. The layers are read one after another,
///           so figures of two layers may belong to different times.
/// Cost      One call of `usage()` for each layer, and the strings.
template <synchronous_resource Resource>
[[nodiscard]] std::string report(Resource const& memory, report_kind kind = report_kind::layers) {
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
    if (kind == report_kind::layers) { return text.text(); }
    detail::report_sections all;
    detail::add_sections(all, memory);
    std::string const sections = all.text();
    return sections.empty() ? text.text() : sections + "\n" + text.text();
}

} // namespace vram
