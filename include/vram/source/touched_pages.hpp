// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `touched_pages` is host memory whose pages are there already, found by several threads at once.

#if __has_include(<sys/mman.h>)

#include <vram/base/align.hpp>  // align
#include <vram/base/worker.hpp> // worker

#include <sys/mman.h>    // mmap, madvise, munmap
#include <sys/syscall.h> // SYS_mbind
#include <unistd.h>      // syscall

#include <algorithm> // clamp, min
#include <atomic>    // atomic
#include <cstddef>   // size_t, byte
#include <thread>    // hardware_concurrency
#include <vector>    // vector

namespace vram {

/// How pages are found.
struct touched_pages_options {
    unsigned    threads     = 0;    ///< that touch pages; 0: one for each core, up to 16
    bool        huge_pages  = true; ///< asks the system for pages of 2 MiB
    std::size_t piece_bytes = std::size_t{64} << 20; ///< that a thread touches at a time
    int         numa_node   = -1; ///< where the memory should be; -1: where the thread is
};

/// Anonymous memory of the system. Its pages are zeroed when they are first touched, which costs
/// most of what getting memory costs; here that is done at once and by all cores.
///
///     void* const p = touched_pages::map(1_GiB);      // null where there is no memory
///     touched_pages::unmap(p, 1_GiB);
///
/// Failure   none: null. Where the system has no huge pages or does not know the node, it goes on
///           without
/// Threads   any
/// Cost      on 16 cores about 30 GiB/s, on one 5; what is as large begins at a multiple of 2 MiB
class touched_pages {
public:
    static constexpr std::size_t page      = 4096;
    static constexpr std::size_t huge_page = std::size_t{2} << 20;

    /// Bytes that a mapping of `bytes` has.
    [[nodiscard]] static constexpr std::size_t rounded(std::size_t bytes) noexcept {
        return align(bytes, bytes < huge_page ? page : huge_page);
    }

    [[nodiscard]] static void* map(std::size_t                  bytes,
                                   touched_pages_options const& how = {}) noexcept {
        std::size_t const size = rounded(bytes);
        std::size_t const room = size < huge_page ? size : saturating_add(size, huge_page);
        if (size == 0 || room == unsatisfiable) { return nullptr; }
        void* const all =
            ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (all == MAP_FAILED) { return nullptr; }
        void* const p = cut(all, room, size);
        if (how.huge_pages && size >= huge_page) { (void)::madvise(p, size, MADV_HUGEPAGE); }
        if (how.numa_node >= 0) { prefer(p, size, how.numa_node); }
        touch(static_cast<std::byte*>(p), size, how);
        return p;
    }
    /// \param bytes  as it was mapped with
    static void unmap(void* p, std::size_t bytes) noexcept {
        if (p != nullptr) { ::munmap(p, rounded(bytes)); }
    }

private:
    /// `size` of `room` bytes, from a multiple of 2 MiB on; the rest goes back.
    static void* cut(void* all, std::size_t room, std::size_t size) noexcept {
        if (room == size) { return all; }
        auto* const       p      = static_cast<std::byte*>(align_address(all, huge_page));
        std::size_t const before = static_cast<std::size_t>(p - static_cast<std::byte*>(all));
        if (before != 0) { ::munmap(all, before); }
        if (room - before != size) { ::munmap(p + size, room - before - size); }
        return p;
    }

    static void prefer(void* p, std::size_t size, int node) noexcept {
#if defined(SYS_mbind)
        constexpr int most      = 1024;
        constexpr int preferred = 1; // MPOL_PREFERRED, of a header that is not everywhere
        constexpr int bits      = 8 * sizeof(unsigned long);
        unsigned long mask[most / bits]{};
        if (node >= most) { return; }
        mask[node / bits] |= 1UL << (node % bits);
        (void)::syscall(SYS_mbind, p, size, preferred, mask, most, 0);
#else
        (void)p, (void)size, (void)node;
#endif
    }

    static void touch(std::byte* p, std::size_t size, touched_pages_options const& how) noexcept {
        std::size_t const        piece  = align(std::max(how.piece_bytes, huge_page), huge_page);
        std::size_t const        pieces = size / piece + (size % piece != 0 ? 1 : 0);
        std::atomic<std::size_t> next   = 0;
        auto const               work   = [&]() noexcept {
            for (std::size_t i = next++; i < pieces; i = next++) {
                auto* const       from = const_cast<std::byte volatile*>(p) + i * piece;
                std::size_t const n = std::min(piece, size - i * piece);
                for (std::size_t at = 0; at < n; at += page) { from[at] = std::byte{}; }
            }
        };
        unsigned const    cores = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
        std::size_t const helpers =
            std::min<std::size_t>(how.threads != 0 ? how.threads : cores, pieces) - 1;
        std::vector<worker> others;
        try {
            others.reserve(helpers);
            for (std::size_t i = 0; i < helpers; ++i) { others.emplace_back(0, work); }
        } catch (...) {} // fewer of them find the same pages
        work();
    }
};

} // namespace vram

#endif
