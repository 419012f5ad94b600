// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool_program` interprets bytes as operations on a pool, and throws if the pool makes an error.

#include "../doubles/mishaps.hpp" // mishaps
#include "../laws/claims.hpp"     // claims

#include <vram/base/align.hpp>           // is_aligned
#include <vram/layer/stream_ordered.hpp> // stream_ordered
#include <vram/pool/pool.hpp>            // pool
#include <vram/sim/sim.hpp>              // sim_node, sim_stream, sim_launch

#include <algorithm> // max
#include <array>     // array
#include <cstddef>   // size_t
#include <cstdint>   // uint8_t, uintptr_t
#include <limits>    // numeric_limits
#include <new>       // bad_alloc
#include <optional>  // optional
#include <span>      // span
#include <stdexcept> // runtime_error
#include <string>    // string
#include <vector>    // vector

namespace fuzz {

using namespace vram::literals;

/// An error of a pool.
struct wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};
inline void must(bool holds, char const* what) {
    if (!holds) { throw wrong{what}; }
}

/// Bytes, one after the other; zero after the last.
class reader {
public:
    explicit reader(std::span<std::uint8_t const> bytes) : rest_{bytes} {}

    [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }
    unsigned           next() noexcept {
        if (rest_.empty()) { return 0; }
        unsigned const byte = rest_.front();
        rest_               = rest_.subspan(1);
        return byte;
    }

private:
    std::span<std::uint8_t const> rest_;
};

/// Four streams allocate, use, hand over and free blocks of one pool, and make mistakes: wrong
/// sizes, foreign pointers, failing platform calls. No byte may be allocated twice or reused before
/// its last use is complete, and at the end the device must be empty.
template <class R>
class pool_program {
public:
    pool_program(R& pool, vram::sim_node& node, doubles::mishaps& told)
        : pool_{pool}, node_{node}, told_{told} {
        for (auto& each : streams_) { each.emplace(); }
    }

    /// An operation is two bytes: the low half of the first selects it, the rest are its
    /// parameters.
    void run(reader input) {
        while (!input.empty()) {
            unsigned const first = input.next();
            step(first % 16, first / 16, input.next());
            must(node_.reports().empty(), "the device has seen a mistake");
        }
        finish();
    }

private:
    using platform = vram::sim_platform;

    struct block {
        void*       p;
        std::size_t bytes;
        std::size_t alignment;
        unsigned    user;
    };

    void step(unsigned what, unsigned high, unsigned low) {
        unsigned const s = high % 4;
        switch (what) {
        case 5: return take({nullptr, size_of(low), 256, s}, true);
        case 6:
        case 7:
        case 8:
        case 9: return give(low, {});
        case 10: return give(low, s);
        case 11: return give_sync(low);
        case 12: return again(low, high);
        case 13: return aside(high, low);
        case 14: return misuse(high, low);
        case 15: return plant(high, low);
        default: return take({nullptr, size_of(low), 256, s}, false);
        }
    }
    /// 16 B to 1 MiB.
    static std::size_t size_of(unsigned low) noexcept {
        std::size_t const base = std::size_t{16} << low / 16;
        return base + base / 16 * (low % 16);
    }

    vram::sim_stream_view stream(unsigned s) const { return streams_[s]->view(); }

    void take(block b, bool sync) {
        try {
            b.p = sync ? pool_.allocate_sync(b.bytes, b.alignment)
                       : pool_.allocate(stream(b.user), b.bytes, b.alignment);
        } catch (std::bad_alloc const&) { return; } catch (vram::sim_error const&) {
            must(planted_, "a call failed that nobody made fail");
            return;
        }
        must(b.p != nullptr && vram::is_aligned(b.p, b.alignment), "a block is not aligned");
        must(pool_.owns(b.p), "a block that is out is not owned");
        must(taken_.take(reinterpret_cast<std::uintptr_t>(b.p), b.bytes),
             "a byte was handed out twice");
        out_ += b.bytes;
        blocks_.push_back(b);
        use(b, 2);
    }
    void use(block const& b, unsigned high) {
        vram::sim_launch(stream(b.user), {.name     = "use",
                                          .writes   = {{b.p, b.bytes}},
                                          .duration = vram::sim_time{1000} * high * high});
    }
    /// Removes a live block from the table; returns an empty one if there is none.
    block pick(unsigned which) {
        if (blocks_.empty()) { return {}; }
        block& chosen = blocks_[which % blocks_.size()];
        block  b      = chosen;
        chosen        = blocks_.back();
        blocks_.pop_back();
        return b;
    }
    void leave(block const& b) {
        must(taken_.give(reinterpret_cast<std::uintptr_t>(b.p), b.bytes), "a block is not its own");
        out_ -= b.bytes;
    }
    void give(unsigned which, std::optional<unsigned> to) {
        block b = pick(which);
        if (b.bytes == 0) { return; }
        if (to && hand_over(b, *to)) { b.user = *to; }
        leave(b);
        pool_.deallocate(stream(b.user), b.p, b.bytes, b.alignment);
    }
    void give_sync(unsigned which) {
        block const b = pick(which);
        if (b.bytes == 0) { return; }
        leave(b);
        if (synchronize(b.user)) { return pool_.deallocate_sync(b.p, b.bytes, b.alignment); }
        pool_.deallocate(stream(b.user), b.p, b.bytes, b.alignment);
    }
    bool synchronize(unsigned s) {
        try {
            platform::synchronize(stream(s));
            return true;
        } catch (vram::sim_error const&) { return false; }
    }
    /// Orders later work of `to` after the uses of the block. Returns true on success.
    bool hand_over(block const& b, unsigned to) {
        if (b.user == to) { return true; }
        try {
            vram::sim_event place;
            place.record(stream(b.user));
            place.wait(stream(to));
            return true;
        } catch (vram::sim_error const&) { return false; }
    }
    void again(unsigned which, unsigned high) {
        if (blocks_.empty()) { return; }
        block& b = blocks_[which % blocks_.size()];
        if (hand_over(b, high % 4)) { b.user = high % 4; }
        use(b, high);
    }

    void aside(unsigned high, unsigned low) {
        switch (high) {
        case 0: return node_.work(vram::sim_time{1000} * low);
        case 1: return static_cast<void>(synchronize(low % 4));
        case 2: return trim(low * 64_KiB);
        case 3: return renew(low % 4);
        case 4:
        case 5: return take({nullptr, 1000, std::size_t{1} << low % 18, high - 4}, false);
        case 6:
        case 7: return take({nullptr, (low + 1) * 64_KiB, 256, high - 6}, low % 2 != 0);
        case 8: return trim_no_wait();
        default: return look();
        }
    }
    void trim(std::size_t keep) {
        try {
            pool_.trim(keep);
        } catch (vram::sim_error const&) { must(planted_, "a call failed that nobody made fail"); }
    }
    void trim_no_wait() {
        try {
            pool_.trim_no_wait();
        } catch (vram::sim_error const&) { must(planted_, "a call failed that nobody made fail"); }
    }
    /// A stream ends, and there is another in its place.
    void renew(unsigned s) {
        for (block& b : blocks_) {
            if (b.user != s) { continue; }
            if (!hand_over(b, (s + 1) % 4)) { return; }
            b.user = (s + 1) % 4;
        }
        try {
            pool_.retire(stream(s));
        } catch (vram::sim_error const&) { // it is still there, and so are its frees
            must(planted_, "a call failed that nobody made fail");
            return;
        }
        streams_[s].emplace();
    }
    void look() {
        vram::memory_usage const now = pool_.usage();
        must(now.requested == out_, "what is out is not what was asked for");
        must(now.live >= out_ && now.reserved >= now.live, "the figures cannot be");
        must(now.reserved <= pool_.options().max_size, "more is held than may be");
    }

    /// A mistake must be reported and must have no effect.
    void misuse(unsigned high, unsigned low) {
        std::size_t const told = told_.count();
        if (blocks_.empty() || high % 4 == 0) {
            pool_.deallocate(stream(low % 4), this, 100);
        } else {
            block const& b = blocks_[low % blocks_.size()];
            auto* const  p = static_cast<std::byte*>(b.p);
            switch (high % 4) {
            case 1: pool_.deallocate(stream(b.user), p + 1, b.bytes, b.alignment); break;
            case 2: pool_.deallocate(stream(b.user), p, b.bytes + 1, b.alignment); break;
            default: pool_.deallocate_sync(p + 128, b.bytes, b.alignment); break;
            }
        }
        must(told_.count() == told + 1, "a mistake was not told, or told twice");
        must(node_.take_reports().size() == 1, "the node has no report of it, or two");
    }
    void plant(unsigned high, unsigned low) {
        using enum vram::sim_call_kind;
        static constexpr vram::sim_call_kind kinds[] = {allocate, create_event, record, wait,
                                                        query,    synchronize,  create, map};
        planted_                                     = true;
        node_.faults().at(kinds[high % 8], 1 + low % 16, {}, 1 + low / 64);
    }

    void finish() {
        node_.faults().clear();
        while (!blocks_.empty()) { give(0, {}); }
        look();
        for (unsigned s = 0; s < 4; ++s) { must(synchronize(s), "a stream cannot be waited for"); }
        pool_.trim();
        must(pool_.usage().reserved == 0, "trim leaves something that nobody has");
        for (unsigned s = 0; s < 4; ++s) { pool_.retire(stream(s)); }
    }

    R&                                             pool_;
    vram::sim_node&                                node_;
    doubles::mishaps&                              told_;
    std::array<std::optional<vram::sim_stream>, 4> streams_;
    laws::claims                                   taken_;
    std::vector<block>                             blocks_;
    std::size_t                                    out_     = 0;
    bool                                           planted_ = false;
};

/// The first byte selects the pool, the second its limit, and the rest is the program.
inline void run_pool(std::span<std::uint8_t const> bytes) {
    reader                   input{bytes};
    unsigned const           kind = input.next();
    vram::pool_options const options{.initial_size = kind / 32 % 2 * 256_KiB,
                                     .max_size     = (1 + input.next() % 64) * 256_KiB,
                                     .events       = kind / 4 % 2 != 0 ? vram::event_policy::eager
                                                                       : vram::event_policy::lazy,
                                     .graphs       = kind / 8 % 2 != 0,
                                     .remap        = kind % 4 == 3,
                                     .slack        = kind / 16 % 2 != 0 ? 0.0 : 1e9};
    doubles::mishaps         told;
    vram::sim_node           node{{.capacity      = 64_MiB,
                                   .page          = 64_KiB,
                                   .compute_slots = 4,
                                   .on_report     = vram::sim_on_report::collect}};
    auto const               go = [&](auto upstream) {
        vram::pool_options fitting = options;
        if constexpr (!vram::remappable_resource<decltype(upstream)>) {
            fitting.remap = false;
            fitting.slack = std::numeric_limits<double>::infinity();
        }
        vram::pool mr{std::move(upstream), fitting};
        pool_program{mr, node, told}.run(input);
    };
    vram::virtual_options const pages{.handle_size = kind / 64 % 2 != 0 ? 192_KiB : 64_KiB};
    if (kind % 4 == 0) {
        go(vram::stream_ordered{vram::sim_resource{}});
    } else {
        go(vram::sim_virtual_resource{pages});
    }
    must(told.count(vram::error_kind::leak) == 0, "something is out at the end");
    must(node.figures().used == 0, "the device is not empty at the end");
    node.finish();
    must(node.reports().empty(), "the device has seen a mistake");
}

} // namespace fuzz
