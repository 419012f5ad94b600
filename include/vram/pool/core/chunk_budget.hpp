// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_budget` is the limit on the bytes that a pool reserves, with the counters of its chunks.

#include <vram/base/align.hpp> // unsatisfiable
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/observer.hpp> // memory_event_kind
#include <vram/concepts/powers.hpp>   // resource, reusing_resource
#include <vram/concepts/sited.hpp>
#include <vram/pool/core/ask_upstream.hpp>

#include <cstddef>
#include <new> // bad_alloc
#include <utility>

namespace vram {
namespace detail {

/// Counts the bytes that a pool reserves (obtains from its upstream), and enforces a limit on them.
/// Allocates chunks from the upstream with the pool's lock released. A chunk counts against the
/// limit until the upstream has freed it.
///
/// Failure   Exceptions of the upstream and of `adopt` (the caller's function that records a new
///           chunk) are rethrown. `grow_ready` returns null on `std::bad_alloc`.
/// Threads   Functions without a `Lock` parameter, except `limit`, require the pool's lock.
class chunk_budget {
public:
    explicit chunk_budget(std::size_t limit) noexcept : limit_{limit} {}
    chunk_budget(chunk_budget&& other) noexcept : limit_{other.limit_} {
        *this = static_cast<chunk_budget&&>(other);
    }
    chunk_budget& operator=(chunk_budget&& other) noexcept {
        limit_ = other.limit_;
        usage  = std::exchange(other.usage, {});
        most_  = std::exchange(other.most_, 0);
        return *this;
    }
    ~chunk_budget() = default;

    /// The counters of the pool. This class changes `reserved`, `peak_reserved`, and `upstream`
    /// (the number of calls of the upstream). The owner of this object changes the other counters.
    memory_usage usage;

    /// The largest number of bytes that may be reserved; `unsatisfiable` means no limit.
    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
    /// Returns how many more bytes the limit permits.
    [[nodiscard]] std::size_t room() const noexcept {
        std::size_t const out = usage.reserved + in_flight_;
        return out < limit_ ? limit_ - out : 0;
    }
    /// Returns the most bytes that were ever reserved, regardless of resets of the peaks.
    [[nodiscard]] std::size_t most_reserved() const noexcept { return most_; }
    /// Subtracts `bytes` from the reserved bytes, after physical memory of a chunk was unmapped.
    void release(std::size_t bytes) noexcept { usage.reserved -= bytes; }

    /// Claims `bytes` of the limit while this memory is being allocated. `granted()` tells if the
    /// limit has room for them; if not, nothing is claimed. After the allocation, `keep()` turns a
    /// claim into reserved bytes. If `keep` is not called, the destructor takes the lock and gives
    /// up the claim.
    template <class Lock>
    class claim {
    public:
        claim(chunk_budget& budget, Lock& lock, std::size_t bytes)
            : budget_{budget}, lock_{lock}, bytes_{bytes} {
            auto const held = lock_.hold();
            granted_        = bytes_ <= budget_.room();
            if (granted_) { budget_.in_flight_ += bytes_; }
        }
        claim(claim const&)            = delete;
        claim& operator=(claim const&) = delete;
        ~claim() {
            if (!granted_) { return; }
            auto const held = lock_.hold();
            budget_.in_flight_ -= bytes_;
        }

        /// Returns true if the limit had room and `keep` was not called yet.
        [[nodiscard]] bool granted() const noexcept { return granted_; }
        /// Turns the claimed bytes into reserved ones. The lock must be held.
        void keep() noexcept {
            granted_        = false;
            memory_usage& u = budget_.usage;
            budget_.in_flight_ -= bytes_;
            u.reserved += bytes_;
            if (u.reserved > u.peak_reserved) { u.peak_reserved = u.reserved; }
            if (u.reserved > budget_.most_) { budget_.most_ = u.reserved; }
        }

    private:
        chunk_budget&     budget_;
        Lock&             lock_;
        std::size_t const bytes_;
        bool              granted_;
    };

    /// Allocates a chunk of `size` bytes. If `order` is not null, allocates on that stream. Calls
    /// `adopt(address)`, which must record the chunk, and returns its result. Returns null if the
    /// limit has no room. If the upstream refuses, throws if `Throwing`, and otherwise returns
    /// null.
    template <bool Throwing, class Seen, class Lock, class Upstream, class Adopt>
    void* grow(Seen const& seen, Lock& lock, Upstream& up, std::size_t size, std::size_t alignment,
               typename Upstream::platform::stream const* order, Adopt const& adopt) {
        claim mine{*this, lock, size};
        if (!mine.granted()) { return nullptr; }
        void* const at = ask_upstream<Throwing>(up, order, size, alignment);
        if (at == nullptr) { return nullptr; }
        return take_over(seen, mine, lock, up, at, size, alignment, order, adopt);
    }
    /// Allocates a chunk of memory that the stream `s` can use without a wait. Calls
    /// `adopt(address)`, which must record the chunk, and returns its result. Returns null if the
    /// upstream has no such memory, if the limit has no room, or if `std::bad_alloc` is thrown.
    template <class Seen, class Lock, class Upstream, class Adopt>
    void* grow_ready(Seen const& seen, Lock& lock, Upstream& up, std::size_t size,
                     std::size_t alignment, typename Upstream::platform::stream s,
                     Adopt const& adopt)
        requires reusing_resource<Upstream>
    {
        {
            auto const held = lock.hold();
            if (size > room()) { return nullptr; }
        }
        try {
            void* const at = sited{up}.try_allocate_ready(s, size, alignment);
            if (at == nullptr) { return nullptr; }
            // Counts the bytes only after the allocation. Otherwise, an attempt that finds no
            // memory could make requests of other threads fail at the limit.
            claim mine{*this, lock, size};
            if (mine.granted()) {
                return take_over(seen, mine, lock, up, at, size, alignment, &s, adopt);
            }
            {
                auto const held = lock.hold();
                usage.upstream += 2;
            }
            send_home(up, at, size, alignment, &s);
        } catch (std::bad_alloc const&) {}
        return nullptr;
    }
    /// Calls `call()` with the lock released. `call` returns a chunk of `size` bytes to the
    /// upstream. The chunk counts against the limit until `call` has returned.
    template <class Guard, class Call>
    void give_back(std::size_t size, Guard& held, Call const& call) {
        ++usage.upstream;
        usage.reserved -= size;
        in_flight_ += size;
        held.unlock();
        call();
        held.lock();
        in_flight_ -= size;
    }

private:
    /// Passes the new chunk at `at` to `adopt(at)`, which records it, counts it as reserved and
    /// returns the result. If `adopt` throws, returns the chunk to the upstream and rethrows.
    template <class Seen, class Lock, class Upstream, class Adopt>
    void* take_over(Seen const& seen, claim<Lock>& mine, Lock& lock, Upstream& up, void* at,
                    std::size_t size, std::size_t alignment,
                    typename Upstream::platform::stream const* order, Adopt const& adopt) {
        seen.notify(memory_event_kind::chunk_added, at, size, order);
        auto held = lock.hold();
        ++usage.upstream;
        try {
            void* const made = adopt(at);
            mine.keep();
            return made;
        } catch (...) {
            ++usage.upstream;
            held.unlock();
            seen.notify(memory_event_kind::chunk_removed, at, size, order);
            send_home(up, at, size, alignment, order);
            throw;
        }
    }
    /// Returns an unused chunk to the upstream: on the stream `order`, or without a stream if
    /// `order` is null or the upstream has no stream order.
    template <class Upstream>
    static void send_home(Upstream& up, void* at, std::size_t size, std::size_t alignment,
                          typename Upstream::platform::stream const* order) {
        if constexpr (resource<Upstream>) {
            if (order != nullptr) { return sited{up}.deallocate(*order, at, size, alignment); }
        }
        sited{up}.deallocate_sync(at, size, alignment);
    }

    std::size_t limit_;
    /// Bytes that count against the limit in addition to `usage.reserved`, because a thread is
    /// adding this memory to the pool or returning it to the upstream.
    std::size_t in_flight_ = 0;
    std::size_t most_      = 0; ///< largest number of bytes ever reserved
};

} // namespace detail
} // namespace vram
