// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `model_heap` is the heap that a resource ought to be: what is out, and what was written into it.

#include "effort.hpp"     // of_many
#include "options.hpp"    // options
#include "stream_set.hpp" // stream_set

#include <vram/base/out_of_memory.hpp> // out_of_memory
#include <vram/concepts/powers.hpp>    // the powers that decide what is checked

#include <doctest/doctest.h>

#include <algorithm> // all_of
#include <cstddef>   // size_t, byte
#include <cstdint>   // uintptr_t
#include <iterator>  // prev
#include <map>       // map
#include <optional>  // optional
#include <random>    // mt19937_64
#include <vector>    // vector

namespace laws {

/// Random operations on `R` from several streams, each checked against the model. Every block is
/// filled with a byte of its own in the order of the stream that uses it, and read back later: two
/// owners of one byte, or memory handed out before its last use is over, show. Where the platform
/// checks orderings itself, it sees correct programs only.
template <class R>
class model_heap {
    static constexpr bool ordered  = vram::resource<R>;
    static constexpr bool fallible = vram::fallible_resource<R>;

public:
    using platform = typename R::platform;
    using stream   = typename platform::stream;

    /// `alone`: nobody else uses the resource meanwhile, so that its figures are this heap's.
    model_heap(R& resource, options const& chosen, bool alone = true)
        : resource_{resource},
          options_{chosen},
          random_{chosen.seed},
          streams_{chosen.streams},
          alone_{alone} {
        if constexpr (vram::measured_resource<R>) { at_start_ = resource.usage(); }
    }
    model_heap(model_heap&&) = delete;

    /// All of it: `options.operations` random steps, then everything goes back and the streams end.
    void run() {
        unsigned const all   = options_.operations;
        unsigned const steps = alone_ ? of_many(all, 700) : all; // so many fill most of the room
        for (unsigned i = 0; i < steps; ++i) { step(); }
        CHECK((options_.may_refuse || refused_ == 0));
        clear();
    }

    /// One random step: take, write, hand over, verify or give back.
    void step() {
        auto const dice = below(16);
        if (blocks_.empty() || dice < 7) { return take(); }
        auto at = blocks_.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(below(blocks_.size())));
        if (dice < 13) {
            give(at);
        } else if (dice < 15) {
            hand_over(at->second, below(streams_.size()));
            write(at->first, at->second);
        } else {
            verify(at->first, at->second);
        }
        if (below(64) == 0) { check_figures(); }
    }

    /// Gives everything back and lets the streams end.
    void clear() {
        while (!blocks_.empty()) { give(blocks_.begin()); }
        check_figures();
        streams_.synchronize();
        streams_.retire_from(resource_);
    }

    [[nodiscard]] std::size_t refused() const noexcept { return refused_; }

private:
    struct block {
        std::size_t bytes     = 0;
        std::size_t alignment = 0;
        std::size_t user      = 0; ///< the stream that used it last
        std::byte   pattern{};
    };
    using map = std::map<std::uintptr_t, block>;

    std::size_t below(std::size_t n) {
        return std::uniform_int_distribution<std::size_t>{0, n - 1}(random_);
    }

    /// Small sizes often, large ones too, odd ones as well.
    std::size_t random_size() {
        std::size_t const bound =
            std::size_t{1} << below(65 - static_cast<unsigned>(__builtin_clzll(options_.largest)));
        return std::min(1 + below(bound), options_.largest);
    }

    void take() {
        block b{.bytes     = random_size(),
                .alignment = std::size_t{1} << below(13),
                .user      = below(streams_.size())};
        if (b.alignment > options_.largest_alignment) { b.alignment = 1; }
        if (out_ + b.bytes > options_.room) { return; }
        void* const p = ask(b);
        if (p == nullptr) {
            ++refused_;
            return;
        }
        CHECK(vram::is_aligned(p, b.alignment));
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        auto const next    = blocks_.lower_bound(address);
        CHECK((next == blocks_.end() || next->first - address >= b.bytes));
        CHECK((next == blocks_.begin() ||
               address - std::prev(next)->first >= std::prev(next)->second.bytes));
        if constexpr (vram::owning_resource<R>) { CHECK(resource_.owns(p)); }
        out_ += b.bytes;
        write(address, blocks_.insert_or_assign(address, b).first->second);
    }

    void* ask(block const& b) {
        bool const try_it = fallible && below(2) == 0;
        bool const sync   = !ordered || below(4) == 0;
        try {
            if (sync) {
                if constexpr (fallible) {
                    if (try_it) { return resource_.try_allocate_sync(b.bytes, b.alignment); }
                }
                return resource_.allocate_sync(b.bytes, b.alignment);
            }
            if constexpr (ordered) {
                if constexpr (fallible) {
                    if (try_it) {
                        return resource_.try_allocate(streams_[b.user], b.bytes, b.alignment);
                    }
                }
                return resource_.allocate(streams_[b.user], b.bytes, b.alignment);
            }
        } catch (vram::out_of_memory const&) {}
        return nullptr;
    }

    void give(typename map::iterator at) {
        auto const [address, b] = *at;
        auto* const p           = reinterpret_cast<void*>(address);
        if (below(4) == 0) { verify(address, b); }
        blocks_.erase(at);
        out_ -= b.bytes;
        if constexpr (ordered) {
            if (below(4) != 0) {
                block last = b;
                if (below(3) == 0) { hand_over(last, below(streams_.size())); }
                return resource_.deallocate(streams_[last.user], p, b.bytes, b.alignment);
            }
        }
        platform::synchronize(streams_[b.user]);
        resource_.deallocate_sync(p, b.bytes, b.alignment);
    }

    /// The stream `to` may use the block from here on.
    void hand_over(block& b, std::size_t to) {
        streams_.order(streams_[b.user], streams_[to]);
        b.user = to;
    }

    void write(std::uintptr_t address, block& b) {
        if (!options_.touch) { return; }
        b.pattern = static_cast<std::byte>(below(256));
        platform::fill(streams_[b.user], reinterpret_cast<void*>(address), b.pattern, b.bytes);
    }

    void verify(std::uintptr_t address, block const& b) {
        if (!options_.touch) { return; }
        mirror_.assign(b.bytes, ~b.pattern);
        platform::copy(streams_[b.user], mirror_.data(), reinterpret_cast<void const*>(address),
                       b.bytes);
        platform::synchronize(streams_[b.user]);
        CHECK(std::all_of(mirror_.begin(), mirror_.end(),
                          [&](std::byte x) { return x == b.pattern; }));
    }

    /// What a resource says of itself is never less than what is out; zero means that it does not
    /// know.
    void check_figures() {
        if constexpr (vram::measured_resource<R>) {
            if (!alone_) { return; }
            auto const now       = resource_.usage();
            auto const live      = now.live - at_start_->live;
            auto const requested = now.requested - at_start_->requested;
            CHECK((live == 0 || live >= out_));
            CHECK((requested == 0 || requested >= out_));
            CHECK((now.requested == 0 || now.live == 0 || now.live >= now.requested));
            CHECK(now.peak_live >= now.live);
            CHECK((now.peak_reserved == 0 || now.peak_reserved >= now.reserved));
            if (blocks_.empty()) {
                CHECK(live == 0);
                CHECK(requested == 0);
            }
        }
    }

    R&                                resource_;
    options                           options_;
    std::mt19937_64                   random_;
    stream_set<platform>              streams_;
    map                               blocks_;
    std::vector<std::byte>            mirror_;
    std::optional<vram::memory_usage> at_start_;
    std::size_t                       out_     = 0;
    std::size_t                       refused_ = 0;
    bool                              alone_;
};

} // namespace laws
