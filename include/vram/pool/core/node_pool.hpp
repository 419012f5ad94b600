// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `node_pool` is a node pool: it allocates descriptors of one type in groups and reuses them.

#include <vram/base/align.hpp>

#include <cstddef>
#include <cstdint>
#include <new>         // operator new
#include <type_traits> // is_trivially_destructible_v
#include <utility>

namespace vram {
namespace detail {

/// A free list of descriptors of type `Note`, which are allocated in groups and linked by
/// `Note::next`. Descriptors keep their addresses, also if the pool is moved.
///
/// Failure   `reserve` throws `std::bad_alloc` and changes nothing.
/// Threads   One thread at a time.
/// Cost      Constant; `reserve` allocates `per_slab` descriptors at once.
template <class Note>
class node_pool {
public:
    static constexpr std::size_t per_slab = 128;

    node_pool() = default;
    node_pool(node_pool&& other) noexcept
        : slabs_{std::exchange(other.slabs_, nullptr)},
          unused_{std::exchange(other.unused_, nullptr)},
          count_{std::exchange(other.count_, 0)} {}
    node_pool& operator=(node_pool&& other) noexcept {
        if (this != &other) {
            drop();
            slabs_  = std::exchange(other.slabs_, nullptr);
            unused_ = std::exchange(other.unused_, nullptr);
            count_  = std::exchange(other.count_, 0);
        }
        return *this;
    }
    ~node_pool() { drop(); }

    /// Makes sure that the next `count` descriptors (at most `per_slab`) need no allocation.
    void reserve(std::size_t count) {
        if (has(count)) { return; }
        static_assert(std::is_trivially_destructible_v<Note>);
        void* const fresh = ::operator new(sizeof(slab) + per_slab * sizeof(Note) + line);
        slabs_            = ::new (fresh) slab{slabs_};
        auto const first  = align(reinterpret_cast<std::uintptr_t>(slabs_ + 1), line);
        for (std::size_t i = per_slab; i-- > 0;) {
            put_back(::new (reinterpret_cast<void*>(first + i * sizeof(Note))) Note{});
        }
    }
    [[nodiscard]] bool has(std::size_t count) const noexcept { return count_ >= count; }
    [[nodiscard]] bool empty() const noexcept { return unused_ == nullptr; }

    /// Takes an unused descriptor and resets it to `Note{}`. Requires `reserve` before.
    [[nodiscard]] Note* make() noexcept {
        Note* const note = reuse();
        *note            = Note{};
        return note;
    }
    /// Takes an unused descriptor. Its members, except `next`, still have the values of their last
    /// use. Requires a call of `reserve` before.
    [[nodiscard]] Note* reuse() noexcept {
        Note* const note = unused_;
        unused_          = static_cast<Note*>(note->next);
        --count_;
        return note;
    }
    void put_back(Note* note) noexcept {
        note->next = std::exchange(unused_, note);
        ++count_;
    }

private:
    /// Size of a cache line in bytes.
    static constexpr std::size_t line = 64;

    // The header of a group of descriptors: `per_slab` descriptors follow it in memory.
    struct slab {
        slab* next;
    };

    void drop() noexcept {
        while (slabs_ != nullptr) { ::operator delete(std::exchange(slabs_, slabs_->next)); }
    }

    slab*       slabs_  = nullptr;
    Note*       unused_ = nullptr;
    std::size_t count_  = 0; ///< number of unused descriptors
};

} // namespace detail
} // namespace vram
