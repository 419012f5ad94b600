// SPDX-License-Identifier: Apache-2.0
// Stream-ordered memory from pools.

#include "machine.hpp"

#include <algorithm> // max

using namespace doubles::cudart;

namespace {

/// Creates the simulated pool behind a handle. Its options are fixed at construction, so it is
/// created again while it is empty.
void set_up(machine& m, CUmemPoolHandle_st& pool) {
    pool.memory.emplace(
        m.device(pool.device),
        vram::sim_async_options{.release_threshold = static_cast<std::size_t>(pool.threshold),
                                .maximum_size      = pool.maximum});
}

/// Runs `body(pool)` if the pool exists.
template <class Body>
cudaError_t pool_call(char const* function, cudaMemPool_t handle, Body body) {
    return machine_call(function, [&](machine& m, auto&) {
        auto const found = m.pools.find(handle);
        if (found == m.pools.end() || found->second->destroyed) { return cudaErrorInvalidValue; }
        if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) { return refused; }
        return body(m, *found->second);
    });
}

void drop_if_unused(machine& m, cudaMemPool_t handle) {
    if (handle->destroyed && handle->blocks == 0) { m.pools.erase(handle); }
}

/// Returns the setting of an integer attribute, or null for other attributes.
int* reuse_setting(CUmemPoolHandle_st& pool, cudaMemPoolAttr which) {
    switch (which) {
    case cudaMemPoolReuseFollowEventDependencies: return &pool.reuse[0];
    case cudaMemPoolReuseAllowOpportunistic: return &pool.reuse[1];
    case cudaMemPoolReuseAllowInternalDependencies: return &pool.reuse[2];
    default: return nullptr;
    }
}

} // namespace

extern "C" {

cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t* pool, cudaMemPoolProps const* properties) {
    return machine_call("cudaMemPoolCreate", [&](machine& m, auto&) {
        if (!m.chosen.pools) { return cudaErrorNotSupported; }
        if (properties->location.type != cudaMemLocationTypeDevice ||
            !m.is_device(properties->location.id)) {
            return cudaErrorInvalidDevice;
        }
        if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) { return refused; }
        auto made     = std::make_unique<CUmemPoolHandle_st>();
        made->device  = properties->location.id;
        made->maximum = properties->maxSize;
        set_up(m, *made);
        *pool = made.get();
        m.pools.emplace(*pool, std::move(made));
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t pool) {
    return pool_call("cudaMemPoolDestroy", pool, [&](machine& m, CUmemPoolHandle_st& p) {
        p.destroyed = true;
        drop_if_unused(m, pool);
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which,
                                              void* value) {
    return pool_call("cudaMemPoolSetAttribute", pool, [&](machine& m, CUmemPoolHandle_st& p) {
        if (which == cudaMemPoolAttrReleaseThreshold) {
            if (p.memory->usage().reserved != 0) {
                return cudaErrorInvalidValue;
            } // the limit of the double
            p.threshold = *static_cast<std::uint64_t*>(value);
            set_up(m, p);
            return cudaSuccess;
        }
        int* const setting = reuse_setting(p, which);
        if (setting == nullptr) { return cudaErrorInvalidValue; }
        *setting = *static_cast<int*>(value);
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which,
                                              void* value) {
    return pool_call("cudaMemPoolGetAttribute", pool, [&](machine&, CUmemPoolHandle_st& p) {
        if (int const* const setting = reuse_setting(p, which)) {
            *static_cast<int*>(value) = *setting;
            return cudaSuccess;
        }
        vram::memory_usage const now = p.memory->usage();
        auto&                    to  = *static_cast<std::uint64_t*>(value);
        switch (which) {
        case cudaMemPoolAttrReleaseThreshold: to = p.threshold; return cudaSuccess;
        case cudaMemPoolAttrUsedMemCurrent: to = now.live; return cudaSuccess;
        case cudaMemPoolAttrUsedMemHigh: to = now.peak_live; return cudaSuccess;
        case cudaMemPoolAttrReservedMemCurrent: to = now.reserved; return cudaSuccess;
        case cudaMemPoolAttrReservedMemHigh: to = now.peak_reserved; return cudaSuccess;
        default: return cudaErrorInvalidValue;
        }
    });
}

cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep) {
    return pool_call("cudaMemPoolTrimTo", pool, [&](machine&, CUmemPoolHandle_st& p) {
        std::size_t const piece = 2097152; // unit to which the driver rounds a size
        if (vram::align(keep, piece) == vram::unsatisfiable) { keep = 0; }
        // A free whose completion the host has not observed counts as outstanding (CUDA's
        // documentation of cudaMemPoolTrimTo).
        std::size_t unseen = 0;
        for (unseen_free const& each : p.unseen) { unseen += each.bytes; }
        // The bound of the simulated pool does not include live bytes.
        std::size_t const live = p.memory->usage().live;
        p.memory->trim_no_wait(std::max(keep > live ? keep - live : 0, unseen));
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t pool, cudaMemAccessDesc const* list,
                                           std::size_t count) {
    return pool_call("cudaMemPoolSetAccess", pool, [&](machine& m, CUmemPoolHandle_st& p) {
        for (std::size_t i = 0; i < count; ++i) {
            int const  peer = list[i].location.id;
            bool const own  = peer == p.device &&
                             // A device cannot lose access to its own memory.
                             list[i].flags == cudaMemAccessFlagsProtNone;
            if (!m.is_device(peer) || own) { return cudaErrorInvalidDevice; }
            p.access[peer] = list[i].flags;
            if (list[i].flags == cudaMemAccessFlagsProtNone) {
                p.memory->deny_access(m.device(peer));
            } else {
                p.memory->allow_access(m.device(peer));
            }
        }
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                           cudaMemLocation* peer) {
    return pool_call("cudaMemPoolGetAccess", pool, [&](machine&, CUmemPoolHandle_st& p) {
        auto const found = p.access.find(peer->id);
        *flags           = found != p.access.end() ? found->second
                           : peer->id == p.device  ? cudaMemAccessFlagsProtReadWrite
                                                   : cudaMemAccessFlagsProtNone;
        return cudaSuccess;
    });
}

// In CUDA, memory that is allocated on a captured stream belongs to the graph. The double allocates
// it at once, in the order of the pool's default stream.

cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void** p, std::size_t bytes, cudaMemPool_t pool,
                                              cudaStream_t stream) {
    return stream_call("cudaMallocFromPoolAsync", stream, [&](machine& m, auto&, CUstream_st& s) {
        *p = nullptr;
        if (!m.pools.contains(pool) || pool->destroyed) { return cudaErrorInvalidValue; }
        if (bytes == 0) { return cudaSuccess; }
        if (s.captured != nullptr) {
            if (!s.captured->intact) { return cudaErrorStreamCaptureInvalidated; }
        } else if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) {
            return refused;
        }
        auto const view =
            s.captured != nullptr ? vram::sim_stream_view::legacy(m.device(s.device)) : s.view;
        void* const got = pool->memory->try_allocate(view, bytes, 256);
        if (got == nullptr) { return cudaErrorMemoryAllocation; }
        m.blocks[got] = {
            .what = block::kind::pool, .bytes = bytes, .device = pool->device, .pool = pool};
        ++pool->blocks;
        *p = got;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaFreeAsync(void* p, cudaStream_t stream) {
    return stream_call("cudaFreeAsync", stream, [&](machine& m, auto& held, CUstream_st& s) {
        if (p == nullptr) { return cudaSuccess; }
        if (s.captured != nullptr) {
            if (!s.captured->intact) { return cudaErrorStreamCaptureInvalidated; }
        } else if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) {
            return refused;
        }
        auto const at = m.blocks.find(p);
        if (at == m.blocks.end()) { return cudaErrorInvalidValue; }
        block const b = at->second;
        if (b.what != block::kind::pool && b.what != block::kind::device) {
            return cudaErrorInvalidValue;
        }
        m.blocks.erase(at);
        if (b.what == block::kind::device) { // memory of cudaMalloc is accepted as well
            vram::sim_stream_view const view   = s.view;
            vram::sim_device const      device = m.device(b.device);
            held.unlock();
            view.synchronize();
            vram::sim_resource{device}.deallocate_sync(p, b.bytes, 256);
            return cudaSuccess;
        }
        auto const view =
            s.captured != nullptr ? vram::sim_stream_view::legacy(m.device(s.device)) : s.view;
        b.pool->memory->deallocate(view, p, b.bytes, 256);
        if (s.captured == nullptr) {
            b.pool->unseen.push_back(
                {b.pool->memory->rounded_size(b.bytes, 256), view.id(), ++m.frees, s.device});
        }
        --b.pool->blocks;
        drop_if_unused(m, b.pool);
        return cudaSuccess;
    });
}

} // extern "C"
