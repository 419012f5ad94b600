// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stack_depot` stores the call stacks of the process: each sequence of addresses once, for good.

#include <vram/base/requirements.hpp>

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uint64_t, uintptr_t
#include <cstring> // memcmp, memcpy
#include <mutex>   // mutex, lock_guard
#include <new>     // operator new, nothrow

#if __has_include(<unwind.h>)
#include <unwind.h> // _Unwind_Backtrace
#endif

namespace vram {
namespace detail {

/// One call stack. It is never changed or freed after it was made. Its addresses follow it in
/// memory.
struct stack_node {
    stack_node const* next; ///< the next call stack with the same index in the table
    std::uint64_t     hash;
    std::size_t       count; ///< number of addresses

    [[nodiscard]] void const* const* frames() const noexcept {
        return reinterpret_cast<void const* const*>(this + 1);
    }
};

/// All different call stacks of the process. None is freed, because an event may refer to a call
/// stack until the end of the process.
///
/// Failure   `keep` returns null if there is no host memory for a new stack.
/// Threads   Any thread may call any function. Only a new stack takes a lock.
class stack_depot {
public:
    /// Returns the stack with these `count` addresses.
    [[nodiscard]] static stack_node const* keep(void const* const* frames,
                                                std::size_t        count) noexcept {
        std::uint64_t hash = count;
        for (std::size_t i = 0; i != count; ++i) {
            hash = (hash ^ reinterpret_cast<std::uintptr_t>(frames[i])) * 0x9E37'79B9'7F4A'7C15U;
            hash ^= hash >> 29;
        }
        auto& place = table[hash % places];
        if (auto const* const found = look(place, hash, frames, count)) { return found; }
        std::lock_guard const held{mutex};
        if (auto const* const found = look(place, hash, frames, count)) { return found; }
        void* const memory =
            ::operator new(sizeof(stack_node) + count * sizeof(void*), std::nothrow);
        if (memory == nullptr) { return nullptr; }
        auto* const made =
            ::new (memory) stack_node{place.load(std::memory_order_relaxed), hash, count};
        std::memcpy(made + 1, frames, count * sizeof(void*));
        place.store(made, std::memory_order_release);
        return made;
    }

private:
    static constexpr std::size_t places = 4096;

    static inline constinit std::atomic<stack_node const*> table[places]{};
    static inline constinit std::mutex                     mutex{};

    [[nodiscard]] static stack_node const* look(std::atomic<stack_node const*> const& place,
                                                std::uint64_t hash, void const* const* frames,
                                                std::size_t count) noexcept {
        auto const* each = place.load(std::memory_order_acquire);
        while (each != nullptr &&
               (each->hash != hash || each->count != count ||
                std::memcmp(each->frames(), frames, count * sizeof(void*)) != 0)) {
            each = each->next;
        }
        return each;
    }
};

/// Walks the stack of the calling thread. The unwinder takes some microseconds for eight frames, so
/// a thread remembers where in its stack the return addresses are. If a later walk begins at the
/// same place of the stack, and all these places have the same return addresses, the call stack is
/// the same.
///
/// Failure   `here` returns null if the compiler has no unwinder, or without host memory.
/// Threads   Any thread.
/// Cost      About 20 ns if the stack is remembered.
class stack_walk {
public:
    static constexpr unsigned most = 32; ///< the largest number of frames

    /// Returns the innermost `frames` return addresses. The first is that of the caller of `here`.
    [[gnu::noinline]] static stack_node const* here(unsigned frames) noexcept {
#if __has_include(<unwind.h>)
        if (frames == 0) { return nullptr; }
        if (frames > most) { frames = most; }
        void* const  place = __builtin_frame_address(0);
        void* const  back  = __builtin_return_address(0);
        entry* const known = cell(place, back);
        if (known != nullptr && known->is(place, back, frames) && known->is_unchanged()) {
            return known->stack;
        }
        walk_state s{frames};
        _Unwind_Backtrace(&step, &s);
        stack_node const* const stack = stack_depot::keep(s.frames, s.count);
        if (known != nullptr) {
            known->stack = s.places_known ? stack : nullptr;
            known->begin = place;
            known->back  = back;
            known->asked = frames;
            for (unsigned i = 0; i != s.count; ++i) { known->places[i] = s.places[i]; }
        }
        return stack;
#else
        return static_cast<void>(frames), nullptr;
#endif
    }

private:
    /// A remembered call stack. Its return address with the index i is stored at `places[i]` in the
    /// thread's stack.
    struct entry {
        void*              begin = nullptr;
        void*              back  = nullptr;
        unsigned           asked = 0;
        stack_node const*  stack = nullptr;
        void const* const* places[most]{};

        [[nodiscard]] bool is(void const* place, void const* from, unsigned frames) const noexcept {
            return begin == place && back == from && asked == frames && stack != nullptr;
        }
        // Compares from the innermost frame on: if a frame is unchanged, the next outer one exists.
        [[nodiscard, gnu::no_sanitize_address]] bool is_unchanged() const noexcept {
            void const* const* const frames = stack->frames();
            std::size_t const        count  = stack->count;
            for (std::size_t i = 0; i != count; ++i) {
                if (*places[i] != frames[i]) { return false; }
            }
            return true;
        }
    };

    static constexpr std::size_t entries = 64;
    struct memory_of_thread {
        ~memory_of_thread() { its = nullptr, ended = true; }
        entry cells[entries]{};
    };
    static inline constinit thread_local memory_of_thread* its   = nullptr;
    static inline constinit thread_local bool              ended = false;

    /// Returns the cell for walks that begin at `place`; null at the end of a thread.
    [[nodiscard]] static entry* cell(void const* place, void const* back) noexcept {
        if (its == nullptr && !make()) { return nullptr; }
        auto const mixed =
            (reinterpret_cast<std::uintptr_t>(place) / 8 ^ reinterpret_cast<std::uintptr_t>(back)) *
            std::uint64_t{0x9E37'79B9'7F4A'7C15U};
        return &its->cells[mixed >> 58];
    }
    [[gnu::noinline]] static bool make() noexcept {
        if (ended) { return false; }
        struct owner {
            memory_of_thread* made = new (std::nothrow) memory_of_thread;
            owner()                = default;
            owner(owner&&)         = delete;
            ~owner() { delete made; }
        };
        thread_local owner const held;
        its = held.made;
        return its != nullptr;
    }

#if __has_include(<unwind.h>)
    struct walk_state {
        unsigned           asked;
        unsigned           count        = 0;
        bool               begun        = false;
        bool               places_known = true;
        void const*        frames[most]{};
        void const* const* places[most]{};
    };
    static _Unwind_Reason_Code step(_Unwind_Context* context, void* of) noexcept {
        auto& s = *static_cast<walk_state*>(of);
        if (!s.begun) { // skips the first stack frame, that of the function `here()`
            s.begun = true;
            return _URC_NO_REASON;
        }
        std::uintptr_t const ip = _Unwind_GetIP(context);
        if (ip == 0) { return _URC_END_OF_STACK; }
        s.frames[s.count] = reinterpret_cast<void const*>(ip);
        s.places[s.count] = place_of(context);
        s.places_known    = s.places_known && s.places[s.count] != nullptr;
        return ++s.count == s.asked ? _URC_END_OF_STACK : _URC_NO_REASON;
    }
    /// Returns where in the stack the return address of a frame is; null if it is not known.
    [[gnu::no_sanitize_address]] static void const* const*
    place_of(_Unwind_Context* context) noexcept {
#if defined __x86_64__
        auto const* const place = reinterpret_cast<void const* const*>(_Unwind_GetCFA(context)) - 1;
        if (*place == reinterpret_cast<void const*>(_Unwind_GetIP(context))) { return place; }
#else
        static_cast<void>(context);
#endif
        return nullptr;
    }
#endif
};

} // namespace detail
} // namespace vram
