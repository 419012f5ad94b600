// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_store` is where a pool's notes come from.

#include <vram/pool/block.hpp> // block

#include <cstddef> // size_t
#include <new>     // operator new
#include <utility> // exchange

namespace vram {

/// Blocks cut from slabs of host memory and used again and again; slabs go back when the store
/// does.
///
/// Failure   `std::bad_alloc` from `reserve`, with nothing changed; `make` then cannot fail
/// Threads   one at a time
/// Cost      a few instructions per note; one host allocation per `per_slab` notes ever used at
///           once
class block_store {
public:
    static constexpr std::size_t per_slab = 128;

    block_store() = default;
    block_store(block_store&& other) noexcept
        : slabs_{std::exchange(other.slabs_, nullptr)},
          unused_{std::exchange(other.unused_, nullptr)},
          count_{std::exchange(other.count_, 0)} {}
    block_store& operator=(block_store&& other) noexcept {
        if (this != &other) {
            drop();
            slabs_  = std::exchange(other.slabs_, nullptr);
            unused_ = std::exchange(other.unused_, nullptr);
            count_  = std::exchange(other.count_, 0);
        }
        return *this;
    }
    ~block_store() { drop(); }

    /// Makes sure that `count` (at most `per_slab`) notes can be had.
    void reserve(std::size_t count) {
        if (count_ >= count) { return; }
        slab* const fresh = new slab;
        fresh->next       = std::exchange(slabs_, fresh);
        for (block& b : fresh->blocks) { put_back(&b); }
    }

    /// A fresh note; room was made by `reserve`.
    [[nodiscard]] block* make() noexcept {
        block* const b = unused_;
        unused_        = b->next;
        --count_;
        *b = block{};
        return b;
    }
    void put_back(block* b) noexcept {
        b->next = std::exchange(unused_, b);
        ++count_;
    }

private:
    struct slab {
        slab* next = nullptr;
        block blocks[per_slab];
    };

    void drop() noexcept {
        while (slabs_ != nullptr) { delete std::exchange(slabs_, slabs_->next); }
    }

    slab*       slabs_  = nullptr;
    block*      unused_ = nullptr;
    std::size_t count_  = 0; ///< unused notes
};

} // namespace vram
