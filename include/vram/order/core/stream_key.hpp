// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_key` is a number that identifies a stream.

#include <vram/base/requirements.hpp>

#include <cstdint>

namespace vram {
namespace detail {

/// A number by which a table finds a stream: its handle, which is even and not zero, or twice its
/// id plus one, which is odd. So the handle of a stream is never equal to the key made from an id.
///
/// Failure   Throws an error of the platform if a stream has no id.
/// Threads   Any number of threads may call concurrently.
/// Cost      `named` costs nothing if `Platform::name` returns the handle of the stream. If it
///           returns 0 (as for a default stream) or does not exist, the cost is a call of
///           `Platform::id`.
template <class Platform>
struct stream_key {
    using stream = typename Platform::stream;

    /// Returns a key, made from the stream's id. The platform never uses an id twice in a process,
    /// so a later stream has another key, also if it gets the handle of this one.
    [[nodiscard]] static std::uint64_t lasting(stream s) { return 2 * Platform::id(s) + 1; }
    /// Returns the handle of the stream as a key. A new stream may have the same key after this one
    /// was destroyed. If the stream has no name (`Platform::name` is missing or returns 0), returns
    /// `lasting(s)`.
    [[nodiscard, gnu::always_inline]] static std::uint64_t named(stream s) {
        if constexpr (requires { Platform::name(s); }) {
            if (std::uint64_t const name = Platform::name(s)) { return name; }
        }
        return lasting(s);
    }

    /// Returns the key that `lasting` returns for the stream with this id, without a call of the
    /// platform: no other stream of the process ever has that key.
    [[nodiscard]] static std::uint64_t lasting_of(std::uint64_t id) noexcept { return 2 * id + 1; }
    [[nodiscard]] static std::uint64_t named_of([[maybe_unused]] stream s,
                                                std::uint64_t           id) noexcept {
        if constexpr (requires { Platform::name(s); }) {
            if (std::uint64_t const name = Platform::name(s)) { return name; }
        }
        return lasting_of(id);
    }
};

} // namespace detail
} // namespace vram
