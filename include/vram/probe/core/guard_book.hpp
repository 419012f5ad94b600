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
#include <vram/concepts/platform.hpp>
#include <vram/probe/core/guard_checks.hpp> // guard_checks, guarded_block
#include <vram/probe/guarded_options.hpp>

#include <cstddef>
#include <list>     // list
#include <optional> // optional
#include <vector>   // vector

namespace vram {
namespace detail {

/// The live blocks of a `guarded`, its quarantine, and its own stream, for calls without a stream.
/// Any thread may call the functions; `lock` guards `kept` and its figures.
template <platform Platform>
class guard_book {
    using block  = guarded_block;
    using stream = typename Platform::stream;

public:
    /// A block in the quarantine. Its memory can be freed once the event `unused` is complete.
    struct kept_block {
        block                    freed;
        typename Platform::event unused;
    };

    explicit guard_book(guarded_options const& o) : options{o}, checks{checked(o.fence)} {}

    void add(block const& b) {
        auto const held = lock.hold();
        live_.at(b.p)   = b;
    }
    /// Removes and returns the live block at `p`. Reports the free and returns nothing if none of
    /// `bytes` bytes begins at `p`.
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
        }
        report_error(wrong);
        return std::nullopt;
    }

    [[nodiscard]] bool is_live(void const* p) const noexcept {
        auto const held = lock.hold();
        return live_.find(p) != nullptr;
    }
    /// Returns copies of the records of the live blocks. If host memory is missing, reports that
    /// and returns some of them.
    [[nodiscard]] std::vector<block> all_live() const noexcept {
        std::vector<block> all;
        try {
            auto const held = lock.hold();
            live_.for_each([&](block const& each) { all.push_back(each); });
        } catch (...) { report_failed_call("guarded: check"); }
        return all;
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
    /// Returns the stream of the layer. The first call creates it.
    [[nodiscard]] stream make_own_stream() {
        auto const held = lock.hold();
        if (!own_) { own_.emplace(); }
        return own_->view();
    }
    /// Returns the stream of the layer, or nothing, with a report, if it cannot be created.
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
    /// Bytes of the quarantined blocks (`kept`), with fences and the upstream's rounding, that the
    /// upstream still counts as live. `guarded::usage` subtracts them.
    std::size_t kept_live = 0;

private:
    [[nodiscard]] static std::size_t checked(std::size_t fence) {
        expects(fence >= 16 && (fence & (fence - 1)) == 0,
                "guarded: the fence must be a power of two of at least 16");
        return fence;
    }

    address_records<block>                       live_; ///< guarded by `lock`
    std::optional<typename Platform::own_stream> own_;  ///< the layer's stream; guarded by `lock`
};

} // namespace detail
} // namespace vram
