// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report` returns the figures of each layer of a stack as a table.

#include <vram/base/align.hpp> // unsatisfiable
#include <vram/base/bytes.hpp>
#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/only_if_used.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/resource.hpp>       // synchronous_resource
#include <vram/handle/core/layer_facts.hpp> // layer_facts, layer_visitor, visit_layers
#include <vram/probe/core/owner_lists.hpp>
#include <vram/probe/core/report_sections.hpp>
#include <vram/probe/core/table.hpp>
#include <vram/probe/tracked_block.hpp> // tracked_order
#include <vram/probe/tracked_owner.hpp>

#include <array> // array
#include <cstddef>
#include <cstdint>
#include <string> // string, to_string
#include <utility>

namespace vram {

namespace detail {

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
    /// If true, the table shows the column if any layer knows its figure. If false, the table shows
    /// the column only if the figure of some layer is not 0.
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

/// One row of the table of `report`: the figures of one layer. Unknown figures are blank.
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

/// Copies the figures of `layer.usage` to `row`, a row of the table of `report`. If a figure is 0
/// because the layer does not count it, its cell stays blank.
template <class Row>
void set_usage(Row& row, layer_facts const& layer) {
    memory_usage const& u = *layer.usage;
    row.set(column::live, u.live);
    row.set(column::peak_live, u.peak_live, u.live == 0);
    row.set(column::reserved, u.reserved, u.live == 0);
    row.set(column::peak_reserved, u.peak_reserved, u.reserved == 0 && u.live == 0);
    row.set(column::largest_free, u.largest_free, layer.is_surveyed);
    row.set(column::pending, u.pending, layer.is_ordered);
    row.set(column::allocations, u.allocations, u.peak_live == 0);
    row.set(column::upstream_calls, u.upstream, layer.is_layer);
    row.set(column::events, u.events, layer.is_ordered);
    row.set(column::waits, u.waits, layer.is_ordered);
}

/// Makes a row of the table of `report` for each layer of a stack. If `full` is true, also collects
/// the figures of the whole stack, which `report` prints in sections before the table.
template <class = only_if_used>
class report_rows final : public layer_visitor {
public:
    explicit report_rows(bool full) : layer_visitor{full ? facts::all : facts::own} {}

    void visit(layer_facts const& layer) override {
        add_row(layer);
        if (wanted() == facts::all) { add_sections(layer); }
    }

    [[nodiscard]] heap_array<layer_row> const& rows() const noexcept { return rows_; }
    [[nodiscard]] report_sections<> const&     sections() const noexcept { return sections_; }

private:
    void add_row(layer_facts const& layer) {
        layer_row row{std::string(2 * layer.depth, ' ').append(layer.name)};
        if (layer.counted.has_value()) {
            row.set(column::live, layer.counted->live);
            row.set(column::peak_live, layer.counted->peak);
            row.set(column::allocations, layer.counted->allocations);
            row.set(column::refused, layer.counted->refused);
        } else if (layer.owners != nullptr) { // `usage` is that of the upstream
            std::uint64_t live = 0, allocations = 0;
            for (tracked_owner const& each : layer.owners->by_tag()) {
                live += each.live;
                allocations += each.allocations;
            }
            row.set(column::live, live);
            row.set(column::allocations, allocations);
        } else if (layer.measures_itself && layer.usage.has_value()) {
            set_usage(row, layer);
        }
        if (layer.limited.has_value()) {
            row.set(column::live, layer.limited->used);
            row.set(column::limit, layer.limited->limit);
        }
        rows_.push(std::move(row));
    }
    void add_sections(layer_facts const& layer) {
        report_sections<>& all = sections_;
        if (auto const& sums = layer.counted) {
            all.keep(all.allocated, sums->allocated);
            all.keep(all.freed, sums->allocated - sums->live);
            all.keep(all.blocks, sums->blocks);
            all.keep(all.peak_blocks, sums->peak_blocks);
            all.keep(all.allocations, sums->allocations);
            all.keep(all.frees, sums->allocations - sums->blocks);
            all.keep(all.refused, sums->refused);
        }
        if (layer.owners != nullptr && !all.tracked) {
            all.add_owners(layer.owners->by_tag(),
                           layer.owners->blocks(tracked_order::oldest_first));
        }
        if (layer.retries.has_value()) { all.keep(all.retried, *layer.retries); }
        if (layer.usage.has_value()) { all.keep(all.usage, *layer.usage); }
        if (layer.free.has_value()) { all.keep(all.free, *layer.free); }
    }

    heap_array<layer_row> rows_;
    report_sections<>     sections_;
};

} // namespace detail

/// Selects what `report` prints about a stack (a resource and all its upstreams): a table of its
/// layers alone, or also figures of the whole stack.
enum class report_kind : unsigned char {
    layers, ///< a table of the layers
    full    ///< figures of the whole stack, such as fragmentation, then the table of the layers
};

/// Returns a table of the figures of each layer of a stack (a resource and all its upstreams). The
/// outermost layer is the first row.
///
///     pool<stream_ordered<cuda_resource>> memory;
///     std::fputs(report(memory).c_str(), stdout);
///     std::fputs(report(memory, report_kind::full).c_str(), stdout);
///
/// The columns are live bytes, reserved bytes and their peaks; the largest free block; free bytes
/// that some stream cannot use yet without a wait (*pending*); allocations and refusals; calls of
/// the upstream, recorded events, waits; and the limit of a `limiting` layer. A cell is blank if
/// its layer does not have the figure. The layers below `shared`, `any_resource` and `resource_ref`
/// are shown too.
///
/// With `report_kind::full`, a summary of the whole stack comes before the table. It has rows
/// like those of PyTorch's memory_summary, and the fragmentation. A layer `tracking` adds the live
/// bytes of each tag and of each stream. The sums of all allocated and freed bytes need a layer
/// `statistics` or `tracking`. The number of refusals needs `statistics`.
///
/// Failure   Throws `std::bad_alloc`.
/// Threads   The rules are those of `usage()`. Figures of two layers may belong to different times.
/// Cost      One call of `usage()` for each layer, and the strings.
template <synchronous_resource Resource>
[[nodiscard]] std::string report(Resource const& memory, report_kind kind = report_kind::layers) {
    detail::report_rows all{kind == report_kind::full};
    detail::visit_layers(memory, all);

    detail::table text{1 + detail::columns.size()};
    text.add("layer");
    for (auto const& each : detail::columns) { text.add(each.heading); }
    for (auto const& row : all.rows()) {
        text.add(row.name());
        for (std::size_t c = 0; c < detail::columns.size(); ++c) {
            bool shown = false;
            for (auto const& each : all.rows()) { shown = shown || each.any(c); }
            text.add(shown ? row.text(c) : "");
        }
    }
    if (kind == report_kind::layers) { return text.text(); }
    std::string const sections = all.sections().text();
    return sections.empty() ? text.text() : sections + "\n" + text.text();
}

} // namespace vram
