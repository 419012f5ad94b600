// SPDX-License-Identifier: Apache-2.0
// Completion flags: numbers that a stream writes into memory with a driver call, which is found by
// name.

#include "machine.hpp"

#include <vram/sim/sim_launch.hpp> // sim_call_host

#include <cuda.h>

#include <atomic>  // atomic_ref
#include <cstdint> // uint32_t
#include <memory>  // make_shared, shared_ptr, unique_ptr

using namespace doubles::cudart;

namespace {

struct mark {
    std::uint32_t*             where;
    std::uint32_t              value;
    std::shared_ptr<left_mark> left;
};

void leave(void* argument) {
    std::unique_ptr<mark> const m{static_cast<mark*>(argument)};
    m->left->there = true; // written first: a thread that reads the flag is ordered
    std::atomic_ref{*m->where}.store(m->value, std::memory_order_release);
}

CUresult CUDAAPI write_value(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned flags) {
    cudaError_t const before = this_thread().latched;
    auto const        leaves = [&](machine& m, auto&, CUstream_st& s) {
        if (!m.chosen.marks) { return cudaErrorNotSupported; }
        if (flags != 0 || to % sizeof value != 0) { return cudaErrorInvalidValue; }
        if (s.captured != nullptr) { return cudaSuccess; }
        auto* const     where = reinterpret_cast<std::uint32_t*>(static_cast<std::uintptr_t>(to));
        vram::sim_event over{m.device(s.device)};
        auto const      left = std::make_shared<left_mark>(m.device(s.device));
        left->before.record(s.view);
        vram::sim_call_host(s.view, leave, new mark{where, value, left});
        m.marks.push_back(left);
        over.record(s.view);
        m.host_functions.follow(std::move(over)); // another thread must advance simulated time
        return cudaSuccess;
    };
    cudaError_t const status = stream_call("cuStreamWriteValue32", stream, leaves);
    this_thread().latched    = before; // the driver latches nothing
    return static_cast<CUresult>(status);
}

} // namespace

void* doubles::cudart::stream_write_value() { return reinterpret_cast<void*>(write_value); }
