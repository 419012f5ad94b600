// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging_error` is a failure of staging, with the number of bytes that are complete.

#include <vram/base/call_site.hpp>
#include <vram/base/core/what_text.hpp> // what_text, what_of
#include <vram/staging/transfer_path.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>    // snprintf
#include <exception> // exception, exception_ptr, rethrow_exception
#include <string>    // string, to_string
#include <utility>

namespace vram {

/// Thrown by a `staging` if a part of the copy failed, with the exception `cause()`, or if the
/// arguments of the call were invalid.
///
///     try { stage.upload(stream, to, from); } catch (staging_error const& e) {
///         e.whole();            // number of bytes from the beginning that are complete
///         e.rethrow_cause();    // cuda_error, file_error, ...
///     }
class staging_error : public std::exception {
public:
    /// Reasons of a `staging_error`.
    enum class reason : unsigned char {
        failed,            ///< a part of the copy failed, such as a read of a file: see `cause()`
        capturing,         ///< the stream is being captured into a graph
        other_device,      ///< the stream and the `staging` belong to different devices
        not_device_memory, ///< the device address is null or in pageable memory
        not_host_memory,   ///< the host address is null or in device memory
    };

    explicit staging_error(reason why, std::size_t bytes = 0,
                           void const* pointer = nullptr) noexcept
        : why_{why},
          bytes_{bytes},
          pointer_{pointer},
          text_{literal(why), [this] { return text(); }} {}
    staging_error(std::exception_ptr cause, transfer_path path, std::size_t whole,
                  std::size_t bytes) noexcept
        : why_{reason::failed},
          path_{path},
          whole_{whole},
          bytes_{bytes},
          cause_{std::move(cause)},
          text_{literal(reason::failed), [this] { return text(); }} {}

    /// Stores the line of the program that called the `staging`, and returns this error. The text
    /// of `what()` then begins with this line.
    staging_error& from(call_site at) noexcept {
        caller_ = at;
        text_ =
            detail::what_text{literal(why_), [this] { return detail::line_of(caller_) + text(); }};
        return *this;
    }

    /// Returns the line of the program that called the `staging`. `what()` begins with this line.
    /// The line is unknown if no `call_site` was passed to the `staging`.
    [[nodiscard]] call_site caller() const noexcept { return caller_; }
    [[nodiscard]] reason    why() const noexcept { return why_; }
    /// Returns how many bytes from the beginning of the data were copied without a gap. Bytes
    /// behind the first gap may have been copied as well. Returns 0 if a wait for the device
    /// failed, because CUDA does not tell which of the earlier copies failed.
    [[nodiscard]] std::size_t whole() const noexcept { return whole_; }
    /// Returns the number of bytes that the call was to copy.
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    /// Returns the way in which the bytes were being copied. Returns `nothing` if the arguments of
    /// the call were invalid.
    [[nodiscard]] transfer_path path() const noexcept { return path_; }
    /// Returns the address that the caller passed if `why()` is `not_device_memory` or
    /// `not_host_memory`, else null. The invalid address may itself be null.
    [[nodiscard]] void const* pointer() const noexcept { return pointer_; }

    /// Returns the exception of the copy, file or thread that failed; null if the arguments were
    /// invalid.
    [[nodiscard]] std::exception_ptr const& cause() const noexcept { return cause_; }
    /// Throws the exception `cause()`. If there is no such exception, throws a copy of this error.
    [[noreturn]] void rethrow_cause() const {
        if (cause_ != nullptr) { std::rethrow_exception(cause_); }
        throw staging_error{*this};
    }

    /// Returns a text with the line of the caller (if known), the reason, the number of bytes, and
    /// the text of `cause()` or the invalid address.
    [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

private:
    static constexpr char const* literal(reason why) noexcept {
        switch (why) {
        case reason::failed: return "vram: a staging copy failed";
        case reason::capturing: return "vram: staging cannot be used while its stream is captured";
        case reason::other_device:
            return "vram: the stream and the staging belong to different devices";
        case reason::not_device_memory:
            return "vram: the device address of a staging copy is not device memory";
        case reason::not_host_memory:
            return "vram: the host address of a staging copy is not host memory";
        }
        return "vram: staging";
    }
    [[nodiscard]] std::string text() const {
        std::string const base = literal(why_);
        std::string const all  = std::to_string(bytes_) + " bytes";
        if (why_ != reason::failed) {
            if (why_ != reason::not_device_memory && why_ != reason::not_host_memory) {
                return base + " (" + all + ")";
            }
            char address[2 + 2 * sizeof(void*) + 1];
            std::snprintf(
                address, sizeof address, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(pointer_)));
            return base + " (" + all + " at " + address + ")";
        }
        return base + " (" + name(path_) + "): " + std::to_string(whole_) + " of " + all +
               " from the beginning are copied: " + detail::what_of(cause_);
    }

    reason             why_;
    transfer_path      path_    = transfer_path::nothing;
    std::size_t        whole_   = 0;
    std::size_t        bytes_   = 0;
    void const*        pointer_ = nullptr;
    std::exception_ptr cause_;
    call_site          caller_;
    detail::what_text  text_;
};

} // namespace vram
