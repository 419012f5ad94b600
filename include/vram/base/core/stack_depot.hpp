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

/// All different call stacks that were passed to `keep` in this process. None is freed, because an
/// event may refer to a call stack until the end of the process.
///
/// Failure   `keep` returns null if there is no host memory for a new stack.
/// Threads   Any thread may call any function. Only a new stack takes a lock.
class stack_depot {
public:
    /// Returns the stored stack with these `count` addresses. Stores it first if it is new. Returns
    /// null if there is no host memory for it.
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

/// Walks the stack of the calling thread. The unwinder takes some microseconds for eight frames, so
/// on x86-64 a thread remembers its steps: if a place of its stack has a certain return address,
/// then the next return address is at a certain other place. A later walk takes the same steps, and
/// its result is used if the same call stack was found by the unwinder before.
///
/// Failure   `here` returns null if the compiler has no unwinder, without host memory, and for 0
///           frames.
/// Threads   Any thread.
/// Cost      About 40 ns for eight frames if all steps are remembered, also if other calls of the
///           same functions were made since. 48 KiB of host memory for each thread that walks.
class stack_walk {
public:
    static constexpr unsigned most = 32; ///< the largest number of frames

    /// Returns the call stack of the innermost `frames` return addresses (at most `most`). The
    /// first is an address in the caller of `here`.
    [[gnu::noinline]] static stack_node const* here(unsigned frames) noexcept {
#if __has_include(<unwind.h>)
        if (frames == 0) { return nullptr; }
        if (frames > most) { frames = most; }
        if (its == nullptr) { make(); }
#if defined __x86_64__
        if (its != nullptr) {
            // The return address of this function is next to the pointer to the caller's frame.
            auto const* const first = static_cast<void const* const*>(__builtin_frame_address(0));
            if (auto const* const known = remembered(first + 1, frames)) { return known; }
        }
#endif
        walk_state s{frames};
        _Unwind_Backtrace(&step, &s);
        if (its != nullptr) {
            for (unsigned i = 0; i + 1 < s.count; ++i) {
                its->remember(s.places[i], s.frames[i], s.places[i + 1]);
            }
            if (s.count != 0 && s.count < frames) { // the last frame found is the outermost one
                its->remember(s.places[s.count - 1], s.frames[s.count - 1], s.places[s.count - 1]);
            }
        }
        return stack_depot::keep(s.frames, s.count);
#else
        return static_cast<void>(frames), nullptr;
#endif
    }

private:
    /// If the stack has the return address `address` at `place`, the next return address is at
    /// `next`; there is none if `next` is `place`.
    struct remembered_step {
        void const* const* place   = nullptr;
        void const*        address = nullptr;
        void const* const* next    = nullptr;
    };

    static constexpr std::size_t sets = 512;
    static constexpr std::size_t ways = 4;
    struct memory_of_thread {
        ~memory_of_thread() { its = nullptr, ended = true; }

        /// Returns the address on the stack at which the next outer return address is, or `place`
        /// if there is none. Returns null if the thread has not stored the step from `place`, with
        /// the return address `address` in it.
        [[nodiscard]] void const* const* next(void const* const* place,
                                              void const*        address) const noexcept {
            for (remembered_step const& each : steps[set(place, address)]) {
                if (each.place == place && each.address == address) { return each.next; }
            }
            return nullptr;
        }
        void remember(void const* const* place, void const* address,
                      void const* const* to) noexcept {
            if (place == nullptr || to == nullptr) { return; }
            auto& cells = steps[set(place, address)];
            for (remembered_step& each : cells) {
                if (each.place == place && each.address == address) {
                    each.next = to;
                    return;
                }
            }
            cells[turn++ % ways] = {place, address, to};
        }
        [[nodiscard]] static std::size_t set(void const* const* place,
                                             void const*        address) noexcept {
            auto const mixed = (reinterpret_cast<std::uintptr_t>(place) / 8 ^
                                reinterpret_cast<std::uintptr_t>(address)) *
                               std::uint64_t{0x9E37'79B9'7F4A'7C15U};
            return mixed >> 55;
        }

        remembered_step steps[sets][ways]{};
        /// Number of times that a new step was stored, perhaps in place of another one. The next
        /// new step is stored in its set of `ways` steps at this number modulo `ways`.
        std::size_t turn = 0;
    };
    static inline constinit thread_local memory_of_thread* its   = nullptr;
    static inline constinit thread_local bool              ended = false;

    /// Returns the call stack without the unwinder, by steps that the unwinder found earlier. A
    /// step leads from the stack address of one return address to the stack address of the next
    /// outer one. Returns null if a step is missing, or if this call stack was never stored. A step
    /// is taken only if the return address is the same as when the unwinder found the step: then
    /// the next outer frame exists, and its stack address can be read.
    [[nodiscard, gnu::no_sanitize_address]] static stack_node const*
    remembered(void const* const* place, unsigned frames) noexcept {
        void const* found[most];
        unsigned    count = 0;
        for (;;) {
            found[count] = *place;
            if (++count == frames) { break; }
            void const* const* const next = its->next(place, found[count - 1]);
            if (next == nullptr) { return nullptr; }
            if (next == place) { break; }
            place = next;
        }
        return stack_depot::find(found, count);
    }

    /// Allocates the memory for the remembered steps of the thread, unless the thread is ending.
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

#if __has_include(<unwind.h>)
    struct walk_state {
        unsigned           asked;
        unsigned           count = 0;
        bool               begun = false;
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
