// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `monotonic` hands out memory from the bottom up, and takes it back all at once.

#include <vram/base/align.hpp>            // align, align_down, default_alignment
#include <vram/base/call_site.hpp>        // call_site
#include <vram/base/contract.hpp>         // expects
#include <vram/base/error.hpp>            // report_error
#include <vram/concepts/diagnosed.hpp>    // refuse_copy, checked_upstream
#include <vram/concepts/growth.hpp>       // growth
#include <vram/concepts/is_ending.hpp>    // is_ending
#include <vram/concepts/refused_free.hpp> // refused_free
#include <vram/concepts/sited.hpp>        // sited
#include <vram/layer/with.hpp>            // with::word
#include <vram/pool/free_pieces.hpp>      // free_pieces
#include <vram/pool/geometric_growth.hpp> // geometric_growth
#include <vram/pool/growing_base.hpp>     // growing_base
#include <vram/pool/monotonic_mark.hpp>   // monotonic_mark
#include <vram/pool/pool_options.hpp>     // pool_options
#include <vram/pool/stream_bump.hpp>      // stream_bump
#include <vram/source/null_resource.hpp>  // the stand-in of the proofs below

#include <concepts> // default_initializable, assignable_from
#include <cstddef>  // size_t
#include <utility>  // move

namespace vram {

/// `std::pmr::monotonic_buffer_resource` for devices: memory for one step of a program, all of
/// which ends together.
///
///     monotonic<stream_ordered<cuda_resource>> step;
///     auto const here = step.mark();      // ... allocate ...
///     step.unwind(here);                  // all since then; step.reset() takes back all there is
///
/// Giving back a block does nothing but count, with two exceptions that cost nothing: the block
/// that was taken last is free again, and when all are back it starts again. What is unwound is not
/// given back any more. Chunks are kept until `trim`, `release` or the end; with blocks still out,
/// the end is a reset. Nothing is written into the memory itself.
///
/// Failure   `out_of_memory` with every number, after chunks that nobody uses went back. Unwinding
///           to a mark that was itself unwound is a broken contract. A foreign pointer, a
///           free of memory that is free, and a size that goes beyond what is live are reported
///           with the caller's line, and free nothing. Blocks have no notes: a pointer into a
///           block, a size that is too small, and a double free between live blocks are not seen
/// Threads   any, at once; no lock is held over a call of the upstream, nor while waiting on the
///           host, but for a stream that can be given no event
/// Streams   unwinding counts as giving back every block on the stream that took it (one taken for
///           everybody: as in use by nobody). Memory is then another stream's once the former one
///           is done or after an event. Blocks given back on another stream than took them are
///           waited for up to the last of that stream's in the chunk, and those given back in
///           captures are kept from the first to the last of them. A `cuda_stream` or `sim_stream`
///           may be destroyed at any time; a raw `cudaStream_t` is retired before that, or with
///           `event_policy::eager` outlives what it took
/// Cost      taking is an addition and a comparison or two, without event, call of the platform
///           (but for the id of a default stream, with `event_policy::eager`, or for `graphs`) or
///           host allocation while one stream follows itself; unwinding is linear in the number of
///           times that the stream changed
template <class Upstream, growth Growth = geometric_growth>
class monotonic : public growing_base<detail::checked_upstream<Upstream>> {
    using base = growing_base<Upstream>;

    static_assert(!(Growth::asks_device && has_property<Upstream, host_accessible>),
                  "the free memory of the device says nothing about host memory: write "
                  "geometric_growth or fixed_growth in place of device_share_growth");

public:
    using typename base::platform;
    using typename base::stream;

    explicit monotonic(pool_options options = {})
        requires std::default_initializable<Upstream>
        : monotonic{Upstream{}, options} {}

    /// Takes `options.initial_size` bytes at once; throws what the upstream throws.
    explicit monotonic(Upstream upstream, pool_options options = {}, Growth growth = {})
        : base{std::move(upstream), options.max_size},
          growth_{std::move(growth)},
          books_{options.events, options.graphs} {
        detail::expect_no_page_options(
            options, "monotonic: `remap` and `slack` have no effect; leave them out, or use a pool "
                     "over virtual memory");
        if (options.initial_size == 0) { return; }
        expects(options.initial_size <= options.max_size,
                "monotonic: the initial size is within the maximum");
        std::size_t const size = options.initial_size;
        this->template grow<true>(size, default_alignment, nullptr, [&](void* at) {
            books_.add({at, size, default_alignment});
            return at;
        });
    }
    /// A copy is a compile error that says what to write.
    template <std::same_as<monotonic> Same>
    monotonic(Same& other) : monotonic{detail::refuse_copy(other)} {}
    monotonic(monotonic&&) = default; ///< while unshared; memory that is out stays where it is
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
    /// Waits for the streams and gives every chunk back.
    ~monotonic() { give_everything_back(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return get<true>({bytes, align(bytes, default_alignment), alignment, &s});
    }
    /// Memory that anybody may use at once: where it is still in use, the host waits.
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        return get<true>({bytes, align(bytes, default_alignment), alignment, nullptr});
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return this->or_null(bytes, [&] {
            return get<false>({bytes, align(bytes, default_alignment), alignment, &s});
        });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return this->or_null(bytes, [&] {
            return get<false>({bytes, align(bytes, default_alignment), alignment, nullptr});
        });
    }

    // Inlined: only the cold path loads the call site.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        if (!put_on(s, p, bytes)) [[unlikely]] { refuse_on(s, p, bytes, alignment, at); }
    }
    /// The memory is in use by nobody, and the stream that it was taken on has come so far.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        if (!put(p, bytes, nullptr)) [[unlikely]] { refuse(p, bytes, alignment, nullptr, at); }
    }

    /// This moment, for `unwind`; the last mark again, where nothing lies between them. It is good
    /// until something earlier is unwound, and as long keeps all chunks used so far from `trim`.
    [[nodiscard]] monotonic_mark mark() {
        auto const held = this->lock_.hold();
        return monotonic_mark{books_.mark(monotonic_mark::next().serial_)};
    }
    /// Takes back everything that was handed out since. The mark stays good.
    void unwind(monotonic_mark to) {
        auto const held = this->lock_.hold();
        expects(books_.has(to.serial_),
                "monotonic: the mark is this resource's, and was not unwound itself");
        std::size_t const out = books_.unwind(to.serial_);
        this->count_back(out, out);
    }
    /// Takes back everything. Chunks are kept; every mark has ended.
    void reset() noexcept {
        auto const        held = this->lock_.hold();
        std::size_t const out  = books_.reset();
        this->count_back(out, out);
    }
    /// The same, and `trim`: gives the chunks back, waiting on the host for streams that may still
    /// use them. Returns what that does.
    std::size_t release() {
        reset();
        return trim();
    }

    /// Whether `p` lies in one of the chunks, handed out or not.
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = this->lock_.hold();
        return books_.owns(p);
    }
    /// `live` and `requested` are what was handed out and neither given back nor unwound.
    [[nodiscard]] memory_usage usage() const {
        auto const   held = this->lock_.hold();
        memory_usage now  = this->figures_;
        now.largest_free  = books_.free_memory().largest;
        now.pending       = books_.pending();
        now.events        = books_.events();
        now.waits         = books_.waits();
        return now;
    }
    /// What is left of the chunks; not what was given back beneath something that is out, which is
    /// had again when all is back, or by unwinding. Cost: a look at every chunk.
    [[nodiscard]] free_pieces free_memory() const {
        auto const held = this->lock_.hold();
        return books_.free_memory();
    }
    /// Gives chunks back, from the last to the one that is in use, until at most `keep` unused
    /// bytes are held, waiting on the host for streams that may still use them, and trims the
    /// upstream. Returns the bytes that went back to the upstream or, if that is more, that the
    /// upstream gave back.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t back = 0;
        {
            auto held = this->lock_.hold();
            while (books_.free_memory().bytes > keep) {
                auto const gone = books_.remove_idle(held);
                if (gone.bytes == 0) { break; }
                back += gone.bytes;
                this->give_back(gone.base, gone.bytes, gone.alignment, held);
            }
        }
        return this->trim_beneath(back);
    }
    /// The stream is about to be destroyed. Does not wait for it. Cost: a look at every run.
    void retire(stream s) {
        {
            auto const held = this->lock_.hold();
            books_.retire(s);
        }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    /// No captured graph that used this resource will run again: what was kept for them is free,
    /// for others once the stream that was captured has come to where it is now.
    void forget_captures() {
        {
            auto const held = this->lock_.hold();
            books_.forget_captures();
        }
        if constexpr (forgetting_resource<Upstream>) { this->upstream_.forget_captures(); }
    }

private:
    using typename base::request;

    template <bool Throwing>
    void* get(request const& r) {
        expects(valid_alignment(r.alignment), "monotonic: the alignment is a power of two");
        if (r.asked == 0) { return nullptr; }
        growth_request wish{.needed = r.rounded};
        if (r.rounded != unsatisfiable) {
            {
                auto        held = this->lock_.hold();
                void* const p    = books_.take({r.asked, r.alignment, r.on}, held);
                if (p != nullptr) { return counted(p, r); }
                wish.held = this->figures_.reserved;
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
                [&] { return books_.free_memory().largest; });
        } else {
            return nullptr;
        }
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
    /// Takes a chunk of `size` from the upstream, and `r` out of it. Null when it refuses.
    template <bool Throwing>
    void* grow_by(request const& r, std::size_t size) {
        std::size_t const alignment =
            r.alignment > default_alignment ? r.alignment : default_alignment;
        stream const* const order = this->order_of(r.on);
        return this->template grow<Throwing>(size, alignment, order, [&](void* at) {
            return counted(books_.add({at, size, alignment}, order, {r.asked, r.alignment, r.on}),
                           r);
        });
    }

    /// False, with nothing done: there is no such block.
    [[nodiscard]] bool put(void* p, std::size_t bytes, stream const* on) noexcept {
        if (p == nullptr) { return true; }
        auto const held = this->lock_.hold();
        auto const how  = books_.give(p, bytes, on);
        if (how == stream_bump<platform>::given::nothing) { return false; }
        if (how == stream_bump<platform>::given::lost) { return true; } // it stays out
        this->count_back(bytes, bytes);
        if (this->figures_.live == 0) { books_.rewind(); }
        return true;
    }
    [[nodiscard]] bool put_on(stream s, void* p, std::size_t bytes) noexcept {
        return put(p, bytes, &s);
    }
    /// Reports that nothing was freed, and why.
    [[gnu::cold, gnu::noinline]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* on, call_site at) noexcept {
        refused_free e{"monotonic", p, bytes, alignment, at};
        e.template on<platform>(on);
        {
            auto const held = this->lock_.hold();
            books_.explain_refusal(e);
        }
        e.template report<platform>();
    }
    [[gnu::cold, gnu::noinline]] void refuse_on(stream s, void* p, std::size_t bytes,
                                                std::size_t alignment, call_site at) noexcept {
        refuse(p, bytes, alignment, &s, at);
    }

    void give_everything_back() noexcept {
        if (is_ending<platform>() || books_.chunks().size() == 0) { return; }
        auto held = this->lock_.hold();
        (void)books_.reset();
        books_.settle_all(held);
        held.unlock();
        for (auto const& c : books_.chunks()) {
            sited{this->upstream_}.deallocate_sync(c.base(), c.bytes(), c.alignment());
        }
        books_.chunks().clear();
    }

    [[no_unique_address]] Growth growth_;
    stream_bump<platform>        books_;
};

namespace with {
/// `source | with::monotonic`, `source | with::monotonic({.initial_size = 1_GiB})`
inline constexpr word<vram::monotonic, pool_options> monotonic{};
} // namespace with

static_assert(powers<monotonic<null_resource<>>>::include<null_resource<>>);
static_assert(resource<monotonic<null_resource<>>> &&
              retiring_resource<monotonic<null_resource<>>>);

} // namespace vram
