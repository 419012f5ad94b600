// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `note_store` makes the notes of a pool, and takes them back to be used again.

#include <vram/base/align.hpp> // align

#include <cstddef>     // size_t
#include <cstdint>     // uintptr_t
#include <new>         // operator new
#include <type_traits> // is_trivially_destructible_v
#include <utility>     // exchange

namespace vram {

/// Notes of one kind, made many at a time; each has a `next` for when it is not used. Notes stay
/// where they are, also when the store moves; all go when it ends.
///
/// Failure   `std::bad_alloc` from `reserve`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      `make` and `put_back` a few instructions; `reserve` an allocation in `per_slab` notes
template <class Note>
class note_store {
public:
    static constexpr std::size_t per_slab = 128;

    note_store() = default;
    note_store(note_store&& other) noexcept
        : slabs_{std::exchange(other.slabs_, nullptr)},
          unused_{std::exchange(other.unused_, nullptr)},
          count_{std::exchange(other.count_, 0)} {}
    note_store& operator=(note_store&& other) noexcept {
        if (this != &other) {
            drop();
            slabs_  = std::exchange(other.slabs_, nullptr);
            unused_ = std::exchange(other.unused_, nullptr);
            count_  = std::exchange(other.count_, 0);
        }
        return *this;
    }
    ~note_store() { drop(); }

    /// Makes sure that `count` (at most `per_slab`) notes can be had.
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

    /// A fresh note; room was made by `reserve`.
    [[nodiscard]] Note* make() noexcept {
        Note* const note = reuse();
        *note            = Note{};
        return note;
    }
    /// The same with what was in it, for who fills in all that is looked at.
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
    static constexpr std::size_t line = 64; ///< of the cache: notes of that size lie in one each

    struct slab { // its notes come after it
        slab* next;
    };

    void drop() noexcept {
        while (slabs_ != nullptr) { ::operator delete(std::exchange(slabs_, slabs_->next)); }
    }

    slab*       slabs_  = nullptr;
    Note*       unused_ = nullptr;
    std::size_t count_  = 0; ///< unused notes
};

} // namespace vram
