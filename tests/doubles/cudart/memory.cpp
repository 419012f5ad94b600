// SPDX-License-Identifier: Apache-2.0
// Memory that is not stream-ordered: device, pinned and managed.

#include "machine.hpp"

using namespace doubles::cudart;

namespace {

/// Allocates from `resource` with exactly the alignment that CUDA guarantees, so that no test
/// relies on more.
template <class Resource>
cudaError_t take(machine& m, Resource resource, void** p, std::size_t bytes, block what) {
    *p = nullptr;
    if (bytes == 0) { return cudaSuccess; }
    if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) { return refused; }
    void* const got = resource.try_allocate_sync(bytes, 256);
    if (got == nullptr) { return cudaErrorMemoryAllocation; }
    what.bytes    = bytes;
    what.device   = this_thread().device;
    m.blocks[got] = what;
    *p            = got;
    return cudaSuccess;
}

/// Removes the block that begins at `p`, if it has one of the given kinds.
cudaError_t forget(machine& m, void* p, std::initializer_list<block::kind> kinds, block& found) {
    auto const at = m.blocks.find(p);
    if (at == m.blocks.end()) { return cudaErrorInvalidValue; }
    for (block::kind const kind : kinds) {
        if (at->second.what != kind) { continue; }
        found = at->second;
        m.blocks.erase(at);
        return cudaSuccess;
    }
    return cudaErrorInvalidValue;
}

/// Returns true if the whole range lies in one managed block.
bool managed(machine& m, void const* p, std::size_t bytes) {
    auto after = m.blocks.upper_bound(const_cast<void*>(p));
    if (after == m.blocks.begin()) { return false; }
    auto const& [begin, b] = *--after;
    auto const offset =
        static_cast<std::size_t>(static_cast<std::byte const*>(p) - static_cast<std::byte*>(begin));
    return b.what == block::kind::managed && offset <= b.bytes && bytes <= b.bytes - offset;
}

/// Fills in the kind, device and addresses of a pointer.
void describe(machine& m, cudaPointerAttributes& found, void const* p) {
    found                               = {};
    auto* const                  here   = const_cast<void*>(p);
    auto&                        memory = m.node->machine().memory;
    int                          device = 0;
    vram::detail::sim_kind const kind   = [&] {
        std::scoped_lock const held{m.node->machine().mutex};
        return memory.kind_of(reinterpret_cast<std::uintptr_t>(p), device);
    }();
    found.device = device;
    switch (kind) {
    case vram::detail::sim_kind::device:
    case vram::detail::sim_kind::device_async:
        found.type          = cudaMemoryTypeDevice;
        found.devicePointer = here;
        return;
    case vram::detail::sim_kind::managed: found.type = cudaMemoryTypeManaged; break;
    case vram::detail::sim_kind::pinned:
    case vram::detail::sim_kind::registered: found.type = cudaMemoryTypeHost; break;
    case vram::detail::sim_kind::pageable:
        found.type        = cudaMemoryTypeUnregistered;
        found.device      = cudaInvalidDeviceId;
        found.hostPointer = here;
        return;
    }
    found.devicePointer = found.hostPointer = here;
}

bool is_place(machine& m, cudaMemLocation where) {
    return where.type == cudaMemLocationTypeHost ||
           (where.type == cudaMemLocationTypeDevice && m.is_device(where.id));
}

} // namespace

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void** p, std::size_t bytes) {
    return machine_call("cudaMalloc", [&](machine& m, auto&) {
        return take(m, vram::sim_resource{m.device(this_thread().device)}, p, bytes,
                    {.what = block::kind::device});
    });
}

cudaError_t CUDARTAPI cudaMallocManaged(void** p, std::size_t bytes, unsigned) {
    return machine_call("cudaMallocManaged", [&](machine& m, auto&) {
        return take(m, vram::sim_managed_resource{m.device(this_thread().device)}, p, bytes,
                    {.what = block::kind::managed});
    });
}

cudaError_t CUDARTAPI cudaHostAlloc(void** p, std::size_t bytes, unsigned flags) {
    return machine_call("cudaHostAlloc", [&](machine& m, auto&) {
        return take(m, vram::sim_pinned_resource{m.device(this_thread().device)}, p, bytes,
                    {.what = block::kind::pinned, .flags = flags});
    });
}

cudaError_t CUDARTAPI cudaFree(void* p) {
    return machine_call("cudaFree", [&](machine& m, auto& held) {
        if (p == nullptr) { return cudaSuccess; }
        if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) { return refused; }
        block             b;
        cudaError_t const known = forget(m, p, {block::kind::device, block::kind::managed}, b);
        if (known != cudaSuccess) { return known; }
        vram::sim_device const device = m.device(b.device);
        held.unlock(); // it waits for the device
        if (b.what == block::kind::device) {
            vram::sim_resource{device}.deallocate_sync(p, b.bytes, 256);
            device.await_all(); // lets the checker know
        } else {
            vram::sim_managed_resource{device}.deallocate_sync(p, b.bytes, 256);
        }
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaFreeHost(void* p) {
    return machine_call("cudaFreeHost", [&](machine& m, auto& held) {
        if (p == nullptr) { return cudaSuccess; }
        if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) { return refused; }
        block             b;
        cudaError_t const known = forget(m, p, {block::kind::pinned}, b);
        if (known != cudaSuccess) { return known; }
        vram::sim_device const device = m.device(b.device);
        held.unlock(); // it waits for the device
        vram::sim_pinned_resource{device}.deallocate_sync(p, b.bytes, 256);
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaHostGetFlags(unsigned* flags, void* p) {
    return machine_call("cudaHostGetFlags", [&](machine& m, auto&) {
        auto const at = m.blocks.find(p);
        if (at == m.blocks.end() || at->second.what != block::kind::pinned) {
            return cudaErrorInvalidValue;
        }
        *flags = at->second.flags;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaHostRegister(void* p, std::size_t bytes, unsigned) {
    return machine_call("cudaHostRegister", [&](machine& m, auto&) {
        if (p == nullptr || bytes == 0) { return cudaErrorInvalidValue; }
        if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) { return refused; }
        auto const* const end  = static_cast<std::byte*>(p) + bytes;
        auto const        last = m.registered.lower_bound(const_cast<std::byte*>(end));
        if (last != m.registered.begin()) {
            auto const& [at, what] = *std::prev(last);
            if (static_cast<std::byte*>(at) + what.first > p) {
                return cudaErrorHostMemoryAlreadyRegistered;
            }
        }
        m.registered.emplace(p, std::pair{bytes, vram::detail::sim_register{{p, bytes}}});
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaHostUnregister(void* p) {
    return machine_call("cudaHostUnregister", [&](machine& m, auto& held) {
        if (cudaError_t const refused = unsafe(m); refused != cudaSuccess) { return refused; }
        auto node = m.registered.extract(p);
        if (node.empty()) { return cudaErrorHostMemoryNotRegistered; }
        held.unlock(); // it waits for the device
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes* found, void const* p) {
    return machine_call("cudaPointerGetAttributes", [&](machine& m, auto&) {
        describe(m, *found, p);
        return cudaSuccess;
    });
}

#if CUDART_VERSION < 13000 // the functions under their former names
#define cudaMemAdvise cudaMemAdvise_v2
#define cudaMemPrefetchAsync cudaMemPrefetchAsync_v2
#endif

cudaError_t CUDARTAPI cudaMemAdvise(void const* p, std::size_t bytes, cudaMemoryAdvise,
                                    cudaMemLocation where) {
    return machine_call("cudaMemAdvise", [&](machine& m, auto&) {
        if (!is_place(m, where)) { return cudaErrorInvalidDevice; }
        return managed(m, p, bytes) ? cudaSuccess : cudaErrorInvalidValue;
    });
}

/// The location of managed pages has no effect here; the stream order has.
cudaError_t CUDARTAPI cudaMemPrefetchAsync(void const* p, std::size_t bytes, cudaMemLocation where,
                                           unsigned, cudaStream_t stream) {
    return stream_call("cudaMemPrefetchAsync", stream, [&](machine& m, auto&, CUstream_st&) {
        if (!is_place(m, where)) { return cudaErrorInvalidDevice; }
        return managed(m, p, bytes) ? cudaSuccess : cudaErrorInvalidValue;
    });
}

} // extern "C"
