// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_counter_group` is a group of counters of a tool that reads NVTX.

#include <vram/interop/core/nvtx_domain.hpp> // nvtx_domain, nvtx_registration

#if !__has_include(<nvtx3/nvToolsExtCounters.h>)
#error "vram: the NVTX counters need <nvtx3/nvToolsExtCounters.h>, from CUDA 13.0 or later"
#endif
#include <nvtx3/nvToolsExtCounters.h>          // nvtxCounterRegister, nvtxCounterSample
#include <nvtx3/nvToolsExtSemanticsCounters.h> // nvtxSemanticsCounter_t

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <iterator> // size
#include <memory>   // make_unique
#include <mutex>    // lock_guard
#include <string>   // string
#include <utility>

namespace vram {
namespace detail {

/// A group of counters of an NVTX tool: live, reserved and peak bytes, which are sampled together.
/// NVTX cannot remove a group. A released group is therefore used again for the same name and
/// description. Any thread may call any function, but only one thread at a time may sample a group.
class nvtx_counter_group {
public:
    struct values {
        std::int64_t live     = 0;
        std::int64_t reserved = 0;
        std::int64_t peak     = 0;

        friend bool operator==(values const&, values const&) = default;
    };

    /// Returns a counter group with this name and description, an unused one if possible. Without a
    /// tool, the group has no effect.
    [[nodiscard]] static nvtx_counter_group add(std::string name, std::string description) {
        nvtx_counter_group    made;
        std::lock_guard const held{nvtx_registration};
        for (entry* each = all_; each != nullptr; each = each->next) {
            if (each->name == name && each->description == description &&
                !each->used.exchange(true, std::memory_order_acquire)) {
                made.entry_ = each;
                return made;
            }
        }
        static std::uint64_t const layout = add_layout(nvtx_domain());
        if (layout == 0) { return made; }
        auto fresh         = std::make_unique<entry>();
        fresh->name        = std::move(name);
        fresh->description = std::move(description);
        nvtxCounterAttr_t group{};
        group.structSize  = sizeof group;
        group.schemaId    = layout;
        group.name        = fresh->name.c_str();
        group.description = fresh->description.c_str();
        group.scopeId     = NVTX_SCOPE_CURRENT_SW_PROCESS;
        group.counterId   = NVTX_COUNTER_ID_NONE; // the tool chooses the number
        fresh->id         = nvtxCounterRegister(nvtx_domain(), &group);
        if (fresh->id == NVTX_COUNTER_ID_NONE) { return made; }
        fresh->next = all_;
        made.entry_ = all_ = fresh.release();
        return made;
    }
    /// Ends the use of the group. The group stays registered, because NVTX cannot remove it, and
    /// `add` may return it again.
    void release() const noexcept {
        if (known()) { entry_->used.store(false, std::memory_order_release); }
    }

    [[nodiscard]] bool known() const noexcept { return entry_ != nullptr; }
    /// Returns the values that were last passed to the NVTX tool, or 0 if there are none. If
    /// another thread calls `sample` meanwhile, some of the values may be older than the others.
    [[nodiscard]] values last() const noexcept {
        if (!known()) { return {}; }
        auto const value = [&](int i) { return entry_->last[i].load(std::memory_order_relaxed); };
        return {.live = value(0), .reserved = value(1), .peak = value(2)};
    }
    /// Passes the values `now` to the NVTX tool. Must not be called if `known()` is false (no tool
    /// has accepted the group).
    [[gnu::always_inline]] void sample(values const& now) const noexcept {
        auto& last = entry_->last;
        last[0].store(now.live, std::memory_order_relaxed);
        last[1].store(now.reserved, std::memory_order_relaxed);
        last[2].store(now.peak, std::memory_order_relaxed);
        nvtxCounterSample(entry_->domain, entry_->id, last, sizeof last);
    }

private:
    /// A registered group. It is never destroyed: after `release`, `add` may return it again.
    struct entry {
        std::string        name;
        std::string        description;
        nvtxDomainHandle_t domain = nvtx_domain();
        std::uint64_t      id     = NVTX_COUNTER_ID_NONE;
        std::atomic<bool>  used{true};
        entry*             next = nullptr;
        /// The last sample: live, reserved and peak bytes, in the layout of `values`. Other threads
        /// read it during a sample.
        std::atomic<std::int64_t> last[3]{};
        static_assert(sizeof last == sizeof(values));
    };

    [[nodiscard]] static std::uint64_t add_layout(nvtxDomainHandle_t domain) noexcept {
        nvtxSemanticsCounter_t bytes{};
        bytes.header = {sizeof bytes, NVTX_SEMANTIC_ID_COUNTERS_V1, NVTX_COUNTER_SEMANTIC_VERSION,
                        nullptr};
        bytes.flags =
            NVTX_COUNTER_FLAG_VALUETYPE_ABSOLUTE | NVTX_COUNTER_FLAG_INTERPOLATION_UNTIL_NEXT;
        bytes.unit                 = "bytes";
        bytes.unitScaleNumerator   = 1;
        bytes.unitScaleDenominator = 1;
        bytes.limitType            = NVTX_COUNTER_LIMIT_UNDEFINED;

        nvtxPayloadSchemaEntry_t parts[3]{};
        parts[0].name        = "live";
        parts[0].description = "bytes of the blocks that are allocated";
        parts[0].offset      = offsetof(values, live);
        parts[1].name        = "reserved";
        parts[1].description = "bytes of the chunks that the resource has";
        parts[1].offset      = offsetof(values, reserved);
        parts[2].name        = "peak";
        parts[2].description = "the most live bytes so far";
        parts[2].offset      = offsetof(values, peak);
        for (nvtxPayloadSchemaEntry_t& each : parts) {
            each.type      = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
            each.semantics = &bytes.header;
        }
        nvtxPayloadSchemaAttr_t layout{};
        layout.fieldMask =
            NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
            NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_FLAGS | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
            NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
        layout.name              = "vram memory";
        layout.type              = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
        layout.flags             = NVTX_PAYLOAD_SCHEMA_FLAG_COUNTER_GROUP;
        layout.entries           = parts;
        layout.numEntries        = std::size(parts);
        layout.payloadStaticSize = sizeof(values);
        return nvtxPayloadSchemaRegister(domain, &layout);
    }

    /// List of all counter groups that were registered with the tool; guarded by
    /// `nvtx_registration`.
    static inline constinit entry* all_ = nullptr;

    entry* entry_ = nullptr;
};

} // namespace detail
} // namespace vram
