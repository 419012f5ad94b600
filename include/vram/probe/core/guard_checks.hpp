// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `guard_checks` compares memory of a device with the byte with which it was filled.

#include <vram/base/call_site.hpp>
#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/base/core/smaller_of.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/base/tag.hpp>   // memory_tag
#include <vram/concepts/core/name_of_stream.hpp>
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/platform.hpp>

#include <cstddef>
#include <list>     // list
#include <optional> // optional
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// A block of the layer `guarded`, which puts a fence (guard bytes) before and after each block.
/// `p` is the address that the program uses, after the first fence.
struct guarded_block {
    std::byte*  p         = nullptr;
    std::size_t bytes     = 0;
    std::size_t alignment = 0;
    call_site   at{}; ///< the line that allocated the block
    memory_tag  tag{};
    call_site   freed_at{};
    /// True if the allocation was captured: its fences have their value only after a launch.
    bool captured = false;
};

/// Checks the fences (guard bytes before and after each block) of freed blocks. Enqueues copies of
/// the fences to pinned memory, and compares the copies on the host once they are complete. Any
/// thread may call.
template <platform Platform>
class guard_checks {
    using stream = typename Platform::stream;
    using event  = typename Platform::event;

public:
    static constexpr std::byte fence_byte{0xFD};
    static constexpr std::byte fresh_byte{0xCD};
    static constexpr std::byte freed_byte{0xDD};

    explicit guard_checks(std::size_t fence) : fence_{fence} {
        memory_ = static_cast<std::byte*>(pinned_.allocate_sync(slots * 2 * fence_));
        for (std::size_t i = 0; i != slots; ++i) { idle_.push_back(memory_ + i * 2 * fence_); }
    }
    guard_checks(guard_checks const&)            = delete;
    guard_checks& operator=(guard_checks const&) = delete;
    ~guard_checks() { pinned_.deallocate_sync(memory_, slots * 2 * fence_); }

    [[nodiscard]] std::size_t fence() const noexcept { return fence_; }

    /// Enqueues copies of both fences (guard bytes) of `block` on the stream `s`. A later call,
    /// such as `compare_ready`, compares them. Does nothing if no pinned memory becomes free.
    void copy_fences(stream s, guarded_block const& block) noexcept {
        std::byte* const slot = take_slot();
        if (slot == nullptr) { return; }
        try {
            Platform::copy(s, slot, block.p - fence_, fence_);
            Platform::copy(s, slot + fence_, block.p + block.bytes, fence_);
            event copied{Platform::device_of(s)};
            Platform::record(copied, s);
            auto const held = lock_.hold();
            pending_.push_back({std::move(copied), slot, block, name_of_stream<Platform>(s)});
        } catch (...) {
            report_failed_call("a check of a guarded block");
            give_back_after(s, slot);
        }
    }
    /// Compares the copied fences (guard bytes) of freed blocks, the oldest first, up to the first
    /// copy that is not complete. Does not wait.
    void compare_ready() noexcept {
        while (std::optional<comparison> const done = next(false)) { compare(*done); }
    }
    /// Waits until all copies of fences (guard bytes) are complete, and compares them.
    void compare_all() noexcept {
        while (std::optional<comparison> const done = next(true)) { compare(*done); }
    }

    /// Copies `bytes` bytes at `from` to pinned memory on the stream `own`, and waits for the copy.
    /// Reports the first byte that is not `expected`. Does nothing if no pinned memory becomes
    /// free.
    void compare_now(stream own, std::byte const* from, std::size_t bytes, std::byte expected,
                     guarded_block const& block) noexcept {
        std::byte* const slot = take_slot();
        if (slot == nullptr) { return; }
        try {
            for (std::size_t done = 0; done != bytes;) {
                std::size_t const n = smaller_of(bytes - done, 2 * fence_);
                Platform::copy(own, slot, from + done, n);
                Platform::synchronize(own);
                if (report_first(slot, n, expected, from + done, block, {})) { break; }
                done += n;
            }
        } catch (...) {
            report_failed_call("a check of a guarded block");
            return give_back_after(own, slot);
        }
        give_back(slot);
    }

private:
    static constexpr std::size_t slots = 64;

    struct comparison {
        event         copied;
        std::byte*    slot;
        guarded_block block;
        stream_name   on;
        bool          failed = false; ///< true if waiting for the copies failed
    };

    void give_back(std::byte* slot) noexcept {
        auto const held = lock_.hold();
        idle_.push_back(slot);
    }
    /// Waits until the stream `s` has completed its copies to `slot`. Then other checks may use
    /// `slot`. If waiting fails, `slot` is never used again, because a copy may still write to it.
    void give_back_after(stream s, std::byte* slot) noexcept {
        try {
            Platform::synchronize(s);
        } catch (...) { return report_failed_call("a check of a guarded block"); }
        give_back(slot);
    }

    /// Returns an unused slot (pinned memory for one check). If all slots are in use, first
    /// completes the oldest check. Returns null if no slot becomes free.
    [[nodiscard]] std::byte* take_slot() noexcept {
        for (;;) {
            {
                auto const held = lock_.hold();
                if (!idle_.empty()) {
                    std::byte* const slot = idle_.back();
                    idle_.pop_back();
                    return slot;
                }
            }
            std::optional<comparison> const oldest = next(true);
            if (!oldest) { return nullptr; }
            compare(*oldest);
        }
    }
    /// Removes and returns the oldest check, or returns nothing if there is none. If `waits` is
    /// true, waits for the copies of that check. If `waits` is false and these copies are
    /// incomplete, keeps the check and returns nothing.
    [[nodiscard]] std::optional<comparison> next(bool waits) noexcept {
        std::optional<comparison> oldest;
        try {
            auto const held = lock_.hold();
            if (pending_.empty()) { return oldest; }
            if (!waits && !Platform::done(pending_.front().copied)) { return oldest; }
            oldest.emplace(std::move(pending_.front()));
            pending_.pop_front();
        } catch (...) {
            report_failed_call("a check of a guarded block");
            return oldest;
        }
        if (waits) {
            try {
                Platform::synchronize(oldest->copied);
            } catch (...) {
                report_failed_call("a check of a guarded block");
                oldest->failed = true;
            }
        }
        return oldest;
    }
    void compare(comparison const& c) noexcept {
        guarded_block const& b = c.block;
        if (c.failed) { return; } // the slot stays unused, because its copies may be pending
        if (!report_first(c.slot, fence_, fence_byte, b.p - fence_, b, c.on)) {
            report_first(c.slot + fence_, fence_, fence_byte, b.p + b.bytes, b, c.on);
        }
        give_back(c.slot);
    }
    /// Compares each of the `bytes` bytes at `copy` with `expected`. At the first difference,
    /// reports an error and returns true. `from` is the address from which the bytes were copied.
    static bool report_first(std::byte const* copy, std::size_t bytes, std::byte expected,
                             std::byte const* from, guarded_block const& block,
                             stream_name on) noexcept {
        for (std::size_t i = 0; i != bytes; ++i) {
            if (copy[i] == expected) { continue; }
            report_error({.kind         = error_kind::overrun,
                          .pointer      = from + i,
                          .caller       = block.freed_at,
                          .block        = block.p,
                          .block_bytes  = block.bytes,
                          .allocated_at = block.at,
                          .tag          = block.tag.path(),
                          .stream       = on,
                          .resource     = "guarded"});
            return true;
        }
        return false;
    }

    typename Platform::pinned_resource pinned_;
    std::size_t                        fence_;
    std::byte*                         memory_ = nullptr; ///< pinned memory for all slots
    platform_lock<Platform>            lock_;
    std::vector<std::byte*>            idle_;    ///< slots that are not in use; guarded by `lock_`
    std::list<comparison>              pending_; ///< the oldest first; guarded by `lock_`
};

} // namespace detail
} // namespace vram
