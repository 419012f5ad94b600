// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_stream_hold` keeps the handle of a `cuda_stream` valid after its owner has destroyed it.

#include <vram/cuda/core/cuda_capture_guard.hpp>
#include <vram/cuda/core/cuda_context.hpp>
#include <vram/cuda/cuda_device.hpp>
#include <vram/cuda/cuda_error.hpp>

#include <cuda_runtime_api.h> // cudaStreamDestroy

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

class cuda_stream_ids; // defined in cuda/core/cuda_stream_ids.hpp

/// A counted reference to a stream that vram created. While a reference exists, the stream's handle
/// stays valid and an event can be recorded on the stream, even if the owner (a `cuda_stream`) was
/// destroyed. The last reference destroys the stream. If the owner has released the handle, or the
/// device was reset, references have no effect on the stream.
///
/// Threads   The rules are those of `std::shared_ptr`.
class cuda_stream_hold {
public:
    cuda_stream_hold() = default;
    cuda_stream_hold(cuda_stream_hold const& other) noexcept : its_{other.its_} {
        if (its_ != nullptr) { its_->shares.fetch_add(1, std::memory_order_relaxed); }
    }
    cuda_stream_hold(cuda_stream_hold&& other) noexcept
        : its_{std::exchange(other.its_, nullptr)} {}
    cuda_stream_hold& operator=(cuda_stream_hold other) noexcept {
        std::swap(its_, other.its_);
        return *this;
    }
    ~cuda_stream_hold() { let_go(); }

    /// Returns true if the handle is valid: this object is not empty, the owner has not released
    /// the handle, and no reset is known.
    explicit operator bool() const noexcept {
        return its_ != nullptr && !its_->given_away.load(std::memory_order_relaxed) &&
               !cuda_context::over(its_->life);
    }
    /// Asks the driver if a reset of the device has destroyed the stream. Returns false if this
    /// object is empty.
    [[nodiscard]] bool reset() const noexcept {
        return its_ != nullptr && cuda_context::ended(its_->life);
    }
    /// Returns true if the owner of the stream, a `cuda_stream`, was destroyed. Returns false if
    /// this object is empty.
    [[nodiscard]] bool ended() const noexcept {
        return its_ != nullptr && its_->ended.load(std::memory_order_acquire);
    }
    /// Records the event `e` behind the work of the stream, even if the owner of the stream has
    /// been destroyed. The handle must be valid (`operator bool`).
    template <class Event>
    void record(Event& e) const {
        e.record(its_->stream);
    }

    [[nodiscard]] cudaStream_t get() const noexcept {
        return its_ != nullptr ? its_->stream : nullptr;
    }
    [[nodiscard]] std::uint64_t id() const noexcept { return its_ != nullptr ? its_->id : 0; }

private:
    friend class cuda_stream_ids;

    /// State that all references to one stream share: the handle and id, the number `shares` of
    /// references, and `ended` (true once the owner was destroyed).
    struct shared {
        cudaStream_t             stream;
        std::uint64_t            id;
        cuda_context::life       life;
        std::atomic<std::size_t> shares{1};
        std::atomic<bool>        ended{false};
        /// True after `cuda_stream::release`: the program must destroy the stream, and vram does
        /// not.
        std::atomic<bool> given_away{false};
    };

    explicit cuda_stream_hold(shared* its) noexcept : its_{its} {}

    /// Drops this reference. If it was the last reference to the stream, destroys the stream. Does
    /// not destroy a stream that the owner released, or that a reset of the device destroyed.
    void let_go() noexcept;

    shared* its_ = nullptr;
};

} // namespace detail
} // namespace vram
