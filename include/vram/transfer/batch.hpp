// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batch` is the device memory of one iteration of a loader's loop.

#include <vram/base/call_site.hpp> // call_site
#include <vram/concepts/core/user_line.hpp>
#include <vram/transfer/core/slot_ring.hpp> // slot_ring
#include <vram/transfer/loader_error.hpp>   // loader_error

#include <cstddef>     // size_t, byte
#include <memory>      // shared_ptr
#include <span>        // span
#include <type_traits> // is_trivially_copyable_v
#include <utility>     // exchange, move

namespace vram {

/// One batch of a loader in device memory. The loop's stream already waits for the copy, so work
/// enqueued on it may use the memory. After the batch is destroyed or released, the loader
/// overwrites the memory once the work enqueued before that on the loop's stream is complete.
///
///     for (auto& b : batches) {
///         auto const x = b.span<float>();
///         scale<<<grid, block, 0, stream>>>(x.data(), x.size());
///         if (b.index() == 2) { kept = std::move(b); } // the loader goes on with its other slots
///     }
///
/// Failure   `span<Element>` throws `loader_error{wrong_alignment}` if the bytes of the batch are
///           not a multiple of the element's size.
/// Threads   One thread at a time. Any thread may release it, even after the loader's end.
/// Streams   `record_stream` adds a stream that uses the batch. The loader overwrites the memory
///           only after the work on all these streams.
/// Cost      A release records one event for the loop's stream and one for each further stream.
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

    /// Returns the bytes of the batch. The last batch may be shorter than the others.
    [[nodiscard]] std::size_t size() const noexcept { return slot_ != nullptr ? slot_->size : 0; }
    /// Returns the number of the batch in the order in which the loop gets them, from 0. There is a
    /// gap if `last_batch::drop` discards a batch that the source has filled.
    [[nodiscard]] std::size_t index() const noexcept { return slot_ != nullptr ? slot_->index : 0; }
    /// Returns the index that the loader passed to the source for this batch. It may differ from
    /// `index()` if the order is shuffled, if several loaders share the source
    /// (`loader_options::shards`), or if `last_batch::drop` leaves out batches before this one.
    [[nodiscard]] std::size_t source_index() const noexcept {
        return slot_ != nullptr ? slot_->asked : 0;
    }
    /// Returns the number of bytes that came from the source. The rest, up to `size()`, is padding.
    [[nodiscard]] std::size_t filled() const noexcept {
        return slot_ != nullptr ? slot_->filled : 0;
    }
    /// Returns the device memory of the batch, aligned to 256 bytes; null after a release.
    [[nodiscard]] std::byte* data() const noexcept {
        return slot_ != nullptr ? slot_->memory : nullptr;
    }
    /// Returns true if the batch has no bytes, or was released.
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

    /// Adds a stream `s` that uses the batch. Later work on `s` waits for the copy of the batch,
    /// and the loader does not overwrite the memory before the work on `s` is complete.
    void record_stream(stream s, call_site at = call_site::current()) {
        detail::user_line<Platform> const here{at};
        if (slot_ != nullptr && s != stream_) { slot_->add_user(s); }
    }

    /// Releases the batch, which is then empty. The loader overwrites the memory after the work
    /// that was enqueued so far on the loop's stream (or on `s`, if given).
    void release() noexcept { release(stream_, call_site{}); }
    void release(stream s, call_site at = call_site::current()) noexcept {
        if (slot_ == nullptr) { return; }
        detail::user_line<Platform> const here{at};
        ring_->release(*std::exchange(slot_, nullptr), s);
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
