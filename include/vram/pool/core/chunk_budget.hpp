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

/// The limit on the bytes that a pool reserves, and the number of these bytes. Allocates chunks
/// from the upstream with the lock released. Memory counts against the limit also during calls of
/// the upstream.
///
/// Failure   Exceptions of the upstream and of `adopt`, which records a new chunk, are rethrown;
///           `grow_ready` returns null on `std::bad_alloc`.
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

    /// The usage of the pool. This class updates `reserved`, `peak_reserved` and `upstream` (the
    /// number of upstream calls), its owner the other counters.
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
    /// Subtracts from the reserved bytes physical memory that was unmapped inside a chunk.
    void release(std::size_t bytes) noexcept { usage.reserved -= bytes; }

    /// Claims `bytes` of the limit for memory being allocated, if there is room. Unless `keep` was
    /// called, the destructor takes the lock and gives the bytes back to the limit.
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

    /// Allocates a chunk, in the order of the stream `order` if not null. Returns the result of
    /// `adopt(address)`, which records the chunk. Returns null at the limit. If the upstream
    /// refuses, throws (`Throwing`) or returns null.
    template <bool Throwing, class Seen, class Lock, class Upstream, class Adopt>
    void* grow(Seen const& seen, Lock& lock, Upstream& up, std::size_t size, std::size_t alignment,
               typename Upstream::platform::stream const* order, Adopt const& adopt) {
        claim mine{*this, lock, size};
        if (!mine.granted()) { return nullptr; }
        void* const at = ask_upstream<Throwing>(up, order, size, alignment);
        if (at == nullptr) { return nullptr; }
        return take_over(seen, mine, lock, up, at, size, alignment, order, adopt);
    }
    /// Allocates a chunk that the stream `s` can use without a wait, from memory that the upstream
    /// holds. Returns the result of `adopt(address)`, which records the chunk; null if there is no
    /// such memory, at the limit or on `std::bad_alloc`.
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
            // The bytes are claimed only now. If they were claimed before and the upstream then had
            // no memory, requests of other threads could fail at the limit.
            claim mine{*this, lock, size};
            if (mine.granted()) {
                return take_over(seen, mine, lock, up, at, size, alignment, &s, adopt);
            }
            {
                auto const held = lock.hold();
                usage.upstream += 2;
            }
            send_home(up, at, size, alignment, &s);
            // Lack of memory for this chunk is no error: the caller can wait for other memory.
        } catch (std::bad_alloc const&) {}
        return nullptr;
    }
    /// Calls `call()`, which returns `size` bytes to the upstream, with the lock released. The
    /// bytes count against the limit until `call` has returned.
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
    /// Returns an unused chunk to the upstream, in the order of the stream `order` if that is not
    /// null.
    template <class Upstream>
    static void send_home(Upstream& up, void* at, std::size_t size, std::size_t alignment,
                          typename Upstream::platform::stream const* order) {
        if constexpr (resource<Upstream>) {
            if (order != nullptr) { return sited{up}.deallocate(*order, at, size, alignment); }
        }
        sited{up}.deallocate_sync(at, size, alignment);
    }

    std::size_t limit_;
    /// Bytes of memory that `claim` has claimed, or of chunks that `give_back` is returning. They
    /// count against the limit, but not as reserved.
    std::size_t in_flight_ = 0;
    std::size_t most_      = 0; ///< largest number of bytes ever reserved
};

} // namespace detail
} // namespace vram
