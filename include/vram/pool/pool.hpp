// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pool` divides large chunks into blocks, and reuses freed blocks in stream order.

#include <vram/base/call_site.hpp>        // call_site
#include <vram/base/contract.hpp>         // expects
#include <vram/base/error.hpp>            // report_error
#include <vram/base/out_of_memory.hpp>    // out_of_memory
#include <vram/concepts/diagnosed.hpp>    // refuse_copy, checked_upstream
#include <vram/concepts/is_destroyed.hpp> // is_destroyed
#include <vram/concepts/is_ending.hpp>    // is_ending
#include <vram/concepts/refused_free.hpp> // refused_free
#include <vram/concepts/sited.hpp>        // sited
#include <vram/layer/with.hpp>            // with::word
#include <vram/pool/default_growth.hpp>   // default_growth
#include <vram/pool/free_pieces.hpp>      // free_pieces
#include <vram/pool/paged_base.hpp>       // pool_base, paged_base
#include <vram/source/null_resource.hpp>  // the stand-in of the proofs below

#include <concepts> // default_initializable, assignable_from
#include <cstddef>  // size_t
#include <utility>  // move, exchange

namespace vram {

namespace detail {
template <class Upstream, class Growth>
struct pool_growth {
    using type = pool_base<Upstream, Growth>;
};
template <remappable_resource Upstream, class Growth>
struct pool_growth<Upstream, Growth> {
    using type = paged_base<Upstream, Growth>;
};
template <class Upstream, class Growth>
using base_of_pool = typename pool_growth<Upstream, Growth>::type;
} // namespace detail

/// A coalescing, stream-ordered suballocator over any resource.
///
///     pool<stream_ordered<cuda_resource>> memory;             // grows if needed
///     pool mr{cuda_resource{}, {.initial_size = 1_GiB}};      // a gigabyte at once
///
/// Block sizes are multiples of 256 bytes. A request gets the best fit, found in bins without a
/// search. Freed blocks are coalesced with their free neighbours, also if these were freed on other
/// streams: a free block records which stream may still use which part. A request gets memory that
/// its stream may use at once, if there is any. Otherwise the stream is made to wait for exactly
/// the streams concerned, once; over another pool, only if that pool has no ready memory either.
/// Bookkeeping is in host memory and never in the managed memory.
///
/// Failure   Before it refuses, the pool waits for another thread that remaps pages, returns idle
///           chunks, asks its upstream again, and waits for pending uses. Then it throws
///           `out_of_memory` with every number. These invalid frees are reported with the caller's
///           line and free nothing: of a foreign pointer, of a pointer into a block, of a free
///           block, with a wrong size or alignment.
/// Threads   Any number of threads may call concurrently. The lock is not held during calls of the
///           upstream or waits on the host, with one exception: a wait for a stream on which no
///           event can be recorded, because it was destroyed or the call failed.
/// Streams   The stream that freed a block may reuse it at once, any other stream after an event. A
///           `cuda_stream` or `sim_stream` may be destroyed at any time. With `event_policy::lazy`
///           a raw `cudaStream_t` must be retired before that. Any thread may capture its own
///           stream at the same time. An idle chunk is returned only after every stream has
///           finished with it.
/// Cost      Constant at any number of blocks if a free block fits. Otherwise a walk over all
///           blocks if some are pending or not coalesced. With `event_policy::lazy`, a stream that
///           reuses its own memory makes no call of the platform (except for the id of a default
///           stream), records no event, and allocates no host memory.
template <class Upstream, growth Growth = default_growth<Upstream>>
class pool : public detail::base_of_pool<detail::checked_upstream<Upstream>, Growth> {
    using base = detail::base_of_pool<Upstream, Growth>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Creates a pool over a default-constructed upstream.
    explicit pool(pool_options options = {})
        requires std::default_initializable<Upstream>
        : pool{Upstream{}, options} {}

    /// Reserves `options.initial_size` bytes at once, and throws the exceptions of the upstream.
    explicit pool(Upstream upstream, pool_options options = {}, Growth growth = {})
        : base{std::move(upstream), options, std::move(growth)} {
        if constexpr (!remappable_resource<Upstream>) {
            detail::expect_no_page_options(
                options, "pool: `remap` and `slack` have an effect over virtual memory only; write "
                         "pool<virtual_resource>, or leave them out");
        }
        if (options.initial_size == 0) { return; }
        expects(options.initial_size <= options.max_size,
                "pool: the initial size is within the maximum");
        request const all{.asked = options.initial_size};
        if (!all.possible()) { throw out_of_memory{{.asked = all.asked, .rounded = all.bytes}}; }
        this->template new_chunk<true>(all, all.bytes, nullptr);
        // The initial size, rounded up to whole pages, exceeds the limit.
        if (heap_.blocks().empty()) {
            throw out_of_memory{
                {.asked = all.asked, .rounded = all.bytes, .limit = options.max_size}};
        }
    }
    /// A size alone does not compile: the error message names the options.
    template <detail::size_alone<Upstream> Size>
    explicit pool(Size) : pool{detail::refuse_size(*this)} {}
    /// A copy does not compile: the error message names the alternatives (move, borrow, share).
    template <std::same_as<pool> Same>
    pool(Same& other) : pool{detail::refuse_copy(other)} {}
    template <std::same_as<pool> Same>
    pool& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    pool(pool&&) = default; ///< moves a resource that is not shared; live memory keeps its address
    pool& operator=(pool&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        give_everything_back();
        base::operator=(std::move(other));
        return *this;
    }
    /// Waits for the streams, reports live blocks as leaks, and returns every chunk to the
    /// upstream. If a block is still live, or if graphs were captured, whole devices are waited
    /// for, which ends every capture on them. A stream that is being captured is not waited for by
    /// itself, because that would end the capture; it is reported to the error sink.
    ~pool() { give_everything_back(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return get_on<true>(s, bytes, alignment);
    }
    /// Returns a cached block, or a ready free block that is found without a search. Returns null
    /// if there is neither.
    [[nodiscard]] void* try_allocate_cached(stream s, std::size_t bytes,
                                            std::size_t alignment = default_alignment) {
        auto const   held = this->lock_.hold();
        block* const b    = heap_.take_quick(s, bytes, alignment);
        return b != nullptr ? b->pointer() : nullptr;
    }
    /// Returns a block that the stream may use without a wait, after a search and if needed queries
    /// of other streams. Returns null if there is none. Throws `std::bad_alloc` if host memory
    /// cannot be allocated, and errors of the platform.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment) {
        request const r{.asked = bytes, .alignment = alignment, .on = &s};
        if (bytes == 0 || !r.possible() || !valid_alignment(alignment)) { return nullptr; }
        auto held      = this->lock_.hold();
        bool must_wait = false;
        return heap_.take(r, held, false, &must_wait);
    }
    /// Allocates memory that any stream may use at once. If streams still use the memory, the host
    /// waits for them.
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        return get<true>({.asked = bytes, .alignment = alignment}, this->lock_.hold());
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return this->or_null(bytes, [&] { return get_on<false>(s, bytes, alignment); });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return this->or_null(bytes, [&] {
            return get<false>({.asked = bytes, .alignment = alignment}, this->lock_.hold());
        });
    }

    // Inlined: only the cold path loads the call site.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        if (!try_deallocate(s, p, bytes, alignment)) [[unlikely]] {
            refuse_on(s, p, bytes, alignment, at);
        }
    }
    /// Frees a block that no stream uses any more. The host has waited for the stream on which the
    /// block was allocated.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        if (!try_deallocate_sync(p, bytes, alignment)) [[unlikely]] {
            refuse(p, bytes, alignment, nullptr, at);
        }
    }

    /// Frees a block as `deallocate` does. If no block with this size and alignment is live at `p`,
    /// reports nothing and returns false.
    [[nodiscard]] bool try_deallocate(stream s, void* p, std::size_t bytes,
                                      std::size_t alignment = default_alignment) noexcept {
        auto         held = this->lock_.hold();
        block* const b    = heap_.live(p, bytes);
        if (heap_.give_quick(b, bytes, alignment, s)) [[likely]] { return true; }
        return put_on(s, b, bytes, alignment, std::move(held));
    }
    [[nodiscard]] bool try_deallocate_sync(void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment) noexcept {
        auto const   held = this->lock_.hold();
        block* const b    = heap_.live(p, bytes);
        return put(b, bytes, alignment, nullptr);
    }
    /// Frees the blocks for which `blocks.drain(take)` calls `take(free)`, with the pool's lock
    /// taken once. Reports an invalid free.
    template <class Blocks>
    void drain(Blocks& blocks) noexcept {
        auto const held = this->lock_.hold();
        blocks.drain([&](auto const& n) {
            block* const  b  = heap_.live(n.p, n.bytes);
            stream const* on = n.in_use ? &n.on : nullptr;
            if (b != nullptr && on != nullptr && heap_.give_quick(b, n.bytes, n.alignment, n.on)) {
                return;
            }
            if (!heap_.give(b, n.bytes, n.alignment, on, true)) { refuse_remote(n, false); }
        });
    }

    /// Registers the stream `s` by querying its id. Must be called before `s` is captured, because
    /// CUDA forbids the query during a capture. Throws if the query fails.
    void meet(stream s) {
        auto const held = this->lock_.hold();
        heap_.meet(s);
    }

    /// Returns true if `p` lies in one of the chunks, in a live block or not.
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = this->lock_.hold();
        return heap_.blocks().owns(p);
    }
    /// Returns the usage. `pending` counts free bytes that some stream may still use. Cost: a walk
    /// over all blocks.
    [[nodiscard]] memory_usage usage() const {
        auto const   held = this->lock_.hold();
        memory_usage now  = heap_.usage([&](block const& b) { return this->behind(b); });
        now.reserved      = this->budget_.usage.reserved;
        now.peak_reserved = this->budget_.usage.peak_reserved;
        now.past_peak     = this->budget_.usage.past_peak;
        now.upstream      = this->budget_.usage.upstream;
        now.restarts      = this->budget_.usage.restarts;
        return now;
    }
    /// Returns the sizes of the free blocks. Cost: a walk over all blocks.
    [[nodiscard]] free_pieces free_memory() const {
        auto const held = this->lock_.hold();
        return heap_.free_memory([&](block const& b) { return this->behind(b); });
    }
    /// Restarts the peaks from the bytes that are live and reserved now, and returns the usage
    /// until now.
    memory_usage reset_peaks() noexcept {
        auto const held               = this->lock_.hold();
        this->budget_.usage.live      = heap_.live_bytes(); // only the heap counts live bytes
        this->budget_.usage.peak_live = heap_.reset_peak();
        return this->budget_.usage.restart_peaks();
    }
    /// Raises the peaks to at least those of `before`, a result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = this->lock_.hold();
        this->budget_.usage.raise_peaks(before);
        heap_.raise_peak(before.peak_live);
    }

    /// Returns idle chunks to the upstream until at most `keep` free bytes are reserved, then trims
    /// the upstream. The host waits for streams that may still use the chunks. If chunks can grow
    /// in place, their free ends are returned as well. Pending memory counts as free. Returns the
    /// number of bytes that were returned to the upstream, or that the upstream returned, whichever
    /// is larger.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t back = 0;
        {
            auto held = this->lock_.hold();
            heap_.poll();
            // Returns parts of chunks first, so that not more than needed is returned.
            if (keep != 0) { back += this->give_parts_back(keep, held); }
            for (bool waited = false; this->unused() > keep;) {
                if (this->give_chunk_back(heap_.remove_idle(held), held, back)) { continue; }
                if (std::exchange(waited, true)) { break; }
                heap_.finish(held); // coalesces free blocks, after which a chunk may be idle
            }
            back += this->give_parts_back(keep, held);
        }
        return this->trim_beneath(back);
    }
    /// Returns idle chunks that no stream uses to the upstream, without a wait. Events are recorded
    /// for other idle chunks, so that a later call can return them. Returns the number of bytes
    /// returned.
    std::size_t trim_no_wait() {
        std::size_t back = 0;
        auto        held = this->lock_.hold();
        heap_.poll_idle();
        while (this->give_chunk_back(heap_.remove_ready(), held, back)) {}
        return back;
    }
    /// Returns `bytes` rounded up to a multiple of 256.
    [[nodiscard]] static constexpr std::size_t rounded_size(std::size_t bytes,
                                                            std::size_t /* alignment */) noexcept {
        return align(bytes, bins::granule);
    }
    /// Announces that the stream `s` is about to be destroyed. Does not wait for the stream.
    void retire(stream s) {
        {
            auto const held = this->lock_.hold();
            heap_.retire(s);
        }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    /// States that no captured graph that used this pool will run again. The graph-retained memory
    /// becomes free. Another stream may use it after the current work of the stream that was
    /// captured.
    void forget_captures() {
        {
            auto const held = this->lock_.hold();
            heap_.forget_captures();
        }
        if constexpr (forgetting_resource<Upstream>) { this->upstream_.forget_captures(); }
    }
    [[nodiscard]] pool_options const& options() const noexcept { return options_; }

protected:
    /// Reports a free of `p` that was rejected, and the reason. Does nothing if `p` is null.
    [[gnu::cold, gnu::noinline]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* on, call_site at) const noexcept {
        if (p == nullptr) { return; }
        refused_free e{own_name, p, bytes, alignment, at};
        e.template on<platform>(on);
        {
            auto const held = this->lock_.hold();
            heap_.explain_refusal(e);
        }
        e.template report<platform>();
    }
    [[gnu::cold, gnu::noinline]] void refuse_on(stream s, void* p, std::size_t bytes,
                                                std::size_t alignment,
                                                call_site   at) const noexcept {
        refuse(p, bytes, alignment, &s, at);
    }

    /// Reports a remote free that is refused. `stale`: the block was freed before this free was
    /// queued, or after that, and another caller has allocated it since. Otherwise the lock must be
    /// held.
    template <class Note>
    [[gnu::cold, gnu::noinline]] void refuse_remote(Note const& n, bool stale) const noexcept {
        refused_free e{own_name, n.p, n.bytes, n.alignment, n.at};
        if (n.in_use && !is_destroyed<platform>(n.on)) { e.template on<platform>(&n.on); }
        stale ? (void)e.found_free() : heap_.explain_refusal(e);
        e.template report<platform>();
    }

private:
    /// The resource that errors name.
    static constexpr char const* own_name = [] {
        if constexpr (requires { Upstream::pool_name; }) {
            return Upstream::pool_name;
        } else {
            return "pool";
        }
    }();

    using typename base::chunk;
    using typename base::guard;
    using typename base::request;
    using base::growth_;
    using base::heap_;
    using base::options_;

    template <bool Throwing>
    [[gnu::always_inline]] void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        auto held = this->lock_.hold();
        if (block* const b = heap_.take_quick(s, bytes, alignment)) [[likely]] {
            return b->pointer();
        }
        return search<Throwing>(s, bytes, alignment, std::move(held));
    }
    // A function of its own, so that the stream stays in a register in `get_on`.
    template <bool Throwing>
    [[gnu::noinline]] void* search(stream s, std::size_t bytes, std::size_t alignment, guard held) {
        return get<Throwing>({.asked = bytes, .alignment = alignment, .on = &s}, std::move(held));
    }
    template <bool Throwing>
    void* get(request const& r, guard held) {
        if (r.asked != 0 && r.possible() && valid_alignment(r.alignment)) {
            if (void* const p = take(r, held)) { return p; }
            if (void* const p = make_room(r, held)) { return p; }
        }
        if (held.owns_lock()) { held.unlock(); }
        expects(valid_alignment(r.alignment), "pool: the alignment is a power of two");
        if (r.asked == 0) { return nullptr; }
        if constexpr (Throwing) {
            return must_grow(r);
        } else {
            return nullptr;
        }
    }
    [[gnu::noinline]] bool put_on(stream s, block* b, std::size_t bytes, std::size_t alignment,
                                  guard /* until it returns */) noexcept {
        return put(b, bytes, alignment, &s);
    }
    /// Frees the block `b` (null: there is none). Returns false and changes nothing if there is no
    /// block, or if it was allocated with another size or alignment.
    bool put(block* b, std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        return b != nullptr && heap_.give(b, bytes, alignment, on);
    }
    /// Allocates a block from the reserved memory. If the stream would have to wait for one,
    /// allocates a chunk that the upstream has ready for it instead.
    void* take(request const& r, guard& held) {
        if constexpr (reusing_resource<Upstream>) {
            bool must_wait = false;
            if (r.on != nullptr) {
                void* const p = heap_.take(r, held, false, &must_wait);
                if (p != nullptr || !must_wait) { return p; }
                held.unlock();
                void* const beneath = this->chunk_at_once(r);
                held.lock();
                if (beneath != nullptr) { return beneath; }
            }
        }
        return heap_.take(r, held, false);
    }
    /// The steps before a refusal, in this order: querying the streams, a hole between large
    /// blocks, growing, waiting for another thread that remaps pages and growing, returning idle
    /// chunks and growing, waiting for everything that was freed. Returns null if all of them fail.
    void* make_room(request const& r, guard& held) {
        // A captured stream must neither wait nor query.
        bool const captured = r.on != nullptr && platform::capturing(*r.on);
        if (void* const p = this->take_beside(r, captured, held)) { return p; }
        if (!captured) { heap_.poll_all(); }
        if (void* const p = heap_.take(r, held, true)) { return p; }
        if (!captured) {
            if (void* const p = this->take_in_hole(r)) { return p; }
        }
        held.unlock();
        if (void* const p = enlarge(r, captured)) { return p; }
        held.lock();
        void* p = heap_.take_elsewhere(r, held);
        // That thread may have left some memory.
        while (p == nullptr && !captured && this->await_pages(held)) {
            held.unlock();
            p = this->lengthen(r, false, false);
            held.lock();
        }
        held.unlock();
        if (p != nullptr || captured) { return p; }
        if (trim() != 0) {
            if ((p = this->lengthen(r, false, false)) != nullptr) { return p; }
            if ((p = this->template new_chunk<false>(r, r.bytes, &r)) != nullptr) { return p; }
        }
        held.lock();
        heap_.finish(held);
        p = heap_.take(r, held, true);
        if (p == nullptr) { p = heap_.take_elsewhere(r, held); }
        held.unlock();
        return p;
    }
    /// Grows by as much as the growth policy wants, or by less; first at the end of a chunk.
    void* enlarge(request const& r, bool captured) {
        if (void* const p = this->lengthen(r, captured, true)) { return p; }
        std::size_t const size = this->wanted(r, {.needed = r.bytes, .held = this->held_bytes(r)});
        if (!captured && r.bytes > heap_.blocks().small_size) { this->make_way(size); }
        return base::stepping_down(size, r.bytes, [&](std::size_t n) {
            return this->template new_chunk<false>(r, align(n, bins::granule), &r);
        });
    }
    /// The last attempt: rethrows the exception of the upstream with the pool's numbers added.
    void* must_grow(request const& r) {
        return this->or_throw(
            {r.asked, r.bytes, r.alignment, r.on},
            [&]() -> void* {
                return r.possible() ? this->template new_chunk<true>(r, r.bytes, &r) : nullptr;
            },
            [&] {
                this->budget_.usage.live = heap_.live_bytes(); // only the heap counts live bytes
                return heap_.blocks().largest_free();
            });
    }

    void give_everything_back() noexcept {
        if (is_ending<platform>() || heap_.blocks().empty()) { return; }
        // No other thread uses the pool any more. The lock is needed by functions that release it
        // during a wait.
        if (heap_.live_bytes() != 0) {
            error left    = heap_.leak();
            left.resource = own_name;
            report_error(left);
        }
        auto held = this->lock_.hold();
        heap_.wait_for_all(held);
        held.unlock();
        heap_.blocks().for_each_chunk([&](chunk const& c) {
            sited{this->upstream_}.deallocate_sync(c.base, c.bytes, c.alignment);
        });
    }
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
