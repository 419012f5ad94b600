// SPDX-License-Identifier: Apache-2.0
// Code for any resource: it uses an optional function if the resource has it, and the compiler
// removes the rest.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>
#include <optional>

using namespace vram;

namespace {

/// Prepares a resource for a phase that needs other sizes: returns its unused memory, without a
/// wait if that is possible, and starts its peaks again. Returns the number of bytes returned.
template <synchronous_resource R>
std::size_t begin_phase(R& memory) {
    std::size_t returned = 0;
    if constexpr (promptly_trimmable_resource<R>) {
        returned = memory.trim_no_wait();
    } else if constexpr (trimmable_resource<R>) {
        returned = memory.trim(0);
    }
    if constexpr (peaking_resource<R>) { (void)memory.reset_peaks(); }
    return returned;
}

/// Allocates the preferred size, or the least one if the preferred one is refused. Without
/// `try_allocate` the refusal is an exception.
template <resource R>
void* allocate_or_less(R& memory, typename R::platform::stream stream, std::size_t& bytes,
                       std::size_t least) {
    if constexpr (reusing_resource<R>) { // memory that this stream can use without a wait
        if (void* const p = memory.try_allocate_ready(stream, bytes)) { return p; }
    }
    if constexpr (fallible_resource<R>) {
        if (void* const p = memory.try_allocate(stream, bytes)) { return p; }
    } else {
        try {
            return memory.allocate(stream, bytes);
        } catch (out_of_memory const&) {} // the least size may fit
    }
    bytes = least;
    return memory.allocate(stream, bytes);
}

/// The bytes that an array of `n` elements will occupy.
template <class T, synchronous_resource R>
std::size_t occupied(R const& memory, std::size_t n) {
    if constexpr (rounding_resource<R>) {
        return memory.rounded_size(n * sizeof(T), alignof(T));
    } else {
        return n * sizeof(T);
    }
}

/// The device of a resource's memory, for a message; nothing for host memory.
template <synchronous_resource R>
std::optional<typename R::platform::device> where(R const& memory) {
    if constexpr (located_resource<R>) {
        return memory.device();
    } else {
        return {};
    }
}

/// Frees `p` with the resource that allocated it.
template <owning_resource A, synchronous_resource B>
void free_by_owner(A& first, B& second, void* p, std::size_t bytes) {
    if (first.owns(p)) {
        first.deallocate_sync(p, bytes);
    } else {
        second.deallocate_sync(p, bytes);
    }
}

/// A function of a library: any stack for the simulated device, as long as kernels can use it.
template <resource_for<sim_platform, device_accessible> Memory>
void scale(Memory& memory, sim_stream_view stream, std::size_t n) {
    buffer scratch{memory, stream, n * sizeof(float)};
    sim_launch(stream, {.name = "scale", .writes = {{scratch.data(), scratch.size()}}});
}

/// A library that is compiled apart from its callers: the type of the reference is that of any
/// resource with the same platform and properties, and the type of a handle that owns one likewise.
using library_ref    = resource_ref_of<sim_async_resource>;
using library_handle = any_resource_of<sim_async_resource>;

/// Works for streams of each platform, and for their owners.
template <class Stream>
void wait_for(Stream const& stream) {
    platform_of<Stream>::synchronize(stream);
}

} // namespace

int main() {
    sim_node   node{{.capacity = 1_GiB}};
    sim_stream stream;

    pool<stream_ordered<sim_resource>> memory;
    std::size_t                        bytes = 2_GiB; // more than the device has
    void* const                        p     = allocate_or_less(memory, stream, bytes, 1_MiB);
    expects(bytes == 1_MiB, "the least size was allocated");
    memory.deallocate(stream, p, bytes);
    scale(memory, stream, 1000);
    wait_for(stream);
    library_ref    borrowed{memory};                                     // `memory` must outlive it
    library_handle owned{shared{limiting{sim_async_resource{}, 1_MiB}}}; // keeps the resource
    borrowed.deallocate(stream, borrowed.allocate(stream, 1_KiB), 1_KiB);
    expects(owned.try_allocate(stream, 2_MiB) == nullptr,
            "the limit of the resource that it holds");
    wait_for(stream);
    expects(begin_phase(memory) != 0, "a pool returns its chunks without a wait");

    host_resource host;
    expects(begin_phase(host) == 0, "a resource without reserved memory has nothing to return");
    expects(occupied<char>(host, 10) == 10 && occupied<char>(memory, 10) >= 10,
            "with the rounding");
    expects(where(memory) == sim_device{0} && !where(host), "host memory has no device");

    void* const on_host = host.allocate_sync(64);
    free_by_owner(memory, host, on_host, 64);
    free_by_owner(memory, host, memory.allocate_sync(64), 64);
    expects(memory.usage().live == 0, "each block was freed by its owner");
    std::puts("each function was called if the resource has it");
}
