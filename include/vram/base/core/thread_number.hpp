// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `thread_number` is a small integer that identifies the calling thread.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <bit>    // countr_one
#include <cstdint>

namespace vram {
namespace detail {

/// Bit n of this bitmap is set while a running thread has the number n.
inline constinit std::atomic<std::uint64_t> thread_numbers[16]{};
inline constexpr unsigned                   most_thread_numbers = 16 * 64;
/// Number of threads so far that found all numbers below `most_thread_numbers` in use. Such a
/// thread gets a larger number, which other threads may share.
inline constinit std::atomic<unsigned> later_threads{0};

inline constexpr unsigned              no_thread_number     = ~0U;
inline constinit thread_local unsigned number_of_the_thread = no_thread_number;

inline unsigned take_thread_number() noexcept {
    unsigned first = 0;
    for (auto& word : thread_numbers) {
        std::uint64_t taken = word.load(std::memory_order_relaxed);
        while (~taken != 0) {
            auto const          bit = static_cast<unsigned>(std::countr_one(taken));
            std::uint64_t const one = std::uint64_t{1} << bit;
            if (word.compare_exchange_weak(taken, taken | one, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
                return first + bit;
            }
        }
        first += 64;
    }
    return first + later_threads.fetch_add(1, std::memory_order_relaxed) % most_thread_numbers;
}

/// Owns the number of a thread, as a thread-local object. The destructor makes a number below
/// `most_thread_numbers` available again.
class thread_number_holder {
public:
    thread_number_holder() noexcept : number_{take_thread_number()} {}
    thread_number_holder(thread_number_holder&&) = delete;
    ~thread_number_holder() {
        // Does nothing for a thread number of 1024 or more. Several threads may share such a
        // number, so it has no bit in the bitmap `thread_numbers`.
        if (number_ >= most_thread_numbers) { return; }
        std::uint64_t const one = std::uint64_t{1} << (number_ % 64);
        thread_numbers[number_ / 64].fetch_and(~one, std::memory_order_release);
    }

    [[nodiscard]] unsigned number() const noexcept { return number_; }

private:
    unsigned number_;
};

[[gnu::noinline]] inline unsigned first_thread_number() noexcept {
    struct own_holder : thread_number_holder {
        // From here on, `thread_number()` returns 1024 on this thread, a number that threads may
        // share. A destructor of another thread-local object may still call `thread_number()`, and
        // the old number may then belong to another thread.
        ~own_holder() { number_of_the_thread = most_thread_numbers; }
    };
    thread_local own_holder const held;
    return number_of_the_thread = held.number();
}

/// Returns the number of the calling thread: the lowest one free at its first call. Numbers below
/// 1024 are unique among running threads; others may be shared.
///
/// Cost      One load of a thread-local variable.
[[nodiscard]] inline unsigned thread_number() noexcept {
    unsigned const known = detail::number_of_the_thread;
    return known != detail::no_thread_number ? known : detail::first_thread_number();
}

} // namespace detail
} // namespace vram
