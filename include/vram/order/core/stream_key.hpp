// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_key` is a number that identifies a stream.

#include <vram/base/requirements.hpp>

#include <cstdint>

namespace vram {
namespace detail {

/// A number by which a table finds a stream. An even number is made from the stream's handle. An
/// odd number is made from the id that the platform gave the stream.
///
/// Failure   Rethrows an error of the platform if the stream has no id.
/// Threads   Any number of threads may call concurrently.
template <class Platform>
struct stream_key {
    using stream = typename Platform::stream;

    /// Returns a key made from the stream's id. No other stream of the process ever has this key,
    /// not even after the stream was destroyed.
    [[nodiscard]] static std::uint64_t lasting(stream s) { return 2 * Platform::id(s) + 1; }
    /// Returns the stream's handle as a key. A later stream may have the same key once this stream
    /// was destroyed. Returns `lasting(s)` if `s` is a default stream, because several default
    /// streams share a handle. Also returns `lasting(s)` if `Platform` has no function `name`.
    [[nodiscard, gnu::always_inline]] static std::uint64_t named(stream s) {
        if constexpr (requires { Platform::name(s); }) {
            if (std::uint64_t const name = Platform::name(s)) { return name; }
        }
        return lasting(s);
    }

    /// Returns the key that `lasting` makes for the stream with this id, without a call of the
    /// platform.
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
