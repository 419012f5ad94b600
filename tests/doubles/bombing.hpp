// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bombing` makes the n-th host allocation of this thread fail, to test that bookkeeping survives
/// it.
///
///     doubles::bombing armed{3};              // the third operator new from here on throws
///     try { pool.allocate(s, 1_KiB); } catch (std::bad_alloc const&) {}
///     bool const hit = armed.defuse();        // true if there was a third
///
/// Including this header replaces the global operator new and delete of the whole executable (not
/// the aligned forms: `host_resource` uses those). The replacements are weak, so any number of
/// files may include it.

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <cstdlib> // malloc, free
#include <new>     // bad_alloc, nothrow_t

namespace doubles {

namespace bomb {
inline thread_local std::uint64_t countdown = 0; // 0: not armed
inline thread_local std::uint64_t seen      = 0; // host allocations of this thread so far

inline void* allocate(std::size_t bytes) noexcept {
    ++seen;
    if (countdown != 0 && --countdown == 0) { return nullptr; }
    return std::malloc(bytes == 0 ? 1 : bytes);
}
} // namespace bomb

/// Makes the n-th host allocation of this thread fail, once, during the lifetime of the object.
/// Assertions allocate, so they must not run in this time.
class bombing {
public:
    explicit bombing(std::uint64_t n) noexcept { bomb::countdown = n; }
    bombing(bombing&&) = delete;
    ~bombing() { bomb::countdown = 0; }

    /// Disarms; returns true if the n-th allocation happened, and so failed.
    bool defuse() noexcept {
        bool const exploded = bomb::countdown == 0;
        bomb::countdown     = 0;
        return exploded;
    }
};

/// Returns the number of host allocations of this thread. An equal number before and after a call
/// proves that the call allocates nothing.
inline std::uint64_t host_allocations() noexcept { return bomb::seen; }

} // namespace doubles

// clang-format off
[[gnu::weak]] void* operator new(std::size_t bytes) {
    if (void* const p = doubles::bomb::allocate(bytes)) { return p; }
    throw std::bad_alloc{};
}
[[gnu::weak]] void* operator new[](std::size_t bytes) {
    if (void* const p = doubles::bomb::allocate(bytes)) { return p; }
    throw std::bad_alloc{};
}
[[gnu::weak]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept { return doubles::bomb::allocate(bytes); }
[[gnu::weak]] void* operator new[](std::size_t bytes, std::nothrow_t const&) noexcept { return doubles::bomb::allocate(bytes); }
[[gnu::weak]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::weak]] void operator delete[](void* p) noexcept { std::free(p); }
[[gnu::weak]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::weak]] void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
[[gnu::weak]] void operator delete(void* p, std::nothrow_t const&) noexcept { std::free(p); }
[[gnu::weak]] void operator delete[](void* p, std::nothrow_t const&) noexcept { std::free(p); }
// clang-format on
