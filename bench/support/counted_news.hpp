// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `counted_news` counts the host allocations of the program, on all threads. Including this header
/// replaces the global operator new and delete of the program.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace bench {

inline constinit std::atomic<std::uint64_t> news{0};

inline std::uint64_t counted_news() noexcept { return news.load(std::memory_order_relaxed); }

} // namespace bench

// clang-format off
[[gnu::weak]] void* operator new(std::size_t bytes) {
    bench::news.fetch_add(1, std::memory_order_relaxed);
    if (void* const p = std::malloc(bytes == 0 ? 1 : bytes)) { return p; }
    throw std::bad_alloc{};
}
[[gnu::weak]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::weak]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
// clang-format on
