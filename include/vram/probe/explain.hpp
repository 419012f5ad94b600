// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `explain` describes a refused allocation in sentences, with its numbers.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/bytes.hpp>
#include <vram/base/error.hpp>
#include <vram/base/error_text.hpp>
#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage

#include <cstddef>
#include <string> // string, to_string
#include <utility>

namespace vram {

namespace detail {

/// Builds text from words, numbers, and sizes such as "64.0 MiB".
class sentences {
public:
    sentences& operator<<(char const* text) {
        text_ += text;
        return *this;
    }
    sentences& operator<<(bytes size) {
        text_ += size.text().c_str();
        return *this;
    }
    sentences& operator<<(unsigned long long n) {
        text_ += std::to_string(n);
        return *this;
    }
    [[nodiscard]] std::string take() && { return static_cast<std::string&&>(text_); }

private:
    std::string text_;
};

} // namespace detail

/// Describes a refused allocation in sentences: the request, the limit or the reserved memory of
/// the resource that refused, the memory of the device and, with a layer `tracking`, the owners of
/// the most live memory. Unknown numbers are left out.
///
///     catch (out_of_memory const& e) { std::puts(explain(e).c_str()); }
///
/// Takes `n.limit` as a limit of the reserved bytes if `n.reserved` is not 0, and otherwise of the
/// live bytes. Throws `std::bad_alloc` if the host is out of memory too.
[[nodiscard]] inline std::string explain(shortage const& n) {
    detail::sentences say;
    say << bytes{n.asked} << " could not be allocated";
    if (n.rounded > n.asked) { say << " (" << bytes{n.rounded} << " after rounding)"; }
    if (n.alignment > default_alignment) { say << ", aligned to " << bytes{n.alignment}; }
    if (n.stream != 0) { say << ", on stream " << n.stream; }
    say << ".";

    std::size_t const wanted = n.rounded > n.asked ? n.rounded : n.asked;
    if (n.has_limit() && n.reserved == 0) {
        std::size_t const room = n.limit > n.live ? n.limit - n.live : 0;
        say << " The budget is " << bytes{n.limit} << ", of which " << bytes{n.live}
            << " are live; at most " << bytes{room} << " can be allocated.";
    } else if (n.reserved != 0) {
        std::size_t const unused = n.reserved > n.live ? n.reserved - n.live : 0;
        say << " The resource has reserved " << bytes{n.reserved} << ", of which " << bytes{n.live}
            << " are live";
        if (unused != 0 && n.largest_free != 0) {
            say << "; the largest free block of the other " << bytes{unused} << " is "
                << bytes{n.largest_free};
        } else if (unused >= wanted) {
            say << "; the other " << bytes{unused}
                << " could not be used for this request: they may be fragmented, or a stream may "
                   "still use them";
        }
        say << ".";
        if (n.has_limit()) { say << " It may reserve at most " << bytes{n.limit} << "."; }
        if (unused >= wanted && n.largest_free != 0 && n.largest_free < wanted) {
            say << " The free memory is fragmented: its sum is large enough, but no single block "
                   "is "
                   "large enough.";
        }
    } else if (n.live != 0) {
        say << " " << bytes{n.live} << " of the resource are live.";
    }
    if (n.device_total != 0) {
        say << " The device has " << bytes{n.device_free} << " free of " << bytes{n.device_total}
            << ".";
        if (wanted > n.device_total) { say << " The request is larger than the whole device."; }
    }
    for (auto const& each : n.holders) {
        if (each.bytes == 0) { break; }
        say << (&each == &n.holders[0] ? " Most of the live memory: " : "; ") << bytes{each.bytes};
        say << " in " << each.blocks << (each.blocks == 1 ? " block" : " blocks");
        if (each.owner.known()) { say << " for \"" << each.owner.path() << "\""; }
        if (each.at.known()) {
            say << ", allocated at " << each.at.file() << ":"
                << static_cast<unsigned long long>(each.at.line());
        } else if (!each.owner.known()) {
            say << " without a tag";
        }
    }
    if (n.holders[0].bytes != 0) { say << "."; }
    return std::move(say).take();
}

/// Returns sentences that describe the numbers of a caught `out_of_memory`.
[[nodiscard]] inline std::string explain(out_of_memory const& e) { return explain(e.numbers()); }

/// Returns the message of a reported error. `error_text` makes the message without an allocation.
[[nodiscard]] inline std::string explain(error const& e) { return error_text{e}.c_str(); }

} // namespace vram
