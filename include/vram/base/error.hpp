// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `error` is what went wrong where nothing may be thrown: in a `deallocate`, in a destructor.

#include <atomic>          // atomic
#include <cstddef>         // size_t
#include <cstdio>          // fprintf
#include <source_location> // source_location

namespace vram {

/// The kinds of things that are told to the error sink.
enum class mishap {
    foreign_pointer, ///< the memory is not this resource's, or was given back before
    wrong_size,      ///< given back with another size or alignment than it was asked with
    dead_stream,     ///< a stream was destroyed while memory still waited for it
    platform_error,  ///< a call of the platform failed; `code` is its error
    leak,            ///< memory was still out when its resource was destroyed
};

/// The name of a mishap, as it is printed.
[[nodiscard]] constexpr char const* name(mishap kind) noexcept {
    switch (kind) {
    case mishap::foreign_pointer: return "foreign pointer or double free";
    case mishap::wrong_size: return "freed with a size or alignment that it was not allocated with";
    case mishap::dead_stream: return "stream destroyed while memory waited for it";
    case mishap::platform_error: return "platform error";
    case mishap::leak: return "memory still out at the end of its resource";
    }
    return "unknown";
}

/// One mishap with its numbers.
struct error {
    mishap               kind;
    void const*          pointer = nullptr;
    std::size_t          bytes   = 0;
    int                  code    = 0;
    std::source_location where   = std::source_location::current();
};

/// Takes note of an error; called by any thread, possibly with locks held, so it must not call back
/// into vram.
using error_sink = void (*)(error const&) noexcept;

/// The sink that is there from the start: one line on stderr.
inline void print_error(error const& e) noexcept {
    std::fprintf(stderr, "%s:%u: vram: %s (pointer %p, %zu bytes, code %d)\n", e.where.file_name(),
                 static_cast<unsigned>(e.where.line()), name(e.kind), e.pointer, e.bytes, e.code);
}

namespace detail {
inline constinit std::atomic<error_sink> sink = print_error;
}

/// Installs `sink` (never null) and returns the one before it. Thread-safe.
inline error_sink set_error_sink(error_sink sink) noexcept { return detail::sink.exchange(sink); }

/// Tells the sink. Never throws.
inline void report_error(error const& e) noexcept { detail::sink.load()(e); }

} // namespace vram
