// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growing_base` is the common part of pools: the limit, the lock, and the allocation of chunks
/// from the upstream.

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

/// Allocates chunks from the upstream, never more than `max_size` bytes, and counts them. The
/// upstream is called without the lock.
///
/// Failure   The exceptions of the upstream are rethrown. A chunk that cannot be recorded, because
///           host memory cannot be allocated, is returned to the upstream.
/// Threads   Any number of threads may call concurrently.
/// Cost      Growing costs a call of the upstream and the lock twice.
template <synchronous_resource Upstream>
class growing_base : public layer_base<Upstream> {
    using base = layer_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Returns the bytes that a request takes from a chunk.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t /* alignment */) noexcept {
        return bytes;
    }
    /// Restarts the peaks from the bytes that are live and reserved now, and returns the usage
    /// until now.
    memory_usage reset_peaks() noexcept {
        auto const held = lock_.hold();
        return figures_.restart_peaks();
    }
    /// Raises the peaks to at least those of `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        figures_.raise_peaks(before);
    }

protected:
    using lock  = platform_lock<platform>;
    using guard = typename lock::guard;

    /// A request with its numbers, for `out_of_memory`.
    struct request {
        std::size_t   asked;
        std::size_t   rounded;
        std::size_t   alignment;
        stream const* on; ///< null: any stream may use the memory at once
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

    /// Returns the stream that orders the allocation of a chunk for `on`. Null means without stream
    /// order: if the upstream is not stream-ordered, or if `on` is being captured, because the
    /// allocation would become part of the graph.
    [[nodiscard]] static stream const* order_of(stream const* on) {
        if constexpr (resource<Upstream>) {
            if (on != nullptr && !platform::capturing(*on)) { return on; }
        }
        return nullptr;
    }
    /// Allocates a chunk of `size` bytes from the upstream, in the order of a stream or with
    /// `allocate_sync` (null), and returns the result of `adopt(memory)`, which is called with the
    /// lock held. Returns null if the limit refuses the chunk. If the upstream refuses it, throws,
    /// or returns null if not `Throwing`.
    template <bool Throwing, class Adopt>
    void* grow(std::size_t size, std::size_t alignment, stream const* order, Adopt adopt) {
        claim mine{*this, size};
        if (!mine.granted) { return nullptr; }
        void* const at = ask_upstream<Throwing>(this->upstream_, order, size, alignment);
        return at != nullptr ? take_over(mine, at, alignment, order, adopt) : nullptr;
    }
    /// Allocates a chunk that the upstream has ready for a stream, as `grow` does. Returns null if
    /// the upstream has none, or if host memory cannot be allocated, because the caller can wait
    /// for other memory instead. The limit is claimed after the chunk was obtained; claiming it
    /// before could refuse another thread for nothing.
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
            count_calls(2); // another thread claimed the rest of the limit first
            send_home(at, size, alignment, &s);
            // No host memory for the records, here or in the upstream.
        } catch (std::bad_alloc const&) {}
        return nullptr;
    }
    /// Returns the bytes within the limit that are neither reserved nor being allocated.
    [[nodiscard]] std::size_t room() const {
        auto const held = lock_.hold();
        return left();
    }
    /// Bytes of the limit claimed for a chunk that is being allocated. The destructor releases them
    /// unless `keep` was called.
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

        /// Turns the claimed bytes into reserved ones. The lock must be held.
        void keep() noexcept {
            granted         = false;
            memory_usage& f = owner.figures_;
            owner.under_way_ -= bytes;
            f.reserved += bytes;
            if (f.reserved > f.peak_reserved) { f.peak_reserved = f.reserved; }
        }
    };

    /// Returns a chunk that no stream uses to the upstream. The caller has removed it from its
    /// records. Releases the lock during the call.
    void give_back(void* at, std::size_t size, std::size_t alignment, guard& held) {
        hand_back(size, held, [&] { sited{this->upstream_}.deallocate_sync(at, size, alignment); });
    }
    /// Calls `call()`, which returns `size` bytes to the upstream, with the lock released. The
    /// bytes are no longer reserved, but count against the limit until the call has returned.
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

    /// The last attempt of a request: returns the result of `attempt()`, or throws its exception
    /// with the pool's numbers added. `largest()`, the size of the largest free block, is called
    /// with the lock held.
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
    /// Returns the result of `attempt()`, or null if it throws. Errors other than a refusal are
    /// reported.
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
    /// Trims the upstream. Returns the larger of `here`, the bytes that were returned to the
    /// upstream, and the bytes that the upstream returned, because the same memory may be in both
    /// numbers.
    std::size_t trim_beneath(std::size_t here) {
        // Bytes that were returned to the upstream may be included in both numbers.
        if constexpr (trimmable_resource<Upstream>) {
            std::size_t const beneath = this->upstream_.trim(0);
            return beneath > here ? beneath : here;
        }
        return here;
    }

    /// Returns the total and free memory of the device of this memory: that of the upstream, or, if
    /// the upstream has no `device`, that of the stream or the current device.
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
    /// Calls `adopt` for a chunk that was obtained. If it throws, returns the chunk to the
    /// upstream.
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
    /// Returns an unused chunk to the upstream in the same stream order in which it was allocated,
    /// so no wait is needed.
    void send_home(void* at, std::size_t bytes, std::size_t alignment, stream const* order) {
        if constexpr (resource<Upstream>) {
            if (order != nullptr) {
                return sited{this->upstream_}.deallocate(*order, at, bytes, alignment);
            }
        }
        sited{this->upstream_}.deallocate_sync(at, bytes, alignment);
    }
    /// Returns the bytes within the limit that are neither reserved nor being allocated. The lock
    /// must be held.
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
            n.largest_free  = largest(); // these three are read together, all from this pool
            n.live          = figures_.live;
            n.reserved      = figures_.reserved;
        }
        // Host memory belongs to no device.
        if constexpr (has_property<Upstream, host_accessible>) { return; }
        try {
            memory_info const device = device_memory(r.on);
            fill(n.device_free, device.free);
            fill(n.device_total, device.total);
        } catch (...) {} // an error of the device query must not replace the refusal
    }

    /// Bytes that are being allocated from the upstream or returned to it.
    std::size_t under_way_ = 0;
};

} // namespace vram
