// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batch` is a slot on loan: device memory that is filled when its stream gets there.

#include <vram/transfer/loader_error.hpp> // loader_error
#include <vram/transfer/slot_ring.hpp>    // slot_ring

#include <cstddef>     // size_t, byte
#include <memory>      // shared_ptr
#include <span>        // span
#include <type_traits> // is_trivially_copyable_v
#include <utility>     // exchange, move

namespace vram {

/// One batch on the device. Work on the loader's stream may use it at once; when the object ends,
/// or is released, the slot is free again after what that stream has got by then.
///
///     for (auto& b : batches) {
///         auto const x = b.span<float>();
///         scale<<<grid, block, 0, stream>>>(x.data(), x.size());
///         if (b.index() == 2) { kept = std::move(b); } // the loader goes on with its other slots
///     }
///
/// Failure   `span<Element>` throws `loader_error{wrong_alignment}` when the bytes are no whole
///           number
///           of `Element`
/// Threads   one at a time; it may be released on any thread, also when the loader is gone
/// Streams   `record_stream` names further streams whose work must be over before the slot is used
///           again
/// Cost      the end records one event, and one for each further stream
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

    /// Bytes of the batch; the last one may be shorter than the others.
    [[nodiscard]] std::size_t size() const noexcept { return slot_ != nullptr ? slot_->size : 0; }
    /// Its place in the order, from 0.
    [[nodiscard]] std::size_t index() const noexcept { return slot_ != nullptr ? slot_->index : 0; }
    /// The index that the source was asked for: another one where the order is shuffled.
    [[nodiscard]] std::size_t source_index() const noexcept {
        return slot_ != nullptr ? slot_->asked : 0;
    }
    /// Bytes that came from the source; the others, up to `size()`, are padding.
    [[nodiscard]] std::size_t filled() const noexcept {
        return slot_ != nullptr ? slot_->filled : 0;
    }
    /// Device memory, aligned to 256 bytes; null once released.
    [[nodiscard]] std::byte* data() const noexcept {
        return slot_ != nullptr ? slot_->memory : nullptr;
    }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }

    /// The device memory as elements.
    template <class Element>
        requires std::is_trivially_copyable_v<Element>
    [[nodiscard]] std::span<Element> span() const {
        if (size() % sizeof(Element) != 0) {
            throw loader_error{loader_error::reason::wrong_alignment, index(), size(),
                               sizeof(Element)};
        }
        return {reinterpret_cast<Element*>(data()), size() / sizeof(Element)};
    }

    /// Work on `s` uses the batch too: `s` waits for it here, and the slot waits for `s`.
    void record_stream(stream s) {
        if (slot_ != nullptr && s != stream_) { slot_->add_user(s); }
    }

    /// Ends the loan now, after what the loader's stream has got so far, or after what `s` has.
    void release() noexcept { release(stream_); }
    void release(stream s) noexcept {
        if (slot_ == nullptr) { return; }
        ring_->release(*std::exchange(slot_, nullptr), s);
        ring_.reset();
    }

private:
    template <class, class, class, class>
    friend class loader;

    using ring = slot_ring<Platform>;

    batch(std::shared_ptr<ring> of, typename ring::slot& which, stream s) noexcept
        : ring_{std::move(of)}, slot_{&which}, stream_{s} {}

    std::shared_ptr<ring> ring_;
    typename ring::slot*  slot_ = nullptr;
    stream                stream_{};
};

} // namespace vram
