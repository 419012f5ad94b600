// SPDX-License-Identifier: Apache-2.0
// Virtual memory: functions of the driver, which are found by name and latch no error.

#include "machine.hpp"

#include <vram/sim/machine/sim_pages.hpp> // sim_pages

#include <cuda.h>

#include <sys/mman.h> // memfd_create

#include <string_view> // string_view

using namespace doubles::cudart;

namespace doubles::cudart {

void count_virtual(machine& m, census& now) {
    vram::detail::sim_machine& simulated = m.node->machine();
    std::scoped_lock const     held{simulated.mutex};
    now.ranges += simulated.memory.reservations.size();
    for (auto const& [handle, memory] : simulated.memory.physical) {
        now.pages += memory.handle ? 1 : 0;
        now.mappings += memory.mappings;
    }
}

} // namespace doubles::cudart

namespace {

/// A call of the driver: counted and failed like the runtime's, without latching its error. A
/// capture that forbids cudaMalloc forbids it too.
template <class Body>
CUresult driver_call(char const* function, Body body) noexcept {
    cudaError_t const before = this_thread().latched;
    cudaError_t const status = machine_call(function, [&](machine& m, auto&) {
        cudaError_t const refused = unsafe(m);
        return refused != cudaSuccess ? refused : body(m);
    });
    this_thread().latched    = before;
    return static_cast<CUresult>(status);
}

/// Runs `act(pages)` on the simulated device.
template <class Act>
auto on_pages(machine& m, vram::sim_call_kind kind, int device, std::size_t bytes, Act act) {
    vram::detail::sim_call  one{m.node->machine(), kind, device, std::source_location::current(),
                               bytes};
    vram::detail::sim_pages pages{one};
    return act(pages);
}

void* pointer(CUdeviceptr p) { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(p)); }

/// Returns success if this kind of memory exists on a device of the machine.
cudaError_t known(machine& m, CUmemAllocationProp const& kind) {
    if (kind.type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        (kind.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE &&
         kind.requestedHandleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return cudaErrorInvalidValue;
    }
    bool const here = kind.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                      m.is_device(static_cast<int>(kind.location.id));
    return here ? cudaSuccess : cudaErrorInvalidDevice;
}

CUresult CUDAAPI driver_granularity(std::size_t* bytes, CUmemAllocationProp const* kind,
                                    CUmemAllocationGranularity_flags) {
    return driver_call("cuMemGetAllocationGranularity", [&](machine& m) {
        *bytes = m.node->options().page;
        return known(m, *kind);
    });
}

CUresult CUDAAPI driver_reserve(CUdeviceptr* p, std::size_t bytes, std::size_t alignment,
                                CUdeviceptr /*hint*/, unsigned long long flags) {
    return driver_call("cuMemAddressReserve", [&](machine& m) {
        if (flags != 0) { return cudaErrorInvalidValue; }
        void* const at = on_pages(
            m, vram::sim_call_kind::reserve, 0, bytes, [&](vram::detail::sim_pages& pages) {
                return pages.reserve(0, bytes, alignment == 0 ? 1 : alignment);
            });
        *p = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(at));
        return cudaSuccess;
    });
}

CUresult CUDAAPI driver_release(CUdeviceptr p, std::size_t bytes) {
    return driver_call("cuMemAddressFree", [&](machine& m) {
        on_pages(m, vram::sim_call_kind::free, 0, bytes,
                 [&](vram::detail::sim_pages& pages) { pages.release(pointer(p), bytes); });
        return cudaSuccess;
    });
}

CUresult CUDAAPI driver_create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                               CUmemAllocationProp const* kind, unsigned long long flags) {
    return driver_call("cuMemCreate", [&](machine& m) {
        if (cudaError_t const refused = known(m, *kind); refused != cudaSuccess) { return refused; }
        if (flags != 0) { return cudaErrorInvalidValue; }
        int const device = static_cast<int>(kind->location.id);
        *handle =
            on_pages(m, vram::sim_call_kind::create, device, bytes,
                     [&](vram::detail::sim_pages& pages) { return pages.create(device, bytes); });
        if (*handle == 0) { return cudaErrorMemoryAllocation; }
        if (kind->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) { m.exportable.insert(*handle); }
        return cudaSuccess;
    });
}

CUresult CUDAAPI driver_destroy(CUmemGenericAllocationHandle handle) {
    return driver_call("cuMemRelease", [&](machine& m) {
        on_pages(m, vram::sim_call_kind::free, 0, 0,
                 [&](vram::detail::sim_pages& pages) { pages.destroy(handle); });
        m.exportable.erase(handle);
        return cudaSuccess;
    });
}

CUresult CUDAAPI driver_map(CUdeviceptr p, std::size_t bytes, std::size_t offset,
                            CUmemGenericAllocationHandle handle, unsigned long long flags) {
    return driver_call("cuMemMap", [&](machine& m) {
        if (offset != 0 || flags != 0) { return cudaErrorInvalidValue; }
        on_pages(m, vram::sim_call_kind::map, 0, bytes,
                 [&](vram::detail::sim_pages& pages) { pages.map(pointer(p), handle, bytes); });
        return cudaSuccess;
    });
}

CUresult CUDAAPI driver_unmap(CUdeviceptr p, std::size_t bytes) {
    return driver_call("cuMemUnmap", [&](machine& m) {
        on_pages(m, vram::sim_call_kind::unmap, 0, bytes,
                 [&](vram::detail::sim_pages& pages) { pages.unmap(pointer(p), bytes); });
        return cudaSuccess;
    });
}

/// Each device can access its own memory only.
CUresult CUDAAPI driver_set_access(CUdeviceptr p, std::size_t bytes, CUmemAccessDesc const* list,
                                   std::size_t count) {
    return driver_call("cuMemSetAccess", [&](machine& m) {
        if (count != 1 || list->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return cudaErrorNotSupported;
        }
        auto const at    = static_cast<std::uintptr_t>(p);
        auto*      range = m.node->machine().memory.reservation_of(at);
        auto*      block = range == nullptr ? nullptr : range->mapping(at);
        if (block == nullptr) { return cudaErrorInvalidValue; }
        if (list->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            static_cast<int>(list->location.id) != block->device) {
            return cudaErrorInvalidDevice;
        }
        on_pages(m, vram::sim_call_kind::set_access, 0, bytes,
                 [&](vram::detail::sim_pages& pages) { pages.set_access(pointer(p), bytes); });
        return cudaSuccess;
    });
}

/// The result is a valid but empty file.
CUresult CUDAAPI driver_export_handle(void* shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType kind, unsigned long long flags) {
    return driver_call("cuMemExportToShareableHandle", [&](machine& m) {
        if (flags != 0 || kind != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
            !m.exportable.contains(handle)) {
            return cudaErrorInvalidValue;
        }
        int const file             = ::memfd_create("cudart double", MFD_CLOEXEC);
        *static_cast<int*>(shared) = file;
        return file < 0 ? cudaErrorOperatingSystem : cudaSuccess;
    });
}

template <class Function>
void* address_of(Function* f) {
    return reinterpret_cast<void*>(f);
}

void* entry_point(std::string_view name) {
    if (name == "cuMemGetAllocationGranularity") { return address_of(driver_granularity); }
    if (name == "cuMemAddressReserve") { return address_of(driver_reserve); }
    if (name == "cuMemAddressFree") { return address_of(driver_release); }
    if (name == "cuMemCreate") { return address_of(driver_create); }
    if (name == "cuMemRelease") { return address_of(driver_destroy); }
    if (name == "cuMemMap") { return address_of(driver_map); }
    if (name == "cuMemUnmap") { return address_of(driver_unmap); }
    if (name == "cuMemSetAccess") { return address_of(driver_set_access); }
    if (name == "cuMemExportToShareableHandle") { return address_of(driver_export_handle); }
    return nullptr;
}

} // namespace

extern "C" {

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(char const* symbol, void** function,
                                                       unsigned version, unsigned long long,
                                                       cudaDriverEntryPointQueryResult* result) {
    return machine_call("cudaGetDriverEntryPointByVersion", [&](machine& m, auto&) {
        std::string_view const name = symbol;
        *function                   = stream_question(name);
        if (name == "cuStreamWriteValue32") { *function = stream_write_value(); }
        if (*function == nullptr && m.chosen.virtual_memory) { *function = entry_point(name); }
        *result =
            *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
        if (*function != nullptr &&
            (m.chosen.old_driver || (version < 10020 && name != "cuDevicePrimaryCtxGetState" &&
                                     name != "cuDevicePrimaryCtxRetain"))) {
            *function = nullptr;
            *result   = cudaDriverEntryPointVersionNotSufficent;
        }
        return cudaSuccess;
    });
}

} // extern "C"
