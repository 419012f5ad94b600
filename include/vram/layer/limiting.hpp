// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `limiting` is a layer that limits the live bytes of a resource.

#include <vram/base/call_site.hpp>
#include <vram/base/core/gauge.hpp>
#include <vram/base/over_limit.hpp>
#include <vram/concepts/core/diagnosed.hpp> // always_false, checked_upstream, refuse_copy
#include <vram/concepts/core/observation.hpp>
#include <vram/concepts/core/refused_free.hpp> // was_freed
#include <vram/concepts/observer.hpp>          // memory_event_kind
#include <vram/concepts/powers.hpp>            // fallible_resource, reusing_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::layer

#include <concepts> // same_as
#include <cstddef>
#include <utility>

namespace vram {

/// A layer with at most `limit` live bytes: it refuses requests that exceed the limit.
///
///     limiting mr{cuda_async_resource{}, 2_GiB};
///
/// A request counts with the size that the upstream allocates for it (`rounded_size`). If the
/// upstream does not have that function, the requested size counts. Put the layer *under* a pool to
/// limit the memory that the pool takes from the device. Put it *over* a pool to limit the memory
/// that clients take from the pool; the pool itself may then reserve more of the device.
///
/// Failure   A request that exceeds the limit throws `over_limit`, or returns null from
///           `try_allocate`, before the upstream is called. If the upstream fails, `used()` is
///           unchanged.
/// Threads   The rules are those of the upstream. Concurrent requests never exceed the limit. A
///           request is refused only if it does not fit beside the live blocks and the requests in
///           progress.
/// Cost      One short lock per call. If several threads use the layer, each thread has its own
///           lock and its own part of the bytes below the limit. A request that is larger than this
///           part, and a call of `used()`, take the locks of all threads.
template <class Upstream>
class limiting : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    limiting(Upstream upstream, std::size_t limit) : base{std::move(upstream)}, used_{limit} {}

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<limiting> Same>
    limiting(Same& other) : limiting{detail::refuse_copy(other)} {}
    template <std::same_as<limiting> Same>
    limiting& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        reservation held{*this, bytes, alignment, &s, at};
        return held.keep(sited{this->upstream_, at}.allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        reservation held{*this, bytes, alignment, nullptr, at};
        return held.keep(sited{this->upstream_, at}.allocate_sync(bytes, alignment));
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        std::size_t const size = size_of(bytes, alignment);
        if (!used_.try_add(size)) { return refuse(bytes, &s, at); }
        return kept(sited{this->upstream_, at}.try_allocate(s, bytes, alignment), size);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        std::size_t const size = size_of(bytes, alignment);
        if (!used_.try_add(size)) { return refuse(bytes, nullptr, at); }
        return kept(sited{this->upstream_, at}.try_allocate_sync(bytes, alignment), size);
    }

    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        std::size_t const size = size_of(bytes, alignment);
        if (!used_.try_add(size)) { return nullptr; }
        reservation held{*this, size};
        void* const p = sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
        return p != nullptr ? held.keep(p) : nullptr;
    }

    // The upstream frees the block before `used_` is decreased, so that requests of other threads
    // cannot make the live bytes exceed the limit. A free that the upstream refuses is not counted.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        bool const freed = detail::was_freed(
            p, [&] { sited{this->upstream_, at}.deallocate(s, p, bytes, alignment); });
        if (freed && p != nullptr) { used_.sub(size_of(bytes, alignment)); }
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        bool const freed = detail::was_freed(
            p, [&] { sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment); });
        if (freed && p != nullptr) { used_.sub(size_of(bytes, alignment)); }
    }

    /// Returns the bytes that are counted against the limit now: those of live blocks and of
    /// requests in progress. Exact also while other threads allocate.
    [[nodiscard]] std::size_t used() const noexcept { return used_.used(); }
    /// Returns the largest number of bytes that may be live at one time.
    [[nodiscard]] std::size_t limit() const noexcept { return used_.limit(); }

private:
    /// Bytes that a request counts against the limit before the upstream allocates them. The
    /// destructor subtracts them again, unless `keep` was called.
    class reservation {
    public:
        reservation(limiting& owner, std::size_t bytes, std::size_t alignment, stream const* on,
                    call_site at)
            : owner_{owner}, bytes_{owner.size_of(bytes, alignment)} {
            if (!owner.used_.try_add(bytes_)) {
                owner.refuse(bytes, on, at);
                throw over_limit{bytes, owner.used(), owner.limit(), bytes_};
            }
        }
        /// Creates a reservation for bytes that the caller has already counted against the limit.
        /// `taken`: the number of these bytes.
        reservation(limiting& owner, std::size_t taken) noexcept : owner_{owner}, bytes_{taken} {}
        ~reservation() {
            if (bytes_ != 0) { owner_.used_.sub(bytes_); }
        }

        void* keep(void* p) noexcept {
            bytes_ = 0;
            return p;
        }

    private:
        limiting&   owner_;
        std::size_t bytes_;
    };

    /// Returns the bytes that a request counts against the limit: `rounded_size` of the upstream,
    /// or `bytes` if the upstream does not have that function.
    [[nodiscard]] std::size_t size_of(std::size_t bytes, std::size_t alignment) const noexcept {
        return detail::rounded_size(this->upstream_, bytes, alignment);
    }
    /// Notifies observers that a request exceeded the limit, and returns null. `on`: the stream of
    /// the request, or null if the request has no stream.
    void* refuse(std::size_t bytes, stream const* on, call_site at) noexcept {
        detail::observation<Upstream>{this->upstream_, "limiting", &used_}.notify_request(
            memory_event_kind::refused, bytes, on, at);
        return nullptr;
    }
    void* kept(void* p, std::size_t size) noexcept {
        if (p == nullptr) { used_.sub(size); }
        return p;
    }

    detail::gauge used_;
};

namespace detail {
struct limiting_word {
    [[nodiscard]] constexpr auto operator()(std::size_t limit) const {
        return with::layer<vram::limiting>(limit);
    }
    template <class Upstream>
    friend Upstream operator|(Upstream upstream, limiting_word) {
        static_assert(always_false<Upstream>,
                      "the limit is missing: write with::limiting(bytes), such as source | "
                      "with::limiting(8_GiB)");
        return upstream;
    }
};
} // namespace detail

namespace with {
/// Puts a `limiting` layer over a resource: `source | with::limiting(8_GiB)`.
inline constexpr detail::limiting_word limiting{};
} // namespace with

} // namespace vram
