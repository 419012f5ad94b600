// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `observation` notifies the observers of a resource during one call of the program.

#include <vram/concepts/observer.hpp> // memory_event, observing_platform, observed_resource, ...

#include <cstddef>
#include <new>         // bad_alloc
#include <type_traits> // remove_reference_t
#include <utility>

namespace vram {
namespace detail {

/// True if the resources over `R` (layers and pools) notify an observer: the one of `R`, or the
/// platform.
template <class R>
inline constexpr bool is_observed =
    observed_resource<R> || observing_platform<typename R::platform>;

/// True if layers and pools over `R` may leave out events: its observer has `skips`, and the
/// platform is not an `observing_platform`.
template <class R>
inline constexpr bool may_skip_events = false;
template <observed_resource R>
inline constexpr bool may_skip_events<R> =
    !observing_platform<typename R::platform> &&
    skipping_observer<std::remove_reference_t<decltype(std::declval<R&>().observer())>>;

/// Counters of the waits for freed memory that this thread has caused: `waits_made` for waits of
/// streams, `host_waits_made` for waits of the thread itself. An `observation` compares their
/// values before and after a call.
inline constinit thread_local unsigned waits_made      = 0;
inline constinit thread_local unsigned host_waits_made = 0;

/// Stands in for an object that notifies observers, where there is no observer. `notify` does
/// nothing.
struct [[maybe_unused]] unseen {
    template <class... Event>
    static constexpr void notify(Event const&...) noexcept {}
};

/// Marks a call of a resource for an observing platform (such as the simulated one). While this
/// object exists, the platform attributes the event records, waits and queries of this thread to
/// the resource, not to the program. On other platforms, the object does nothing.
template <class Platform>
class [[maybe_unused]] resource_call {
public:
    [[gnu::always_inline]] constexpr resource_call() noexcept {}
    resource_call(resource_call const&)            = delete;
    resource_call& operator=(resource_call const&) = delete;
};
template <observing_platform Platform>
class [[maybe_unused]] resource_call<Platform> {
public:
    resource_call() noexcept { Platform::begin_resource_call(); }
    resource_call(resource_call const&)            = delete;
    resource_call& operator=(resource_call const&) = delete;
    ~resource_call() { Platform::end_resource_call(); }
};

/// Marks code of the program that runs within a call of a resource: a retry policy or an observer.
/// While this object exists, an observing platform attributes the calls of this thread to the
/// program, not to the resource.
template <class Platform>
class [[maybe_unused]] program_call {
public:
    [[gnu::always_inline]] constexpr program_call() noexcept {}
    program_call(program_call const&)            = delete;
    program_call& operator=(program_call const&) = delete;
};
template <observing_platform Platform>
class [[maybe_unused]] program_call<Platform> {
public:
    program_call() noexcept : calls_{Platform::begin_program_call()} {}
    program_call(program_call const&)            = delete;
    program_call& operator=(program_call const&) = delete;
    ~program_call() { Platform::end_program_call(calls_); }

private:
    unsigned calls_;
};

/// Sends the events of one call of a resource to the observers. These are the observer of the
/// upstream `R`, if there is one, and the platform, if it is an `observing_platform`. The
/// constructor takes two values that each event contains: the name of the resource, and an address
/// that identifies the resource.
///
///     observation<Upstream> const seen{upstream_, "pool", &lock_};
///     return seen.allocate(bytes, &s, at, [&] { return get(s, bytes, alignment); });
///
/// Cost      None without an observer.
template <class R>
class [[maybe_unused]] observation {
public:
    using stream = typename R::platform::stream;

    static constexpr bool on = false; ///< true if there is an observer to notify

    [[gnu::always_inline]] constexpr observation(R&, char const*, void const*, bool = false,
                                                 bool = false) noexcept {}
    observation(observation const&)            = delete;
    observation& operator=(observation const&) = delete;

    /// Does nothing, because there is no observer. The specialization for an observer sends an
    /// event about memory, unless the address is null.
    [[gnu::always_inline]] constexpr void notify(memory_event_kind, void*, std::size_t,
                                                 stream const* = nullptr,
                                                 call_site     = {}) const noexcept {}
    /// Does nothing, because there is no observer. The specialization for an observer sends an
    /// event without an address, such as the refusal of a request.
    [[gnu::always_inline]] constexpr void notify_request(memory_event_kind, std::size_t,
                                                         stream const* = nullptr,
                                                         call_site     = {}) const noexcept {}
    /// Returns an object that does nothing, because there is no observer. With an observer, the
    /// object's destructor sends events for the waits for freed memory during the object's life.
    [[nodiscard, gnu::always_inline]] static constexpr unseen watch() noexcept { return {}; }
    /// Returns the result of `get()`, which allocates a block. The specialization for an observer
    /// also sends events: for the allocation or its refusal, and for waits for freed memory.
    template <class Get>
    [[gnu::always_inline]] constexpr void* allocate(std::size_t, stream const*, call_site,
                                                    Get const& get) const {
        return get();
    }
};

template <class R>
    requires is_observed<R>
class observation<R> {
    using platform = typename R::platform;

    /// `notify` sends events for the waits for freed memory that this thread caused since this
    /// object was constructed: one for waits of streams, one for waits of the host. It then resets
    /// the thread's counters, so that an enclosing call does not report the same waits.
    struct waits {
        observation const&               owner;
        std::size_t                      bytes;
        typename platform::stream const* on_stream;
        call_site                        at;
        unsigned                         before      = waits_made;
        unsigned                         host_before = host_waits_made;

        void notify(void* p) const noexcept {
            if (std::exchange(waits_made, before) != before) {
                owner.notify_wait(p, bytes, on_stream, at);
            }
            if (std::exchange(host_waits_made, host_before) != host_before) {
                owner.notify_wait(p, bytes, nullptr, at);
            }
        }
    };
    struct [[maybe_unused]] watched {
        waits made;

        ~watched() { made.notify(nullptr); }
    };

public:
    using stream = typename platform::stream;

    static constexpr bool on = true;

    observation(R& upstream, char const* name, void const* identity, bool any_stream = false,
                bool until_reset = false) noexcept
        : name_{name},
          upstream_{upstream},
          identity_{identity},
          any_stream_{any_stream},
          until_reset_{until_reset} {}
    observation& operator=(observation const&) = delete;

    [[gnu::always_inline]] void notify(memory_event_kind kind, void* memory, std::size_t bytes,
                                       stream const* on_stream = nullptr,
                                       call_site     at        = {}) const noexcept {
        if (memory != nullptr) { send_unless_skipped(kind, memory, bytes, on_stream, at); }
    }
    void notify_request(memory_event_kind kind, std::size_t bytes,
                        stream const* on_stream = nullptr, call_site at = {}) const noexcept {
        send_unless_skipped(kind, nullptr, bytes, on_stream, at);
    }
    template <class Get>
    [[gnu::always_inline]] void* allocate(std::size_t bytes, stream const* on_stream, call_site at,
                                          Get const& get) const {
        if constexpr (may_skip_events<R>) {
            if (skipped(memory_event_kind::allocated) && skipped(memory_event_kind::refused) &&
                skipped(memory_event_kind::stream_waited)) [[likely]] {
                // Allocates first. Then `notify` asks the observer again if it skips the event,
                // because the answer may have changed during `get()`.
                void* const p = get();
                if (bytes != 0) { notify(memory_event_kind::allocated, p, bytes, on_stream, at); }
                return p;
            }
            observation const copy{*this};
            return copy.observed_allocate(bytes, on_stream, at, get);
        } else {
            return observed_allocate(bytes, on_stream, at, get);
        }
    }
    [[nodiscard]] auto watch() const noexcept { return watched{{*this, 0, nullptr, {}}}; }

private:
    /// Functions that send an event need the address of an `observation`. They get that of a copy,
    /// so that the compiler can keep the members of the original in registers.
    observation(observation const& other) noexcept
        : name_{other.name_},
          upstream_{other.upstream_},
          identity_{other.identity_},
          any_stream_{other.any_stream_},
          until_reset_{other.until_reset_} {}

    template <class Get>
    [[gnu::always_inline]] void* observed_allocate(std::size_t bytes, stream const* on_stream,
                                                   call_site at, Get const& get) const {
        waits const made{*this, bytes, on_stream, at};
        void*       p = nullptr;
        try {
            p = get();
        } catch (std::bad_alloc const&) {
            made.notify(nullptr);
            notify_request(memory_event_kind::refused, bytes, on_stream, at);
            throw;
        }
        if (bytes != 0) {
            made.notify(p);
            auto const kind =
                p != nullptr ? memory_event_kind::allocated : memory_event_kind::refused;
            if (!skipped(kind)) { send(kind, p, bytes, on_stream, at); }
        }
        return p;
    }
    /// Sends an event `stream_waited` for a wait for freed memory. `on_stream`: the stream that
    /// waited; null means that the host waited. `p`: the block allocated after the wait, or null.
    void notify_wait(void* p, std::size_t bytes, stream const* on_stream,
                     call_site at) const noexcept {
        auto const kind = memory_event_kind::stream_waited;
        if (!skipped(kind)) { send(kind, p, bytes, on_stream, at); }
    }
    /// Returns true if events of this kind need not be sent, because the observer skips them (see
    /// `skipping_observer`).
    [[nodiscard, gnu::always_inline]] bool skipped(memory_event_kind kind) const noexcept {
        if constexpr (may_skip_events<R>) {
            auto const& to = upstream_.observer();
            return to.skips(kind);
        } else {
            static_cast<void>(kind);
            return false;
        }
    }
    [[gnu::always_inline]] void send_unless_skipped(memory_event_kind kind, void* memory,
                                                    std::size_t bytes, stream const* on_stream,
                                                    call_site at) const noexcept {
        if constexpr (may_skip_events<R>) {
            if (skipped(kind)) [[likely]] { return; }
            observation const copy{*this};
            if (on_stream == nullptr) { return copy.send(kind, memory, bytes, nullptr, at); }
            stream const same = *on_stream;
            copy.send(kind, memory, bytes, &same, at);
        } else {
            send(kind, memory, bytes, on_stream, at);
        }
    }
    [[gnu::noinline]] void send(memory_event_kind kind, void* memory, std::size_t bytes,
                                stream const* on_stream, call_site at) const noexcept {
        using maybe = decltype(memory_event<stream>::stream);
        memory_event<stream> const e{
            kind,   name_,       identity_,
            memory, bytes,       on_stream != nullptr ? maybe{*on_stream} : maybe{},
            at,     any_stream_, until_reset_};
        if constexpr (observed_resource<R>) {
            program_call<platform> const program;
            upstream_.observer().observe(e);
        }
        if constexpr (observing_platform<platform>) { platform::observe(e); }
    }

    resource_call<platform> call_;
    // `name_` and `identity_` are not neighbours. Otherwise the compiler would load both with one
    // 16-byte load, which is slow soon after two separate stores.
    char const* name_;
    R&          upstream_;
    void const* identity_;
    bool        any_stream_;  ///< value of `memory_event::any_stream` in each event
    bool        until_reset_; ///< value of `memory_event::until_reset` in each event
};

} // namespace detail
} // namespace vram
