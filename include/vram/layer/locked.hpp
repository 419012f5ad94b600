// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `locked` is a layer that makes a resource thread-safe with a mutex.

#include <vram/base/call_site.hpp>
#include <vram/base/core/gate.hpp>          // host_platform's gate
#include <vram/base/error.hpp>              // postponed_errors
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/powers.hpp>         // fallible_resource, reusing_resource, owning_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::word

#include <concepts> // default_initializable
#include <cstddef>
#include <utility>

namespace vram {

/// A mutex around a resource that is not thread-safe.
///
///     locked mr{region_resource{buffer, sizeof buffer}};
///
/// The mutex is held during each call of the upstream except `device`, `rounded_size` and
/// `observer`. Put the layer directly over the resource.
///
/// Failure   The functions fail as those of the upstream.
/// Threads   Any threads may call. Calls made through `upstream()` are not protected.
/// Cost      One lock per call, and the wait for other threads.
template <class Upstream>
class locked : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    locked()
        requires std::default_initializable<Upstream>
        : locked{Upstream{}} {}
    /// Creates the layer over `upstream`, which is moved into it.
    explicit locked(Upstream upstream) : base{std::move(upstream)} {}

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<locked> Same>
    locked(Same& other) : locked{detail::refuse_copy(other)} {}
    template <std::same_as<locked> Same>
    locked& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        auto const held = lock_.hold();
        return sited{this->upstream_, at}.allocate(s, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        auto const held = lock_.hold();
        return sited{this->upstream_, at}.allocate_sync(bytes, alignment);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        auto const held = lock_.hold();
        return sited{this->upstream_, at}.try_allocate(s, bytes, alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const held = lock_.hold();
        return sited{this->upstream_, at}.try_allocate_sync(bytes, alignment);
    }

    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        auto const held = lock_.hold();
        return sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        auto const held = lock_.hold();
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        auto const held = lock_.hold();
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    [[nodiscard]] bool owns(void const* p) const
        requires owning_resource<Upstream>
    {
        auto const held = lock_.hold();
        return base::owns(p);
    }
    [[nodiscard]] memory_usage usage() const
        requires measured_resource<Upstream>
    {
        auto const held = lock_.hold();
        return base::usage();
    }
    std::size_t trim(std::size_t keep = 0)
        requires trimmable_resource<Upstream>
    {
        auto const held = lock_.hold();
        return base::trim(keep);
    }
    void retire(stream s)
        requires retiring_resource<Upstream>
    {
        auto const held = lock_.hold();
        base::retire(s);
    }
    void forget_captures()
        requires forgetting_resource<Upstream>
    {
        auto const held = lock_.hold();
        base::forget_captures();
    }
    std::size_t trim_no_wait()
        requires promptly_trimmable_resource<Upstream>
    {
        auto const held = lock_.hold();
        return base::trim_no_wait();
    }
    [[nodiscard]] auto free_memory() const
        requires surveyed_resource<Upstream>
    {
        auto const held = lock_.hold();
        return base::free_memory();
    }
    memory_usage reset_peaks()
        requires peaking_resource<Upstream>
    {
        auto const held = lock_.hold();
        return base::reset_peaks();
    }
    void raise_peaks(memory_usage const& before)
        requires peaking_resource<Upstream>
    {
        auto const held = lock_.hold();
        base::raise_peaks(before);
    }

private:
    /// The mutex of the layer, of the platform's type `gate`. If the layer is moved, the mutex
    /// stays behind: the new layer has its own.
    class movable_gate {
    public:
        movable_gate() = default;
        movable_gate(movable_gate&&) noexcept {}
        movable_gate& operator=(movable_gate&&) noexcept { return *this; }

        [[nodiscard]] auto hold() const { return held{{}, gate_.hold()}; }

    private:
        using gate = typename base::platform::gate;

        /// Holds the locked mutex. The destructor first unlocks the mutex, and then reports the
        /// errors that occurred while it was locked. This order is needed because the error sink
        /// may call the layer.
        struct [[nodiscard]] held {
            detail::postponed_errors errors;
            typename gate::guard     guard;
        };

        mutable gate gate_;
    };

    movable_gate lock_;
};

namespace with {
/// Puts a `locked` layer over a resource: `source | with::locked`.
inline constexpr word<vram::locked> locked{};
} // namespace with

} // namespace vram
