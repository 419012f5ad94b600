// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growing_base` is the part that pools of small pieces share: a limit, a lock, and the way
/// upstream.

#include <vram/base/error.hpp>           // report_error
#include <vram/base/memory_usage.hpp>    // memory_usage
#include <vram/base/out_of_memory.hpp>   // out_of_memory
#include <vram/base/report_caught.hpp>   // report_caught
#include <vram/concepts/memory_info.hpp> // memory_info
#include <vram/concepts/powers.hpp>      // located_resource
#include <vram/concepts/property.hpp>    // has_property
#include <vram/concepts/sited.hpp>       // sited
#include <vram/layer/layer_base.hpp>     // layer_base
#include <vram/pool/ask_upstream.hpp>    // ask_upstream
#include <vram/pool/platform_lock.hpp>   // platform_lock

#include <concepts> // assignable_from
#include <cstddef>  // size_t
#include <new>      // bad_alloc
#include <utility>  // move, exchange

namespace vram {

/// Takes chunks from the upstream, never more than `max_size` bytes of them, and counts. No call of
/// the upstream is made with the lock held.
///
/// Failure   what the upstream throws; a chunk for which there are no books goes back
/// Threads   any
/// Cost      of growing: that of the upstream, and the lock twice
template <synchronous_resource Upstream>
class growing_base : public layer_base<Upstream> {
    using base = layer_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// The bytes that a request takes of a chunk.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t /* alignment */) noexcept {
        return bytes;
    }
    /// Peaks start again from what is out and held now. Returns the figures from before.
    memory_usage reset_peaks() noexcept {
        auto const held = lock_.hold();
        return figures_.restart_peaks();
    }
    /// Takes in the peaks of figures from before.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        figures_.raise_peaks(before);
    }

protected:
    using lock  = platform_lock<platform>;
    using guard = typename lock::guard;

    /// A request and its numbers, for the refusal.
    struct request {
        std::size_t   asked;
        std::size_t   rounded;
        std::size_t   alignment;
        stream const* on; ///< null: for use at once, by anybody
    };

    growing_base(Upstream upstream, std::size_t max_size)
        : base{std::move(upstream)}, max_size_{max_size} {}
    growing_base(growing_base&& other) noexcept
        : base{std::move(other)},
          max_size_{other.max_size_},
          figures_{std::exchange(other.figures_, {})} {}
    growing_base& operator=(growing_base&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        base::operator=(std::move(other));
        max_size_ = other.max_size_;
        figures_  = std::exchange(other.figures_, {});
        return *this;
    }
    ~growing_base() = default;

    /// The stream in whose order a chunk for `on` should come: null, at once, where the upstream
    /// knows no streams, and while a graph is captured there, which it would be part of.
    [[nodiscard]] static stream const* order_of(stream const* on) {
        if constexpr (resource<Upstream>) {
            if (on != nullptr && !platform::capturing(*on)) { return on; }
        }
        return nullptr;
    }
    /// A chunk of `size` from the upstream, in the order of a stream or at once (null), and what
    /// `adopt(memory)` makes of it with the lock held. Null when the limit refuses it, or, unless
    /// `Throwing`, the upstream.
    template <bool Throwing, class Adopt>
    void* grow(std::size_t size, std::size_t alignment, stream const* order, Adopt adopt) {
        claim mine{*this, size};
        if (!mine.granted) { return nullptr; }
        void* const at = ask_upstream<Throwing>(this->upstream_, order, size, alignment);
        return at != nullptr ? take_over(mine, at, alignment, order, adopt) : nullptr;
    }
    /// The same out of what the upstream has for a stream at once; null where it has none, or there
    /// is no host memory: who asks has something that it can wait for instead. The limit is claimed
    /// when there is something to claim it for, or others would be refused meanwhile for nothing.
    template <class Adopt>
    void* grow_at_once(std::size_t size, std::size_t alignment, stream s, Adopt adopt)
        requires reusing_resource<Upstream>
    {
        if (size > room()) { return nullptr; }
        try {
            void* const at = this->upstream_.try_allocate_ready(s, size, alignment);
            if (at == nullptr) { return nullptr; }
            claim mine{*this, size};
            if (mine.granted) { return take_over(mine, at, alignment, &s, adopt); }
            count_calls(2); // others were faster
            send_home(at, size, alignment, &s);
        } catch (std::bad_alloc const&) {} // no books, here or beneath
        return nullptr;
    }
    /// Bytes within the limit that are neither held nor on their way.
    [[nodiscard]] std::size_t room() const {
        auto const held = lock_.hold();
        return left();
    }
    /// Bytes on their way from the upstream, within the limit.
    struct claim {
        growing_base&     owner;
        std::size_t const bytes;
        bool              granted;

        claim(growing_base& p, std::size_t n) : owner{p}, bytes{n} {
            auto const held = p.lock_.hold();
            granted         = n <= p.left();
            if (granted) { p.under_way_ += n; }
        }
        claim(claim const&) = delete;
        ~claim() {
            if (!granted) { return; }
            auto const held = owner.lock_.hold();
            owner.under_way_ -= bytes;
        }

        /// They have come. The lock is held.
        void keep() noexcept {
            granted         = false;
            memory_usage& f = owner.figures_;
            owner.under_way_ -= bytes;
            f.reserved += bytes;
            if (f.reserved > f.peak_reserved) { f.peak_reserved = f.reserved; }
        }
    };

    /// Gives a chunk that nobody uses back; its books are closed. Opens the lock meanwhile.
    void give_back(void* at, std::size_t size, std::size_t alignment, guard& held) {
        hand_back(size, held, [&] { sited{this->upstream_}.deallocate_sync(at, size, alignment); });
    }
    /// Has `call()` give `size` bytes back, without the lock. They are no longer held, and within
    /// the limit until the upstream has them.
    template <class Call>
    void hand_back(std::size_t size, guard& held, Call call) {
        ++figures_.upstream;
        figures_.reserved -= size;
        under_way_ += size;
        held.unlock();
        call();
        held.lock();
        under_way_ -= size;
    }

    /// The last attempt, and the refusal: throws what `attempt()` throws, with numbers added.
    /// `largest()`, the largest free block, is asked with the lock held.
    template <class Attempt, class Largest>
    void* or_throw(request const& r, Attempt attempt, Largest largest) {
        shortage numbers{};
        try {
            if (void* const p = attempt()) { return p; }
            if (max_size_ != unsatisfiable) { numbers.limit = max_size_; }
        } catch (out_of_memory& refused) {
            add_numbers(r, refused.numbers(), largest);
            throw;
        }
        add_numbers(r, numbers, largest);
        throw out_of_memory{numbers};
    }
    /// What `attempt()` returns, or null where it throws.
    template <class Attempt>
    static void* or_null(std::size_t asked, Attempt attempt) noexcept {
        try {
            return attempt();
        } catch (std::bad_alloc const&) {
        } catch (...) {
            report_caught({.kind   = error_kind::platform_error,
                           .bytes  = asked,
                           .call   = "try_allocate of a pool",
                           .advice = "try_allocate returned null; allocate throws the error."});
        }
        return nullptr;
    }

    void count_out(std::size_t asked, std::size_t taken) noexcept {
        ++figures_.allocations;
        figures_.requested += asked;
        figures_.live += taken;
        if (figures_.live > figures_.peak_live) { figures_.peak_live = figures_.live; }
    }
    void count_back(std::size_t asked, std::size_t taken) noexcept {
        figures_.requested -= asked;
        figures_.live -= taken;
    }
    /// Gives what is unused beneath back too. Returns the more of what went back to the upstream
    /// and what that gave back: memory that went all the way is in both.
    std::size_t trim_beneath(std::size_t here) {
        if constexpr (trimmable_resource<Upstream>) { // what came from here may be in both
            std::size_t const beneath = this->upstream_.trim(0);
            return beneath > here ? beneath : here;
        }
        return here;
    }

    /// What the device of the memory has: that of the upstream, or, if the upstream does not say,
    /// that of the stream or the current one.
    [[nodiscard]] memory_info device_memory([[maybe_unused]] stream const* on) const {
        if constexpr (located_resource<Upstream>) {
            return platform::memory(this->upstream_.device());
        } else {
            return platform::memory(on != nullptr ? platform::device_of(*on)
                                                  : detail::device_of_resource(this->upstream_));
        }
    }

    lock         lock_;
    std::size_t  max_size_;
    memory_usage figures_;

private:
    /// What `adopt` makes of a chunk that has come; where it throws, the chunk goes back.
    template <class Adopt>
    void* take_over(claim& mine, void* at, std::size_t alignment, stream const* order,
                    Adopt& adopt) {
        auto held = lock_.hold();
        ++figures_.upstream;
        try {
            void* const made = adopt(at);
            mine.keep();
            return made;
        } catch (...) {
            ++figures_.upstream;
            held.unlock();
            send_home(at, mine.bytes, alignment, order);
            throw;
        }
    }
    void count_calls(unsigned more) noexcept {
        auto const held = lock_.hold();
        figures_.upstream += more;
    }
    /// Gives a chunk that was not used back as it came, so that nobody waits.
    void send_home(void* at, std::size_t bytes, std::size_t alignment, stream const* order) {
        if constexpr (resource<Upstream>) {
            if (order != nullptr) {
                return sited{this->upstream_}.deallocate(*order, at, bytes, alignment);
            }
        }
        sited{this->upstream_}.deallocate_sync(at, bytes, alignment);
    }
    /// `room`, with the lock held.
    [[nodiscard]] std::size_t left() const noexcept {
        std::size_t const out = figures_.reserved + under_way_;
        return out < max_size_ ? max_size_ - out : 0;
    }

    template <class Largest>
    void add_numbers(request const& r, shortage& n, Largest largest) {
        auto const fill = [](auto& number, auto value) { number = number == 0 ? value : number; };
        n.asked         = r.asked;
        n.rounded       = r.rounded;
        n.alignment     = r.alignment;
        if (r.on != nullptr) { fill(n.stream, platform::id(*r.on)); }
        {
            auto const held = lock_.hold();
            n.largest_free  = largest(); // these three belong together: all the pool's own
            n.live          = figures_.live;
            n.reserved      = figures_.reserved;
        }
        if constexpr (has_property<Upstream, host_accessible>) { return; } // it is no device's
        try {
            memory_info const device = device_memory(r.on);
            fill(n.device_free, device.free);
            fill(n.device_total, device.total);
        } catch (...) {} // the refusal is the news, not that the device does not answer
    }

    std::size_t under_way_ = 0; ///< bytes that come from the upstream, or go back to it
};

} // namespace vram
