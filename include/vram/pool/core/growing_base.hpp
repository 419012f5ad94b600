// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `growing_base` is the common part of pools: the limit, the lock, and the allocation of chunks.

#include <vram/base/core/null_if_thrown.hpp>
#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/base/error.hpp>              // report_error
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/core/observation.hpp>
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/memory_info.hpp>
#include <vram/concepts/powers.hpp>   // located_resource, device_of_resource
#include <vram/concepts/property.hpp> // has_property
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/order/core/try_wait.hpp>
#include <vram/pool/core/chunk_budget.hpp>

#include <concepts> // assignable_from
#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// True for the upstream of a shard, which is a pool of an `arena`. A shard reports its events
/// through the object that `seen()` returns, so that observers see the arena as the source.
template <class R>
concept observed_by_owner = requires(R const& r) { r.seen(); };

/// The common part of pools: allocates chunks from the upstream, at most `max_size` bytes in total,
/// and counts them. The lock is released during calls of the upstream.
///
/// Failure   Exceptions of the upstream are rethrown.
/// Threads   Any number of threads may call concurrently. `count_out` and `count_back` need the
///           lock.
template <synchronous_resource Upstream>
class growing_base : public layer_base<Upstream> {
    using base = layer_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Returns the bytes that a request takes from a chunk: exactly `bytes`, without rounding.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t /* alignment */) noexcept {
        return bytes;
    }
    /// Sets the peaks to the bytes that are live and reserved now. Returns the previous peaks.
    memory_usage reset_peaks() noexcept {
        auto const held = lock_.hold();
        return budget_.usage.restart_peaks();
    }
    /// Raises the peaks to at least the peaks in `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        budget_.usage.raise_peaks(before);
    }

protected:
    using lock  = platform_lock<platform>;
    using guard = typename lock::guard;

    /// An allocation request, with the numbers that an `out_of_memory` exception contains.
    struct request {
        std::size_t asked;
        std::size_t rounded;
        std::size_t alignment;
        /// The stream that will use the memory. If null, any stream must be able to use the memory
        /// without a wait.
        stream const* on;
    };

    /// `name`: the name of the resource, for errors and observers.
    growing_base(char const* name, Upstream upstream, std::size_t max_size)
        : base{std::move(upstream)}, budget_{max_size}, name_{name} {}
    growing_base(growing_base&&) = default;
    growing_base& operator=(growing_base&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        base::operator=(std::move(other));
        budget_ = std::move(other.budget_);
        return *this;
    }
    ~growing_base() = default;

    /// Returns the object that reports this pool's events to the observers (`notify`).
    [[nodiscard, gnu::always_inline]] auto seen() noexcept {
        if constexpr (observed_by_owner<Upstream>) {
            // The pool is a shard of an arena. Observers see the arena as the source of its events.
            return this->upstream_.seen();
        } else {
            return observation<Upstream>{this->upstream_, name_, &lock_};
        }
    }
    /// Returns the stream on which to allocate a chunk for the stream `on`: `on` itself, or null
    /// (no stream). Null if `on` is being captured, or if the upstream has no stream order.
    [[nodiscard]] static stream const* order_of(stream const* on) {
        if constexpr (resource<Upstream>) {
            // During a capture, an allocation on `on` would become part of the graph.
            if (!is_captured<platform>(on)) { return on; }
        }
        return nullptr;
    }
    /// Allocates a chunk of `size` bytes. If `order` is not null, allocates on that stream. Calls
    /// `adopt(address)`, which must record the chunk, and returns its result. Returns null if the
    /// limit has no room. If the upstream refuses, throws if `Throwing`, and otherwise returns
    /// null.
    template <bool Throwing, class Adopt>
    void* grow(std::size_t size, std::size_t alignment, stream const* order, Adopt adopt) {
        return budget_.grow<Throwing>(seen(), lock_, this->upstream_, size, alignment, order,
                                      adopt);
    }
    /// Allocates a chunk of memory that the stream `s` can use without a wait. Calls
    /// `adopt(address)`, which must record the chunk, and returns its result. Returns null if the
    /// upstream has no such memory, if the limit has no room, or if `std::bad_alloc` is thrown.
    template <class Adopt>
    void* grow_ready(std::size_t size, std::size_t alignment, stream s, Adopt adopt)
        requires reusing_resource<Upstream>
    {
        return budget_.grow_ready(seen(), lock_, this->upstream_, size, alignment, s, adopt);
    }
    /// Returns how many more bytes the limit permits.
    [[nodiscard]] std::size_t room() const {
        auto const held = lock_.hold();
        return budget_.room();
    }
    /// Returns an unused chunk to the upstream, with the lock released. The caller has removed the
    /// chunk from its records.
    void give_back(void* at, std::size_t size, std::size_t alignment, guard& held) {
        budget_.give_back(size, held, [&] {
            seen().notify(memory_event_kind::chunk_removed, at, size);
            sited{this->upstream_}.deallocate_sync(at, size, alignment);
        });
    }
    /// Returns the result of `attempt()`, the last attempt of a request. If `attempt` returns null
    /// or throws `out_of_memory`, throws `out_of_memory` with numbers of the pool and the device.
    /// `largest()` returns the size of the largest free block.
    template <class Attempt, class Largest>
    void* or_throw(request const& r, Attempt attempt, Largest largest) {
        shortage numbers{};
        try {
            if (void* const p = attempt()) { return p; }
            if (budget_.limit() != unsatisfiable) { numbers.limit = budget_.limit(); }
        } catch (out_of_memory& refused) {
            add_numbers(r, refused.numbers(), largest);
            throw;
        }
        add_numbers(r, numbers, largest);
        throw out_of_memory{numbers};
    }
    /// Returns the result of `attempt()`, or null if `attempt` throws. Exceptions other than
    /// `std::bad_alloc` go to the error sink, with the requested bytes `asked`.
    template <class Attempt>
    void* or_null(std::size_t asked, Attempt attempt) const noexcept {
        return null_if_thrown(name_, asked, attempt);
    }

    /// Reports a rejected free. `explain(error)` adds the reason and is called with the lock held.
    template <class Explain>
    void report_refusal(void* p, std::size_t bytes, std::size_t alignment, stream const* on,
                        call_site at, Explain explain) noexcept {
        refused_free e{name_, p, bytes, alignment, at};
        e.template on<platform>(on);
        {
            auto const held = lock_.hold();
            explain(e);
        }
        e.template report<platform>();
        seen().notify(memory_event_kind::free_refused, p, bytes, on, at);
    }

    void count_out(std::size_t asked, std::size_t taken) noexcept {
        memory_usage& u = budget_.usage;
        ++u.allocations;
        u.requested += asked;
        u.live += taken;
        if (u.live > u.peak_live) { u.peak_live = u.live; }
    }
    void count_back(std::size_t asked, std::size_t taken) noexcept {
        budget_.usage.requested -= asked;
        budget_.usage.live -= taken;
    }
    /// Makes the upstream return unused memory. `here`: number of bytes that the caller has
    /// returned. The upstream may count the same bytes, so the larger number is returned.
    std::size_t trim_beneath(std::size_t here) {
        if constexpr (trimmable_resource<Upstream>) {
            std::size_t const beneath = this->upstream_.trim(0);
            return beneath > here ? beneath : here;
        }
        return here;
    }

    /// Returns the total and free memory of the upstream's device. If the upstream does not name
    /// its device, uses the device of `on` or, if `on` is null, the current device.
    [[nodiscard]] memory_info device_memory([[maybe_unused]] stream const* on) const {
        if constexpr (located_resource<Upstream>) {
            return platform::memory(this->upstream_.device());
        } else {
            if constexpr (perhaps_located<Upstream>) {
                if (auto const its = this->upstream_.device()) { return platform::memory(*its); }
            }
            return platform::memory(on != nullptr ? platform::device_of(*on)
                                                  : platform::current_device());
        }
    }

    /// Called when a resource ends with live blocks, whose users are unknown. Makes the host wait
    /// for the device of the memory, unless it is the current one. An error is reported.
    void await_memory() const noexcept {
        if constexpr (names_device<Upstream>) {
            try {
                auto const its = device_of_resource(this->upstream_);
                if (its != platform::current_device()) { (void)try_wait<platform>(its); }
            } catch (...) { report_failed_call("the wait for a device"); }
        }
    }

    lock         lock_;
    chunk_budget budget_;
    char const*  name_;

private:
    template <class Largest>
    void add_numbers(request const& r, shortage& n, Largest largest) {
        auto const fill = [](auto& number, auto value) { number = number == 0 ? value : number; };
        n.asked         = r.asked;
        n.rounded       = r.rounded;
        n.alignment     = r.alignment;
        if (r.on != nullptr) { fill(n.stream, platform::id(*r.on)); }
        {
            auto const held = lock_.hold();
            n.largest_free  = largest();
            n.live          = budget_.usage.live;
            n.reserved      = budget_.usage.reserved;
        }
        if constexpr (has_property<Upstream, host_accessible>) { return; }
        try {
            memory_info const device = device_memory(r.on);
            fill(n.device_free, device.free);
            fill(n.device_total, device.total);
        } catch (...) {} // an error of the device query must not replace the refusal
    }
};

} // namespace detail
} // namespace vram
