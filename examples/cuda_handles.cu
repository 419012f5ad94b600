// SPDX-License-Identifier: Apache-2.0
// Streams with priorities, timed events, a thread for each device, a memory pool of the driver, and
// pinned memory for the ways in which it is used.

#include <vram/cuda/cuda.hpp>
#include <vram/vram.hpp>

#include <cstdio>
#include <cstring>
#include <vector>

using namespace vram;

namespace {

void streams_and_events() {
    // Work that must not wait behind other work; CUDA limits the number to the device's range.
    cuda_stream const urgent{cuda_device::current(), cuda_stream_options{.priority = -5}};
    // As cudaStreamCreate makes it: this stream and the legacy default stream wait for each other.
    cuda_stream const old_code{cuda_device::current(), cuda_stream_options{.blocking = true}};

    // The host sleeps while it waits, and the device records the time.
    cuda_event_options const timed{.timing = true, .blocking = true};
    cuda_event               begin{cuda_device::current(), timed};
    cuda_event               end{cuda_device::current(), timed};

    cuda_async_resource memory;
    buffer              scratch{memory, urgent, 16_MiB};
    begin.record(urgent);
    cuda_fill(urgent, scratch.data(), std::byte{0}, scratch.size());
    end.record(urgent);
    end.wait(old_code); // later work of `old_code` waits; the host does not
    end.synchronize();
    expects(end.done(), "the host has waited");
    std::printf("16 MiB were filled in %.3f ms\n",
                static_cast<double>(end.milliseconds_since(begin)));
}

void a_thread_for_each_device() {
    int const                count = cuda_device::count();
    std::vector<memory_info> memory(static_cast<std::size_t>(count));
    {
        std::vector<cuda_thread> threads;
        for (int i = 0; i < count; ++i) {
            memory_info& mine = memory[static_cast<std::size_t>(i)];
            threads.emplace_back(cuda_device{i}, [&mine] { // `cuda_device{i}` is current here
                mine = cuda_platform::memory(cuda_platform::current_device());
            });
        }
    } // the destructors join the threads
    for (memory_info const& each : memory) {
        expects(each.total != 0, "the memory of each device");
    }
}

void a_pool_of_the_driver() {
    // No other library affects the limits and the figures of this pool.
    cuda_pool_options const options{.initial_size = 32_MiB, .release_threshold = 64_MiB};
    cuda_pool               own{cuda_device::current(), options};
    cuda_stream const       stream;
    void*                   p = nullptr;
    cuda_check(cudaMallocFromPoolAsync(&p, 1_MiB, own.get(), stream));
    expects(own.usage().live >= 1_MiB && own.usage().reserved >= 32_MiB, "the driver's figures");
    cuda_check(cudaFreeAsync(p, stream));
    stream.synchronize(); // a query alone does not make the driver's pool notice the free
    expects(cuda_done(cudaStreamQuery(stream)), "the work is complete; a failure would throw");
    expects(own.trim() != 0, "unused memory was returned to the device");

    // The resource that vram's layers use has a pool with the same options.
    cuda_async_resource memory{cuda_pool_options{.maximum_size = 1_GiB}};
    expects(memory.try_allocate(stream, 2_GiB) == nullptr, "above the maximum");
}

void pinned_memory() {
    // Buffers that the host only writes and the device only reads.
    pinned_options const  written{.write_combined = true};
    pool<pinned_resource> uploads{pinned_resource{cuda_device::current(), written}};
    void* const           p = uploads.allocate_sync(1_MiB);
    std::memset(p, 1, 1_MiB);
    expects(cuda_platform::memory_kind_of(p) == memory_kind::pinned, "copied without staging");
    cuda_stream const stream;
    cuda_resource     memory;
    void* const       device = memory.allocate_sync(1_MiB);
    cuda_copy(stream, device, p, 1_MiB); // the addresses determine the direction
    cuda_check(cudaStreamSynchronize(stream));
    expects(cuda_memory_info().free < cuda_memory_info().total, "of the current device");
    memory.deallocate_sync(device, 1_MiB);
    uploads.deallocate_sync(p, 1_MiB);

    // Many gigabytes, pinned with many threads, on the NUMA node of the device.
    registered_options const near{.numa_local = true};
    registered_resource      large{cuda_device::current(), near};
    void* const              q = large.allocate_sync(64_MiB);
    expects(cuda_platform::memory_kind_of(q) == memory_kind::pinned, "pinned as well");
    large.deallocate_sync(q, 64_MiB);
}

} // namespace

int main() {
    streams_and_events();
    a_thread_for_each_device();
    a_pool_of_the_driver();
    pinned_memory();
}
