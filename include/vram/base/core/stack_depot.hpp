// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stack_depot` stores the call stacks of the process: each sequence of addresses once, for good.

#include <vram/base/core/frame_rule.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <cstring> // memcmp, memcpy
#include <mutex>   // mutex, lock_guard
#include <new>     // operator new, nothrow

#if __has_include(<unwind.h>)
#include <unwind.h> // _Unwind_Backtrace
#if defined __x86_64__ && defined __linux__ && __has_include(<pthread.h>)
#define VRAM_WALKS_BY_RULES
#include <pthread.h> // pthread_getattr_np
#endif
#endif

namespace vram {
namespace detail {

/// One call stack. It is never changed or freed after it was made. Its addresses follow it in
/// memory.
struct stack_node {
    stack_node const* next; ///< the next call stack with the same index in the table
    std::uint64_t     hash;
    std::size_t       count; ///< number of return addresses in `frames()`

    [[nodiscard]] void const* const* frames() const noexcept {
        return reinterpret_cast<void const* const*>(this + 1);
    }
};

/// All different call stacks that were stored in this process. None is freed, so that a pointer to
/// one is valid until the process ends.
///
/// Threads   Any thread may call any function.
class stack_depot {
public:
    /// Returns the stored call stack with these addresses, and stores it first if it is new.
    /// Returns null without host memory for a copy.
    [[nodiscard]] static stack_node const* keep(void const* const* frames,
                                                std::size_t        count) noexcept {
        std::uint64_t const hash  = hash_of(frames, count);
        auto&               place = table[hash % places];
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
    /// Returns the stack with these `count` addresses if it was stored before, otherwise null.
    [[nodiscard]] static stack_node const* find(void const* const* frames,
                                                std::size_t        count) noexcept {
        std::uint64_t const hash = hash_of(frames, count);
        return look(table[hash % places], hash, frames, count);
    }

private:
    static constexpr std::size_t places = 4096;

    static inline constinit std::atomic<stack_node const*> table[places]{};
    static inline constinit std::mutex                     mutex{};

    [[nodiscard]] static std::uint64_t hash_of(void const* const* frames,
                                               std::size_t        count) noexcept {
        std::uint64_t hash = count;
        for (std::size_t i = 0; i != count; ++i) {
            hash = (hash ^ reinterpret_cast<std::uintptr_t>(frames[i])) * 0x9E37'79B9'7F4A'7C15U;
            hash ^= hash >> 29;
        }
        return hash;
    }
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

/// Reads the call stack of the calling thread. Fast if this call stack was stored before and the
/// thread has a `frame_rule` (how to get from a function to its caller) for each return address.
/// Otherwise calls the compiler's unwinder, which is slower, and stores the rules.
///
/// Failure   `here` returns null if the compiler has no unwinder, or without host memory.
/// Threads   Any thread.
/// Cost      About 40 ns for eight frames by rules; 48 KiB of host memory for each thread.
class stack_walk {
public:
    static constexpr unsigned most = 32; ///< the largest number of frames that `here` returns

    /// Returns the innermost `frames` (at most `most`) return addresses of the calling thread. The
    /// first is in the function that calls `here`.
    [[gnu::noinline]] static stack_node const* here(unsigned frames) noexcept {
#if __has_include(<unwind.h>)
        if (frames == 0) { return nullptr; }
        if (frames > most) { frames = most; }
        // `frame[0]` is the caller's rbp, `frame[1]` the return address of this function.
        auto const* const frame = static_cast<void const* const*>(__builtin_frame_address(0));
#ifdef VRAM_WALKS_BY_RULES
        if (its == nullptr) { make(); }
        if (its != nullptr) {
            if (auto const* const known = by_rules(frame, frames)) { return known; }
        }
#endif
        walk_state s{frames, frame};
        _Unwind_Backtrace(&step, &s);
#ifdef VRAM_WALKS_BY_RULES
        if (its != nullptr && s.regular) {
            for (unsigned i = 0; i != s.count; ++i) { its->remember(s.frames[i]); }
        }
#endif
        return stack_depot::keep(s.frames, s.count);
#else
        return static_cast<void>(frames), nullptr;
#endif
    }

private:
#ifdef VRAM_WALKS_BY_RULES
    static constexpr std::size_t sets = 512;
    static constexpr std::size_t ways = 4;
    struct memory_of_thread {
        memory_of_thread() noexcept {
            pthread_attr_t about;
            if (::pthread_getattr_np(::pthread_self(), &about) != 0) { return; }
            void*       begin = nullptr;
            std::size_t size  = 0;
            if (::pthread_attr_getstack(&about, &begin, &size) == 0) {
                lowest = reinterpret_cast<std::uintptr_t>(begin);
                end    = lowest + size;
            }
            ::pthread_attr_destroy(&about);
        }
        ~memory_of_thread() { its = nullptr, ended = true; }

        /// Returns the rule that this thread has stored for the return address `address`: how to
        /// find the caller of its function. Returns null if there is none.
        [[nodiscard]] frame_rule const* rule(void const* address) const noexcept {
            for (auto const& each : rules[set(address)]) {
                if (each.address == address) { return &each.is; }
            }
            return nullptr;
        }
        void remember(void const* address) noexcept {
            if (rule(address) != nullptr) { return; }
            rules[set(address)][turn++ % ways] = {address, frame_rule::of(address)};
        }
        [[nodiscard]] static std::size_t set(void const* address) noexcept {
            return reinterpret_cast<std::uintptr_t>(address) * 0x9E37'79B9'7F4A'7C15U >> 55;
        }

        struct {
            void const* address = nullptr;
            frame_rule  is{};
        } rules[sets][ways];
        /// Number of rules stored so far. The next rule goes to the place `turn % ways` of its set.
        std::size_t    turn   = 0;
        std::uintptr_t lowest = 0; ///< the lowest address of the thread's stack; 0 if unknown
        std::uintptr_t end    = 0; ///< the first address above the stack; 0 if unknown
    };
    static inline constinit thread_local memory_of_thread* its   = nullptr;
    static inline constinit thread_local bool              ended = false;

    /// Walks the stack from the frame address `frame` by this thread's stored frame rules. Returns
    /// null if that fails or `stack_depot` lacks the stack; the caller then uses the unwinder.
    [[nodiscard, gnu::no_sanitize_address]] static stack_node const*
    by_rules(void const* const* frame, unsigned frames) noexcept {
        auto rbp = reinterpret_cast<std::uintptr_t>(frame[0]);
        // Where on the stack the return address is: 8 bytes above the saved rbp.
        auto at = reinterpret_cast<std::uintptr_t>(frame + 1);
        // The frame may be on another stack, such as that of a signal handler.
        if (at < its->lowest || at >= its->end) { return nullptr; }
        void const* found[most];
        unsigned    count = 0;
        for (;;) {
            found[count] = *reinterpret_cast<void const* const*>(at);
            if (++count == frames) { break; }
            frame_rule const* const rule = its->rule(found[count - 1]);
            if (rule == nullptr || rule->from == frame_rule::base::unknown) { return nullptr; }
            if (rule->from == frame_rule::base::none) { break; }
            // The stack pointer when the calling function made its call: above the return address.
            std::uintptr_t const low = at + sizeof(void*);
            std::uintptr_t       end = (rule->from == frame_rule::base::stack_pointer ? low : rbp) +
                                 static_cast<std::size_t>(rule->size);
            if (rule->from == frame_rule::base::stored) {
                if (end < low || end >= its->end || end % sizeof(void*) != 0) { return nullptr; }
                end = *reinterpret_cast<std::uintptr_t const*>(end);
            }
            if (end <= low || end > its->end || end % sizeof(void*) != 0) { return nullptr; }
            if (rule->saved != frame_rule::place::in_rbp) {
                bool const           below = rule->saved == frame_rule::place::from_end;
                std::uintptr_t const saved =
                    (below ? end : rbp) + static_cast<std::size_t>(rule->rbp);
                if (saved < low || saved + sizeof(void*) > end) { return nullptr; }
                rbp = *reinterpret_cast<std::uintptr_t const*>(saved);
            }
            at = end - sizeof(void*);
        }
        return stack_depot::find(found, count);
    }

    /// Allocates `its`, the calling thread's table of frame rules. `its` stays null without host
    /// memory, or if the thread is ending.
    [[gnu::noinline]] static void make() noexcept {
        if (ended) { return; }
        struct owner {
            memory_of_thread* made = new (std::nothrow) memory_of_thread;
            owner()                = default;
            owner(owner&&)         = delete;
            ~owner() { delete made; }
        };
        thread_local owner const held;
        its = held.made;
    }
#endif

#if __has_include(<unwind.h>)
    struct walk_state {
        unsigned           asked;
        void const* const* frame; ///< frame address (rbp) of `here()`
        unsigned           count = 0;
        bool               begun = false;
        /// True if the unwinder finds the return address of `here()` at `frame[1]`, as `by_rules`
        /// assumes. Otherwise no rules are stored.
        bool        regular = false;
        void const* frames[most]{};
    };
    static _Unwind_Reason_Code step(_Unwind_Context* context, void* of) noexcept {
        auto& s = *static_cast<walk_state*>(of);
        if (!s.begun) { // skips the first stack frame, that of the function `here()`
            s.begun = true;
            return _URC_NO_REASON;
        }
        std::uintptr_t const ip = _Unwind_GetIP(context);
        if (ip == 0) { return _URC_END_OF_STACK; }
        if (s.count == 0) {
            s.regular = _Unwind_GetCFA(context) == reinterpret_cast<std::uintptr_t>(s.frame + 2);
        }
        s.frames[s.count] = reinterpret_cast<void const*>(ip);
        return ++s.count == s.asked ? _URC_END_OF_STACK : _URC_NO_REASON;
    }
#endif
};

} // namespace detail
} // namespace vram

#undef VRAM_WALKS_BY_RULES
