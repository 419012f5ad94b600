// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `observation` notifies the observers of a resource during one call of the program.

#include <vram/concepts/observer.hpp> // memory_event, observing_platform, observed_resource

#include <cstddef> // size_t

namespace vram {
namespace detail {

/// Notifies the observers of a resource: that of its upstream `R`, if there is one, and the
/// platform, if that observes. The object exists during one call of the program.
///
///     observation<Upstream> const seen{core_.upstream(), "pool", this};
///     void* const p = core_.allocate(s, bytes, alignment);
///     seen.notify(memory_event_kind::allocated, p, bytes, &s, at);
///
/// Failure   Never throws.
/// Threads   One thread uses the object.
/// Cost      Without an observer none: all members are empty and inlined.
template <class R>
class observation {
    using platform = typename R::platform;
    using stream   = typename platform::stream;

public:
    /// True if there is an observer.
    static constexpr bool on = observed_resource<R> || observing_platform<platform>;

    [[gnu::always_inline]] observation(R& upstream, char const* name,
                                       void const* resource) noexcept requires on
        : upstream_{upstream},
          name_{name},
          resource_{resource} {
        if constexpr (observing_platform<platform>) { platform::begin_resource_call(); }
    }
    observation(observation const&)            = delete;
    observation& operator=(observation const&) = delete;
    ~observation() {
        if constexpr (observing_platform<platform>) { platform::end_resource_call(); }
    }

    /// Notifies the observers of an event with `bytes` bytes at `memory`. `on_stream` is the stream
    /// of the call, or null. Does nothing if `memory` is null.
    void notify(memory_event_kind kind, void* memory, std::size_t bytes,
                stream const* on_stream = nullptr, call_site at = {}) const noexcept {
        if (memory == nullptr) { return; }
        memory_event<stream> e{kind, name_, resource_, memory, bytes, {}, at};
        if (on_stream != nullptr) { e.stream = *on_stream; }
        if constexpr (observed_resource<R>) { upstream_.observer().observe(e); }
        if constexpr (observing_platform<platform>) { platform::observe(e); }
    }

private:
    R&          upstream_;
    char const* name_;
    void const* resource_;
};

/// Without an observer: no members, and no code.
template <class R>
requires(!observed_resource<R> && !observing_platform<typename R::platform>) class observation<R> {
    using stream = typename R::platform::stream;

public:
    static constexpr bool on = false;

    [[gnu::always_inline]] constexpr observation(R&, char const*, void const*) noexcept {}
    observation(observation const&)                                     = delete;
    observation&                          operator=(observation const&) = delete;
    [[gnu::always_inline]] constexpr void notify(memory_event_kind, void*, std::size_t,
                                                 stream const* = nullptr,
                                                 call_site     = {}) const noexcept {}
};

} // namespace detail
} // namespace vram
