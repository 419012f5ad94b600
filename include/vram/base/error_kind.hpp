// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `error_kind` lists the errors that are reported to the error sink; `error` is one of them.

#include <vram/base/call_site.hpp> // call_site

#include <cstddef>         // size_t
#include <cstdint>         // uint64_t
#include <source_location> // source_location

namespace vram {

/// The kinds of errors that are reported to the error sink.
enum class error_kind {
    foreign_pointer,  ///< freed memory that this resource did not allocate
    wrong_size,       ///< freed with another size than it was allocated with
    dead_stream,      ///< a stream was destroyed while memory waited for it
    platform_error,   ///< a call of the platform failed; `code` is its error
    leak,             ///< memory was live when its resource ended, or could not be returned
    double_free,      ///< freed memory that is free already
    interior_pointer, ///< freed with an address inside a block, not with its start
    wrong_alignment,  ///< freed with another alignment than it was allocated with
    lost_exception,   ///< an exception of a source, a sink or a callback that no call could throw
};
using mishap = error_kind; ///< former name of `error_kind`

/// Returns the words with which the message of an error of this kind begins.
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
    }
    return "unknown error";
}

/// Name of a stream in a message. The stream is unknown if no member is set.
struct stream_name {
    std::uint64_t id         = 0;       ///< id of the stream on its platform
    void const*   handle     = nullptr; ///< the handle that the user passed: a `cudaStream_t`
    bool          is_default = false;   ///< a default stream, which has no handle of its own

    /// Returns true if any member is set.
    [[nodiscard]] constexpr bool known() const noexcept {
        return id != 0 || handle != nullptr || is_default;
    }
};

/// The name and the description of a platform's error code.
struct code_text {
    char const* name        = ""; ///< such as "cudaErrorIllegalAddress"
    char const* description = ""; ///< such as "an illegal memory access was encountered"
};

/// One reported error with its numbers. Zero, null and unknown mean: not known; a message contains
/// only what is known. Strings are valid during the call of the sink.
struct error {
    error_kind  kind;
    void const* pointer = nullptr; ///< the address that was passed, or the block concerned
    std::size_t bytes   = 0;       ///< the size that was passed; of a leak: bytes in all
    int         code    = 0;       ///< number of a platform error, or 0
    /// Line in vram that reports the error.
    std::source_location where = std::source_location::current();

    call_site   caller          = {};      ///< line of the program that called vram
    std::size_t alignment       = 0;       ///< alignment that the caller of the free passed
    void const* block           = nullptr; ///< the start of the block that contains `pointer`
    std::size_t block_bytes     = 0;       ///< the size that the block was allocated with
    std::size_t block_alignment = 0;       ///< alignment with which the block was allocated
    std::size_t blocks          = 0;       ///< number of blocks that leaked
    stream_name stream          = {};
    char const* resource        = nullptr; ///< name of the resource that reports, such as "pool"
    char const* call            = nullptr; ///< call of the platform that failed, such as "cudaFree"
    /// More about the reason, such as the text of an exception.
    char const* cause = nullptr;
    /// Advice to the user; null means the usual sentence of this kind.
    char const* advice = nullptr;
    /// Function that returns the texts of `code`, or null.
    code_text (*text_of)(int) noexcept = nullptr;
};

} // namespace vram
