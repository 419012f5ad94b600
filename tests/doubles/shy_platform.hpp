// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `shy_platform` is the simulated device with streams that have no id during a capture, unless
/// they were queried before it.

#include <vram/sim/sim.hpp> // sim_platform, sim_resource

#include <atomic>    // atomic
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <mutex>     // mutex, scoped_lock
#include <set>       // set
#include <stdexcept> // runtime_error

namespace doubles {

/// In CUDA that query breaks a capture. As in CUDA, a handle needs no query.
struct shy_platform : vram::sim_platform {
    [[nodiscard]] static std::uint64_t id(stream s) {
        ++asked;
        std::uint64_t const    number = s.id();
        std::scoped_lock const held{mutex_};
        if (s.capturing() && said_.count(number) == 0) { throw std::runtime_error{"captured"}; }
        said_.insert(number);
        return number;
    }
    [[nodiscard]] static std::uint64_t name(stream s) noexcept {
        return s == stream{} ? 0 : 2 * s.id();
    }

    static inline std::atomic<int> asked = 0; ///< number of queries of streams

private:
    static inline std::mutex              mutex_;
    static inline std::set<std::uint64_t> said_; ///< ids of queried streams; ids are never reused
};

/// Memory of that platform, which is not stream-ordered.
struct shy_memory {
    using platform   = shy_platform;
    using properties = vram::sim_resource::properties;

    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        return memory.allocate_sync(n, a);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept {
        return memory.try_allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        memory.deallocate_sync(p, n, a);
    }
    friend bool operator==(shy_memory const&, shy_memory const&) = default;

    vram::sim_resource memory{};
};

} // namespace doubles
