// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `explain` describes an out-of-memory in full sentences, with its numbers.

#include <vram/base/align.hpp>         // default_alignment
#include <vram/base/bytes.hpp>         // bytes
#include <vram/base/error.hpp>         // error
#include <vram/base/error_text.hpp>    // error_text
#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage

#include <cstddef> // size_t
#include <string>  // string, to_string
#include <utility> // move

namespace vram {

namespace detail {

/// One sentence after another, with a size as people say it.
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

/// What was asked, who refused and what there was, ending in what would help.
///
///     catch (out_of_memory const& e) { std::puts(explain(e).c_str()); }
///
/// Numbers that nobody knew are left out. A limit is of what is out, or, where the resource holds
/// memory of its own, of what it holds. Throws `std::bad_alloc` when the host is out of memory too.
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
            << " are out: there is room for " << bytes{room} << ".";
    } else if (n.reserved != 0) {
        std::size_t const idle = n.reserved > n.live ? n.reserved - n.live : 0;
        say << " The resource holds " << bytes{n.reserved} << ", of which " << bytes{n.live}
            << " are out; the largest free block of the remaining " << bytes{idle} << " is "
            << bytes{n.largest_free} << ".";
        if (n.has_limit()) { say << " It may hold at most " << bytes{n.limit} << "."; }
        if (idle >= wanted && n.largest_free < wanted) {
            say << " There would be enough in sum: the free memory is in pieces.";
        }
    } else if (n.live != 0) {
        say << " The resource has " << bytes{n.live} << " out.";
    }
    if (n.device_total != 0) {
        say << " The device has " << bytes{n.device_free} << " free of " << bytes{n.device_total}
            << ".";
        if (wanted > n.device_total) { say << " It could not hold this even when empty."; }
    }
    return std::move(say).take();
}

/// The same for an exception that was caught.
[[nodiscard]] inline std::string explain(out_of_memory const& e) { return explain(e.numbers()); }

/// Returns the message of an error that was reported to the error sink: see `error_text`, which
/// makes it without an allocation.
[[nodiscard]] inline std::string explain(error const& e) { return error_text{e}.c_str(); }

} // namespace vram
