// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_key` is the number that a stream is known by.

#include <vram/base/requirements.hpp> // C++20

#include <cstdint> // uint64_t

namespace vram {

/// Two kinds of key, which never meet: a name is an address and so even, an id is made odd. Neither
/// is zero.
///
/// Failure   what the platform throws where a stream has no id
/// Threads   any
/// Cost      `named`: nothing, where the platform has names and the stream has one; else that of
///           `Platform::id`
template <class Platform>
struct stream_key {
    using stream = typename Platform::stream;

    /// Never used twice in a process.
    [[nodiscard]] static std::uint64_t lasting(stream s) { return 2 * Platform::id(s) + 1; }
    /// The stream's name, which a new stream may have when the old one was destroyed; where it has
    /// none, as `lasting`.
    [[nodiscard, gnu::always_inline]] static std::uint64_t named(stream s) {
        if constexpr (requires { Platform::name(s); }) {
            if (std::uint64_t const name = Platform::name(s)) { return name; }
        }
        return lasting(s);
    }

    /// The same keys of a stream whose id is known; nothing is asked.
    [[nodiscard]] static std::uint64_t lasting_of(std::uint64_t id) noexcept { return 2 * id + 1; }
    [[nodiscard]] static std::uint64_t named_of([[maybe_unused]] stream s,
                                                std::uint64_t           id) noexcept {
        if constexpr (requires { Platform::name(s); }) {
            if (std::uint64_t const name = Platform::name(s)) { return name; }
        }
        return lasting_of(id);
    }
};

} // namespace vram
