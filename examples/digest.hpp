// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `digest` is the result of the feed example: the frequency of each byte value, and a checksum
/// that depends on the position of every byte. The same code runs on the CPU and in a kernel.

#include <cstddef>
#include <cstdint>

#if defined __CUDACC__
#define DIGEST_ANYWHERE __host__ __device__
#else
#define DIGEST_ANYWHERE
#endif

struct digest {
    std::uint64_t count[256];
    std::uint64_t checksum;

    friend bool operator==(digest const&, digest const&) = default;
};

/// The digest of at most `digest_tile` bytes, computed by one block of threads.
struct partial_digest {
    std::uint32_t count[256];
    std::uint64_t checksum;
};

inline constexpr std::size_t digest_tile = 4096;

/// Returns the number of partial digests for `bytes` bytes.
constexpr std::size_t digest_tiles(std::size_t bytes) {
    return bytes / digest_tile + (bytes % digest_tile != 0 ? 1 : 0);
}

/// The contribution of one byte to a checksum. It depends only on the byte and its position, so
/// that sums may be computed in any order and in any pieces. The mixing function is the finalizer
/// of splitmix64.
DIGEST_ANYWHERE constexpr std::uint64_t digest_term(std::uint64_t place, std::uint64_t value) {
    std::uint64_t x = (place + 1) * 0x9E3779B97F4A7C15U;
    x               = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x               = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return (x ^ (x >> 31)) * (value + 1);
}

/// Adds `bytes` bytes at the offset `place` of the file.
template <class Digest>
void add_to(Digest& d, std::byte const* data, std::size_t bytes, std::uint64_t place) {
    for (std::size_t i = 0; i < bytes; ++i) {
        auto const value = static_cast<unsigned>(data[i]);
        ++d.count[value];
        d.checksum += digest_term(place + i, value);
    }
}

/// Adds one digest to another.
template <class Digest>
void add_to(digest& into, Digest const& d) {
    for (std::size_t i = 0; i < 256; ++i) { into.count[i] += d.count[i]; }
    into.checksum += d.checksum;
}
