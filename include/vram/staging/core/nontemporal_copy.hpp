// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nontemporal_copy` copies memory with non-temporal stores, which bypass the caches.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring> // memcpy

// Defines VRAM_NONTEMPORAL_COPY if the assembly below can be used: on x86-64 with GCC or Clang,
// without an address, thread or memory sanitizer. Otherwise `nontemporal_copy` is a memcpy.
// Intrinsics are not used, because including <immintrin.h> takes a quarter of a second.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) &&                  \
    !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer) &&                       \
    !__has_feature(memory_sanitizer)
#define VRAM_NONTEMPORAL_COPY 1
#endif
#else
#define VRAM_NONTEMPORAL_COPY 1
#endif
#endif

namespace vram {
namespace detail {

/// Width of the non-temporal stores (which bypass the caches) of `nontemporal_copy`. With `none`,
/// the copy is a memcpy.
enum class nontemporal_width : unsigned char { none, bytes_16, bytes_32, bytes_64 };

#ifdef VRAM_NONTEMPORAL_COPY

/// Copies `blocks` times 256 bytes, by stores of 16 bytes. `blocks` must be at least 1, and the
/// address `to` a multiple of 64.
inline void nontemporal_16(std::byte* to, std::byte const* from, std::size_t blocks) noexcept {
    asm volatile("1:\n\t"
                 "prefetchnta 1024(%1)\n\t"
                 "prefetchnta 1088(%1)\n\t"
                 "prefetchnta 1152(%1)\n\t"
                 "prefetchnta 1216(%1)\n\t"
                 "movl $4, %%eax\n"
                 "2:\n\t"
                 "movups (%1), %%xmm0\n\t"
                 "movups 16(%1), %%xmm1\n\t"
                 "movups 32(%1), %%xmm2\n\t"
                 "movups 48(%1), %%xmm3\n\t"
                 "movntps %%xmm0, (%0)\n\t"
                 "movntps %%xmm1, 16(%0)\n\t"
                 "movntps %%xmm2, 32(%0)\n\t"
                 "movntps %%xmm3, 48(%0)\n\t"
                 "addq $64, %1\n\t"
                 "addq $64, %0\n\t"
                 "decl %%eax\n\t"
                 "jnz 2b\n\t"
                 "decq %2\n\t"
                 "jnz 1b\n\t"
                 "sfence"
                 : "+r"(to), "+r"(from), "+r"(blocks)
                 :
                 : "rax", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}
inline void nontemporal_32(std::byte* to, std::byte const* from, std::size_t blocks) noexcept {
    asm volatile("1:\n\t"
                 "prefetchnta 1024(%1)\n\t"
                 "prefetchnta 1088(%1)\n\t"
                 "prefetchnta 1152(%1)\n\t"
                 "prefetchnta 1216(%1)\n\t"
                 "vmovups (%1), %%ymm0\n\t"
                 "vmovups 32(%1), %%ymm1\n\t"
                 "vmovups 64(%1), %%ymm2\n\t"
                 "vmovups 96(%1), %%ymm3\n\t"
                 "vmovups 128(%1), %%ymm4\n\t"
                 "vmovups 160(%1), %%ymm5\n\t"
                 "vmovups 192(%1), %%ymm6\n\t"
                 "vmovups 224(%1), %%ymm7\n\t"
                 "vmovntps %%ymm0, (%0)\n\t"
                 "vmovntps %%ymm1, 32(%0)\n\t"
                 "vmovntps %%ymm2, 64(%0)\n\t"
                 "vmovntps %%ymm3, 96(%0)\n\t"
                 "vmovntps %%ymm4, 128(%0)\n\t"
                 "vmovntps %%ymm5, 160(%0)\n\t"
                 "vmovntps %%ymm6, 192(%0)\n\t"
                 "vmovntps %%ymm7, 224(%0)\n\t"
                 "addq $256, %1\n\t"
                 "addq $256, %0\n\t"
                 "decq %2\n\t"
                 "jnz 1b\n\t"
                 "sfence\n\t"
                 // The clobber list names xmm0 to xmm15, because `vzeroupper` changes them.
                 "vzeroupper"
                 : "+r"(to), "+r"(from), "+r"(blocks)
                 :
                 : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                   "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
inline void nontemporal_64(std::byte* to, std::byte const* from, std::size_t blocks) noexcept {
    asm volatile("1:\n\t"
                 "prefetchnta 1024(%1)\n\t"
                 "prefetchnta 1088(%1)\n\t"
                 "prefetchnta 1152(%1)\n\t"
                 "prefetchnta 1216(%1)\n\t"
                 "vmovups (%1), %%zmm0\n\t"
                 "vmovups 64(%1), %%zmm1\n\t"
                 "vmovups 128(%1), %%zmm2\n\t"
                 "vmovups 192(%1), %%zmm3\n\t"
                 "vmovntps %%zmm0, (%0)\n\t"
                 "vmovntps %%zmm1, 64(%0)\n\t"
                 "vmovntps %%zmm2, 128(%0)\n\t"
                 "vmovntps %%zmm3, 192(%0)\n\t"
                 "addq $256, %1\n\t"
                 "addq $256, %0\n\t"
                 "decq %2\n\t"
                 "jnz 1b\n\t"
                 "sfence\n\t"
                 "vzeroupper"
                 : "+r"(to), "+r"(from), "+r"(blocks)
                 :
                 : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
                   "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

#endif

/// Returns the width of the widest non-temporal stores of this processor; `none` if
/// `nontemporal_copy` is a memcpy.
[[nodiscard]] inline nontemporal_width widest_nontemporal() noexcept {
#ifdef VRAM_NONTEMPORAL_COPY
    static nontemporal_width const found =
        __builtin_cpu_supports("avx512f") != 0 ? nontemporal_width::bytes_64
        : __builtin_cpu_supports("avx2") != 0  ? nontemporal_width::bytes_32
                                               : nontemporal_width::bytes_16;
    return found;
#else
    return nontemporal_width::none;
#endif
}

/// Copies `bytes` bytes between ranges that do not overlap, with stores that bypass the caches. Use
/// for data that no thread reads soon.
///
/// Cost      A copy of less than 4 KiB is a memcpy.
inline void nontemporal_copy(void* to, void const* from, std::size_t bytes,
                             nontemporal_width width = widest_nontemporal()) noexcept {
#ifdef VRAM_NONTEMPORAL_COPY
    auto*       target = static_cast<std::byte*>(to);
    auto const* source = static_cast<std::byte const*>(from);
    if (bytes >= 4096 && width != nontemporal_width::none) {
        std::size_t const head = (64 - reinterpret_cast<std::uintptr_t>(target) % 64) % 64;
        std::memcpy(target, source, head);
        target += head;
        source += head;
        bytes -= head;
        std::size_t const blocks = bytes / 256;
        switch (width) {
        case nontemporal_width::bytes_64: detail::nontemporal_64(target, source, blocks); break;
        case nontemporal_width::bytes_32: detail::nontemporal_32(target, source, blocks); break;
        default: detail::nontemporal_16(target, source, blocks); break;
        }
        target += blocks * 256;
        source += blocks * 256;
        bytes %= 256;
    }
    if (bytes != 0) { std::memcpy(target, source, bytes); }
#else
    (void)width;
    if (bytes != 0) { std::memcpy(to, from, bytes); }
#endif
}

} // namespace detail
} // namespace vram
