// SPDX-License-Identifier: Apache-2.0
// Code that is written once for every platform: the simulated device, the host, and a GPU.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

using namespace vram;

namespace {

/// Prints the free memory of the current device, if the platform knows it.
template <has_devices P>
void print_memory() {
    memory_info const now = P::memory(P::current_device());
    if (now.total != 0) { std::printf("%zu of %zu MiB free\n", now.free >> 20, now.total >> 20); }
}

/// Copies a box of 3 x 4 floats out of the rows of a larger image.
template <has_copies P>
void crop(typename P::stream stream, float* to, float const* image, std::size_t columns) {
    pitched_copy box;
    box.to         = to;
    box.to_pitch   = 4 * sizeof(float);
    box.from       = image;
    box.from_pitch = columns * sizeof(float);
    box.width      = 4 * sizeof(float);
    box.height     = 3;
    P::copy(stream, box);
}

/// Makes later work of `second` wait for the present work of `first`. The host does not wait.
template <class P>
    requires has_streams<P> && has_events<P>
void order(typename P::stream first, typename P::stream second) {
    typename P::event done{P::device_of(first)};
    P::record(done, first);
    P::wait(second, done);
}

/// Fills memory on another thread. The destructor of the thread waits for its end.
template <class P>
    requires has_threads<P> && has_copies<P>
void fill_on_a_thread(typename P::stream stream, void* to, std::size_t bytes) {
    typename P::thread const filling{P::device_of(stream),
                                     [=] { P::fill(stream, to, std::byte{0}, bytes); }};
}

/// Starts many small copies: with one call if the platform has it, else one by one.
template <has_copies P>
void copy_all(typename P::stream stream, std::span<void* const> to,
              std::span<void const* const> from, std::span<std::size_t const> bytes) {
    if constexpr (batched_copies<P>) {
        if (P::copy_batch(stream, to, from, bytes)) { return; } // false: not on this stream
    }
    for (std::size_t i = 0; i < to.size(); ++i) { P::copy(stream, to[i], from[i], bytes[i]); }
}

/// Returns true if pinned memory makes a copy from `p` faster.
template <has_memory P>
bool worth_pinning(void const* p) {
    if constexpr (knows_page_tables<P>) {
        if (P::uses_host_page_tables(P::current_device())) { return false; }
    }
    if constexpr (knows_memory<P>) {
        return P::memory_kind_of(p) == memory_kind::pageable;
    } else {
        return false;
    }
}

/// Waits for the work of `stream`: with a flag that the device writes, if it can, else by a call.
template <class P>
    requires has_streams<P>
void wait_for(typename P::stream stream, std::uint32_t* flag) {
    if constexpr (completion_flags<P>) {
        if (P::mark(stream, flag, 1)) {
            P::synchronize(stream); // a program with other work polls `*flag` here instead
            expects(std::atomic_ref{*flag}.load() == 1, "the device has written the flag");
            return;
        }
    }
    P::synchronize(stream);
}

template <platform P>
void everything() {
    using device_memory = typename P::device_resource;
    using pinned_memory = typename P::pinned_resource;
    typename P::own_stream const copies, work;

    pool<device_memory> memory;
    pool<pinned_memory> pinned;
    print_memory<P>();

    auto* const image = static_cast<float*>(pinned.allocate_sync(100 * sizeof(float)));
    auto* const box   = static_cast<float*>(pinned.allocate_sync(12 * sizeof(float)));
    auto* const flag  = static_cast<std::uint32_t*>(pinned.allocate_sync(4));
    for (int i = 0; i < 100; ++i) { image[i] = static_cast<float>(i); }

    auto* const device = static_cast<float*>(memory.allocate(copies.view(), 100 * sizeof(float)));
    void* const to[]   = {device, device + 50};
    void const* const from[]  = {image, image + 50};
    std::size_t const bytes[] = {50 * sizeof(float), 50 * sizeof(float)};
    copy_all<P>(copies.view(), to, from, bytes);
    order<P>(copies.view(), work.view());
    crop<P>(work.view(), box, device + 22, 10); // row 2, column 2 of 10 x 10
    wait_for<P>(work.view(), flag);
    expects(box[0] == 22 && box[11] == 45, "rows 2 to 4, columns 2 to 5");

    fill_on_a_thread<P>(work.view(), device, 100 * sizeof(float));
    P::copy(work.view(), image, device, 100 * sizeof(float));
    P::synchronize(work.view());
    expects(std::all_of(image, image + 100, [](float x) { return x == 0; }), "filled with zeros");

    memory.deallocate(work.view(), device, 100 * sizeof(float));
    pinned.deallocate_sync(image, 100 * sizeof(float));
    pinned.deallocate_sync(box, 12 * sizeof(float));
    pinned.deallocate_sync(flag, 4);
}

} // namespace

int main() {
    {
        sim_node node{{.on_report = sim_on_report::collect}};
        everything<sim_platform>(); // on a GPU: cuda_platform
        int on_the_stack = 0;
        expects(worth_pinning<sim_platform>(&on_the_stack), "pageable memory is copied slowly");
        expects(node.reports().empty(), "the order was correct");
    }
    everything<host_platform>(); // without a device: each call is complete when it returns
    expects(!worth_pinning<host_platform>(nullptr), "there is no copy to a device");
}
