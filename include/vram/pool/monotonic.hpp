// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `monotonic` allocates from chunks with a bump pointer, and frees everything at once.

#include <vram/base/align.hpp>                 // align, align_down, default_alignment
#include <vram/base/call_site.hpp>             // call_site
#include <vram/base/contract.hpp>              // expects
#include <vram/base/error.hpp>                 // report_error
#include <vram/concepts/core/diagnosed.hpp>    // refuse_copy, checked_upstream
#include <vram/concepts/core/is_ending.hpp>    // is_ending
#include <vram/concepts/core/refused_free.hpp> // refused_free
#include <vram/concepts/growth.hpp>            // growth
#include <vram/concepts/powers.hpp> // fallible_resource, retiring_resource, forgetting_resource
#include <vram/concepts/sited.hpp>  // sited
#include <vram/layer/with.hpp>      // with::word
#include <vram/pool/core/growing_base.hpp> // growing_base
#include <vram/pool/core/stream_bump.hpp>  // stream_bump
#include <vram/pool/free_pieces.hpp>       // free_pieces
#include <vram/pool/geometric_growth.hpp>  // geometric_growth
#include <vram/pool/monotonic_mark.hpp>    // monotonic_mark
#include <vram/pool/pool_options.hpp>      // pool_options

#include <concepts> // default_initializable, assignable_from
#include <cstddef>  // size_t
#include <utility>  // move

namespace vram {

/// `std::pmr::monotonic_buffer_resource` for device memory and streams: allocates with a bump
/// pointer, for one step of a program that frees all its memory together.
///
///     monotonic<stream_ordered<cuda_resource>> step;
///     auto const here = step.mark();      // ... allocate ...
///     step.unwind(here, stream);          // frees all blocks since then
///     step.reset(stream);                 // frees all blocks
///
/// `deallocate` only counts bytes. Memory is reused after `unwind` and `reset`, which free many
/// blocks at once. Unwound blocks must not be freed any more. Chunks are kept until `trim`,
/// `release` or the destructor, which unwinds live blocks. Bookkeeping is never written into the
/// managed memory.
///
/// Failure   Before it throws `out_of_memory` with every number, it waits for streams that use free
///           chunks, and returns these chunks to the upstream. Unwinding to a mark that was itself
///           unwound is a broken contract. A free of a foreign pointer, of unwound memory, of a
///           size beyond the end of the used memory, or of more bytes than are live is reported
///           with the caller's line and changes nothing. Blocks have no descriptors, so these
///           mistakes are not detected: a pointer into a block, a size that is too small, and a
///           double free while other blocks are live.
/// Threads   Any number of threads may call concurrently. `unwind` and `reset` also free the blocks
///           of other threads. The lock is not held during calls of the upstream or waits on the
///           host, except waits for a stream on which no event can be recorded.
/// Streams   Unwound memory of a chunk is ready for another stream after the work of every stream
///           that allocated or freed blocks there, and of the stream that unwound it. The caller
///           orders the stream that unwinds after all other uses: work on a stream that neither
///           allocated nor freed blocks of the chunk. A stream waits at its first allocation that
///           needs it, once for each other stream. It does not wait for its own work. If `graphs`
///           is set, blocks that were allocated or freed during a capture are graph-retained when
///           they are unwound, until `forget_captures`. A `cuda_stream` or `sim_stream` may be
///           destroyed at any time. A raw `cudaStream_t` must be retired before, or with
///           `event_policy::eager` must exist until its blocks are unwound.
/// Cost      An allocation is an addition and one or two comparisons as long as one stream
///           allocates. It then needs no event, no host allocation, and no call of the platform,
///           except the query of the id of a default stream, and the calls for `graphs`. Unwinding
///           is linear in the number of chunks and of the streams that use them.
template <class Upstream, growth Growth = geometric_growth>
class monotonic : public detail::growing_base<detail::checked_upstream<Upstream>> {
    using base = detail::growing_base<Upstream>;

    static_assert(!(Growth::asks_device && has_property<Upstream, host_accessible>),
                  "the free memory of the device does not limit host memory: write "
                  "geometric_growth or fixed_growth in place of device_share_growth");

public:
    using typename base::platform;
    using typename base::stream;

    /// Creates a resource over a default-constructed upstream.
    explicit monotonic(pool_options options = {})
        requires std::default_initializable<Upstream>
        : monotonic{Upstream{}, options} {}

    /// Creates a resource over `upstream`, and reserves a chunk of `options.initial_size` bytes if
    /// that is not 0. Throws the exceptions of the upstream.
    explicit monotonic(Upstream upstream, pool_options options = {}, Growth growth = {})
        : base{std::move(upstream), options.max_size},
          growth_{std::move(growth)},
          books_{options.events, options.graphs} {
        detail::expect_no_page_options(
            options, "monotonic: `remap` and `slack` have no effect; leave them out, or use a pool "
                     "over virtual memory");
        if (options.initial_size == 0) { return; }
        expects(options.initial_size <= options.max_size,
                "monotonic: `initial_size` must not exceed `max_size`");
        std::size_t const size = options.initial_size;
        this->template grow<true>(own_name, size, default_alignment, nullptr, [&](void* at) {
            books_.add({at, size, default_alignment});
            return at;
        });
    }
    /// A size alone does not compile: the error message names the options.
    template <detail::size_alone<Upstream> Size>
    explicit monotonic(Size) : monotonic{detail::refuse_size(*this)} {}
    /// A copy does not compile: the error message names the alternatives (move, borrow, share).
    template <std::same_as<monotonic> Same>
    monotonic(Same& other) : monotonic{detail::refuse_copy(other)} {}
    template <std::same_as<monotonic> Same>
    monotonic& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Moves a resource that is not shared; live memory keeps its address.
    monotonic(monotonic&&) = default;
    monotonic& operator=(monotonic&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        give_everything_back();
        base::operator=(std::move(other));
        growth_ = std::move(other.growth_);
        books_  = std::move(other.books_);
        return *this;
    }
    /// Waits for the streams and returns every chunk to the upstream.
    ~monotonic() { give_everything_back(); }

    /// Allocates a block for use on the stream `s`. Returns null for 0 bytes.
    // Inlined, so that the caller's line, `at`, is loaded only if there is an observer.
    [[nodiscard, gnu::always_inline]] void* allocate(stream s, std::size_t bytes,
                                                     std::size_t alignment = default_alignment,
                                                     call_site   at        = call_site::current()) {
        auto const seen = this->seen();
        return seen.allocate(bytes, &s, at, [&] { return get_on(s, bytes, alignment); });
    }
    /// Allocates memory that any stream may use without a wait. If streams still use the memory,
    /// the host waits for them first.
    [[nodiscard, gnu::always_inline]] void* allocate_sync(std::size_t bytes,
                                                          std::size_t alignment = default_alignment,
                                                          call_site   at = call_site::current()) {
        auto const seen = this->seen();
        return seen.allocate(bytes, nullptr, at, [&] {
            return get<true>({bytes, align(bytes, default_alignment), alignment, nullptr});
        });
    }

    /// Allocates as `allocate` does, but returns null if the request is refused, or if another
    /// error occurs, which is reported. Never throws.
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = this->seen();
        return seen.allocate(bytes, &s, at, [&] { return try_get(bytes, alignment, &s); });
    }
    /// Allocates as `allocate_sync` does, but returns null if the request is refused, or if another
    /// error occurs, which is reported. Never throws.
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = this->seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return try_get(bytes, alignment, nullptr); });
    }

    /// Counts a block as free. Its memory is reused after `unwind` or `reset`. The stream `s` may
    /// use it until then. An invalid free is reported with the line `at` and changes nothing.
    // Inlined, so that only the path of an invalid free loads `at`.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        auto const seen = this->seen();
        seen.notify(memory_event_kind::freed, p, bytes, &s, at);
        if (!put_on(s, p, bytes)) [[unlikely]] { refuse_on(s, p, bytes, alignment, at); }
    }
    /// Counts a block as free, which no stream uses. Its memory is reused after `unwind` or
    /// `reset`.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        auto const seen = this->seen();
        seen.notify(memory_event_kind::freed, p, bytes, nullptr, at);
        if (!put(p, bytes, nullptr)) [[unlikely]] { refuse(p, bytes, alignment, nullptr, at); }
    }

    /// Returns a mark of the current position for `unwind`. If nothing was allocated since the last
    /// mark, returns that one. A mark is valid until an earlier position is unwound. As long as it
    /// is valid, `trim` keeps the chunks used so far.
    [[nodiscard]] monotonic_mark mark() {
        auto const held = this->lock_.hold();
        return monotonic_mark{books_.stack().mark(monotonic_mark::next().serial_)};
    }
    /// Frees all blocks allocated since the mark `to`, also those that `deallocate` counted as
    /// free. Earlier work of the stream `s`, and of the streams that allocated or freed these
    /// blocks, may still use them. The mark stays valid. If the use by `s` can be neither recorded
    /// nor waited for, reports a leak and frees nothing.
    void unwind(monotonic_mark to, stream s) { back_to(to, &s); }
    /// Frees all blocks allocated since the mark `to`, as `unwind` does, if only streams that
    /// allocated or freed some of these blocks may still use them.
    void unwind_sync(monotonic_mark to) { back_to(to, nullptr); }
    /// Frees all blocks. Earlier work of the stream `s`, and of streams that allocated or freed
    /// some of them, may still use them. Chunks are kept, and every mark becomes invalid.
    void reset(stream s) noexcept { start_again(&s); }
    /// Frees all blocks, if only streams that allocated or freed some of them may still use them.
    /// Chunks are kept, and every mark becomes invalid.
    void reset_sync() noexcept { start_again(nullptr); }
    /// Frees all blocks as `reset_sync` does, then calls `trim`: returns the chunks to the
    /// upstream. The host waits for streams that may still use them. Returns the result of `trim`.
    std::size_t release() {
        reset_sync();
        return trim();
    }

    /// Returns true if `p` lies in one of the chunks, in a live block or not.
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = this->lock_.hold();
        return books_.stack().owns(p);
    }
    /// Returns the usage. `live` and `requested` count bytes that were neither freed nor unwound.
    [[nodiscard]] memory_usage usage() const {
        detail::resource_call<platform> const own;
        auto const                            held = this->lock_.hold();
        memory_usage                          now  = this->budget_.usage;
        now.largest_free                           = books_.stack().free_memory().largest;
        now.pending                                = books_.pending();
        now.events                                 = books_.timelines().events();
        now.waits                                  = books_.timelines().waits();
        return now;
    }
    /// Returns the free memory above the bump pointer and in unused chunks. Memory of freed blocks
    /// below the bump pointer counts only once it is unwound. Cost: a look at every chunk.
    [[nodiscard]] free_pieces free_memory() const {
        auto const held = this->lock_.hold();
        return books_.stack().free_memory();
    }
    /// Returns chunks to the upstream, from the last one to the one in use, until at most `keep`
    /// unused bytes are reserved, then trims the upstream. The host waits for streams that may
    /// still use the chunks. Returns the bytes returned to the upstream, or by the upstream,
    /// whichever are more.
    std::size_t trim(std::size_t keep = 0) {
        detail::resource_call<platform> const own;
        std::size_t                           back = 0;
        {
            auto held = this->lock_.hold();
            while (books_.stack().free_memory().bytes > keep) {
                auto const gone = books_.remove_idle(held);
                if (gone.bytes() == 0) { break; }
                back += gone.bytes();
                this->give_back(own_name, gone.base(), gone.bytes(), gone.alignment(), held);
            }
        }
        return this->trim_beneath(back);
    }
    /// Announces that the stream `s` is about to be destroyed. Does not wait for the stream. Cost:
    /// a look at every stream of every chunk.
    void retire(stream s) {
        detail::resource_call<platform> const own;
        {
            auto const held = this->lock_.hold();
            books_.retire(s);
        }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    /// States that no captured graph that used this resource will run again. The graph-retained
    /// memory (kept for these graphs) becomes free. Another stream may use it after the work that
    /// the captured stream has at the time of this call.
    void forget_captures() {
        detail::resource_call<platform> const own;
        {
            auto const held = this->lock_.hold();
            books_.forget_captures();
        }
        if constexpr (forgetting_resource<Upstream>) { this->upstream_.forget_captures(); }
    }

private:
    using typename base::request;

    static constexpr char const* own_name = "monotonic";

    [[nodiscard, gnu::always_inline]] detail::observation<Upstream> seen() noexcept {
        return this->seen_as(own_name);
    }

    void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        return get<true>({bytes, align(bytes, default_alignment), alignment, &s});
    }
    template <bool Throwing>
    void* get(request const& r) {
        expects(valid_alignment(r.alignment), "monotonic: the alignment must be a power of two");
        if (r.asked == 0) { return nullptr; }
        growth_request wish{.needed = r.rounded};
        if (r.rounded != unsatisfiable) {
            {
                auto        held = this->lock_.hold();
                void* const p    = books_.take({r.asked, r.alignment, r.on}, held);
                if (p != nullptr) { return counted(p, r); }
                wish.held = this->budget_.usage.reserved;
            }
            for (std::size_t size = wanted(r, wish);;
                 size             = size / 2 > r.rounded ? size / 2 : r.rounded) {
                if (void* const p = grow_by<false>(r, align(size, default_alignment))) { return p; }
                if (size <= r.rounded) { break; }
            }
            bool const may_wait = r.on == nullptr || !platform::capturing(*r.on);
            if (may_wait && trim() != 0) {
                if (void* const p = grow_by<false>(r, r.rounded)) { return p; }
            }
        }
        if constexpr (Throwing) {
            return this->or_throw(
                r,
                [&] { return r.rounded != unsatisfiable ? grow_by<true>(r, r.rounded) : nullptr; },
                [&] { return books_.stack().free_memory().largest; });
        } else {
            return nullptr;
        }
    }

    void* try_get(std::size_t bytes, std::size_t alignment, stream const* on) noexcept {
        return this->or_null(bytes, [&] {
            return get<false>({bytes, align(bytes, default_alignment), alignment, on});
        });
    }
    void* counted(void* p, request const& r) noexcept {
        this->count_out(r.asked, r.asked);
        return p;
    }

    [[nodiscard]] std::size_t wanted(request const& r, growth_request wish) const {
        if constexpr (Growth::asks_device) { wish.device_free = base::device_memory(r.on).free; }
        std::size_t const room = this->room();
        std::size_t const size = growth_(wish);
        std::size_t const most = size <= room ? size : align_down(room, default_alignment);
        return most > r.rounded ? most : r.rounded;
    }
    /// Allocates a chunk of `size` bytes from the upstream, and the request `r` from the chunk.
    /// Returns null if the limit refuses it. If the upstream refuses it, throws, or returns null if
    /// not `Throwing`.
    template <bool Throwing>
    void* grow_by(request const& r, std::size_t size) {
        std::size_t const alignment =
            r.alignment > default_alignment ? r.alignment : default_alignment;
        stream const* const order = this->order_of(r.on);
        return this->template grow<Throwing>(own_name, size, alignment, order, [&](void* at) {
            return counted(books_.add({at, size, alignment}, order, {r.asked, r.alignment, r.on}),
                           r);
        });
    }

    /// Frees the blocks allocated since the mark with the number `serial`. The lock must be held.
    void unwind_to(std::uint64_t serial, stream const* on) noexcept {
        auto const        seen = this->seen();
        std::size_t const out  = books_.unwind(serial, on, [&](void* at, std::size_t bytes) {
            seen.notify(memory_event_kind::all_freed, at, bytes, on);
        });
        this->count_back(out, out);
    }
    void back_to(monotonic_mark to, stream const* on) {
        auto const held = this->lock_.hold();
        expects(books_.stack().has(to.serial_),
                "monotonic: the mark must belong to this resource and must not be unwound");
        unwind_to(to.serial_, on);
    }
    void start_again(stream const* on) noexcept {
        auto const held = this->lock_.hold();
        unwind_to(0, on);
    }

    /// Frees the block at `p` (null: nothing). Returns false and changes nothing if no such block
    /// is live.
    [[nodiscard]] bool put(void* p, std::size_t bytes, stream const* on) noexcept {
        if (p == nullptr) { return true; }
        auto const held = this->lock_.hold();
        auto const how  = books_.give(p, bytes, on);
        // If the stream that uses the block could not be recorded, the block stays live.
        if (how == detail::stream_bump<platform>::freed::done) { this->count_back(bytes, bytes); }
        return how != detail::stream_bump<platform>::freed::no_block;
    }
    [[nodiscard]] bool put_on(stream s, void* p, std::size_t bytes) noexcept {
        return put(p, bytes, &s);
    }
    /// Reports a free that was rejected, and the reason.
    [[gnu::cold, gnu::noinline]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* on, call_site at) noexcept {
        detail::refused_free e{own_name, p, bytes, alignment, at};
        e.template on<platform>(on);
        {
            auto const held = this->lock_.hold();
            books_.explain_refusal(e);
        }
        e.template report<platform>();
        seen().notify(memory_event_kind::free_refused, p, bytes, on, at);
    }
    [[gnu::cold, gnu::noinline]] void refuse_on(stream s, void* p, std::size_t bytes,
                                                std::size_t alignment, call_site at) noexcept {
        refuse(p, bytes, alignment, &s, at);
    }
    void give_everything_back() noexcept {
        if (detail::is_ending<platform>() || books_.stack().chunks().size() == 0) { return; }
        auto const seen = this->seen();
        auto       held = this->lock_.hold();
        unwind_to(0, nullptr);
        books_.wait_for_all(held);
        held.unlock();
        for (auto const& c : books_.stack().chunks()) {
            seen.notify(memory_event_kind::chunk_removed, c.base(), c.bytes());
            sited{this->upstream_}.deallocate_sync(c.base(), c.bytes(), c.alignment());
        }
        books_.stack().chunks().clear();
    }

    [[no_unique_address]] Growth  growth_;
    detail::stream_bump<platform> books_;
};

namespace with {
/// Puts a `monotonic` over the resource before it: `source | with::monotonic`, or with options
/// `source | with::monotonic({.initial_size = 1_GiB})`.
inline constexpr word<vram::monotonic, pool_options> monotonic{};
} // namespace with

} // namespace vram
