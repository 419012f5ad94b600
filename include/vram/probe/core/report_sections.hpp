// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report_sections` collects the figures of a stack, and prints them in sections.

#include <vram/base/bytes.hpp>
#include <vram/base/core/only_if_used.hpp>
#include <vram/base/error_kind.hpp> // stream_name
#include <vram/base/memory_usage.hpp>
#include <vram/pool/fragmentation.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/probe/core/owner_table.hpp>
#include <vram/probe/core/table.hpp>
#include <vram/probe/tracked_block.hpp>
#include <vram/probe/tracked_owner.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>   // snprintf
#include <optional> // optional
#include <string>   // string, to_string
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// One row of the memory summary: the present value of a figure, such as the live bytes, its peak,
/// and the sums of its increases (`in`) and decreases (`out`). Unknown cells are blank.
struct summary_row {
    char const*                  name;
    bool                         is_size;
    std::optional<std::uint64_t> now{}, peak{}, in{}, out{};
};

/// The figures of a whole stack (a resource with its upstreams). If several layers count a figure,
/// this struct has the value of the outermost of them.
template <class = only_if_used>
struct report_sections {
    std::optional<memory_usage> usage{};
    std::optional<free_pieces>  free{};
    /// Sums of the bytes of all allocations since the layer was created, and of all frees. Empty if
    /// no layer counts them.
    std::optional<std::uint64_t> allocated{}, freed{};
    std::optional<std::uint64_t> blocks{}, peak_blocks{}, allocations{}, frees{};
    std::optional<std::uint64_t> refused{}, retried{};
    std::vector<tracked_owner>   tags{};
    std::vector<tracked_block>   live{};
    bool                         tracked = false;

    /// Sets the figure `to`, unless a layer further out in the stack has already set it.
    template <class Value>
    static void keep(std::optional<Value>& to, Value value) {
        if (!to.has_value()) { to = value; }
    }

    /// Stores the tags and the live blocks of the outermost layer `tracking`. Computes from them
    /// the sums, such as `allocated`, that are still empty. Ignores further layers `tracking`.
    void add_owners(std::vector<tracked_owner> by_tag, std::vector<tracked_block> blocks_of) {
        if (tracked) { return; }
        tracked           = true;
        tags              = std::move(by_tag);
        live              = std::move(blocks_of);
        std::uint64_t sum = 0, count = 0, bytes_now = 0, blocks_now = 0;
        for (tracked_owner const& each : tags) {
            sum += each.allocated;
            count += each.allocations;
            bytes_now += each.live;
            blocks_now += each.blocks;
        }
        keep(allocated, sum);
        keep(freed, sum - bytes_now);
        keep(blocks, blocks_now); // not `live.size()`, which may belong to a later time
        keep(allocations, count);
        keep(frees, count - blocks_now);
    }

    [[nodiscard]] std::string text() const {
        std::string out = summary() + counts() + fragments();
        if (tracked) { out += "\n" + owner_table(tags, owner_kind::tag, 20) + "\n" + streams(); }
        return out;
    }

private:
    /// Returns false if a resource has memory but no count of allocations, so that it does not
    /// count them.
    static bool counts_blocks(memory_usage const& u) {
        return u.allocations != 0 || u.live + u.peak_live == 0;
    }
    static void add(table<>& t, summary_row const& row) {
        auto const cell = [&](std::optional<std::uint64_t> const& value) -> std::string {
            if (!value.has_value()) { return ""; }
            auto const n = static_cast<std::size_t>(*value);
            return row.is_size ? bytes{n}.text().c_str() : std::to_string(n);
        };
        t.add(row.name);
        for (auto const* each : {&row.now, &row.peak, &row.in, &row.out}) { t.add(cell(*each)); }
    }

    [[nodiscard]] std::string summary() const {
        table t{5};
        for (char const* each : {"memory", "now", "peak", "allocated in all", "freed in all"}) {
            t.add(each);
        }
        if (usage.has_value()) {
            memory_usage const& u = *usage;
            add(t, {"allocated", true, u.live, u.peak_live, allocated, freed});
            add(t, {"active (allocated or pending)", true, u.live + u.pending});
            if (u.requested != 0 || u.live == 0) { add(t, {"requested", true, u.requested}); }
            if (u.reserved != 0 || u.live == 0) {
                add(t, {"reserved", true, u.reserved, u.peak_reserved});
            }
        }
        if (free.has_value()) {
            std::size_t const stuck =
                free->bytes > free->releasable ? free->bytes - free->releasable : 0;
            add(t, {"non-releasable", true, stuck});
            add(t, {"largest free block", true, free->largest});
        }
        std::optional<std::uint64_t> count = allocations;
        if (!count.has_value() && usage.has_value() && counts_blocks(*usage)) {
            count = usage->allocations;
        }
        if (count.has_value()) {
            add(t, {"number of blocks", false, blocks, peak_blocks, count, frees});
        }
        if (free.has_value()) { add(t, {"number of free blocks", false, free->count}); }
        return usage.has_value() || count.has_value() ? t.text() : "";
    }

    [[nodiscard]] std::string counts() const {
        std::string out;
        auto const  say = [&](char const* name, std::optional<std::uint64_t> const& n) {
            if (!n.has_value()) { return; }
            out += (out.empty() ? "\n" : ", ") + std::to_string(*n) + name;
        };
        say(" out of memory", refused);
        say(" retried", retried);
        if (usage.has_value()) {
            memory_usage const& u       = *usage;
            bool const          unknown = u.upstream == 0 && u.reserved + u.peak_reserved != 0;
            if (!unknown) { say(" calls of the upstream", u.upstream); }
            if (!unknown || u.events + u.waits != 0) {
                say(" events", u.events);
                say(" waits", u.waits);
            }
        }
        return out.empty() ? out : out + "\n";
    }

    [[nodiscard]] std::string fragments() const {
        if (!usage.has_value() || !free.has_value()) { return ""; }
        fragmentation const f{*usage, *free};
        table               t{2};
        auto const          row = [&](char const* name, std::string figure) {
            t.add(name);
            t.add(std::move(figure));
        };
        row("fragmentation", "");
        row("unused: peak reserved bytes that were never live", percent(f.unused));
        row("scattered: free bytes outside the largest free block", percent(f.scattered));
        row("holes: squares of the free blocks over that of reserved", percent(f.holes));
        row("stranded: free bytes in chunks with a live block", bytes{f.stranded}.text().c_str());
        row("rounding: live bytes beyond the requested ones", bytes{f.rounding}.text().c_str());
        return "\n" + t.text();
    }
    [[nodiscard]] static std::string percent(double share) {
        char text[32];
        std::snprintf(text, sizeof text, "%.1f %%", share * 100);
        return text;
    }

    /// Returns a table of the streams, with the number and the bytes of their live blocks.
    [[nodiscard]] std::string streams() const {
        struct sums {
            stream_name name;
            std::size_t bytes = 0, count = 0;
        };
        std::vector<sums> all;
        for (tracked_block const& each : live) {
            sums* found = nullptr;
            for (sums& s : all) {
                bool const same = s.name.id == each.stream.id &&
                                  s.name.handle == each.stream.handle &&
                                  s.name.is_default == each.stream.is_default;
                if (same) { found = &s; }
            }
            if (found == nullptr) { found = &all.emplace_back(sums{each.stream}); }
            found->bytes += each.bytes;
            ++found->count;
        }
        table t{3};
        for (char const* each : {"stream", "live", "blocks"}) { t.add(each); }
        for (sums const& each : all) {
            t.add(shown(each.name));
            t.add(bytes{each.bytes}.text().c_str());
            t.add(std::to_string(each.count));
        }
        return all.empty() ? "" : t.text();
    }
    [[nodiscard]] static std::string shown(stream_name const& s) {
        if (s.handle != nullptr) {
            char text[32];
            std::snprintf(text, sizeof text, "%p", s.handle);
            return text;
        }
        if (s.id != 0) { return std::to_string(s.id); }
        return s.is_default ? "default stream" : "no stream";
    }
};

} // namespace detail
} // namespace vram
