// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_ordered` makes the frees of a synchronous resource stream-ordered.

#include <vram/base/call_site.hpp>       // call_site
#include <vram/base/error.hpp>           // report_error
#include <vram/base/out_of_memory.hpp>   // out_of_memory
#include <vram/base/report_caught.hpp>   // report_caught
#include <vram/concepts/diagnosed.hpp>   // refuse_copy, checked_upstream
#include <vram/concepts/sited.hpp>       // sited
#include <vram/layer/deferred_frees.hpp> // deferred_frees
#include <vram/layer/layer_base.hpp>     // layer_base
#include <vram/layer/sure_wait.hpp>      // sure_wait
#include <vram/layer/with.hpp>           // with::word
#include <vram/source/null_resource.hpp> // the stand-in of the proofs below

#include <algorithm> // max
#include <concepts>  // default_initializable, assignable_from
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <new>       // bad_alloc
#include <utility>   // move

namespace vram {

/// How `stream_ordered` keeps what waits.
struct stream_ordered_options {
    /// How many blocks of one stream share an event. From 2 on, a raw `cudaStream_t` is `retire`d
    /// before it is destroyed.
    std::size_t frees_per_event = 1;
    /// Blocks go back when there are that many bytes of them, or when the upstream refuses.
    std::size_t give_back_bytes = 0;
};

/// Turns a synchronous resource into a stream-ordered one: a freed block waits for an event on its
/// stream.
///
///     stream_ordered mr{cuda_resource{}};   // cudaMalloc with the manners of cudaMallocAsync
///
/// What is done goes back in batches when somebody allocates. When the upstream refuses, the host
/// waits for the oldest until the request fits, and only then is the answer no. While other threads
/// free and allocate, the layer attempts a request a bounded number of times. A block freed on a
/// stream that is being captured belongs to the graph: it is held until `forget_captures` or the
/// end of the layer.
///
/// Failure   as the upstream. Where no event can be had the stream is waited for, where that fails
///           its device, which for a stream that died is taken to be that of the upstream, and the
///           error sink is told each time. Memory that no wait would vouch for does not go back: it
///           is told as a leak
/// Threads   any; no lock is held while the upstream is called or the host waits
/// Streams   an allocation is for any stream
/// Cost      one event per free, one query per waiting stream on allocation, no host allocation
///           once warm
template <class Upstream>
class stream_ordered : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    stream_ordered()
        requires std::default_initializable<Upstream>
        : stream_ordered{Upstream{}} {}
    explicit stream_ordered(Upstream upstream, stream_ordered_options options = {})
        : base{std::move(upstream)}, books_{options.frees_per_event, options.give_back_bytes} {}
    /// A copy is a compile error that says what to write.
    template <std::same_as<stream_ordered> Same>
    stream_ordered(Same& other) : stream_ordered{detail::refuse_copy(other)} {}
    stream_ordered(stream_ordered&&) = default; ///< while unshared; memory stays where it is
    stream_ordered& operator=(stream_ordered&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        books_.settle(giving());
        base::operator=(std::move(other));
        books_ = std::move(other.books_);
        return *this;
    }
    ~stream_ordered() { books_.settle(giving()); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        if (bytes == 0) { return nullptr; }
        if (!platform::capturing(s)) { books_.collect(giving()); }
        return allocate_now(platform::id(s), bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        if (bytes == 0) { return nullptr; }
        books_.collect(giving());
        return allocate_now(0, bytes, alignment);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return bytes == 0 ? nullptr : or_null([&] {
            if (!platform::capturing(s)) { books_.collect(giving()); }
            return try_allocate_now(bytes, alignment);
        });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return bytes == 0 ? nullptr : or_null([&] {
            books_.collect(giving());
            return try_allocate_now(bytes, alignment);
        });
    }

    /// Out of what the upstream has for the stream at once.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment)
        requires reusing_resource<Upstream>
    {
        if (bytes == 0) { return nullptr; }
        promise     held{books_, bytes};
        void* const p = this->upstream_.try_allocate_ready(s, bytes, alignment);
        return p != nullptr ? held.keep(p) : nullptr;
    }

    /// Never waits, unless no event can be had.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept {
        if (p == nullptr) { return; }
        if (books_.take(s, p, bytes, alignment, at) != books::way::is_due) { return; }
        if (wait_for_user(s)) {
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
    /// Nobody uses the memory any more, so it goes back at once.
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (p == nullptr || !books_.take_idle(p, bytes, alignment, at)) { return; }
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    /// Gives back what streams are done with, then trims the upstream. Never waits, but for what
    /// has no event: for a stream that refuses one, and for the device of a stream that died or is
    /// another thread's default stream, which ends captures there. Where a stream is known to be
    /// captured that has to stay.
    std::size_t trim(std::size_t keep = 0) {
        std::size_t const here = books_.collect_all(giving());
        if constexpr (trimmable_resource<Upstream>) {
            return std::max(here, this->upstream_.trim(keep)); // what came from here may be in both
        }
        return here;
    }

    /// The stream ends: the events that its blocks wait for are recorded now. Not while it is
    /// captured, for they would be the graph's.
    void retire(stream s) {
        books_.close(s);
        if constexpr (retiring_resource<Upstream>) { this->upstream_.retire(s); }
    }

    /// The graphs that were captured are gone: what was freed in them waits no longer.
    void forget_captures() {
        books_.release_captured(giving());
        if constexpr (forgetting_resource<Upstream>) { this->upstream_.forget_captures(); }
    }

    /// This layer's own figures; `waits` counts how often the host had to wait for a stream.
    [[nodiscard]] memory_usage usage() const { return books_.usage(); }
    /// Peaks start again from what is out and held now. Returns the figures from before.
    memory_usage reset_peaks() noexcept { return books_.reset_peaks(); }
    /// Takes in the peaks of figures from before.
    void raise_peaks(memory_usage const& before) noexcept { books_.raise_peaks(before); }

private:
    using books   = deferred_frees<platform>;
    using promise = typename books::promise;

    [[nodiscard]] auto giving() noexcept {
        return [this](void* p, std::size_t bytes, std::size_t alignment, call_site at) {
            sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
        };
    }

    void* allocate_now(std::uint64_t id, std::size_t bytes, std::size_t alignment) {
        promise held{books_, bytes};
        for (;;) {
            try {
                return held.keep(this->upstream_.allocate_sync(bytes, alignment));
            } catch (out_of_memory& e) {
                if (held.make_room(giving())) { continue; }
                tell(e.numbers(), id);
                throw;
            }
        }
    }
    void* try_allocate_now(std::size_t bytes, std::size_t alignment)
        requires fallible_resource<Upstream>
    {
        promise held{books_, bytes};
        do {
            if (void* const p = this->upstream_.try_allocate_sync(bytes, alignment)) {
                return held.keep(p);
            }
        } while (held.make_room(giving()));
        return nullptr;
    }

    /// Waits for who used what no event can be had for. False: nobody knows whether it still is in
    /// use, for the waits failed, or the stream is being captured, which a wait would end.
    [[nodiscard]] bool wait_for_user(stream s) const noexcept {
        try {
            if (platform::capturing(s)) { return false; }
        } catch (...) {} // the wait will say so
        return sure_wait<platform>(s, [&] {
            try {
                return platform::device_of(s);
            } catch (...) { return detail::device_of_resource(this->upstream_); }
        });
    }

    template <class Ask>
    static void* or_null(Ask ask) noexcept {
        try {
            return ask();
        } catch (std::bad_alloc const&) { return nullptr; } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .resource = "stream_ordered",
                           .call     = "try_allocate",
                           .advice   = "try_allocate returned null; allocate throws the error."});
            return nullptr;
        }
    }

    /// What this layer knows of a refusal and its upstream does not.
    void tell(shortage& numbers, std::uint64_t id) const {
        memory_usage const now = usage();
        if (numbers.stream == 0) { numbers.stream = id; }
        if (numbers.live == 0) { numbers.live = now.live; }
        if (numbers.reserved == 0) { numbers.reserved = now.reserved; }
    }

    books books_;
};

namespace with {
/// `source | with::stream_ordered`, `source | with::stream_ordered({.frees_per_event = 16})`
inline constexpr word<vram::stream_ordered, stream_ordered_options> stream_ordered{};
} // namespace with

// A layer adds behaviour, never removes capability.
static_assert(powers<stream_ordered<null_resource<>>>::include<null_resource<>>);
static_assert(resource<stream_ordered<null_resource<>>>);
static_assert(forgetting_resource<stream_ordered<null_resource<>>>);

} // namespace vram
