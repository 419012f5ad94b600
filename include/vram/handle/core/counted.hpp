// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `counted` is the reference count of a shared object.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// The reference count of a shared object, as its base class. The count starts at 1, and the object
/// is destroyed when it becomes 0.
///
/// Threads   Any thread may call.
class counted {
public:
    counted(counted&&) = delete;

    void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
    /// Removes a reference. If it was the last one, destroys the object.
    void drop() noexcept {
        // The order is acq_rel: the thread that destroys the object sees all changes that other
        // threads made before they called `drop`.
        if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) { end_(this); }
    }

    [[nodiscard]] std::size_t holders() const noexcept {
        return holders_.load(std::memory_order_relaxed);
    }

protected:
    explicit counted(void (*end)(counted*) noexcept) noexcept : end_{end} {}
    ~counted() = default;

private:
    std::atomic<std::size_t> holders_{1};
    // Function that destroys the object; saves a virtual table for each type.
    void (*end_)(counted*) noexcept;
};

/// An object of any type with a reference count, made with `new`.
template <class Value>
class counted_value final : public counted {
public:
    template <class... Args>
    explicit counted_value(std::in_place_t, Args&&... args)
        : counted{[](counted* self) noexcept { delete static_cast<counted_value*>(self); }},
          value(std::forward<Args>(args)...) {}

    Value value;
};

} // namespace detail
} // namespace vram
