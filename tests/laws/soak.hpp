// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `soak` runs a random load on a pool for a given time: every block is written after its
/// allocation, and checked before its free.

#include "soak_options.hpp" // soak_options, soak_figures, soak_flaw
#include "stream_set.hpp"   // stream_set, for its order

#include <algorithm> // min
#include <chrono>    // steady_clock
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <future>    // async, future
#include <mutex>     // mutex, lock_guard
#include <random>    // mt19937_64
#include <utility>   // exchange
#include <vector>    // vector

namespace laws {

/// The painter runs the work on streams: `write(stream, p, bytes, number)` fills a block with a
/// unique pattern, `check` with equal arguments counts the words that differ, and `dawdle(stream,
/// length)` keeps the stream busy. Blocks are handed from stream to stream with events, and from
/// thread to thread through a box. Streams are retired and replaced, and memory is trimmed during
/// the run. Memory that is freed all at once (`monotonic`) is used in steps.
template <class Memory, class Painter>
class soak {
    using platform                     = typename Memory::platform;
    using stream                       = typename platform::stream;
    using own_stream                   = typename platform::own_stream;
    static constexpr bool step_by_step = requires(Memory& m) { m.reset_sync(); };

    struct block {
        void*         p;
        std::size_t   bytes;
        std::uint64_t number; ///< unique number of the block
        std::size_t   on;     ///< stream that used it last
    };
    /// The state of one thread.
    struct hand {
        std::mt19937_64    random;
        std::uint64_t      next; ///< number of the next block
        std::vector<block> out{};
        std::size_t        live = 0;
        soak_figures       did{};

        [[nodiscard]] std::size_t below(std::size_t n) { return random() % n; }
        [[nodiscard]] bool        one_in(std::size_t n) { return below(n) == 0; }
    };

public:
    soak(Memory& memory, Painter& painter, soak_options const& options)
        : memory_{memory}, painter_{painter}, o_{options} {
        for (unsigned i = 0; i < o_.streams; ++i) { owners_.emplace_back(); }
        for (unsigned i = 0; i < o_.threads; ++i) {
            hands_.push_back({std::mt19937_64{o_.seed + i}, i + 1U});
        }
    }

    /// Runs the load. Afterwards no block is live, and the streams are complete and retired.
    soak_figures run() {
        {
            std::vector<std::future<void>> others;
            for (unsigned i = 1; i < o_.threads; ++i) {
                others.push_back(std::async(std::launch::async, [this, i] { work(hands_[i]); }));
            }
            work(hands_[0]);
            for (auto& each : others) { each.get(); } // rethrows an exception of the thread
        }
        hand& last = hands_[0];
        last.out.insert(last.out.end(), box_.begin(), box_.end());
        soak_figures all{};
        for (hand& h : hands_) {
            while (!h.out.empty()) { give(h, 0); }
            all += h.did;
        }
        for (auto const& owner : owners_) {
            platform::synchronize(owner.view());
            memory_.retire(owner.view());
        }
        if constexpr (step_by_step) { memory_.reset_sync(); } // marks protect chunks
        return all;
    }

private:
    void work(hand& h) {
        using clock      = std::chrono::steady_clock;
        auto const until = clock::now() + o_.time;
        for (std::size_t i = 0; i < o_.operations || clock::now() < until; ++i) {
            if constexpr (step_by_step) {
                step(h);
            } else {
                act(h);
            }
        }
    }

    /// Runs one operation of a load that allocates and frees in any order.
    void act(hand& h) {
        disturb(h);
        std::size_t const what = h.below(100);
        bool const        full = h.live >= o_.live / o_.threads || h.out.size() >= most_out;
        if (what < 20 && !h.out.empty()) {
            hand_over(h, h.out[h.below(h.out.size())]);
        } else if (what < 25 && !h.out.empty() && o_.threads > 1) {
            pass_on(h);
        } else if (full || (what < 55 && !h.out.empty())) {
            give(h, h.below(h.out.size()));
        } else {
            take(h);
        }
    }
    /// Allocates until memory is used up, hands over and frees some blocks, and unwinds all of them
    /// in one or two parts.
    void step(hand& h)
        requires step_by_step
    {
        disturb(h);
        auto const        start = memory_.mark();
        std::size_t const half  = load(h, o_.live / 2);
        auto const        inner = memory_.mark();
        auto const        first = h.next;
        std::size_t const all   = half + load(h, o_.live / 2);
        if (all == 0 || h.one_in(3)) {
            while (!h.out.empty()) { give(h, 0); }
            return memory_.reset_sync();
        }
        std::size_t const by = h.below(o_.streams); // the stream of the unwind
        if (h.one_in(2)) {
            forget(h, first, by);
            memory_.unwind(inner, told(by));
            load(h, o_.live / 2);
        }
        forget(h, 0, by);
        if (h.one_in(2)) {
            memory_.unwind(start, told(by));
        } else {
            memory_.reset(told(by));
        }
    }
    /// Allocates at least `bytes` bytes and runs all operations on blocks. Returns the number of
    /// allocated bytes.
    std::size_t load(hand& h, std::size_t bytes) {
        std::uint64_t const before = h.did.bytes;
        while (h.did.bytes - before < bytes) {
            take(h);
            if (h.one_in(4)) { hand_over(h, h.out[h.below(h.out.size())]); }
            if (h.one_in(4)) { give(h, h.below(h.out.size())); }
        }
        return h.did.bytes - before;
    }
    /// Prepares to unwind the blocks from `first` on: the stream `by` is ordered after their users.
    void forget(hand& h, std::uint64_t first, std::size_t by) {
        std::erase_if(h.out, [&](block const& b) {
            if (b.number < first) { return false; }
            painter_.check(at(b.on), b.p, b.bytes, b.number);
            order(b.on, by);
            h.live -= b.bytes;
            return true;
        });
    }

    /// Runs rare events that make the load harder.
    void disturb(hand& h) {
        if (h.one_in(100)) { painter_.dawdle(at(h.below(o_.streams)), 1 + h.below(8)); }
        if (o_.flaw != soak_flaw::none) { return; } // it would hide the injected flaw
        if (h.one_in(1000)) { (void)memory_.trim(h.below(o_.live)); }
        if (h.one_in(500)) { trim_no_wait(); }
        if (h.one_in(100) && o_.threads == 1 && (!step_by_step || h.out.empty())) {
            renew(h.below(o_.streams));
        }
    }
    void trim_no_wait() {
        if constexpr (requires { memory_.trim_no_wait(); }) { (void)memory_.trim_no_wait(); }
    }
    /// Destroys the stream and replaces it.
    void renew(std::size_t which) {
        own_stream fresh;
        stream_set<platform>::order(at(which), fresh.view());
        memory_.retire(at(which));
        owners_[which] = std::move(fresh);
    }

    void take(hand& h) {
        std::size_t const   on      = h.below(o_.streams);
        std::size_t const   bytes   = some_size(h);
        std::uint64_t const number  = std::exchange(h.next, h.next + o_.threads);
        bool const          at_once = !step_by_step && h.one_in(50);
        void* const p = at_once ? memory_.allocate_sync(bytes) : memory_.allocate(told(on), bytes);
        painter_.write(at(on), p, bytes, number);
        h.out.push_back({p, bytes, number, on});
        h.live += bytes;
        ++h.did.blocks;
        h.did.bytes += bytes;
    }
    void give(hand& h, std::size_t which) {
        block const b = std::exchange(h.out[which], h.out.back());
        h.out.pop_back();
        h.live -= b.bytes;
        painter_.check(at(b.on), b.p, b.bytes, b.number);
        if (!step_by_step && o_.flaw == soak_flaw::none && h.one_in(200)) {
            platform::synchronize(at(b.on));
            return memory_.deallocate_sync(b.p, b.bytes);
        }
        memory_.deallocate(told(b.on), b.p, b.bytes);
    }
    void hand_over(hand& h, block& b) {
        std::size_t const to = h.below(o_.streams);
        if (o_.flaw != soak_flaw::no_wait) { order(b.on, to); }
        b.on = to;
        painter_.check(at(to), b.p, b.bytes, b.number);
        ++h.did.handed;
    }
    /// Hands a block to the next thread that calls this function, and takes the block that was
    /// waiting.
    void pass_on(hand& h) {
        std::size_t const which = h.below(h.out.size());
        block             b     = h.out[which];
        {
            std::lock_guard const held{mutex_};
            h.live -= b.bytes;
            if (box_.size() < o_.threads) {
                box_.push_back(b);
                h.out[which] = h.out.back();
                return h.out.pop_back();
            }
            std::swap(b, box_[h.below(box_.size())]);
        }
        h.live += b.bytes;
        h.out[which] = b;
        hand_over(h, h.out[which]);
    }

    /// Returns a size from `least` to `most` in whole words, with equal probability for each power
    /// of two.
    [[nodiscard]] std::size_t some_size(hand& h) const {
        std::size_t least = o_.least;
        while (least < o_.most && !h.one_in(steps(least) + 1)) { least *= 2; }
        return std::min(least + h.below(least), o_.most) / 8 * 8;
    }
    /// Returns how many times `least` can be doubled.
    [[nodiscard]] std::size_t steps(std::size_t least) const {
        std::size_t n = 0;
        for (; least < o_.most; least *= 2) { ++n; }
        return n;
    }
    [[nodiscard]] stream at(std::size_t which) const { return owners_[which].view(); }
    /// Returns the stream that is passed to the memory resource.
    [[nodiscard]] stream told(std::size_t which) const {
        return at(o_.flaw == soak_flaw::one_stream ? 0 : which);
    }
    void order(std::size_t first, std::size_t second) const {
        stream_set<platform>::order(at(first), at(second));
    }

    static constexpr std::size_t most_out = 4000; ///< most live blocks of a thread

    Memory&                 memory_;
    Painter&                painter_;
    soak_options            o_;
    std::vector<own_stream> owners_;
    std::vector<hand>       hands_;
    std::mutex              mutex_;
    std::vector<block>      box_; ///< guarded by the mutex: blocks between threads
};

} // namespace laws
