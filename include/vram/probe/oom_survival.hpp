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
    /// After a run of the tested code, more bytes were live than after a run without refusals.
    leak,
    /// A request was refused, and the tested code threw nothing. It returned another value than in
    /// a run without refusals.
    swallowed,
    /// The run after a refusal, in which nothing was refused, threw an exception or returned
    /// another value than the first run. So the refusal had a lasting effect.
    damaged,
    double_free,    ///< the tested code freed a block twice
    wrong_size,     ///< a block was freed with another size or alignment than allocated
    error_reported, ///< the tested code caused an error that was reported to the error sink
    /// As many requests were refused in one run as `survives_oom_options::most_refusals` allows.
    /// The tested code seems to repeat a request forever.
    endless_retry,
    /// Runs in which nothing was refused returned different values, or one of them threw. So the
    /// values of runs with refusals cannot be checked.
    unsteady,
    /// One run (call of the tested code) made more requests than
    /// `survives_oom_options::most_requests`.
    too_many_requests,
};

/// The result of `survives_oom`, which refuses the allocation requests of the tested code in turn.
/// Converts to true if no mistake was found. Otherwise the members describe the mistake, and the
/// refused request after which the tested code made it.
///
///     oom_survival const result = survives_oom(memory, work);
///     if (!result) { std::puts(result.text().c_str()); }
///
/// Failure   `text` throws `std::bad_alloc`.
struct oom_survival {
    oom_fault fault = oom_fault::none;
    /// Index of the refused request in one run, counted from 1. 0 if no request was refused.
    std::uint64_t refused = 0;
    /// True if the later requests of the run were refused too, up to `most_refusals` requests.
    bool for_good = false;
    /// Size of the refused request in bytes.
    std::size_t bytes = 0;
    memory_tag  owner{}; ///< tag (name of the purpose) of the refused request
    call_site   at{};    ///< line of the program that made the refused request
    /// True if the mistake was found in the run after the refusal, in which nothing was refused.
    bool afterwards = false;

    std::size_t leaked = 0; ///< for a leak: number of bytes that were not freed
    /// Size of the block of a leak or of an invalid free; 0 if it is not known.
    std::size_t block_bytes = 0;
    memory_tag  block_owner{};   ///< tag of the block that leaked or had a wrong free
    call_site   allocated_at{};  ///< line that allocated the block
    call_site   freed_at{};      ///< line of the first free of a block that was freed twice
    call_site   wrong_at{};      ///< line of the second free, or of the free with a wrong size
    std::size_t wrong_bytes = 0; ///< size in bytes that was passed to the free at `wrong_at`
    /// Text of the exception or reported error by which the mistake was found; may be empty.
    std::string cause{};

    std::uint64_t requests = 0; ///< number of allocation requests in a run without refusals
    std::uint64_t runs     = 0; ///< number of times that `survives_oom` called the tested code
    std::uint64_t only     = 0; ///< `survives_oom_options::only` of the call

    /// Returns true if `survives_oom` found no mistake.
    [[nodiscard]] explicit operator bool() const noexcept { return fault == oom_fault::none; }

    /// Returns sentences that describe the mistake and the refused request, as far as known. If no
    /// mistake was found, the sentence says that.
    [[nodiscard]] std::string text() const {
        if (fault == oom_fault::none) { return success(); }
        return refusal() + (afterwards ? "in the next run, without a refusal, " : "") + mistake() +
               ".";
    }

    /// Prints the result of `text()`. `Stream` is any type that accepts a C string by `<<`.
    template <class Stream>
        requires requires(Stream& s, char const* c) { s << c; }
    friend Stream& operator<<(Stream& stream, oom_survival const& result) {
        stream << result.text().c_str();
        return stream;
    }

private:
    [[nodiscard]] std::string success() const {
        std::string const all = std::to_string(requests);
        if (only != 0 && refused == 0) {
            return "No request was refused: a run has " + all +
                   ", and survives_oom_options::only is " + std::to_string(only) + ".";
        }
        return (only != 0 ? "Request " + std::to_string(only) + " of " + all
                          : "Each of " + all + " requests") +
               " was refused; all " + std::to_string(runs) + " runs are correct.";
    }
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
