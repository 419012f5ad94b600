// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_error` is an error of a loader, with the batch and the reason.

#include <vram/base/call_site.hpp>
#include <vram/base/core/what_text.hpp> // what_text, what_of
#include <vram/transfer/slot_states.hpp>

#include <cstddef>
#include <exception>    // exception, exception_ptr, rethrow_exception
#include <string>       // string, to_string
#include <system_error> // generic_category
#include <utility>

namespace vram {

/// Thrown by a loader or unloader, with a reason and the numbers of the batch. After `all_held`,
/// `capturing` and `timed_out`, no batch is lost: the program can remove the cause and try again.
///
///     catch (loader_error const& e) {
///         e.index(), e.source_index();    // number of the batch, and index given to the source
///         e.rethrow_cause();              // the exception that the source threw
///     }
class loader_error : public std::exception {
public:
    /// Reasons of a `loader_error`.
    enum class reason {
        too_large, ///< a batch or result has `bytes` bytes, more than the `limit` of a block
        /// The program holds all device blocks, so there is none for the next batch or result.
        all_held,
        capturing, ///< a stream that uses the batch or result, or would use it, is being captured
        already_begun, ///< `begin()` was called a second time without a `restart()`
        /// `batch::span<T>()`: the `bytes` bytes of the batch are not a multiple of `limit`, the
        /// size of a `T`
        wrong_alignment,
        not_ended, ///< `restart()` was called before the end of the loop, without `stop()`
        timed_out, ///< no batch was ready within `loader_options::timeout`; see `states()`
        no_size,   ///< `shuffle` is set, but the source has no `size()`
        /// `loader_options::shards` is above 1, but the source does not take the index of a batch.
        no_index,
        /// a result cannot be copied: its unloader has ended, or the process is ending
        ended,
        /// This process is a forked child of the one that made the loader or unloader; with
        /// simulated threads, also: the process is ending.
        forked,
        source_failed, ///< the source threw `cause`, or returned the negative number `returned`
        /// The source returned 0 bytes for a batch, although the index of the batch is below
        /// `size()` of the source. `limit()` returns this size.
        ends_early,
        /// The source returned a batch of `bytes` bytes, fewer than the `limit` of a full one, but
        /// the pass was planned with this batch as a full one. So `last_batch::drop` cannot leave
        /// it out.
        short_batch,
    };

    /// Value of `source_index()` if the error has no such index.
    static constexpr std::size_t unknown = static_cast<std::size_t>(-1);

    explicit loader_error(reason why, std::size_t index = 0, std::size_t bytes = 0,
                          std::size_t limit = 0, slot_states const& states = {}) noexcept
        : why_{why}, index_{index}, bytes_{bytes}, limit_{limit}, states_{states} {
        write();
    }
    /// Makes an error with the reason `source_failed`. `cause` is the exception that the source
    /// threw.
    explicit loader_error(std::exception_ptr cause) noexcept
        : why_{reason::source_failed}, cause_{std::move(cause)} {
        write();
    }
    /// Makes an error with the reason `source_failed` from a negative number that the source
    /// returned. `code` is the value of `errno` at that time.
    [[nodiscard]] static loader_error negative(long long returned, int code) noexcept {
        loader_error e{reason::source_failed};
        e.returned_ = returned;
        e.code_     = code;
        e.write();
        return e;
    }

    /// Stores which batch or result this error concerns, and returns this error. `index`: number of
    /// the batch or result. `source_index`: index that was passed to the source.
    loader_error& at(std::size_t index, std::size_t source_index) noexcept {
        index_        = index;
        source_index_ = source_index;
        write();
        return *this;
    }

    /// Sets the line of the program that called the loader or unloader, with which `what()` then
    /// begins. Returns this error.
    loader_error& from(call_site at) noexcept {
        caller_ = at;
        write();
        return *this;
    }

    /// Returns the line of the program that called the loader or unloader, with which `what()`
    /// begins. If no line was set, `known()` of the result is false.
    [[nodiscard]] call_site caller() const noexcept { return caller_; }
    [[nodiscard]] reason    why() const noexcept { return why_; }
    /// Returns the number, from 0, of the batch or result that failed or could not be delivered; 0
    /// if the reason concerns no batch.
    [[nodiscard]] std::size_t index() const noexcept { return index_; }
    /// Returns the index that the loader passed to the source for the batch, or `unknown` if there
    /// is none.
    [[nodiscard]] std::size_t source_index() const noexcept { return source_index_; }
    /// Returns the bytes of the batch or result for `too_large`, `wrong_alignment` and
    /// `short_batch`; for `all_held`, the number of device blocks that the program holds; else 0.
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    /// Returns the limit that the reason names, such as the bytes of a block (`too_large`); 0 if
    /// the reason names none.
    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
    /// Returns the negative number that the source returned, or 0 if it returned none.
    [[nodiscard]] long long returned() const noexcept { return returned_; }
    /// For the reason `timed_out`, returns the number of the loader's blocks in each state when the
    /// loop gave up waiting; otherwise zeros.
    [[nodiscard]] slot_states const& states() const noexcept { return states_; }

    /// Returns the exception that the source threw, or null if it threw none.
    [[nodiscard]] std::exception_ptr const& cause() const noexcept { return cause_; }
    /// Throws the exception of the source, or this error if there is none.
    [[noreturn]] void rethrow_cause() const {
        if (cause_ != nullptr) { std::rethrow_exception(cause_); }
        throw loader_error{*this};
    }

    [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

private:
    static constexpr char const* literal(reason why) noexcept {
        switch (why) {
        case reason::too_large: return "vram: a batch is larger than the loader's slots";
        case reason::all_held: return "vram: all slots of the loader are held by batches in use";
        case reason::capturing:
            return "vram: a batch cannot be taken, released or sent during a capture";
        case reason::already_begun: return "vram: a loader can be read only once before restart()";
        case reason::wrong_alignment: return "vram: a batch is not a whole number of elements";
        case reason::not_ended:
            return "vram: restart() was called before the end of the loader and without stop()";
        case reason::timed_out: return "vram: no batch was ready within the loader's timeout";
        case reason::no_size: return "vram: shuffle needs a source with size()";
        case reason::no_index:
            return "vram: shards need a source that receives the index of the batch";
        case reason::ended: return "vram: the result was sent after its unloader had ended";
        case reason::forked:
            return "vram: a loader or unloader of the parent cannot be used in a forked process";
        case reason::source_failed: return "vram: the source of a loader failed";
        case reason::ends_early: return "vram: the source ended before its last batch";
        case reason::short_batch: return "vram: a batch is too short and cannot be left out";
        }
        return "vram: loader";
    }

    void write() noexcept {
        text_ =
            detail::what_text{literal(why_), [this] { return detail::line_of(caller_) + text(); }};
    }
    [[nodiscard]] std::string text() const {
        auto const        n = [](auto number) { return std::to_string(number); };
        std::string const batch =
            "batch " + n(index_) +
            (source_index_ != unknown ? " (source index " + n(source_index_) + ")" : "");
        switch (why_) {
        case reason::too_large:
            return "vram: " + batch + " has " + n(bytes_) + " bytes, but a slot has " + n(limit_) +
                   "; increase batch_bytes";
        case reason::all_held:
            return "vram: " + batch + " is not available: the program holds all " + n(limit_) +
                   " slots on the device; release a batch, or increase device_depth";
        case reason::capturing:
            return "vram: " + batch +
                   " cannot be taken, released or sent while a stream that uses it "
                   "is captured into a graph; end the capture first";
        case reason::wrong_alignment:
            return "vram: " + batch + " has " + n(bytes_) +
                   " bytes, which is not a whole number of elements of " + n(limit_) + " bytes";
        case reason::timed_out:
            return "vram: " + batch + " was not ready within the timeout; " + waiting();
        case reason::source_failed:
            return "vram: the source failed at " + batch + ": " +
                   (cause_ != nullptr ? detail::what_of(cause_) : negative());
        case reason::ends_early:
            return "vram: the source returned 0 bytes for " + batch + ", although its size() is " +
                   n(limit_);
        case reason::short_batch:
            return "vram: " + batch + " has " + n(bytes_) + " bytes instead of " + n(limit_) +
                   ", and cannot be left out; the source needs a batch_bytes(index) that returns "
                   "the exact size of each batch";
        case reason::already_begun:
        case reason::not_ended:
        case reason::no_size:
        case reason::no_index:
        case reason::ended:
        case reason::forked: break;
        }
        return literal(why_);
    }
    [[nodiscard]] std::string negative() const {
        std::string const returned = "it returned " + std::to_string(returned_);
        if (code_ == 0) { return returned; }
        return returned + ", and errno is " + std::to_string(code_) + " (" +
               std::generic_category().message(code_) + ")";
    }
    [[nodiscard]] std::string waiting() const {
        auto const n = [](std::size_t count) { return std::to_string(count); };
        return "pinned blocks: " + n(states_.empty) + " empty, " + n(states_.filling) +
               " being filled, " + n(states_.filled) + " filled, " + n(states_.copying) +
               " being copied; device blocks: " + n(states_.unused) + " unused, " +
               n(states_.ready) + " ready, " + n(states_.held) + " held; " + n(states_.waiting) +
               " producers wait";
    }

    reason             why_;
    std::size_t        index_        = 0;
    std::size_t        source_index_ = unknown;
    std::size_t        bytes_        = 0;
    std::size_t        limit_        = 0;
    long long          returned_     = 0;
    int                code_         = 0;
    slot_states        states_;
    std::exception_ptr cause_;
    call_site          caller_;
    detail::what_text  text_{"vram: loader"};
};

} // namespace vram
