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

/// One stored call stack. The node is never changed or freed after its construction. The return
/// addresses of the call stack follow the node in memory.
struct stack_node {
    stack_node const* next; ///< the next call stack in the same list of the hash table
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
    /// Returns null if no host memory is left for a copy.
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

/// Reads the call stack of the calling thread. The first read of a call stack calls the compiler's
/// unwinder, which is slow. It usually stores a `frame_rule` (how to get from a function to its
/// caller) for each function. Later reads usually follow these rules, and are fast.
///
/// Failure   `here` returns null for 0 frames, or if it has no unwinder or no host memory.
/// Threads   Any thread may call `here`.
/// Cost      About 40 ns for eight frames if the read is fast; 48 KiB of host memory for each
///           thread.
class stack_walk {
public:
    static constexpr unsigned most = 32; ///< largest number of return addresses that `here` returns

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

        /// Returns the `frame_rule` (how to get from a function to its caller) that this thread has
        /// stored for the return address `address`. Returns null if there is none.
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
        /// Number of rules that the thread has stored so far. It determines which of the `ways`
        /// elements of a row the next rule replaces.
        std::size_t    turn   = 0;
        std::uintptr_t lowest = 0; ///< the lowest address of the thread's stack; 0 if unknown
        std::uintptr_t end    = 0; ///< the first address above the stack; 0 if unknown
    };
    static inline constinit thread_local memory_of_thread* its   = nullptr;
    static inline constinit thread_local bool              ended = false;

    /// Reads the call stack by the frame rules that this thread has stored. Returns null if a rule
    /// is missing or does not fit the stack, or if `stack_depot` does not contain this call stack
    /// yet. The caller then uses the compiler's unwinder.
    [[nodiscard, gnu::no_sanitize_address]] static stack_node const*
    by_rules(void const* const* frame, unsigned frames) noexcept {
        auto rbp = reinterpret_cast<std::uintptr_t>(frame[0]);
        // `at` is the address of the place on the stack that contains the return address.
        auto at = reinterpret_cast<std::uintptr_t>(frame + 1);
        // Gives up if the frame is not on the thread's own stack, but, for example, on the stack of
        // a signal handler.
        if (at < its->lowest || at >= its->end) { return nullptr; }
        void const* found[most];
        unsigned    count = 0;
        for (;;) {
            found[count] = *reinterpret_cast<void const* const*>(at);
            if (++count == frames) { break; }
            frame_rule const* const rule = its->rule(found[count - 1]);
            if (rule == nullptr || rule->from == frame_rule::base::unknown) { return nullptr; }
            if (rule->from == frame_rule::base::none) { break; }
            // `low` is the value of the stack pointer in the calling function, just before its
            // call.
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

    /// Allocates the calling thread's table of frame rules, and stores its address in `its`. If no
    /// host memory is left, or if the thread is ending, `its` stays null.
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
        void const* const* frame; ///< address of the stack frame of the function `here()`
        unsigned           count = 0;
        bool               begun = false;
        /// True if the compiler's unwinder also finds the return address of `here()` at `frame[1]`.
        /// If false, the stack is unusual, and `here()` stores no frame rules.
        bool        regular = false;
        void const* frames[most]{};
    };
    static _Unwind_Reason_Code step(_Unwind_Context* context, void* of) noexcept {
        auto& s = *static_cast<walk_state*>(of);
        if (!s.begun) { // the first call of `step` skips the stack frame of `here()` itself
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
