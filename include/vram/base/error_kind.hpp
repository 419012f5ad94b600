// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `error_kind` lists the errors that are reported to the error sink; `error` is one of them.

#include <vram/base/call_site.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location> // source_location

namespace vram {

/// The kinds of errors that are reported to the error sink.
enum class error_kind {
    foreign_pointer,  ///< a free of memory that this resource did not allocate
    wrong_size,       ///< a free with another size than that of the allocation
    dead_stream,      ///< a stream was destroyed before a free on it, or with pending uses
    platform_error,   ///< a call of the platform, such as `cudaFree`, failed; `code` is its error
    leak,             ///< memory was live when its resource or scope ended, or could not be freed
    double_free,      ///< a free of a block that is free already
    interior_pointer, ///< a free with an address inside a block instead of its start
    wrong_alignment,  ///< a free with another alignment than the block was allocated with
    /// An exception that could not be thrown to the program, such as one of a destructor, or of a
    /// callback on another thread.
    lost_exception,
    /// A byte just before or after a block, or a byte of a freed block, was written. Found by the
    /// layer `guarded`.
    overrun,
};

/// An alias of `error_kind`, so that programs with its former name still compile.
///
///     if (e.kind == mishap::leak) { ++leaks; }
using mishap = error_kind;

/// Returns the name of the kind, such as "double free". The message of an error (see `error_text`)
/// has this name after "vram: ".
[[nodiscard]] constexpr char const* name(error_kind kind) noexcept {
    switch (kind) {
    case error_kind::foreign_pointer: return "foreign pointer";
    case error_kind::wrong_size: return "wrong size";
    case error_kind::dead_stream: return "dead stream";
    case error_kind::platform_error: return "platform error";
    case error_kind::leak: return "leak";
    case error_kind::double_free: return "double free";
    case error_kind::interior_pointer: return "interior pointer";
    case error_kind::wrong_alignment: return "wrong alignment";
    case error_kind::lost_exception: return "lost exception";
    case error_kind::overrun: return "overrun";
    }
    return "unknown error";
}

/// The name of a stream in an error message. If no member is set, the stream is not known.
struct stream_name {
    std::uint64_t id = 0; ///< id of the stream, unique in the process; 0 if not known
    /// Handle of the stream, such as a `cudaStream_t`; null if unknown, and for a default stream.
    void const* handle = nullptr;
    /// True for a default stream: on another device or thread, its handle means another stream.
    bool is_default = false;

    /// Returns true if the stream is known: at least one member is set.
    [[nodiscard]] constexpr bool known() const noexcept {
        return id != 0 || handle != nullptr || is_default;
    }
};

/// The name and the description of a platform's error code.
struct code_text {
    char const* name = ""; ///< name of the error code, such as "cudaErrorIllegalAddress"
    /// Text of the error code, such as "an illegal memory access was encountered".
    char const* description = "";
};

/// One error for the error sink. Except in `kind`, zero or null means unknown or none. Strings are
/// valid only during the call of the sink.
struct error {
    error_kind kind;
    /// Address passed to the failed function (such as a free), start of a leaked block, or address
    /// of the byte that was overwritten.
    void const* pointer = nullptr;
    /// Bytes passed to the failed function. For a leak: size of the leaked blocks in this report.
    /// For a `dead_stream` without `pointer`: size of freed memory that waited for the destroyed
    /// stream.
    std::size_t bytes = 0;
    int         code  = 0; ///< error code of the platform, such as a `cudaError_t`
    /// Line of vram's source that reports the error.
    std::source_location where = std::source_location::current();

    call_site   caller    = {}; ///< line of the program that called vram
    std::size_t alignment = 0;  ///< the alignment that the free passed
    /// Start of the block that contains the address `pointer`, or that is next to that address.
    void const* block           = nullptr;
    std::size_t block_bytes     = 0; ///< the size with which `block` was allocated
    std::size_t block_alignment = 0; ///< alignment of the allocation of `block`; 0 if unknown
    std::size_t blocks          = 0; ///< number of leaked blocks; 0 if not counted
    /// The program's line that allocated `block`, or the leaked blocks.
    call_site allocated_at = {};
    /// The program's line that freed the block before (for a double free).
    call_site   freed_at = {};
    char const* tag      = nullptr; ///< tag of the block, such as "train/data" (see `tagged`)
    stream_name stream   = {};
    char const* resource = nullptr; ///< type of the reporting object, such as "pool" or "loader"
    /// Function that failed, such as "cudaFree"; null for a free that a resource refuses.
    char const* call = nullptr;
    /// Text with more about the reason, such as `what()` of an exception; null if there is none.
    char const* cause = nullptr;
    /// Sentence of advice to the user in the error message. If null, the message has the usual
    /// advice for an error of this `kind`.
    char const* advice = nullptr;
    /// Function that returns the name and the description of `code`; null if there is none.
    code_text (*text_of)(int) noexcept = nullptr;
};

} // namespace vram
