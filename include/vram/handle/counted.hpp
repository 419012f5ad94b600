// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `counted` is an object that knows how many hold it, and ends with the last.

#include <vram/base/requirements.hpp> // C++20

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <utility> // forward, in_place_t

namespace vram {

/// The count in front of a shared object. It is born held once.
///
/// Threads   `hold` and `drop` from any thread; what was done to the object before a `drop` is seen
///           by its end
/// Cost      one atomic operation each
class counted {
public:
    counted(counted&&) = delete;

    void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
    /// Lets go; the last one to do so ends the object.
    void drop() noexcept {
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
    void (*end_)(counted*) noexcept; // in place of a virtual destructor: no table for each type
};

/// A counted object of any type, made with `new`.
template <class Value>
class counted_value final : public counted {
public:
    template <class... Args>
    explicit counted_value(std::in_place_t, Args&&... args)
        : counted{[](counted* self) noexcept { delete static_cast<counted_value*>(self); }},
          value(std::forward<Args>(args)...) {}

    Value value;
};

} // namespace vram
