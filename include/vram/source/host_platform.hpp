// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `host_platform` is a platform without a device: each call completes its operation.

#include <vram/concepts/memory_info.hpp>
#include <vram/concepts/pitched_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring> // memcpy, memset

namespace vram {

namespace detail {
class gate;   // defined in base/core/gate.hpp
class worker; // defined in base/core/worker.hpp
} // namespace detail

class host_resource; // defined in source/host_resource.hpp

/// A platform with pageable host memory, so that resources such as `pool` work without a device. It
/// has one stream, and each operation is complete when its call returns.
///
/// Failure   Only `call(stream, function, argument)` throws: the exceptions of `function`.
/// Threads   Any thread may call any function.
/// Cost      A copy is a `memcpy`.
struct host_platform {
    struct device {
        friend bool operator==(device, device) = default;
    };
    struct stream {
        using platform = host_platform;

        friend bool operator==(stream, stream) = default;
    };
    struct own_stream {
        explicit own_stream(device = {}) noexcept {}
        [[nodiscard]] stream view() const noexcept { return {}; }
        operator stream() const noexcept { return {}; }
    };
    struct event {
        explicit event(device = {}) noexcept {}
        event(event&&) noexcept            = default;
        event& operator=(event&&) noexcept = default;
    };
    struct device_guard {
        explicit device_guard(device) noexcept {}
    };
    using gate            = detail::gate;
    using thread          = detail::worker;
    using device_resource = host_resource;
    using pinned_resource = host_resource;

    [[nodiscard]] static device        current_device() noexcept { return {}; }
    [[nodiscard]] static device        device_of(stream) noexcept { return {}; }
    [[nodiscard]] static std::uint64_t id(stream) noexcept { return 0; }
    [[nodiscard]] static bool          capturing(stream) noexcept { return false; }
    // Zeros (not known), because the system has no reliable number.
    [[nodiscard]] static memory_info memory(device) noexcept { return {}; }
    [[nodiscard]] static bool        done(event const&) noexcept { return true; }

    static void record(event&, stream) noexcept {}
    static void wait(stream, event const&) noexcept {}
    static void synchronize(event const&) noexcept {}
    static void synchronize(stream) noexcept {}
    static void synchronize(device) noexcept {}
    static void call(stream, void (*function)(void*), void* argument) { function(argument); }

    static void copy(stream, void* to, void const* from, std::size_t bytes) noexcept {
        if (bytes != 0) { std::memcpy(to, from, bytes); }
    }
    static void copy(stream s, pitched_copy const& c) noexcept {
        for (std::size_t z = 0; z < c.depth; ++z) {
            for (std::size_t y = 0; y < c.height; ++y) {
                copy(s, static_cast<std::byte*>(c.to) + z * c.to_slice + y * c.to_pitch,
                     static_cast<std::byte const*>(c.from) + z * c.from_slice + y * c.from_pitch,
                     c.width);
            }
        }
    }
    static void fill(stream, void* to, std::byte value, std::size_t bytes) noexcept {
        if (bytes != 0) { std::memset(to, static_cast<int>(value), bytes); }
    }
};

} // namespace vram
