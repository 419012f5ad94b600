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

/// A block of `guarded`. `p` is the address that the program uses, after the first fence.
struct guarded_block {
    std::byte*  p         = nullptr;
    std::size_t bytes     = 0;
    std::size_t alignment = 0;
    call_site   at{}; ///< the line that allocated the block
    memory_tag  tag{};
    call_site   freed_at{};
};

/// Copies the fences of freed blocks to pinned memory, in the order of a stream, and compares them
/// once the copies are complete. Reports errors of the platform to the error sink. Any thread may
/// call.
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

    /// Copies the fences of `block` to pinned memory on `s`, for a later comparison. Does nothing
    /// if no slot becomes available.
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
    /// Compares the fences that have arrived in pinned memory, up to the first check with
    /// incomplete copies. Does not wait.
    void compare_ready() noexcept {
        while (std::optional<comparison> const done = next(false)) { compare(*done); }
    }
    /// Waits for all copies of fences to pinned memory, and compares the fences.
    void compare_all() noexcept {
        while (std::optional<comparison> const done = next(true)) { compare(*done); }
    }

    /// Copies `bytes` bytes at `from` to the host, waits, and reports the first byte that is not
    /// `expected`. Checks nothing if no slot (pinned memory for one check) becomes free.
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
        bool          failed = false; ///< true if the wait for the copies failed: not compared
    };

    void give_back(std::byte* slot) noexcept {
        auto const held = lock_.hold();
        idle_.push_back(slot);
    }
    /// Waits for the copies of `s` to `slot` (pinned memory), then makes the slot available. After
    /// a failed wait, the slot stays unused.
    void give_back_after(stream s, std::byte* slot) noexcept {
        try {
            Platform::synchronize(s);
        } catch (...) { return report_failed_call("a check of a guarded block"); }
        give_back(slot);
    }

    /// Returns an unused slot (pinned memory for one check), if necessary after completing the
    /// oldest check; null if none becomes free.
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
    /// Removes and returns the oldest check. Returns nothing if there is none, or if its copies are
    /// incomplete and `waits` is false.
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
        if (c.failed) { return give_back(c.slot); }
        if (!report_first(c.slot, fence_, fence_byte, b.p - fence_, b, c.on)) {
            report_first(c.slot + fence_, fence_, fence_byte, b.p + b.bytes, b, c.on);
        }
        give_back(c.slot);
    }
    /// Compares `bytes` bytes at `copy`, which were copied from `from`. If one is not `expected`,
    /// reports the first such byte and returns true.
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
    std::byte*                         memory_ = nullptr; ///< pinned memory for `slots` fence pairs
    platform_lock<Platform>            lock_;
    /// The slots (pinned memory for one check) that no check uses; guarded by `lock_`.
    std::vector<std::byte*> idle_;
    /// The checks of freed blocks' fences, the oldest first; guarded by `lock_`.
    std::list<comparison> pending_;
};

} // namespace detail
} // namespace vram
