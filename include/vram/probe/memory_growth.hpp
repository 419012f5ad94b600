// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_growth` is the result of `growth_watch`: the memory that grows at each step of a loop.

#include <vram/probe/core/text_of_site.hpp> // text_of_size
#include <vram/probe/growth_options.hpp>    // growth_of

#include <cstddef>
#include <cstdint>
#include <string> // string, to_string

namespace vram {

/// The growth of the memory that a `growth_watch` found in a loop. Empty if it found no growth.
/// `text` throws `std::bad_alloc`.
///
///     if (memory_growth const found = watch.growth()) { std::puts(found.text().c_str()); }
struct memory_growth {
    growth_of     of    = growth_of::live; ///< the kind of bytes that the watch reads
    std::uint64_t since = 0;               ///< index of the step after which the memory grows
    /// Index of the last step that the watch has read. If nothing grows, `since` and `until` are 0.
    std::uint64_t until = 0;
    std::size_t   bytes = 0; ///< growth in bytes from the step `since` to the step `until`
    /// Increase of the live bytes of the resource from the step `live_since` to the call of
    /// `growth_watch::growth`. 0 if they decreased.
    std::size_t live = 0;
    /// Index of the step from which on `live` and `sites` count the changes. It may be before
    /// `since`, because the watch stores these figures only at some steps.
    std::uint64_t live_since = 0;
    /// Up to five lines of text, then "..." if there are more. Each line has a tag and a program
    /// line with increased live bytes. Empty if the resource has no layer `tracking`.
    std::string sites{};

    /// Returns true if the watch found a growth.
    [[nodiscard]] explicit operator bool() const noexcept { return until != since; }
    /// Returns the average growth in bytes for each step from `since` to `until`, or 0 if nothing
    /// grows.
    [[nodiscard]] std::size_t per_step() const noexcept {
        return until == since ? 0 : bytes / static_cast<std::size_t>(until - since);
    }

    /// Returns sentences for the user that state the growth, or that the memory does not grow.
    [[nodiscard]] std::string text() const {
        char const* const what = of == growth_of::live       ? "The live bytes"
                                 : of == growth_of::reserved ? "The reserved bytes"
                                                             : "The used bytes of the device";
        if (until == since) { return std::string{what} + " do not grow."; }
        std::string out = std::string{what} + " grow by " + detail::text_of_size(per_step()) +
                          " per step since step " + std::to_string(since) + ", " +
                          detail::text_of_size(bytes) + " in " + std::to_string(until - since) +
                          " steps.";
        if (of != growth_of::live && live < bytes / 2) {
            out += " The live bytes of the resource grow by only " + detail::text_of_size(live) +
                   (of == growth_of::device ? ": other memory of the device grows, such as that of "
                                              "another library or process."
                                            : ": the resource reserves more than is live.");
        }
        if (sites.empty()) { return out; }
        return out + " Since step " + std::to_string(live_since) +
               " the live bytes of the resource have risen by " + detail::text_of_size(live) +
               ", at these lines:" + sites;
    }

    /// Prints `text()`. `Stream` is any type that accepts a C string by `<<`, so that this header
    /// does not include `<ostream>`.
    template <class Stream>
        requires requires(Stream& s, char const* c) { s << c; }
    friend Stream& operator<<(Stream& stream, memory_growth const& result) {
        stream << result.text().c_str();
        return stream;
    }
};

} // namespace vram
