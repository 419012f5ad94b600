// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batch` is the device memory of one iteration of a loader's loop.

#include <vram/base/call_site.hpp>
#include <vram/concepts/core/user_line.hpp>
#include <vram/transfer/core/slot_ring.hpp>
#include <vram/transfer/loader_error.hpp>

#include <cstddef>
#include <memory>      // shared_ptr
#include <span>        // span
#include <type_traits> // is_trivially_copyable_v
#include <utility>

namespace vram {

/// One batch of a loader in device memory. The loop's stream already waits for the copy: work
/// enqueued on this stream may use the memory until the batch is released or destroyed.
///
///     for (auto& b : batches) {
///         auto const x = b.span<float>();
///         scale<<<grid, block, 0, stream>>>(x.data(), x.size());
///         if (b.index() == 2) { kept = std::move(b); } // the loader goes on with its other slots
///     }
///
/// Failure   `span<Element>` throws `loader_error`. So does `record_stream` during a capture of its
///           stream; otherwise it throws errors of the platform.
/// Threads   One thread at a time; any thread may release a batch, even after the loader's end.
/// Streams   The loader overwrites the memory only after the work that was enqueued before the
///           release on the loop's stream (or the one given to `release`) and on the streams given
///           to `record_stream`.
/// Cost      A release records one event on each stream that uses the batch.
template <class Platform>
class batch {
public:
    using stream = typename Platform::stream;

    batch() = default;
    batch(batch&& other) noexcept
        : ring_{std::move(other.ring_)},
          slot_{std::exchange(other.slot_, nullptr)},
          stream_{other.stream_} {}
    batch& operator=(batch&& other) noexcept {
        if (this == &other) { return *this; }
        release();
        ring_   = std::move(other.ring_);
        slot_   = std::exchange(other.slot_, nullptr);
        stream_ = other.stream_;
        return *this;
    }
    ~batch() { release(); }

    /// Returns the number of bytes of the batch, with padding; 0 after a release. Any batch may be
    /// shorter than `batch_bytes`.
    [[nodiscard]] std::size_t size() const noexcept { return slot_ != nullptr ? slot_->size : 0; }
    /// Returns the number of the batch in the order of the loader's requests, from 0 in each pass;
    /// batches left out count. 0 after a release.
    [[nodiscard]] std::size_t index() const noexcept { return slot_ != nullptr ? slot_->index : 0; }
    /// Returns the index that the loader passed to the source for this batch; 0 after a release.
    /// Differs from `index()`, for example in shuffled order.
    [[nodiscard]] std::size_t source_index() const noexcept {
        return slot_ != nullptr ? slot_->asked : 0;
    }
    /// Returns the number of bytes that came from the source; 0 after a release. The rest, up to
    /// `size()`, is padding (`last_batch::pad`).
    [[nodiscard]] std::size_t filled() const noexcept {
        return slot_ != nullptr ? slot_->filled : 0;
    }
    /// Returns the device memory of the batch, aligned to 256 bytes; null if the batch was released
    /// or moved from.
    [[nodiscard]] std::byte* data() const noexcept {
        return slot_ != nullptr ? slot_->memory : nullptr;
    }
    /// Returns true if this object has no batch: it was default-constructed, released or moved
    /// from. Every batch has at least one byte.
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }

    /// Returns the device memory of the batch as elements. Throws `loader_error` if the bytes are
    /// not a multiple of the element's size.
    template <class Element>
        requires std::is_trivially_copyable_v<Element>
    [[nodiscard]] std::span<Element> span(call_site at = call_site::current()) const {
        if (size() % sizeof(Element) != 0) {
            throw loader_error{loader_error{loader_error::reason::wrong_alignment, index(), size(),
                                            sizeof(Element)}
                                   .from(at)};
        }
        return {reinterpret_cast<Element*>(data()), size() / sizeof(Element)};
    }

    /// Tells the loader that the stream `s` uses the batch. The stream waits for the copy to the
    /// batch's memory. After the release of the batch, the loader overwrites the memory only when
    /// the work enqueued on `s` before the release is complete.
    void record_stream(stream s, call_site at = call_site::current()) {
        detail::user_line<Platform> const here{at};
        if (slot_ == nullptr || s == stream_) { return; }
        if (detail::captures<Platform>(s)) {
            throw loader_error{loader_error{loader_error::reason::capturing, index()}.from(at)};
        }
        slot_->add_user(s);
    }

    /// Releases the batch, so that the loader may overwrite its memory. The loader does so only
    /// after the work enqueued so far on the loop's stream and on the streams given to
    /// `record_stream` is complete. The overload with a stream `s` replaces the loop's stream by
    /// `s`. If one of these streams is being captured, waits for the device, and reports that.
    void release() noexcept { release(stream_, call_site{}); }
    void release(stream s, call_site at = call_site::current()) noexcept {
        if (slot_ == nullptr) { return; }
        detail::user_line<Platform> const here{at};
        ring_->release(*std::exchange(slot_, nullptr), s, !(s == stream_));
        ring_.reset();
    }

private:
    template <class, class, class, class>
    friend class loader;

    using ring = detail::slot_ring<Platform>;

    batch(std::shared_ptr<ring> of, typename ring::slot& which, stream s) noexcept
        : ring_{std::move(of)}, slot_{&which}, stream_{s} {}

    std::shared_ptr<ring> ring_;
    typename ring::slot*  slot_ = nullptr;
    stream                stream_{};
};

} // namespace vram
