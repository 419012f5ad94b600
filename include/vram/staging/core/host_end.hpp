// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `host_end` is the host's side of a transfer: memory or a file that is read or written.

#include <vram/concepts/core/host_work.hpp>
#include <vram/staging/core/nontemporal_copy.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <cstring> // memcpy
#include <span>    // span

namespace vram {
namespace detail {

/// A file with `read(span, offset)`, which fills the whole span or throws, on any thread. For
/// example `vram::file`.
template <class F>
concept readable_at =
    requires(F const& f, std::span<std::byte> to, std::size_t offset) { f.read(to, offset); };

/// A file with `write(span, offset)`, which writes the whole span or throws, on any thread. For
/// example `vram::file`.
template <class F>
concept writable_at =
    requires(F& f, std::span<std::byte const> from, std::size_t offset) { f.write(from, offset); };

/// A file with the function `read_device(to, bytes, offset)`, which reads into device memory
/// without a copy in host memory. Call it only if `reaches_device()` of the file returns true.
template <class F>
concept fills_device = requires(F const& f, void* to, std::size_t n) {
    { f.reaches_device() } -> std::same_as<bool>;
    f.read_device(to, n, n);
};

/// A file with the function `write_device(from, bytes, offset)`, which writes from device memory
/// without a copy in host memory. Call it only if `reaches_device()` of the file returns true.
template <class F>
concept empties_device = requires(F& f, void const* from, std::size_t n) {
    { f.reaches_device() } -> std::same_as<bool>;
    f.write_device(from, n, n);
};

/// The host's side of a copy between host and device: memory or a file. For an upload, `fill`
/// writes a piece of the data into a pinned chunk. For a download, `empty` stores the piece that a
/// pinned chunk contains.
template <class Platform>
struct host_end {
    static void host_copy(void* to, void const* from, std::size_t bytes, bool past_caches) {
        if (past_caches) {
            nontemporal_copy(to, from, bytes);
        } else {
            std::memcpy(to, from, bytes);
        }
    }

    struct source_memory {
        void fill(std::byte* chunk, std::size_t offset, std::size_t bytes) const {
            host_work<Platform>::copies(chunk, from + offset, bytes, past_caches);
            host_copy(chunk, from + offset, bytes, past_caches);
        }
        std::byte const* from;
        bool             past_caches; ///< if true, `fill` bypasses the CPU's caches when it writes
    };

    struct target_memory {
        void empty(std::byte const* chunk, std::size_t offset, std::size_t bytes) const {
            host_work<Platform>::copies(to + offset, chunk, bytes, past_caches);
            host_copy(to + offset, chunk, bytes, past_caches);
        }
        std::byte* to;
        bool       past_caches; ///< if true, `empty` bypasses the CPU's caches when it writes
    };

    template <readable_at File>
    struct source_file {
        void fill(std::byte* chunk, std::size_t offset, std::size_t bytes) const {
            host_work<Platform>::copies(chunk, nullptr, bytes);
            file.read({chunk, bytes}, begin + offset);
        }
        File const& file;
        std::size_t begin;
    };

    template <writable_at File>
    struct target_file {
        void empty(std::byte const* chunk, std::size_t offset, std::size_t bytes) const {
            host_work<Platform>::copies(nullptr, chunk, bytes);
            file.write({chunk, bytes}, begin + offset);
        }
        File&       file;
        std::size_t begin;
    };
};

} // namespace detail
} // namespace vram
