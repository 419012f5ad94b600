// SPDX-License-Identifier: Apache-2.0
// Every way to end a process with every kind of object, on CUDA: on its double or on a GPU.

#include "kinds.hpp"

#include <vram/cuda/cuda.hpp>

#include <cuda.h> // cuModuleLoadData and the others: their types

#ifdef VRAM_CUDART_DOUBLE
#include "../doubles/cudart/cudart.hpp"
#endif

using namespace vram;
using namespace vram::detail;
using namespace tests::exits;

struct cuda_world {
    using platform = cuda_platform;
    using resource = cuda_resource;
    using pinned   = pinned_resource;
    using managed  = managed_resource;
    using space    = virtual_resource;
    using async    = cuda_async_resource;
    using stream   = cuda_stream;
};

namespace {

/// Uses everything once more in its destructor, after the process has begun to end.
struct late_calls : thing {
    stream_ordered<cuda_resource> ordered{cuda_resource{}};
    cuda_async_resource           pooled{};
    pinned_resource               pinned{};
    cuda_stream                   stream{};
    cuda_event                    event{};
    void*                         p = ordered.allocate(stream, 100);
    void*                         q = pooled.allocate(stream, 100, 4096);
    void*                         r = pinned.allocate_sync(100);

    ~late_calls() override {
        ordered.deallocate(stream, p, 100);
        pooled.deallocate(stream, q, 100, 4096);
        pinned.deallocate_sync(r, 100);
        event.record(stream);
        event.wait(stream);
        event.synchronize();
        stream.synchronize();
        if (!event.done() || !stream.view().done()) { leave(2); }
        if (stream.view().capturing() || cuda_memory_info().total != 0) { leave(3); }
        cuda_event const late; // is done
        late.synchronize();
        if (ordered.try_allocate(stream, 10) != nullptr) { leave(4); }
        if (!refused([&] { (void)pinned.allocate_sync(10); })) { leave(5); }
        if (!refused([] { cuda_stream const none; })) { leave(6); }
    }
    template <class Call>
    static bool refused(Call call) {
        try {
            call();
            return false;
        } catch (cuda_error const& e) {
            return e.status() == cudaErrorCudartUnloading ||
                   e.status() == cudaErrorInitializationError;
        }
    }
};

void settle(holder& kept) {
    kept.owned.reset();
    if (check != nullptr) { leave(check()); }
}
/// The device is reset, and then the object ends.
void device_reset_first(kind const& of) {
    holder kept{of};
    if (cudaDeviceReset() != cudaSuccess) { leave(2); }
    settle(kept);
}
/// CUDA is used again before the object ends.
void device_reset_and_used_again(kind const& of) {
    holder kept{of};
    if (cudaDeviceReset() != cudaSuccess || cudaFree(nullptr) != cudaSuccess) { leave(2); }
    holder const other{of};
    settle(kept);
}

/// From here on each call of CUDA fails with cudaErrorIllegalAddress.
void break_the_context() {
#ifdef VRAM_CUDART_DOUBLE
    doubles::cudart::break_context(cudaErrorIllegalAddress);
#else
    char const* const kernel = R"(
        .version 7.0
        .target sm_52
        .address_size 64
        .visible .entry fault() {
            .reg .b64 %p;
            mov.u64 %p, 16;
            st.global.u32 [%p], 1;
            ret;
        })";
    CUmodule          module{};
    CUfunction        function{};
    auto const        load =
        cuda_entry_point<decltype(&::cuModuleLoadData)>("cuModuleLoadData", 7000).call;
    auto const find =
        cuda_entry_point<decltype(&::cuModuleGetFunction)>("cuModuleGetFunction", 7000).call;
    auto const launch = cuda_entry_point<decltype(&::cuLaunchKernel)>("cuLaunchKernel", 7000).call;
    if (load(&module, kernel) != CUDA_SUCCESS || find(&function, module, "fault") != CUDA_SUCCESS ||
        launch(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) != CUDA_SUCCESS) {
        leave(3);
    }
#endif
    if (cudaDeviceSynchronize() != cudaErrorIllegalAddress) { leave(4); }
}
/// A kernel makes an error, and then the object ends.
void kernel_faulted_first(kind const& of) {
    holder kept{of};
    break_the_context();
    settle(kept);
}

} // namespace

#ifdef VRAM_CUDART_DOUBLE
namespace {

std::uint64_t calls_before = ~std::uint64_t{0}; ///< the process has not begun to end

/// No call after the process has begun to end, and none with a handle that CUDA destroyed.
int no_dangerous_call() {
    if (doubles::cudart::calls() > calls_before) { return 91; }
    if (doubles::cudart::dangling() != 0) { return 92; }
    return doubles::cudart::mistakes() != 0 ? 93 : 0;
}

/// The runtime is unloaded before vram's exit handlers run: the first CUDA call fails.
void runtime_taken_down_first(kind const& of) {
    holder kept{of};
    doubles::cudart::unload();
    calls_before = doubles::cudart::calls() + 8; // the calls of the operation that fails
    kept.owned.reset();
    leave(no_dangerous_call());
}

} // namespace
#endif

int main(int argc, char** argv) {
    auto ways = common_ways();
    auto all  = kinds<cuda_world>();
    all.push_back({"registered", make<with_block<registered_resource>>, true});
    all.push_back({"late_calls", make<late_calls>, true});
    all.push_back({"freed_registered", make<freed_block<registered_resource>>});
    ways.push_back({"device_reset_first", device_reset_first, true, true});
    ways.push_back({"device_reset_and_used_again", device_reset_and_used_again, true, true});
    ways.push_back({"kernel_faulted_first", kernel_faulted_first, false, false,
                    "vram: platform error: the device failed with cudaErrorIllegalAddress (700, "});
#ifdef VRAM_CUDART_DOUBLE
    ways.push_back({"runtime_taken_down_first", runtime_taken_down_first, false});
    doubles::cudart::reset();
    doubles::cudart::keep_across_fork();
    check       = no_dangerous_call;
    before_exit = [] { calls_before = doubles::cudart::calls(); };
    for (char const* const threads : {"loader", "staging", "unloader", "unfinished_unloader"}) {
        if (argc == 3 && argv[2] == std::string{threads}) { before_exit = nullptr; } // they call on
    }
#endif
    // A thread that uses the device during or after the reset, and a free on a stream that the
    // reset has destroyed, are errors of the program.
    auto const uses_dead_handles = [](way const& w, kind const& k) {
        bool uses = false;
        for (char const* const each : {"loader", "unfinished_unloader", "current", "late_calls"}) {
            uses = uses || std::string{each} == k.name;
        }
        return uses && (w.run == device_reset_first || w.run == device_reset_and_used_again);
    };
    return tests::exits::main(argc, argv, ways, all, uses_dead_handles);
}
