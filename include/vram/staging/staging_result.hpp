// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging_result` states how many bytes a call of a `staging` copied, and how.

#include <vram/staging/transfer_path.hpp>

#include <cstddef>

namespace vram {

/// The result of `staging::upload` or `download`, or of `copy_batch::run`: how many bytes were
/// copied, and how.
///
///     staging_result const r = copies.upload(stream, to, from); // r.path, r.reason()
struct staging_result {
    /// Number of bytes that were copied, or that `copy_batch::run` enqueued.
    std::size_t bytes = 0;
    /// The way in which the bytes were copied.
    transfer_path path = transfer_path::nothing;
    /// Number of copies that were enqueued. Copies that were passed to the driver in one call (path
    /// `batched`) count as one. With the path `gds` (GPUDirect Storage), number of reads or writes.
    std::size_t pieces  = 0;
    unsigned    threads = 0; ///< number of host threads that copied, including the caller's

    /// Returns the reason for which this `path` was chosen, as a sentence.
    [[nodiscard]] char const* reason() const noexcept { return vram::reason(path); }

    friend bool operator==(staging_result const&, staging_result const&) = default;
};

} // namespace vram
