// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `thread_number` is a small number that the calling thread has to itself.

#include <atomic>  // atomic
#include <bit>     // countr_one
#include <cstdint> // uint64_t

namespace vram {

namespace detail {

/// The numbers that threads have now, one bit each.
inline constinit std::atomic<std::uint64_t> thread_numbers[16]{};
inline constexpr unsigned                   most_thread_numbers = 16 * 64;
/// How many there have been beyond these; they have the numbers behind, in turn.
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
            if (word.compare_exchange_weak(taken, taken | one, std::memory_order_relaxed)) {
                return first + bit;
            }
        }
        first += 64;
    }
    return first + later_threads.fetch_add(1, std::memory_order_relaxed) % most_thread_numbers;
}

/// Has a number for as long as its thread runs.
class thread_number_holder {
public:
    thread_number_holder() noexcept : number_{take_thread_number()} {}
    thread_number_holder(thread_number_holder&&) = delete;
    ~thread_number_holder() {
        if (number_ >= most_thread_numbers) { return; } // others may have it as well
        std::uint64_t const one = std::uint64_t{1} << (number_ % 64);
        thread_numbers[number_ / 64].fetch_and(~one, std::memory_order_relaxed);
    }

    [[nodiscard]] unsigned number() const noexcept { return number_; }

private:
    unsigned number_;
};

[[gnu::noinline]] inline unsigned first_thread_number() noexcept {
    thread_local thread_number_holder const held;
    return number_of_the_thread = held.number();
}

} // namespace detail

/// The lowest number that no other running thread had when this one first asked: n threads that run
/// together have numbers below n, also where threads come and go. A thread that ends leaves its
/// number to the next. Beyond 1024 threads numbers are larger, and shared.
///
/// Cost      one load of a thread's variable; a search the first time
[[nodiscard]] inline unsigned thread_number() noexcept {
    unsigned const known = detail::number_of_the_thread;
    return known != detail::no_thread_number ? known : detail::first_thread_number();
}

} // namespace vram
