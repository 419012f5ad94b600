// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `heap_array` is a growable array.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <new> // placement new
#include <utility>

namespace vram {
namespace detail {

/// A growable array: the parts of `std::vector` that resources need, in a small header. `Element`
/// must have a move constructor that does not throw.
///
/// Failure   `reserve` and `push` throw `std::bad_alloc` and change nothing.
/// Threads   One thread at a time.
template <class Element>
class heap_array {
public:
    heap_array() = default;
    heap_array(heap_array&& other) noexcept
        : items_{std::exchange(other.items_, nullptr)},
          size_{std::exchange(other.size_, 0)},
          capacity_{std::exchange(other.capacity_, 0)} {}
    heap_array& operator=(heap_array&& other) noexcept {
        if (this != &other) {
            drop();
            items_    = std::exchange(other.items_, nullptr);
            size_     = std::exchange(other.size_, 0);
            capacity_ = std::exchange(other.capacity_, 0);
        }
        return *this;
    }
    ~heap_array() { drop(); }

    /// Makes room for `count` elements in total, so that `push` cannot fail until there are as
    /// many.
    void reserve(std::size_t count) {
        static_assert(alignof(Element) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                      "the elements must not need a larger alignment than operator new gives");
        if (count <= capacity_) { return; }
        std::size_t const room  = count < 2 * capacity_ ? 2 * capacity_ : count;
        Element* const    fresh = static_cast<Element*>(::operator new(room * sizeof(Element)));
        for (std::size_t i = 0; i < size_; ++i) {
            ::new (static_cast<void*>(fresh + i)) Element(std::move(items_[i]));
            items_[i].~Element();
        }
        ::operator delete(items_);
        items_    = fresh;
        capacity_ = room;
    }

    /// Adds an element, made from `args`, at the end. `args` must not refer to the elements.
    template <class... Args>
    Element& push(Args&&... args) {
        reserve(size_ + 1);
        Element* const item =
            ::new (static_cast<void*>(items_ + size_)) Element(std::forward<Args>(args)...);
        ++size_;
        return *item;
    }
    void pop() noexcept { items_[--size_].~Element(); }

    /// Removes and returns the element at `index`. The last element takes its place.
    Element take(std::size_t index) noexcept {
        Element out = std::move(items_[index]);
        if (index + 1 != size_) { items_[index] = std::move(items_[size_ - 1]); }
        pop();
        return out;
    }
    void clear() noexcept {
        while (size_ != 0) { pop(); }
    }

    [[nodiscard]] Element&       operator[](std::size_t index) noexcept { return items_[index]; }
    [[nodiscard]] Element const& operator[](std::size_t index) const noexcept {
        return items_[index];
    }
    [[nodiscard]] Element*       begin() noexcept { return items_; }
    [[nodiscard]] Element*       end() noexcept { return items_ + size_; }
    [[nodiscard]] Element const* begin() const noexcept { return items_; }
    [[nodiscard]] Element const* end() const noexcept { return items_ + size_; }
    [[nodiscard]] std::size_t    size() const noexcept { return size_; }
    [[nodiscard]] std::size_t    capacity() const noexcept { return capacity_; }

private:
    void drop() noexcept {
        clear();
        ::operator delete(items_);
        items_    = nullptr;
        capacity_ = 0;
    }

    Element*    items_    = nullptr;
    std::size_t size_     = 0;
    std::size_t capacity_ = 0;
};

} // namespace detail
} // namespace vram
