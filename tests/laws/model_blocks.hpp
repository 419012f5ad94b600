// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `model_blocks` is the part of `model_heap` that does not depend on the resource: the live
/// blocks, the random numbers, and the claims.

#include "options.hpp" // options

#include <vram/base/align.hpp>        // is_aligned
#include <vram/base/memory_usage.hpp> // memory_usage

#include <doctest/doctest.h>

#include <algorithm> // min
#include <cstddef>   // size_t, byte, ptrdiff_t
#include <cstdint>   // uintptr_t
#include <cstring>   // memcmp
#include <iterator>  // next, prev
#include <map>       // map
#include <random>    // mt19937_64, uniform_int_distribution
#include <vector>    // vector

namespace laws {

struct model_block {
    std::size_t bytes     = 0;
    std::size_t alignment = 0;
    std::size_t user      = 0; ///< the stream that used the block last
    std::byte   pattern{};
};

/// Compiled once for all resources, and so are its claims, which take most of the time to compile.
class model_blocks {
public:
    using map      = std::map<std::uintptr_t, model_block>;
    using iterator = map::iterator;

    explicit model_blocks(options const& chosen) : options_{chosen}, random_{chosen.seed} {}

    [[nodiscard]] bool        empty() const noexcept { return map_.empty(); }
    [[nodiscard]] std::size_t out() const noexcept { return out_; }
    [[nodiscard]] iterator    begin() noexcept { return map_.begin(); }

    [[nodiscard]] std::size_t below(std::size_t n) {
        return std::uniform_int_distribution<std::size_t>{0, n - 1}(random_);
    }

    [[nodiscard]] iterator any() {
        return std::next(map_.begin(), static_cast<std::ptrdiff_t>(below(map_.size())));
    }

    /// Returns a random request: mostly small sizes, some large, some odd.
    [[nodiscard]] model_block request() {
        std::size_t const bound =
            std::size_t{1} << below(65 - static_cast<unsigned>(__builtin_clzll(options_.largest)));
        model_block b{.bytes     = std::min(1 + below(bound), options_.largest),
                      .alignment = std::size_t{1} << below(13),
                      .user      = below(options_.streams)};
        if (b.alignment > options_.largest_alignment) { b.alignment = 1; }
        return b;
    }
    [[nodiscard]] bool has_room_for(model_block const& b) const noexcept {
        return out_ + b.bytes <= options_.room;
    }

    /// Records a new block at `p`. It must be aligned and must not overlap another block.
    iterator insert(void* p, model_block const& b) {
        CHECK(vram::is_aligned(p, b.alignment));
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        auto const next    = map_.lower_bound(address);
        CHECK((next == map_.end() || next->first - address >= b.bytes));
        CHECK((next == map_.begin() ||
               address - std::prev(next)->first >= std::prev(next)->second.bytes));
        out_ += b.bytes;
        return map_.insert_or_assign(address, b).first;
    }

    void erase(iterator at) {
        out_ -= at->second.bytes;
        map_.erase(at);
    }

    /// Returns host memory for a copy of the block, filled with another pattern.
    [[nodiscard]] std::vector<std::byte>& mirror_of(model_block const& b) {
        mirror_.assign(b.bytes, ~b.pattern);
        return mirror_;
    }
    void check_mirror(model_block const& b) const {
        std::byte const* const first = mirror_.data();
        CHECK(*first == b.pattern);
        CHECK(std::memcmp(first, first + 1, b.bytes - 1) == 0); // each byte equals the next
    }

    /// Requires that the usage of the resource is not less than the live bytes. Zero means unknown.
    void check_figures(vram::memory_usage const& at_start, vram::memory_usage const& now) const {
        auto const live      = now.live - at_start.live;
        auto const requested = now.requested - at_start.requested;
        CHECK((live == 0 || live >= out_));
        CHECK((requested == 0 || requested >= out_));
        CHECK((now.requested == 0 || now.live == 0 || now.live >= now.requested));
        CHECK(now.peak_live >= now.live);
        CHECK((now.peak_reserved == 0 || now.peak_reserved >= now.reserved));
        if (map_.empty()) {
            CHECK(live == 0);
            CHECK(requested == 0);
        }
    }

private:
    options                options_;
    std::mt19937_64        random_;
    map                    map_;
    std::vector<std::byte> mirror_;
    std::size_t            out_ = 0;
};

} // namespace laws
