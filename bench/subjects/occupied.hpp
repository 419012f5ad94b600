// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `occupied` is memory on CUDA streams that can be kept busy, as kernels would.

#include "../support/subject.hpp" // set_up, nanoseconds

#include <vram/cuda/cuda_error.hpp>       // cuda_check
#include <vram/cuda/cuda_stream_view.hpp> // cuda_stream_view

#include <cuda_runtime_api.h> // cudaLaunchHostFunc

#include <atomic>
#include <chrono>
#include <thread> // sleep_for
#include <tuple>

namespace bench {

/// Each stream runs a host function that returns on `release`. If a thread waits for the stream
/// before that, the function returns after a timeout, so that no thread waits for ever.
template <class Memory>
class occupied : public Memory {
public:
    explicit occupied(set_up const& how) : Memory{how}, streams_{how.streams} {}
    ~occupied() { release(); }

    void occupy(nanoseconds time) {
        end_ = clock::now() + time;
        free_.store(false);
        for (unsigned i = 0; i < streams_; ++i) {
            vram::cuda_check(cudaLaunchHostFunc(handle(i), wait, this));
        }
    }
    void release() noexcept {
        if (free_.exchange(true)) { return; }
        for (unsigned i = 0; i < streams_; ++i) { (void)cudaStreamSynchronize(handle(i)); }
    }

private:
    [[nodiscard]] cudaStream_t handle(unsigned i) const {
        return vram::cuda_stream_view{this->stream_at(i)}.get();
    }

    static void CUDART_CB wait(void* self) {
        auto const& me = *static_cast<occupied const*>(self);
        while (!me.free_.load() && clock::now() < me.end_) {
            std::this_thread::sleep_for(std::chrono::microseconds{50});
        }
    }

    unsigned          streams_;
    std::atomic<bool> free_{true};
    clock::time_point end_{};
};

/// Applies `occupied` to each stack of a list.
template <class List>
struct occupy_all;
template <class... Entries>
struct occupy_all<std::tuple<Entries...>> {
    template <class Entry>
    struct one {
        using memory = occupied<typename Entry::memory>;
    };
    using type = std::tuple<one<Entries>...>;
};
template <class List>
using occupied_stacks = typename occupy_all<List>::type;

} // namespace bench
