// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `oom_survival` is the result of `survives_oom`: the first refusal that the code did not survive.

#include <vram/base/call_site.hpp>
#include <vram/base/tag.hpp>                // memory_tag
#include <vram/probe/core/text_of_site.hpp> // text_of_site, text_of_owner, text_of_size

#include <cstddef>
#include <cstdint>
#include <string> // string, to_string

namespace vram {

/// The mistakes that `survives_oom` finds.
enum class oom_fault : unsigned char {
    none,
    leak,      ///< a run left more live bytes than an earlier run without a refusal
    swallowed, ///< the function returned another value than without a refusal
    /// A refusal had a lasting effect: the next run, in which no request was refused, threw or
    /// returned another value than the first run.
    damaged,
    double_free,       ///< the tested code freed a block twice
    wrong_size,        ///< a block was freed with another size or alignment than allocated
    error_reported,    ///< the tested code caused an error that was reported to the error sink
    endless_retry,     ///< a run had `survives_oom_options::most_refusals` refusals
    unsteady,          ///< two runs without a refusal differ, so no other run can be compared
    too_many_requests, ///< a run has more requests than `survives_oom_options::most_requests`
};

/// The result of `survives_oom`: true if the code survives each refusal; otherwise names the first
/// refused request for which it does not, and the mistake.
///
///     oom_survival const result = survives_oom(memory, work);
///     if (!result) { std::puts(result.text().c_str()); }
///
/// Failure   `text` throws `std::bad_alloc`.
struct oom_survival {
    oom_fault fault = oom_fault::none;
    /// Number of the refused request: 1 is the first of a run. 0 if none was refused.
    std::uint64_t refused = 0;
    /// True if all requests after the refused one were refused too (up to `most_refusals`).
    bool for_good = false;
    /// Size of the refused request in bytes.
    std::size_t bytes = 0;
    memory_tag  owner{}; ///< tag of the refused request
    call_site   at{};    ///< line of the refused request
    /// True if the mistake was found in the run after the refusal, in which nothing was refused.
    bool afterwards = false;

    std::size_t leaked = 0; ///< for a leak: number of bytes that were not freed
    /// Size of the block of a leak or of an invalid free; 0 if it is not known.
    std::size_t block_bytes = 0;
    memory_tag  block_owner{};   ///< tag of the block of a leak or of an invalid free
    call_site   allocated_at{};  ///< line that allocated the block
    call_site   freed_at{};      ///< line that freed the block first
    call_site   wrong_at{};      ///< line of the invalid free
    std::size_t wrong_bytes = 0; ///< size that the invalid free passed
    std::string cause{};         ///< text of the exception or of the reported error

    std::uint64_t requests = 0; ///< number of requests of a run without a refusal
    std::uint64_t runs     = 0; ///< number of times that `survives_oom` called the tested code

    /// Returns true if the code survives each refusal.
    [[nodiscard]] explicit operator bool() const noexcept { return fault == oom_fault::none; }

    /// Returns the mistake in sentences, with the lines and sizes that are known.
    [[nodiscard]] std::string text() const {
        if (fault == oom_fault::none) {
            return "Each of " + std::to_string(requests) + " requests was refused; all " +
                   std::to_string(runs) + " runs are correct.";
        }
        return refusal() + (afterwards ? "in the next run, without a refusal, " : "") + mistake() +
               ".";
    }

    /// Prints the text. `Stream` is any type that accepts a C string by `<<`.
    template <class Stream>
        requires requires(Stream& s, char const* c) { s << c; }
    friend Stream& operator<<(Stream& stream, oom_survival const& result) {
        stream << result.text().c_str();
        return stream;
    }

private:
    [[nodiscard]] std::string refusal() const {
        if (refused == 0) { return "Without a refusal, "; }
        std::string out = "Request " + std::to_string(refused);
        if (requests != 0) { out += " of " + std::to_string(requests); }
        out += " (" + detail::text_of_size(bytes) + detail::text_of_owner(owner) +
               detail::text_of_site(", ", at) + ")";
        out += for_good ? " and all later ones were refused: " : " was refused: ";
        return out;
    }
    [[nodiscard]] std::string mistake() const {
        std::string const block = "block of " + detail::text_of_size(block_bytes) +
                                  detail::text_of_owner(block_owner) +
                                  detail::text_of_site(" allocated at ", allocated_at);
        switch (fault) {
        case oom_fault::none: break;
        case oom_fault::leak:
            return detail::text_of_size(leaked) + " leaked" +
                   (block_bytes != 0 ? "; first a " + block : "");
        case oom_fault::swallowed:
            return "no exception was thrown, but the value differs from that without a refusal";
        case oom_fault::damaged:
            return cause.empty() ? "the value differs from that before the refusal"
                                 : "an exception is thrown: " + cause;
        case oom_fault::double_free:
            return "the " + block + detail::text_of_site(" and freed at ", freed_at) +
                   " was freed again" + detail::text_of_site(" at ", wrong_at);
        case oom_fault::wrong_size:
            return "the " + block + " was freed with " + detail::text_of_size(wrong_bytes) +
                   detail::text_of_site(" at ", wrong_at) + " or with another alignment";
        case oom_fault::error_reported: return "an error was reported: " + cause;
        case oom_fault::endless_retry: return "the request was repeated without an end";
        case oom_fault::unsteady:
            return cause.empty() ? "two runs give different values"
                                 : "the second run throws: " + cause;
        case oom_fault::too_many_requests:
            return "the run has too many requests; set survives_oom_options::most_requests";
        }
        return "nothing is wrong";
    }
};

} // namespace vram
