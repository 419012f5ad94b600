// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_heap` is a range of memory that a tool checks by the regions in it.

#include <vram/interop/core/nvtx_domain.hpp> // nvtx_domain, nvtx_registration

#if !__has_include(<nvtx3/nvToolsExtMem.h>)
#error "vram: nvtx_memory needs <nvtx3/nvToolsExtMem.h>, from CUDA 13.0 or later"
#endif
#include <nvtx3/nvToolsExtMem.h> // nvtxMemHeapRegister, nvtxMemRegionsRegister, ...

#include <cstddef>
#include <cstdint>
#include <mutex> // lock_guard

namespace vram {
namespace detail {

/// A range of addresses (a *heap* of NVTX) that a tool such as compute-sanitizer checks. Code may
/// access only the parts that are registered as regions. Regions lie within one heap and do not
/// overlap. If there is no tool, or the tool refuses the heap, `known()` is false and the heap must
/// have no regions. Any thread may call any function.
class nvtx_heap {
public:
    [[nodiscard]] static nvtx_heap add(void const* p, std::size_t bytes) noexcept {
        nvtxMemVirtualRangeDesc_t const range = range_of(p, bytes);
        nvtxMemHeapDesc_t               heap{};
        heap.extCompatID          = NVTX_EXT_COMPATID_MEM;
        heap.structSize           = sizeof heap;
        heap.usage                = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
        heap.type                 = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
        heap.typeSpecificDescSize = sizeof range;
        heap.typeSpecificDesc     = &range;
        std::lock_guard const held{nvtx_registration};
        nvtx_heap             made;
        made.handle_ = nvtxMemHeapRegister(nvtx_domain(), &heap);
        // `nvtxMemHeapRegister` returns -1 if there is no tool. NVTX has a macro for this value,
        // but the macro does not compile as C++.
        if (reinterpret_cast<std::intptr_t>(made.handle_) == -1) { made.handle_ = nullptr; }
        return made;
    }
    /// Unregisters the heap with the NVTX tool. All of its regions must have been removed before.
    void remove() const noexcept { nvtxMemHeapUnregister(nvtx_domain(), handle_); }

    [[nodiscard]] bool known() const noexcept { return handle_ != nullptr; }

    /// Registers the `bytes` bytes at `p` with the NVTX tool as a region: memory that may be used,
    /// and is uninitialised.
    void add_region(void const* p, std::size_t bytes) const noexcept {
        nvtxMemVirtualRangeDesc_t const range = range_of(p, bytes);
        nvtxMemRegionsRegisterBatch_t   batch{};
        batch.extCompatID           = NVTX_EXT_COMPATID_MEM;
        batch.structSize            = sizeof batch;
        batch.regionType            = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
        batch.heap                  = handle_;
        batch.regionCount           = 1;
        batch.regionDescElementSize = sizeof range;
        batch.regionDescElements    = &range;
        nvtxMemRegionsRegister(nvtx_domain(), &batch);
    }
    /// Gives the region at `p` the name `name` in the NVTX tool. The string must never be freed.
    static void name_region(void const* p, char const* name) noexcept {
        nvtxMemRegionNameDesc_t one{};
        one.regionRefType  = NVTX_MEM_REGION_REF_TYPE_POINTER;
        one.region.pointer = p;
        one.nameType       = NVTX_MESSAGE_TYPE_ASCII;
        one.name.ascii     = name;
        nvtxMemRegionsNameBatch_t batch{};
        batch.extCompatID       = NVTX_EXT_COMPATID_MEM;
        batch.structSize        = sizeof batch;
        batch.regionCount       = 1;
        batch.regionElementSize = sizeof one;
        batch.regionElements    = &one;
        nvtxMemRegionsName(nvtx_domain(), &batch);
    }
    static void remove_region(void const* p) noexcept {
        nvtxMemRegionRef_t one{};
        one.pointer = p;
        nvtxMemRegionsUnregisterBatch_t batch{};
        batch.extCompatID    = NVTX_EXT_COMPATID_MEM;
        batch.structSize     = sizeof batch;
        batch.refType        = NVTX_MEM_REGION_REF_TYPE_POINTER;
        batch.refCount       = 1;
        batch.refElementSize = sizeof one;
        batch.refElements    = &one;
        nvtxMemRegionsUnregister(nvtx_domain(), &batch);
    }

private:
    [[nodiscard]] static nvtxMemVirtualRangeDesc_t range_of(void const* p,
                                                            std::size_t bytes) noexcept {
        nvtxMemVirtualRangeDesc_t range{};
        range.ptr  = p;
        range.size = bytes;
        return range;
    }

    nvtxMemHeapHandle_t handle_ = nullptr;
};

} // namespace detail
} // namespace vram
