// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `monotonic` hands out memory from the bottom up, and takes it back all at once.

#include <vram/base/align.hpp>            // default_alignment
#include <vram/base/contract.hpp>         // expects
#include <vram/base/error.hpp>            // report_error
#include <vram/concepts/growth.hpp>       // growth
#include <vram/layer/with.hpp>            // with::word
#include <vram/pool/bump_chunk.hpp>       // bump_chunk
#include <vram/pool/clocks.hpp>           // clocks
#include <vram/pool/free_pieces.hpp>      // free_pieces
#include <vram/pool/geometric_growth.hpp> // geometric_growth
#include <vram/pool/growing_base.hpp>     // growing_base
#include <vram/pool/pool_options.hpp>     // pool_options
#include <vram/source/null_resource.hpp>  // the stand-in of the proofs below

#include <atomic>   // atomic
#include <concepts> // default_initializable, assignable_from
#include <cstddef>  // size_t
#include <cstdint>  // uintptr_t, uint64_t
#include <utility>  // move, swap

namespace vram {

/// A place in the order in which a `monotonic` handed out its memory. A plain value.
class monotonic_mark {
public:
    friend bool operator==(monotonic_mark, monotonic_mark) = default;

private:
    template <synchronous_resource Upstream, growth Growth>
    friend class monotonic;

    explicit monotonic_mark(std::uint64_t serial) noexcept : serial_{serial} {}

    std::uint64_t serial_;
};

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
/// to
// /           a mark that was itself unwound is a broken contract. A foreign pointer is reported,
// and
///           nothing else happens; a wrong size, or a second free between live blocks, is not seen
/// Threads   any, at once; no lock is held over a call of the upstream, nor while waiting on the
///           host, but for a stream that can be given no event
/// Streams   unwinding counts as giving back every block on the stream that took it (one taken for
// /           everybody: as in use by nobody). Memory is then another stream's once the former one
// is
///           done or after an event. Blocks given back on another stream than took them are waited
// /           for up to the last of that stream's in the chunk. A stream outlives what it took, or
// is
///           retired
/// Cost      taking is an addition and a comparison or two, without event, call of the platform
/// (but
///           for the stream's id) or host allocation while one stream follows itself; unwinding is
///           linear in the number of times that the stream changed
template <synchronous_resource Upstream, growth Growth = geometric_growth>
class monotonic : public growing_base<Upstream> {
    using base = growing_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Over an upstream that needs nothing to be made.
    explicit monotonic(pool_options options = {})
        requires std::default_initializable<Upstream>
        : monotonic{Upstream{}, options} {}

    /// Takes `options.initial_size` bytes at once; throws what the upstream throws.
    explicit monotonic(Upstream upstream, pool_options options = {}, Growth growth = {})
        : base{std::move(upstream), options.max_size},
          growth_{std::move(growth)},
          events_{options.events},
          graphs_{options.graphs} {
        if (options.initial_size == 0) { return; }
        expects(options.initial_size <= options.max_size,
                "monotonic: the initial size is within the maximum");
        std::size_t const size = options.initial_size;
        this->template grow<true>(size, default_alignment, nullptr, [&](void* at) {
            chunks_.push(at, size, default_alignment);
            return at;
        });
    }
    monotonic(monotonic&& other) noexcept
        : base{std::move(other)},
          growth_{std::move(other.growth_)},
          events_{other.events_},
          graphs_{other.graphs_},
          clocks_{std::move(other.clocks_)},
          chunks_{std::move(other.chunks_)},
          marks_{std::move(other.marks_)},
          current_{std::exchange(other.current_, 0)} {}
    monotonic& operator=(monotonic&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        give_everything_back();
        base::operator=(std::move(other));
        growth_  = std::move(other.growth_);
        events_  = other.events_;
        graphs_  = other.graphs_;
        clocks_  = std::move(other.clocks_);
        chunks_  = std::move(other.chunks_);
        marks_   = std::move(other.marks_);
        current_ = std::exchange(other.current_, 0);
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

    void deallocate(stream s, void* p, std::size_t bytes,
                    std::size_t = default_alignment) noexcept {
        put(p, bytes, &s);
    }
    /// The memory is in use by nobody.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t = default_alignment) noexcept {
        put(p, bytes, nullptr);
    }

    /// This moment, for `unwind`. It is good until something earlier is unwound.
    [[nodiscard]] monotonic_mark mark() {
        auto const          held   = this->lock_.hold();
        std::uint64_t const serial = ++last_serial;
        bool const          any    = chunks_.size() != 0;
        std::size_t const   marks  = marks_in(current_) + 1;
        if (any) { chunks_[current_].reserve_marks(marks); }
        marks_.push(place{serial, current_, any ? chunks_[current_].top() : 0});
        if (any) { chunks_[current_].seal(marks); }
        return monotonic_mark{serial};
    }
    /// Takes back everything that was handed out since. The mark stays good.
    void unwind(monotonic_mark to) {
        auto const  held = this->lock_.hold();
        std::size_t left = marks_.size();
        while (left != 0 && marks_[left - 1].serial > to.serial_) { --left; }
        expects(left != 0 && marks_[left - 1].serial == to.serial_,
                "monotonic: the mark is this resource's, and was not unwound itself");
        while (marks_.size() != left) { marks_.pop(); }
        unwind_to(marks_[left - 1].chunk, marks_[left - 1].top);
    }
    /// Takes back everything. Chunks are kept; every mark has ended.
    void reset() noexcept {
        auto const held = this->lock_.hold();
        start_again();
    }
    /// The same, and gives the chunks back, waiting on the host for streams that may still use
    /// them. Returns the bytes that went back.
    std::size_t release() {
        reset();
        return trim();
    }

    /// Whether `p` lies in one of the chunks, handed out or not.
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = this->lock_.hold();
        for (chunk const& c : chunks_) {
            if (c.owns(p)) { return true; }
        }
        return false;
    }
    /// `live` and `requested` are what was handed out and neither given back nor unwound.
    [[nodiscard]] memory_usage usage() const {
        auto const   held = this->lock_.hold();
        memory_usage now  = this->figures_;
        now.largest_free  = largest_free();
        now.events        = clocks_.events();
        now.waits         = clocks_.waits();
        for (chunk const& c : chunks_) {
            std::size_t pending = 0;
            for (tag const& t : c.waits()) {
                if (!clocks_.settled(t)) { pending += t.end - t.begin; }
            }
            now.pending += pending < c.room() ? pending : c.room();
        }
        return now;
    }
    /// What is left of the chunks. Cost: a look at every chunk.
    [[nodiscard]] free_pieces free_memory() const {
        auto const  held = this->lock_.hold();
        free_pieces now;
        for (std::size_t i = current_; i < chunks_.size(); ++i) {
            now.add(chunks_[i].room());
            if (i != current_ || (i == 0 && marks_.size() == 0 && chunks_[i].empty())) {
                now.releasable += chunks_[i].bytes();
            }
        }
        return now;
    }
    /// Gives chunks of which nothing is out back until at most `keep` unused bytes are held,
    /// waiting on the host for streams that may still use them, and trims the upstream. Returns the
    /// bytes that went back.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t back = 0;
        {
            auto held = this->lock_.hold();
            while (unused() > keep) { // others may go on while the lock is open
                std::size_t const last  = chunks_.size() - 1;
                bool const        whole = current_ == 0 && marks_.size() == 0 && chunks_[0].empty();
                if (last == current_ && !whole) { break; }
                chunk& c = chunks_[last];
                c.drop([&](tag const& t) { return clocks_.settled(t); });
                if (c.waits().size() != 0) {
                    if (clocks_.finish(tags{c.waits()[0]}, held) == nullptr) { continue; }
                    break; // a graph is being captured, or was
                }
                chunk const gone = chunks_.take(last);
                back += gone.bytes();
                this->give_back(gone.base(), gone.bytes(), gone.alignment(), held);
            }
        }
        return this->trim_beneath(back);
    }
    /// The stream is about to be destroyed. Does not wait for it. Cost: a look at every run.
    void retire(stream s) {
        {
            auto const          held = this->lock_.hold();
            std::uint64_t const id   = platform::id(s);
            for (chunk& c : chunks_) {
                for (auto& r : c.runs()) {
                    if (r.named && !r.ended && r.id == id) {
                        r.last  = used_by(s);
                        r.ended = true;
                    }
                }
            }
            clocks_.retire(s);
        }
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }
    /// No captured graph that used this resource will run again: what was kept for them is free.
    void forget_captures() {
        auto const held = this->lock_.hold();
        clocks_.forget_captures();
        for (chunk& c : chunks_) {
            c.drop([](tag const& t) { return t.epoch == tag::captured; });
        }
    }

private:
    using typename base::guard;
    using typename base::request;
    using chunk = bump_chunk<stream>;
    using run   = typename chunk::run;
    using clock = typename clocks<platform>::clock;

    /// What a mark means.
    struct place {
        std::uint64_t  serial;
        std::size_t    chunk;
        std::uintptr_t top; ///< 0: there was no chunk yet
    };
    static inline std::atomic<std::uint64_t> last_serial = 0; // marks of all resources differ

    template <bool Throwing>
    void* get(request const& r) {
        expects(valid_alignment(r.alignment), "monotonic: the alignment is a power of two");
        if (r.asked == 0) { return nullptr; }
        growth_request wish{.needed = r.rounded};
        if (r.rounded != unsatisfiable) {
            {
                auto held = this->lock_.hold();
                if (void* const p = take(r, held)) { return p; }
                wish.held = this->figures_.reserved;
            }
            for (std::size_t size = wanted(r, wish);;
                 size             = size / 2 > r.rounded ? size / 2 : r.rounded) {
                if (void* const p = grow_by<false>(r, align(size, default_alignment))) { return p; }
                if (size <= r.rounded) { break; }
            }
            if (r.on == nullptr || !platform::capturing(*r.on)) { // else it must not wait
                if (trim() != 0) {
                    if (void* const p = grow_by<false>(r, r.rounded)) { return p; }
                }
            }
        }
        if constexpr (Throwing) {
            return this->or_throw(
                r,
                [&] { return r.rounded != unsatisfiable ? grow_by<true>(r, r.rounded) : nullptr; },
                [&] { return largest_free(); });
        } else {
            return nullptr;
        }
    }

    /// A block out of what is held, or null.
    void* take(request const& r, guard& held) {
        clock* const mine     = r.on != nullptr ? &clocks_.of(*r.on) : nullptr;
        bool         captured = mine != nullptr && graphs_ && platform::capturing(*r.on);
        while (chunks_.size() != 0) {
            chunk&               c     = chunks_[current_];
            std::uintptr_t const start = c.place(r.asked, r.alignment);
            auto                 price = clocks<platform>::nothing;
            tags                 dear;
            if (start != 0) {
                c.for_each_wait(start + r.asked, [&](tag const& t) {
                    auto const one = clocks_.of(tags{t}, mine, captured);
                    if (one > price) {
                        price = one;
                        dear  = tags{t};
                    }
                });
                if (price == clocks<platform>::nothing) {
                    c.reserve();
                    return hand_out(c, start, r, mine);
                }
            }
            if (start == 0 || price == clocks<platform>::not_to_be_had) {
                if (!next_chunk(r)) { return nullptr; }
                continue;
            }
            if (mine != nullptr && !captured && platform::capturing(*r.on)) {
                captured = true; // it can wait for nobody now
                continue;
            }
            clock const* const held_up =
                mine != nullptr ? clocks_.order(*mine, dear) : clocks_.finish(dear, held);
            if (held_up == nullptr) { continue; } // others may have gone on meanwhile: look again
            if (!graphs_ && events_ == event_policy::lazy) { // it may be the graph's by now
                for (chunk& each : chunks_) { each.keep_for_capture(held_up->slot()); }
            } else if (!next_chunk(r)) {
                return nullptr;
            }
        }
        return nullptr;
    }
    void* hand_out(chunk& c, std::uintptr_t start, request const& r, clock const* mine) noexcept {
        c.take(start, r.asked, r.on, mine != nullptr ? mine->id() : 0);
        this->count_out(r.asked, r.asked);
        return reinterpret_cast<void*>(start);
    }
    /// Goes on to a chunk that is kept and has room, if there is one.
    bool next_chunk(request const& r) noexcept {
        for (std::size_t i = current_ + 1; i < chunks_.size(); ++i) {
            if (chunks_[i].place(r.asked, r.alignment) == 0) { continue; }
            std::swap(chunks_[i], chunks_[++current_]);
            return true;
        }
        return false;
    }

    [[nodiscard]] std::size_t wanted(request const& r, growth_request wish) const {
        if constexpr (Growth::asks_device) { wish.device_free = base::device_memory(r.on).free; }
        std::size_t const size = growth_(wish);
        bool const fits = wish.held <= this->max_size_ && size <= this->max_size_ - wish.held;
        return fits && size > r.rounded ? size : r.rounded;
    }
    /// Takes a chunk of `size` from the upstream, and `r` out of it. Null when it refuses.
    template <bool Throwing>
    void* grow_by(request const& r, std::size_t size) {
        std::size_t const alignment =
            r.alignment > default_alignment ? r.alignment : default_alignment;
        stream const* const order = this->order_of(r.on);
        return this->template grow<Throwing>(size, alignment, order, [&](void* at) {
            clock* const mine = r.on != nullptr ? &clocks_.of(*r.on) : nullptr;
            chunk        fresh{at, size, alignment};
            fresh.reserve();
            if (order != nullptr) { // nobody else may use it yet
                fresh.wait_for({fresh.begin(), fresh.begin() + size, mine->mark(), mine->slot()});
                fresh.reserve();
            }
            chunks_.push(std::move(fresh));
            if (chunks_.size() > 1) { std::swap(chunks_[chunks_.size() - 1], chunks_[++current_]); }
            chunk& c = chunks_[current_];
            return hand_out(c, c.begin(), r, mine);
        });
    }

    void put(void* p, std::size_t bytes, stream const* on) noexcept {
        if (p == nullptr) { return; }
        auto        held = this->lock_.hold();
        run*        r    = nullptr;
        std::size_t at   = 0;
        for (std::size_t i = chunks_.size() != 0 ? current_ + 1 : 0; i-- != 0;) {
            if (!chunks_[i].owns(p)) { continue; }
            at = i;
            r  = chunks_[i].find(p, bytes);
        }
        if (r == nullptr || bytes == 0 || bytes > r->bytes - r->back) {
            held.unlock();
            return report_error({.kind = mishap::foreign_pointer, .pointer = p, .bytes = bytes});
        }
        this->count_back(bytes, bytes);
        chunk& c = chunks_[at];
        if (at == current_ && c.is_on_top(p, bytes) && cut_off(c, p, bytes, on)) {
            r = nullptr;
        } else {
            note_return(c, *r, p, bytes, on);
        }
        if (this->figures_.live == 0 && marks_.size() == 0) { return start_again(); }
        while (at == current_ && c.last_is_back()) { c.unwind(c.last_begins(), tag_of()); }
    }
    /// The block on top is free again. False: there is no memory to say for whom it waits.
    bool cut_off(chunk& c, void* p, std::size_t bytes, stream const* on) noexcept {
        try {
            c.reserve();
            tag t{};
            if (on != nullptr) { t = used_by(*on); }
            c.cut(p, bytes);
            if (on != nullptr) { c.wait_for({c.top(), c.top() + bytes, t.epoch, t.slot}); }
            return true;
        } catch (...) { return false; }
    }
    /// The block is in use no longer than by `on`, and stays where it is.
    void note_return(chunk& c, run& r, void* p, std::size_t bytes, stream const* on) noexcept {
        r.back += bytes;
        try {
            if (on != nullptr && r.named && platform::id(*on) == r.id) { return; }
            if (on != nullptr) {
                tag t   = used_by(*on);
                t.begin = reinterpret_cast<std::uintptr_t>(p);
                t.end   = t.begin + bytes;
                c.reserve_other();
                c.hand_over(t);
            }
        } catch (...) {
            report_error({.kind = mishap::platform_error, .pointer = p, .bytes = bytes});
            clocks<platform>::settle(*on);
        }
        r.freed += bytes;
    }

    /// The tag, without its place, of what `s` has used up to now.
    tag used_by(stream s) {
        clock&     c     = clocks_.of(s);
        bool const eager = events_ == event_policy::eager;
        if ((eager || graphs_) && platform::capturing(s)) {
            return {0, 0, c.mark_captured(), c.slot()};
        }
        tag const out{0, 0, c.mark(), c.slot()};
        if (eager) { c.try_record(); }
        return out;
    }
    /// Who may still be using a run that is unwound. Where that cannot be told, devices are waited
    /// for.
    auto tag_of() noexcept {
        return [this](run const& r, tag& out) noexcept {
            if (!r.named) { return false; }
            if (r.ended) {
                out = r.last;
                return true;
            }
            try {
                if (platform::id(r.user) == r.id) {
                    out = used_by(r.user);
                    return true;
                }
                if (!(r.user == stream{})) { report_error({.kind = mishap::dead_stream}); }
            } catch (...) { report_error({.kind = mishap::platform_error}); }
            clocks_.settle_devices();
            return false;
        };
    }

    void unwind_to(std::size_t index, std::uintptr_t top) noexcept {
        std::size_t out = 0;
        for (std::size_t i = chunks_.size() != 0 ? current_ + 1 : 0; i-- > index;) {
            chunk&               c  = chunks_[i];
            std::uintptr_t const to = i == index && top > c.begin() ? top : c.begin();
            out += c.unwind(to, tag_of());
            c.seal(marks_in(i));
        }
        current_ = index;
        this->count_back(out, out);
    }
    [[nodiscard]] std::size_t marks_in(std::size_t index) const noexcept {
        std::size_t count = 0;
        while (count < marks_.size() && marks_[marks_.size() - 1 - count].chunk == index) {
            ++count;
        }
        return count;
    }
    void start_again() noexcept {
        marks_.clear();
        unwind_to(0, 0);
    }

    /// Bytes of chunks above the last block.
    [[nodiscard]] std::size_t unused() const noexcept {
        std::size_t sum = 0;
        for (std::size_t i = current_; i < chunks_.size(); ++i) { sum += chunks_[i].room(); }
        return sum;
    }
    [[nodiscard]] std::size_t largest_free() const noexcept {
        std::size_t most = 0;
        for (std::size_t i = current_; i < chunks_.size(); ++i) {
            most = chunks_[i].room() > most ? chunks_[i].room() : most;
        }
        return most;
    }
    void give_everything_back() noexcept {
        if (chunks_.size() == 0) { return; }
        auto held = this->lock_.hold();
        start_again();
        clocks_.settle_all(held);
        held.unlock();
        for (chunk const& c : chunks_) {
            this->upstream_.deallocate_sync(c.base(), c.bytes(), c.alignment());
        }
        chunks_.clear();
    }

    [[no_unique_address]] Growth growth_;
    event_policy                 events_;
    bool                         graphs_;
    clocks<platform>             clocks_;
    heap_array<chunk>            chunks_; ///< up to the current one in the order they were used
    heap_array<place>            marks_;  ///< in the order they were made
    std::size_t                  current_ = 0;
};

namespace with {
/// `source | with::monotonic`, `source | with::monotonic({.initial_size = 1_GiB})`
inline constexpr word<vram::monotonic, pool_options> monotonic{};
} // namespace with

static_assert(powers<monotonic<null_resource<>>>::include<null_resource<>>);
static_assert(resource<monotonic<null_resource<>>> &&
              retiring_resource<monotonic<null_resource<>>>);

} // namespace vram
