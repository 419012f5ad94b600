// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_numa_local` keeps a host thread and its new memory on the NUMA node of a GPU.

#include <vram/cuda/core/cuda_exit.hpp>
#include <vram/cuda/cuda_device.hpp>
#include <vram/cuda/cuda_error.hpp>

#include <cuda_runtime_api.h> // cudaDevAttrHostNumaId

#ifdef __linux__
#include <sched.h>       // sched_setaffinity
#include <sys/syscall.h> // SYS_set_mempolicy
#include <unistd.h>      // syscall
#endif

#include <cstdio> // fopen, fscanf

namespace vram {
namespace detail {

/// For the lifetime of this object, the calling thread runs on cores of the GPU's NUMA node, and
/// its new pages are preferably placed on that node. The destructor restores the thread's CPU
/// affinity and memory policy. Has no effect if the node is not known or the system refuses.
class cuda_numa_local {
public:
    explicit cuda_numa_local([[maybe_unused]] cuda_device device) noexcept {
#ifdef __linux__
        int const node = node_of(device);
        if (node < 0 || node >= max_nodes) { return; }
        prefer_memory(node);
        prefer_cores(node);
#endif
    }
    cuda_numa_local(cuda_numa_local&&) = delete;
    ~cuda_numa_local() {
#ifdef __linux__
        if (policy_changed_) { (void)::syscall(SYS_set_mempolicy, policy_, nodes_, max_nodes); }
        if (cores_changed_) { (void)::sched_setaffinity(0, sizeof cores_, &cores_); }
#endif
    }

    /// Returns the number of the NUMA node of the host that is nearest to `device`, or -1 if it is
    /// not known.
    [[nodiscard]] static int node_of([[maybe_unused]] cuda_device device) noexcept {
        int node = -1;
#if CUDART_VERSION >= 12020
        cudaError_t const status = cuda_exit::or_refused(
            [&] { return cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, device.ordinal()); });
        if (status != cudaSuccess) {
            // Clears the error and returns -1 (not known). A driver older than
            // `cudaDevAttrHostNumaId` refuses the query, which is not an error of the program.
            cuda_error::clear(status);
            return -1;
        }
#endif
        return node;
    }

private:
#ifdef __linux__
    static constexpr int max_nodes = 1024;
    static constexpr int per_word  = 8 * static_cast<int>(sizeof(unsigned long));
    /// The policy MPOL_PREFERRED of Linux: pages are placed on the given node if it has free
    /// memory.
    static constexpr int preferred = 1;

    void prefer_memory(int node) noexcept {
        if (::syscall(SYS_get_mempolicy, &policy_, nodes_, max_nodes, nullptr, 0UL) != 0) {
            return;
        }
        unsigned long here[max_nodes / per_word] = {};
        here[node / per_word]                    = 1UL << (node % per_word);
        policy_changed_ = ::syscall(SYS_set_mempolicy, preferred, here, max_nodes) == 0;
    }

    /// Restricts the calling thread to cores of the NUMA node `node`. Uses only those cores that
    /// the thread's present CPU affinity permits.
    void prefer_cores(int node) noexcept {
        if (::sched_getaffinity(0, sizeof cores_, &cores_) != 0) { return; }
        char path[64];
        std::snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
        std::FILE* const list = std::fopen(path, "r");
        if (list == nullptr) { return; }
        cpu_set_t near;
        CPU_ZERO(&near);
        int first = 0, last = 0;
        while (std::fscanf(list, "%d", &first) == 1) {
            last = first;
            if (std::fscanf(list, "-%d", &last) != 1) { last = first; }
            for (int core = first; core <= last && core < CPU_SETSIZE; ++core) {
                if (CPU_ISSET(static_cast<unsigned>(core), &cores_)) {
                    CPU_SET(static_cast<unsigned>(core), &near);
                }
            }
            if (std::fgetc(list) != ',') { break; }
        }
        std::fclose(list);
        // If the thread's affinity permits no core of the node, the affinity is not changed.
        if (CPU_COUNT(&near) == 0) { return; }
        cores_changed_ = ::sched_setaffinity(0, sizeof near, &near) == 0;
    }

    int           policy_                      = 0;
    unsigned long nodes_[max_nodes / per_word] = {};
    cpu_set_t     cores_{};
    bool          policy_changed_ = false;
    bool          cores_changed_  = false;
#endif
};

} // namespace detail
} // namespace vram
