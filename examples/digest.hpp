// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `digest` is what the feed example finds out about bytes: how often each value occurs, and a
/// checksum that knows the place of every byte. The same code runs on the CPU and in a kernel.

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

/// The work of one block of threads: at most `digest_tile` bytes, counted apart from all others.
struct partial_digest {
    std::uint32_t count[256];
    std::uint64_t checksum;
};

inline constexpr std::size_t digest_tile = 4096;

/// How many partial digests `bytes` make.
constexpr std::size_t digest_tiles(std::size_t bytes) {
    return bytes / digest_tile + (bytes % digest_tile != 0 ? 1 : 0);
}

/// What one byte adds to a checksum: a value that depends on its place and on nothing else, so sums
/// may be made in any order and in any pieces. The mixing function is the finalizer of splitmix64.
DIGEST_ANYWHERE constexpr std::uint64_t digest_term(std::uint64_t place, std::uint64_t value) {
    std::uint64_t x = (place + 1) * 0x9E3779B97F4A7C15U;
    x               = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x               = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return (x ^ (x >> 31)) * (value + 1);
}

/// Adds `bytes` bytes that stand at `place` of the file.
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
