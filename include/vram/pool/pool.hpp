// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool` takes big chunks and hands out small blocks, each to whichever stream may have it.

#include <vram/base/contract.hpp>         // expects
#include <vram/base/error.hpp>            // report_error
#include <vram/base/out_of_memory.hpp>    // out_of_memory
#include <vram/layer/layer_base.hpp>      // layer_base
#include <vram/layer/with.hpp>            // with::word
#include <vram/pool/ask_upstream.hpp>     // ask_upstream
#include <vram/pool/geometric_growth.hpp> // geometric_growth
#include <vram/pool/pool_options.hpp>     // pool_options
#include <vram/pool/stream_heap.hpp>      // stream_heap
#include <vram/source/null_resource.hpp>  // the stand-in of the proofs below

#include <concepts> // default_initializable, assignable_from
#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <new>      // bad_alloc
#include <utility>  // move

namespace vram {

/// A coalescing, stream-aware suballocator over any resource.
///
///     pool<stream_ordered<cuda_resource>> memory;             // grows as it must
///     pool mr{cuda_resource{}, {.initial_size = 1_GiB}};      // a gigabyte at once
///
/// Books are kept in host memory; nothing is ever written into the memory itself. Blocks are
/// multiples of 256 bytes, found by best fit in bins, and joined with their free neighbours when
/// they come back, also across streams: a free block remembers which part of it which stream may
/// still use. Who asks first gets memory that waits for nobody, and else is made to wait for
/// exactly the streams concerned, once.
///
/// Failure   before it says no the pool gives idle chunks back, asks its upstream again, and waits
///           for what is pending; then `out_of_memory` with every number. A foreign pointer, a
///           double free and a wrong size are reported, and nothing else happens
/// Threads   any, at once; no lock is held over a call of the upstream, nor while waiting on the
///           host, but for a stream that can be given no event: it died, or the call failed
/// Streams   a block freed on a stream is that stream's again at once, and any other's after an
///           event; with `event_policy::lazy` a stream is retired before it is destroyed. Idle
///           chunks go back only when every stream is done with them
/// Cost      constant at any number of blocks; a stream that reuses its own memory makes no call of
///           the platform but for its id, no event, and no host allocation
template <synchronous_resource Upstream, growth Growth = geometric_growth>
class pool : public layer_base<Upstream> {
    using base = layer_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// A pool over an upstream that needs nothing to be made.
    explicit pool(pool_options options = {})
        requires std::default_initializable<Upstream>
        : pool{Upstream{}, options} {}

    /// Takes `options.initial_size` bytes at once; throws what the upstream throws.
    explicit pool(Upstream upstream, pool_options options = {}, Growth growth = {})
        : base{std::move(upstream)},
          options_{options},
          growth_{std::move(growth)},
          heap_{options.events, options.graphs} {
        if (options.initial_size == 0) { return; }
        expects(options.initial_size <= options.max_size,
                "pool: the initial size is within the maximum");
        request const all{.asked = options.initial_size};
        if (!all.possible()) { throw out_of_memory{{.asked = all.asked, .rounded = all.bytes}}; }
        std::size_t const alignment = all.chunk_alignment();
        adopt(this->upstream_.allocate_sync(all.bytes, alignment), all.bytes, alignment, nullptr,
              nullptr);
    }
    pool(pool&&) = default; ///< while unshared; memory that is out stays where it is
    pool& operator=(pool&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        give_everything_back();
        base::operator=(std::move(other));
        options_        = other.options_;
        growth_         = std::move(other.growth_);
        heap_           = std::move(other.heap_);
        upstream_calls_ = other.upstream_calls_;
        return *this;
    }
    /// Waits for the streams, reports what is still out, and gives every chunk back.
    ~pool() { give_everything_back(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return get<true>({.asked = bytes, .alignment = alignment, .on = &s});
    }
    /// Memory that anybody may use at once: where it is still in use, the host waits.
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        return get<true>({.asked = bytes, .alignment = alignment});
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return try_get({.asked = bytes, .alignment = alignment, .on = &s});
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return try_get({.asked = bytes, .alignment = alignment});
    }

    void deallocate(stream s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        put(p, bytes, alignment, &s);
    }
    /// The memory is in use by nobody.
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) noexcept {
        put(p, bytes, alignment, nullptr);
    }

    /// As `deallocate`, but where no block is out at `p` nothing is reported: the answer is false.
    [[nodiscard]] bool try_deallocate(stream s, void* p, std::size_t bytes,
                                      std::size_t alignment = default_alignment) noexcept {
        return try_put(p, bytes, alignment, &s);
    }
    [[nodiscard]] bool try_deallocate_sync(void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment) noexcept {
        return try_put(p, bytes, alignment, nullptr);
    }

    /// Whether `p` lies in one of the chunks, handed out or not.
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = lock_.hold();
        return heap_.blocks().owns(p);
    }
    /// `pending` counts free bytes that some stream may still use. Cost: a walk over all blocks.
    [[nodiscard]] memory_usage usage() const {
        auto const   held = lock_.hold();
        memory_usage now  = heap_.usage();
        now.upstream      = upstream_calls_;
        return now;
    }

    /// Gives idle chunks back until at most `keep` free bytes are held, waiting on the host for
    /// streams that may still use them, and trims the upstream. Returns the bytes that went back.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t back = 0;
        {
            auto held = lock_.hold();
            heap_.poll();
            while (heap_.blocks().free_bytes() > keep) {
                chunk const gone = heap_.remove_idle(held);
                if (gone.bytes == 0) { break; }
                ++upstream_calls_;
                held.unlock();
                this->upstream_.deallocate_sync(gone.base, gone.bytes, gone.alignment);
                held.lock();
                back += gone.bytes;
            }
        }
        if constexpr (trimmable_resource<Upstream>) { // what came from here may be in both
            std::size_t const beneath = this->upstream_.trim(0);
            back                      = beneath > back ? beneath : back;
        }
        return back;
    }
    /// Gives back the idle chunks that nobody uses any more, and waits for none; what streams are
    /// not done with is covered by an event, for the next time. Returns the bytes that went back.
    std::size_t trim_ready() {
        std::size_t back = 0;
        auto        held = lock_.hold();
        heap_.poll_idle();
        for (chunk gone; (gone = heap_.remove_ready()).bytes != 0; held.lock()) {
            ++upstream_calls_;
            held.unlock();
            this->upstream_.deallocate_sync(gone.base, gone.bytes, gone.alignment);
            back += gone.bytes;
        }
        return back;
    }
    /// The stream is about to be destroyed. Does not wait for it.
    void retire(stream s) {
        {
            auto const held = lock_.hold();
            heap_.retire(s);
        }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    /// No captured graph that used this pool will run again: what was kept for them is free.
    void forget_captures() {
        auto const held = lock_.hold();
        heap_.forget_captures();
    }
    [[nodiscard]] pool_options const& options() const noexcept { return options_; }

private:
    using lock    = platform_lock<platform>;
    using guard   = typename lock::guard;
    using request = block_request<stream>;
    using chunk   = block_heap::chunk;

    template <bool Throwing>
    void* get(request const& r) {
        expects(valid_alignment(r.alignment), "pool: the alignment is a power of two");
        if (r.asked == 0) { return nullptr; }
        if (r.possible()) {
            auto held = lock_.hold();
            if (void* const p = heap_.take_warm(r)) { return p; }
            if (void* const p = heap_.take(r, held, false)) { return p; }
            if (void* const p = make_room(r, held)) { return p; }
        }
        if constexpr (Throwing) {
            return must_grow(r);
        } else {
            return nullptr;
        }
    }
    void* try_get(request const& r) noexcept {
        try {
            return get<false>(r);
        } catch (std::bad_alloc const&) {
        } catch (...) { report_error({.kind = mishap::platform_error, .bytes = r.asked}); }
        return nullptr;
    }
    void put(void* p, std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        if (p == nullptr || try_put(p, bytes, alignment, on)) { return; }
        report_error({.kind = mishap::foreign_pointer, .pointer = p, .bytes = bytes});
    }
    /// False, with nothing done, where no block is out at `p`.
    bool try_put(void* p, std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        auto         held = lock_.hold();
        block* const b    = heap_.live(p);
        if (heap_.give(b, bytes, alignment, on)) { return true; }
        held.unlock();
        if (b == nullptr) { return false; }
        report_error({.kind = mishap::wrong_size, .pointer = p, .bytes = bytes});
        return true;
    }

    /// What is tried, in this order, before the answer is no: asking the streams how far they are,
    /// growing, giving idle chunks back and growing, waiting for everything that was freed.
    void* make_room(request const& r, guard& held) {
        bool const captured = r.on != nullptr && platform::capturing(*r.on); // must not wait or ask
        if (!captured) { heap_.poll(); }
        if (void* const p = heap_.take(r, held, true)) { return p; }
        growth_request const wish{.needed = r.bytes, .held = heap_.blocks().reserved()};
        held.unlock();
        for (std::size_t size = wanted(r, wish);; size = size / 2 > r.bytes ? size / 2 : r.bytes) {
            if (void* const p = grow<false>(r, align(size, bins::granule))) { return p; }
            if (size <= r.bytes) { break; }
        }
        if (captured) { return nullptr; }
        if (trim() != 0) {
            if (void* const p = grow<false>(r, r.bytes)) { return p; }
        }
        held.lock();
        heap_.finish(held);
        void* const p = heap_.take(r, held, true);
        held.unlock();
        return p;
    }

    /// The size of the next chunk: the policy's, if that is within the limit, or what is needed.
    std::size_t wanted(request const& r, growth_request wish) const {
        if constexpr (Growth::asks_device) { wish.device_free = device_memory(r).free; }
        std::size_t const size = growth_(wish);
        bool const        fits = wish.held <= options_.max_size && size <= bins::largest &&
                          size <= options_.max_size - wish.held;
        return fits && size > r.bytes ? size : r.bytes;
    }
    /// Takes a chunk of `size` from the upstream and the request out of it; null when it refuses,
    /// or, where `Throwing`, only when the limit does.
    template <bool Throwing>
    void* grow(request const& r, std::size_t size) {
        claim const mine{*this, size};
        if (!mine.granted) { return nullptr; }
        std::size_t const alignment = r.chunk_alignment();
        stream const*     on        = nullptr; // the stream whose order the chunk comes in
        if constexpr (resource<Upstream>) {
            if (r.on != nullptr && !platform::capturing(*r.on)) { on = r.on; }
        }
        void* const at = ask_upstream<Throwing>(this->upstream_, on, size, alignment);
        if (at == nullptr) { return nullptr; }
        return adopt(at, size, alignment, on, &r);
    }
    /// A chunk from the upstream joins the heap; it goes back if there is no memory for the books.
    void* adopt(void* at, std::size_t size, std::size_t alignment, stream const* on,
                request const* r) {
        auto held = lock_.hold();
        ++upstream_calls_;
        try {
            return heap_.add(at, size, alignment, on, r);
        } catch (...) {
            held.unlock();
            if (on != nullptr) { clocks<platform>::settle(*on); }
            this->upstream_.deallocate_sync(at, size, alignment);
            throw;
        }
    }
    /// The last attempt: throws what the upstream throws, with the pool's numbers added.
    void* must_grow(request const& r) {
        shortage numbers{};
        try {
            if (r.possible()) {
                if (void* const p = grow<true>(r, r.bytes)) { return p; }
                numbers.limit = options_.max_size;
            }
        } catch (out_of_memory& refused) {
            add_numbers(r, refused.numbers());
            throw;
        }
        add_numbers(r, numbers);
        throw out_of_memory{numbers};
    }
    void add_numbers(request const& r, shortage& n) const {
        auto const fill = [](auto& number, auto value) { number = number == 0 ? value : number; };
        n.asked         = r.asked;
        n.rounded       = r.bytes;
        n.alignment     = r.alignment;
        if (r.on != nullptr) { fill(n.stream, platform::id(*r.on)); }
        {
            auto const held = lock_.hold();
            n.live          = heap_.live_bytes(); // these three belong together: all the pool's own
            n.reserved      = heap_.blocks().reserved();
            n.largest_free  = heap_.blocks().largest_free();
        }
        try {
            memory_info const device = device_memory(r);
            fill(n.device_free, device.free);
            fill(n.device_total, device.total);
        } catch (...) {} // the refusal is the news, not that the device does not answer
    }
    static memory_info device_memory(request const& r) {
        return platform::memory(r.on != nullptr ? platform::device_of(*r.on)
                                                : platform::current_device());
    }

    void give_everything_back() noexcept {
        if (heap_.blocks().chunks().size() == 0) { return; }
        auto held = lock_.hold();
        if (heap_.live_bytes() != 0) {
            report_error({.kind = mishap::leak, .bytes = heap_.live_bytes()});
        }
        heap_.settle(held);
        held.unlock();
        for (chunk const& c : heap_.blocks().chunks()) {
            this->upstream_.deallocate_sync(c.base, c.bytes, c.alignment);
        }
    }

    /// Bytes on their way from the upstream, within the limit.
    struct claim {
        pool&             owner;
        std::size_t const bytes;
        bool              granted;

        claim(pool& p, std::size_t n) : owner{p}, bytes{n} {
            auto const        held = p.lock_.hold();
            std::size_t const out  = p.heap_.blocks().reserved() + p.growing_;
            granted                = out <= p.options_.max_size && n <= p.options_.max_size - out;
            if (granted) { p.growing_ += n; }
        }
        claim(claim const&) = delete;
        ~claim() {
            if (!granted) { return; }
            auto const held = owner.lock_.hold();
            owner.growing_ -= bytes;
        }
    };

    lock                          lock_;
    pool_options                  options_;
    [[no_unique_address]] Growth  growth_;
    mutable stream_heap<platform> heap_; ///< who asks for its figures tidies it
    std::size_t                   growing_        = 0;
    std::uint64_t                 upstream_calls_ = 0;
};

namespace with {
/// `source | with::pool`, `source | with::pool({.max_size = 8_GiB})`, and `source |
/// with::pool(1_GiB)`, which takes a gigabyte at once.
struct pool_word : word<vram::pool, pool_options> {
    using word<vram::pool, pool_options>::operator();
    [[nodiscard]] auto operator()(std::size_t initial_size) const {
        return layer<vram::pool>(pool_options{.initial_size = initial_size});
    }
};
inline constexpr pool_word pool{};
} // namespace with

static_assert(powers<pool<null_resource<>>>::include<null_resource<>>);
static_assert(resource<pool<null_resource<>>> && retiring_resource<pool<null_resource<>>>);

} // namespace vram
