// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_key` is a number that identifies a stream.

#include <vram/base/requirements.hpp>

#include <cstdint> // uint64_t

namespace vram {
namespace detail {

/// Two kinds of key that never collide: a handle, which is even, or an id, made odd; not zero.
///
/// Failure   Throws an error of the platform if a stream has no id.
/// Threads   Any number of threads may call concurrently.
/// Cost      `named` costs nothing if the platform has names for streams and this one has a name.
///           Otherwise it costs a call of `Platform::id`.
template <class Platform>
struct stream_key {
    using stream = typename Platform::stream;

    /// Returns a key that is never reused within a process.
    [[nodiscard]] static std::uint64_t lasting(stream s) { return 2 * Platform::id(s) + 1; }
    /// Returns the handle of the stream as a key. A new stream may have it after the old one was
    /// destroyed. If the stream has no name, returns `lasting(s)`.
    [[nodiscard, gnu::always_inline]] static std::uint64_t named(stream s) {
        if constexpr (requires { Platform::name(s); }) {
            if (std::uint64_t const name = Platform::name(s)) { return name; }
        }
        return lasting(s);
    }

    /// Returns the key of a stream from its known id, without a call of the platform.
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
