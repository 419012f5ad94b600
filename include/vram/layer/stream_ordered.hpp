// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_ordered` makes the frees of a synchronous resource stream-ordered.

#include <vram/base/call_site.hpp>
#include <vram/base/core/null_if_thrown.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/error.hpp>           // report_error
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/and_upstream.hpp>
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/core/observation.hpp> // observation, resource_call
#include <vram/concepts/observer.hpp>         // memory_event_kind
#include <vram/concepts/powers.hpp> // fallible_resource, reusing_resource, trimmable_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/stream_ordered_options.hpp>
#include <vram/layer/with.hpp> // with::word
#include <vram/order/core/deferred_frees.hpp>
#include <vram/order/core/wait_for_user.hpp>

#include <concepts> // default_initializable, assignable_from
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// Makes a synchronous resource stream-ordered. After a free, the block is returned to the upstream
/// once the stream has completed all work that was enqueued before.
///
///     stream_ordered mr{cuda_resource{}};   // cudaMalloc with the semantics of cudaMallocAsync
///
/// By default, a free records an event on the stream. Later allocations return the block to the
/// upstream once the event is complete. If the upstream refuses a request, the host waits for the
/// oldest freed block, returns it and repeats the request. If no freed block is left to wait for,
/// the request is refused. The number of attempts is bounded. A block that is freed on a stream
/// during a capture may be used by the graph: it is kept until `forget_captures` or the destructor.
///
/// Failure   The functions fail as those of the upstream. If no event can be recorded on a stream,
///           the host waits for the stream. If this wait fails too, the host waits for the device.
///           Each error goes to the error sink. If every wait for a block fails, the block is
///           reported as a leak and not returned.
/// Threads   Any number of threads may call concurrently, if the upstream allows that. No lock is
///           held during calls of the upstream or waits on the host.
/// Streams   Any stream may use an allocated block without a wait.
/// Cost      One event per free, or fewer (see `frees_per_event`). An allocation makes one query
///           for each stream on which freed blocks wait. Host memory is allocated for the first
///           free on a stream, and if more blocks are live or waiting than ever before.
template <class Upstream>
class stream_ordered : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    stream_ordered()
        requires std::default_initializable<Upstream>
        : stream_ordered{Upstream{}} {}
    /// Creates the layer over `upstream`.
    explicit stream_ordered(Upstream upstream, stream_ordered_options options = {})
        : base{std::move(upstream)}, books_{options.frees_per_event, options.give_back_bytes} {}
    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<stream_ordered> Same>
    stream_ordered(Same& other) : stream_ordered{detail::refuse_copy(other)} {}
    template <std::same_as<stream_ordered> Same>
    stream_ordered& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Moves the layer, which no other thread may be using. Live blocks keep their addresses.
    stream_ordered(stream_ordered&&) = default;
    stream_ordered& operator=(stream_ordered&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        finish();
        base::operator=(std::move(other));
        books_ = std::move(other.books_);
        return *this;
    }
    /// Makes the host wait until no stream or graph uses freed blocks. Then returns the blocks to
    /// the upstream, or reports them as leaks if the wait failed. Does nothing at process end.
    ~stream_ordered() { finish(); }

    /// Returns memory that any stream may use at once; null for 0 bytes. Throws `out_of_memory` if
    /// the upstream refuses even after waits for freed blocks.
    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current()) {
        if (bytes == 0) { return nullptr; }
        return seen().allocate(bytes, &s, at, [&] {
            if (!platform::capturing(s)) { books_.collect(giving()); }
            return allocate_now(platform::id(s), bytes, alignment, at);
        });
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        if (bytes == 0) { return nullptr; }
        return seen().allocate(bytes, nullptr, at, [&] {
            books_.collect(giving());
            return allocate_now(0, bytes, alignment, at);
        });
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        if (bytes == 0) { return nullptr; }
        return seen().allocate(bytes, &s, at,
                               [&] { return try_allocate_now(&s, bytes, alignment, at); });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        if (bytes == 0) { return nullptr; }
        return seen().allocate(bytes, nullptr, at,
                               [&] { return try_allocate_now(nullptr, bytes, alignment, at); });
    }

    /// Returns memory of the upstream that the stream may use without a wait, or null.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        if (bytes == 0) { return nullptr; }
        auto const  seen = this->seen();
        reservation held{books_, bytes};
        void* const p = sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
        if (p == nullptr) { return nullptr; }
        seen.notify(memory_event_kind::chunk_added, p, bytes, &s, at);
        seen.notify(memory_event_kind::allocated, p, bytes, &s, at);
        return held.keep(p);
    }

    /// Frees a block. It is returned to the upstream, usually by a later call, after the work
    /// enqueued on `s` so far is complete.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept {
        if (p == nullptr) { return; }
        auto const seen = this->seen();
        seen.notify(memory_event_kind::freed, p, bytes, &s, at);
        auto const how = books_.take(s, p, bytes, alignment, at);
        if (how == books::result::foreign) {
            seen.notify(memory_event_kind::free_refused, p, bytes, &s, at);
        }
        if (how != books::result::due) { return; }
        bool const waited = [&] {
            auto const waits = seen.watch();
            return detail::wait_for_user<platform>(s, this->upstream_);
        }();
        if (waited) {
            seen.notify(memory_event_kind::free_completed, p, bytes, &s, at);
            seen.notify(memory_event_kind::chunk_removed, p, bytes, nullptr, at);
            sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
        } else {
            report_error({.kind     = error_kind::leak,
                          .pointer  = p,
                          .bytes    = bytes,
                          .caller   = at,
                          .resource = "stream_ordered",
                          .cause    = "its stream is being captured, or could not be waited for"});
        }
    }
    /// Frees a block that no stream uses any more: it is returned to the upstream immediately.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (p == nullptr) { return; }
        auto const seen = this->seen();
        seen.notify(memory_event_kind::freed, p, bytes, nullptr, at);
        if (!books_.free_idle(p, bytes, alignment, at)) {
            return seen.notify(memory_event_kind::free_refused, p, bytes, nullptr, at);
        }
        giving()(p, bytes, alignment, at);
    }

    /// Returns freed blocks to the upstream if no stream or graph can use them, then calls
    /// `trim(keep)` of the upstream. Returns a lower bound of the bytes given back. If no event can
    /// be recorded on a stream, the host waits for its device, which may invalidate captures.
    std::size_t trim(std::size_t keep = 0) {
        auto const        seen  = this->seen();
        auto const        waits = seen.watch();
        std::size_t const here  = books_.collect_all(giving());
        if constexpr (trimmable_resource<Upstream>) {
            // Returns the larger number and not the sum: the number from the upstream may contain
            // the blocks that this layer has just returned to it.
            return detail::larger_of(here, this->upstream_.trim(keep));
        }
        return here;
    }

    /// Call this before the stream `s` is destroyed, and not during its capture. Records an event
    /// behind the last frees on `s`, so that their blocks can be returned later.
    void retire(stream s) {
        detail::resource_call<platform> const own;
        detail::and_upstream::retire(this->upstream_, s, [&] { books_.retire(s); });
    }

    /// Call this after the last launch of all graphs that use memory of this layer. The host waits
    /// for the devices of these graphs and returns memory freed during captures to the upstream.
    void forget_captures() {
        auto const seen  = this->seen();
        auto const waits = seen.watch();
        detail::and_upstream::forget_captures(
            this->upstream_, [&] { books_.release_captured(giving(), this->upstream_); });
    }

    /// Returns the usage of this layer. `pending` is the bytes freed but not yet returned to the
    /// upstream.
    [[nodiscard]] memory_usage usage() const { return books_.usage(); }
    /// Sets the peaks in `usage()` to the bytes that are live and reserved now. Returns the
    /// `usage()` from before the call.
    memory_usage reset_peaks() noexcept { return books_.reset_peaks(); }
    /// Undoes `reset_peaks`, which returned `before`: raises each peak to at least its value in
    /// `before`.
    void raise_peaks(memory_usage const& before) noexcept { books_.raise_peaks(before); }

private:
    using books       = detail::deferred_frees<platform>;
    using reservation = typename books::reservation;

    [[nodiscard]] detail::observation<Upstream> seen() noexcept {
        return {this->upstream_, "stream_ordered", &books_, true};
    }
    void finish() noexcept {
        auto const seen  = this->seen();
        auto const waits = seen.watch();
        books_.wait_for_all(giving(), this->upstream_);
    }
    [[nodiscard]] auto giving() noexcept {
        return [this](void* p, std::size_t bytes, std::size_t alignment, call_site at) {
            auto const seen = this->seen();
            seen.notify(memory_event_kind::free_completed, p, bytes, nullptr, at);
            seen.notify(memory_event_kind::chunk_removed, p, bytes, nullptr, at);
            sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
        };
    }

    /// Called after the upstream has allocated a block at `p` for the reservation `held`. Notifies
    /// observers of a new chunk, counts the block as live, and returns `p`.
    void* kept(reservation& held, void* p, std::size_t bytes, call_site at) noexcept {
        seen().notify(memory_event_kind::chunk_added, p, bytes, nullptr, at);
        return held.keep(p);
    }
    void* allocate_now(std::uint64_t id, std::size_t bytes, std::size_t alignment, call_site at) {
        reservation held{books_, bytes};
        for (;;) {
            try {
                return kept(held, sited{this->upstream_, at}.allocate_sync(bytes, alignment), bytes,
                            at);
            } catch (out_of_memory& e) {
                if (held.make_room(giving())) { continue; }
                tell(e.numbers(), id);
                throw;
            }
        }
    }
    void* try_allocate_now(stream const* on, std::size_t bytes, std::size_t alignment,
                           call_site at) noexcept
        requires fallible_resource<Upstream>
    {
        return detail::null_if_thrown("stream_ordered", bytes, [&]() -> void* {
            if (!detail::is_captured<platform>(on)) { books_.collect(giving()); }
            reservation held{books_, bytes};
            do {
                void* const p = sited{this->upstream_, at}.try_allocate_sync(bytes, alignment);
                if (p != nullptr) { return kept(held, p, bytes, at); }
            } while (held.make_room(giving()));
            return nullptr;
        });
    }

    /// Fills in the numbers of an `out_of_memory` exception that are still 0: the id of the
    /// request's stream, and the live and reserved bytes of this layer.
    void tell(shortage& numbers, std::uint64_t id) const {
        memory_usage const now = usage();
        if (numbers.stream == 0) { numbers.stream = id; }
        if (numbers.live == 0) { numbers.live = now.live; }
        if (numbers.reserved == 0) { numbers.reserved = now.reserved; }
    }

    books books_;
};

namespace with {
/// Puts a `stream_ordered` layer over a resource: `source | with::stream_ordered`, or `source |
/// with::stream_ordered({.frees_per_event = 16})`.
inline constexpr word<vram::stream_ordered, stream_ordered_options> stream_ordered{};
} // namespace with

} // namespace vram
