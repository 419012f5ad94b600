// SPDX-License-Identifier: Apache-2.0
// Devices, errors, and the modes of host threads.

#include "machine.hpp"

using namespace doubles::cudart;

extern "C" {

// Errors. None of these functions fails, so none is counted.

cudaError_t CUDARTAPI cudaGetLastError() {
    cudaError_t const lasting = calls_book::here().broken();
    cudaError_t const latched = std::exchange(this_thread().latched, cudaSuccess);
    return lasting != cudaSuccess ? lasting : latched;
}

cudaError_t CUDARTAPI cudaPeekAtLastError() {
    cudaError_t const lasting = calls_book::here().broken();
    return lasting != cudaSuccess ? lasting : this_thread().latched;
}

char const* CUDARTAPI cudaGetErrorName(cudaError_t status) {
    switch (status) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorUnknown: return "cudaErrorUnknown";
    default: return "unrecognized error code";
    }
}

char const* CUDARTAPI cudaGetErrorString(cudaError_t status) {
    switch (status) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorUnknown: return "unknown error";
    default: return "unrecognized error code";
    }
}

// Devices

cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
    return machine_call("cudaGetDeviceCount", [&](machine& m, auto&) {
        *count = m.chosen.devices;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
    return call("cudaGetDevice", [&] {
        *device = this_thread().device;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaSetDevice(int device) {
    return machine_call("cudaSetDevice", [&](machine& m, auto&) {
        if (!m.is_device(device)) { return cudaErrorInvalidDevice; }
        this_thread().device = device;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
    return machine_call("cudaDeviceGetAttribute", [&](machine& m, auto&) {
        if (!m.is_device(device)) { return cudaErrorInvalidDevice; }
        switch (which) {
        case cudaDevAttrMultiProcessorCount: *value = 132; return cudaSuccess;
#if CUDART_VERSION >= 12020
        case cudaDevAttrHostNumaId: *value = 0; return cudaSuccess;
#endif
        case cudaDevAttrMemoryPoolsSupported: *value = m.chosen.pools ? 1 : 0; return cudaSuccess;
        case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
            *value = m.chosen.page_tables ? 1 : 0;
            return cudaSuccess;
        default: return cudaErrorInvalidValue;
        }
    });
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    return machine_call("cudaDeviceCanAccessPeer", [&](machine& m, auto&) {
        if (!m.is_device(device) || !m.is_device(peer)) { return cudaErrorInvalidDevice; }
        *can = device != peer ? 1 : 0;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return call("cudaDeviceGetStreamPriorityRange", [&] {
        *least    = 0;
        *greatest = -5;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaDeviceSynchronize() {
    return machine_call("cudaDeviceSynchronize", [&](machine& m, auto& held) {
        cudaError_t status = cudaSuccess;
        for (auto const& each : m.captures) { // in every mode
            if (auto const c = each.lock()) { status = spoil(*c); }
        }
        if (status != cudaSuccess) { return status; }
        int const              ordinal = this_thread().device;
        vram::sim_device const device  = m.device(ordinal);
        std::uint64_t const    frees   = m.frees;
        held.unlock();
        device.synchronize();
        held.lock();
        m.see_frees([&](unseen_free const& each) {
            return each.device == ordinal && each.number <= frees;
        });
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    return machine_call("cudaMemGetInfo", [&](machine& m, auto&) {
        vram::memory_info const now = m.device(this_thread().device).memory();
        *free                       = now.free;
        *total                      = now.total;
        return cudaSuccess;
    });
}

/// Destroys everything on the device; its handles are not reused.
cudaError_t CUDARTAPI cudaDeviceReset() {
    return machine_call("cudaDeviceReset", [&](machine& m, auto& held) {
        int const              device = this_thread().device;
        vram::sim_device const its    = m.device(device);
        held.unlock();
        its.synchronize();
        held.lock();
        for (auto at = m.streams.begin(); at != m.streams.end();) {
            if (at->second->device != device) {
                ++at;
                continue;
            }
            at->second->own.reset();
            at->second->captured.reset();
            m.dead_streams.insert(m.streams.extract(at++));
        }
        for (auto at = m.events.begin(); at != m.events.end();) {
            auto const each = at++;
            if (each->second->device == device) { m.dead_events.insert(m.events.extract(each)); }
        }
        std::erase_if(m.blocks, [&](auto const& each) {
            auto const& [p, b] = each;
            if (b.device != device) { return false; }
            switch (b.what) {
            case block::kind::device:
                vram::sim_resource{its}.deallocate_sync(p, b.bytes, 256);
                break;
            case block::kind::pinned:
                vram::sim_pinned_resource{its}.deallocate_sync(p, b.bytes, 256);
                break;
            case block::kind::managed:
                vram::sim_managed_resource{its}.deallocate_sync(p, b.bytes, 256);
                break;
            case block::kind::pool: b.pool->memory->deallocate_sync(p, b.bytes, 256); break;
            }
            return true;
        });
        m.registered.clear();
        std::erase_if(m.pools, [&](auto const& each) { return each.second->device == device; });
        m.contexts[static_cast<std::size_t>(device)] = {false, 0};
        return cudaSuccess;
    });
}

// Threads

cudaError_t CUDARTAPI cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    return call("cudaThreadExchangeStreamCaptureMode", [&] {
        std::swap(*mode, this_thread().mode);
        return cudaSuccess;
    });
}

} // extern "C"
