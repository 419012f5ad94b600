// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `guard_book` stores the live blocks and the quarantine of the layer `guarded`.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/base/core/address_records.hpp>
#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/base/error.hpp>              // report_error
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/core/refused_free.hpp> // note_refused, collects_refusals
#include <vram/concepts/platform.hpp>
#include <vram/probe/core/guard_checks.hpp> // guard_checks, guarded_block
#include <vram/probe/guarded_options.hpp>

#include <cstddef>
#include <list>     // list
#include <optional> // optional
#include <vector>   // vector

namespace vram {
namespace detail {

/// The live blocks of a layer `guarded`, its quarantine (freed blocks that it keeps for a time),
/// and a stream for calls without a stream. Any thread may call the functions. `lock` guards
/// `kept`, `kept_bytes` and `kept_live`.
template <platform Platform>
class guard_book {
    using block  = guarded_block;
    using stream = typename Platform::stream;

public:
    /// A freed block that the quarantine keeps. The stream of the free records the event `unused`.
    /// Once `unused` is complete, the block may be returned to the upstream.
    struct kept_block {
        block                    freed;
        typename Platform::event unused;
        std::size_t              live; ///< bytes that the upstream counts as live for the block
    };

    explicit guard_book(guarded_options const& o) : options{o}, checks{checked(o.fence)} {}

    void add(block const& b) {
        auto const held = lock.hold();
        live_.at(b.p)   = b;
    }
    /// Removes and returns the record of the live block of `bytes` bytes at `p`. If there is no
    /// such block, reports a wrong free and returns nothing.
    [[nodiscard]] std::optional<block> take(void* p, std::size_t bytes, call_site at) noexcept {
        error wrong{.kind     = error_kind::foreign_pointer,
                    .pointer  = p,
                    .bytes    = bytes,
                    .caller   = at,
                    .resource = "guarded",
                    .advice   = "The block was freed before, or another resource allocated it."};
        {
            auto const held = lock.hold();
            if (block const* const found = live_.find(p)) {
                block b = *found;
                if (b.bytes == bytes) {
                    live_.take(p, b);
                    b.freed_at = at;
                    return b;
                }
                wrong.kind         = error_kind::wrong_size;
                wrong.block        = p;
                wrong.block_bytes  = b.bytes;
                wrong.allocated_at = b.at;
                wrong.tag          = b.tag.path();
                wrong.advice       = nullptr;
            }
            for (kept_block const& each : kept) {
                if (each.freed.p == p) { wrong.kind = error_kind::double_free; }
            }
        }
        report_error(wrong);
        note_refused(p);
        if constexpr (collects_refusals<Platform>) { Platform::refused(wrong); }
        return std::nullopt;
    }

    [[nodiscard]] bool is_live(void const* p) const noexcept {
        auto const held = lock.hold();
        return live_.find(p) != nullptr;
    }
    /// Returns copies of the records of the live blocks. If there is too little host memory for all
    /// of them, reports an error to the error sink and returns only some.
    [[nodiscard]] std::vector<block> all_live() const noexcept {
        std::vector<block> all;
        try {
            auto const held = lock.hold();
            live_.for_each([&](block const& each) { all.push_back(each); });
        } catch (...) { report_failed_call("guarded: check"); }
        return all;
    }

    /// Adds `blocks` to the quarantine, before the blocks that it has if `oldest` is true.
    void keep(std::list<kept_block>& blocks, bool oldest) noexcept {
        auto const held = lock.hold();
        for (kept_block const& each : blocks) {
            kept_bytes += each.freed.bytes;
            kept_live += each.live;
        }
        kept.splice(oldest ? kept.begin() : kept.end(), blocks);
    }
    /// Removes and returns the oldest block of the quarantine. Returns an empty list if the
    /// quarantine has at most `most` bytes.
    [[nodiscard]] std::list<kept_block> take_oldest(std::size_t most) noexcept {
        std::list<kept_block> oldest;
        auto const            held = lock.hold();
        if (kept.empty() || kept_bytes <= most) { return oldest; }
        oldest.splice(oldest.end(), kept, kept.begin());
        kept_bytes -= oldest.front().freed.bytes;
        kept_live -= oldest.front().live;
        return oldest;
    }

    /// Waits for all uses of a freed block. Returns false if that fails, which is reported.
    [[nodiscard]] static bool await_uses(kept_block const& of) noexcept {
        try {
            Platform::synchronize(of.unused);
            return true;
        } catch (...) { report_failed_call("guarded: quarantine"); }
        return false;
    }

    void fill(stream s, std::byte* p, std::byte with, std::size_t bytes,
              bool always = false) noexcept {
        if (!always && !options.fills) { return; }
        try {
            Platform::fill(s, p, with, bytes);
        } catch (...) { report_failed_call("guarded: fill"); }
    }
    static void synchronize(stream s) noexcept {
        try {
            Platform::synchronize(s);
        } catch (...) { report_failed_call("guarded: synchronize"); }
    }
    [[nodiscard]] static bool is_capturing(stream s) noexcept {
        try {
            return Platform::capturing(s);
        } catch (...) { return false; }
    }
    /// Returns the stream on which `guarded` works if a call has no stream. The first call of this
    /// function makes the stream.
    [[nodiscard]] stream make_own_stream() {
        auto const held = lock.hold();
        if (!own_) { own_.emplace(); }
        return own_->view();
    }
    /// Returns the stream on which `guarded` works if a call has no stream. If the stream cannot be
    /// made, reports an error to the error sink and returns nothing.
    [[nodiscard]] std::optional<stream> own_stream() noexcept {
        try {
            return make_own_stream();
        } catch (...) {
            report_failed_call("guarded: stream");
            return std::nullopt;
        }
    }

    guarded_options         options;
    guard_checks<Platform>  checks;
    platform_lock<Platform> lock;
    std::list<kept_block>   kept;
    std::size_t             kept_bytes = 0;
    /// Bytes of the quarantined blocks that the upstream counts as live. `guarded::usage` subtracts
    /// them from the live bytes of the upstream.
    std::size_t kept_live = 0;

private:
    [[nodiscard]] static std::size_t checked(std::size_t fence) {
        expects(fence >= 16 && (fence & (fence - 1)) == 0,
                "guarded: the fence must be a power of two of at least 16");
        return fence;
    }

    address_records<block>                       live_; ///< guarded by `lock`
    std::optional<typename Platform::own_stream> own_;  ///< created at first use; guarded by `lock`
};

} // namespace detail
} // namespace vram
