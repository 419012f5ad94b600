// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `current` is the default resource of each device, for code that names no resource.

#include <vram/concepts/platform.hpp>    // platform
#include <vram/handle/any_resource.hpp>  // any_resource
#include <vram/handle/resource_ref.hpp>  // resource_ref
#include <vram/layer/stream_ordered.hpp> // stream_ordered

#include <atomic>   // atomic
#include <concepts> // constructible_from
#include <mutex>    // mutex, lock_guard
#include <optional> // optional
#include <utility>  // move, exchange, swap

namespace vram {

/// One resource for each device of a platform, for the whole process.
///
///     auto before = current<cuda_platform>::set(device, my_stack);
///     buffer scratch{current<cuda_platform>::get(), stream, 64_MiB};
///
/// Until it is set, it is the platform's `async_resource` where it has one, else its
/// `device_resource` in stream order. It is made when it is first asked for and never destroyed: at
/// the end of the process no device is called. What `set` replaces belongs to the caller: keep it
/// until its memory is back and nobody uses a reference to it.
///
/// Failure   `get` and `set` as making the default and a slot (host memory, a first call for a
///           device only)
/// Threads   any; a `get` beside a `set` sees the resource before or after, never a mixture. The
///           default is made with no lock held; of threads that ask first at once each makes one,
///           and all but one end again
/// Cost      `get`: no lock and nothing written, a comparison for each device that was asked for
///           before; without an argument also the platform's `current_device`
template <platform Platform>
class current {
    using source = typename Platform::device_resource;

public:
    using device   = typename Platform::device;
    using ref      = typename detail::ref_of<Platform, typename source::properties>::type;
    using resource = typename detail::any_of<Platform, typename source::properties>::type;

    /// Borrows the current resource of the thread's current device.
    [[nodiscard]] static ref get() { return get(Platform::current_device()); }
    /// Borrows the current resource of `d`.
    [[nodiscard]] static ref get(device d) {
        if (slot* const found = find(d, first().load(std::memory_order_acquire))) {
            words const seen = found->read();
            if (seen.target() != nullptr) [[likely]] { return seen; }
        }
        words const fresh = made(d).read();
        return fresh;
    }

    /// Makes `mr` the current resource of `d`; returns the one before it. A handle that was moved
    /// from, which holds nothing, means the default, as in `reset`.
    static resource set(device d, resource mr) {
        if (!mr.holds_resource()) { return reset(d); }
        return slot_of(d).exchange(std::move(mr));
    }
    /// Makes the default the current resource of `d` again; returns the one before it.
    static resource reset(device d) {
        slot& place = made(d);
        return place.exchange(place.standard);
    }
    /// Ends the default of `d` and what is set: before a device ends, as those of a simulated node
    /// do. Asked for again, it starts over.
    static void forget(device d) {
        slot* const found = find(d, first().load(std::memory_order_acquire));
        if (found != nullptr) { found->clear(); }
    }

private:
    /// The two words of a reference, one by one.
    struct words : erased<Platform> {
        using properties = typename source::properties;
        using calls_type = typename erased<Platform>::calls_type;

        words(erased<Platform> const& from) noexcept : erased<Platform>{from} {}
        words(void* target, calls_type const* calls) noexcept : erased<Platform>{target, calls} {}

        [[nodiscard]] void*             target() const noexcept { return this->target_; }
        [[nodiscard]] calls_type const* calls() const noexcept { return this->calls_; }
    };

    /// A device and its resource. Slots form a list that only grows. After `clear` both resources
    /// are as if moved from, and readers see a null target.
    struct slot {
        slot(device d, resource mr, slot* after)
            : where{d}, next{after}, standard{std::move(mr)}, owner{standard} {
            publish();
        }

        device const where;
        slot* const  next;
        resource     standard; ///< the default
        resource     owner;    ///< what is set, written with the mutex held

        // What readers see of `owner`. `turn` is odd while it changes; whoever saw it odd, or
        // changed, looks again.
        std::atomic<unsigned>                          turn{0};
        std::atomic<void*>                             target;
        std::atomic<typename words::calls_type const*> calls;

        [[nodiscard]] words read() const noexcept {
            for (;;) {
                unsigned const before = turn.load(std::memory_order_acquire);
                words          seen{target.load(std::memory_order_acquire),
                           calls.load(std::memory_order_acquire)};
                if (before % 2 == 0 && turn.load(std::memory_order_relaxed) == before) {
                    return seen;
                }
            }
        }
        resource exchange(resource mr) noexcept {
            std::lock_guard const held{mutex()};
            std::swap(owner, mr);
            publish();
            return mr;
        }
        void clear() noexcept {
            // Both end after the lock: a resource that ends may ask for another's current one.
            std::optional<resource> no_default, no_owner;
            std::lock_guard const   held{mutex()};
            no_default.emplace(std::move(standard));
            no_owner.emplace(std::move(owner));
            publish();
        }
        /// With the mutex held: whether there is a default.
        [[nodiscard]] bool filled() const noexcept { return words{standard}.target() != nullptr; }
        /// With the mutex held: takes `mr` for the default where there is none.
        void fill(resource& mr) {
            if (filled()) { return; }
            std::swap(standard, mr);
            if (words{owner}.target() == nullptr) { owner = standard; }
            publish();
        }
        // Releases: a reader that sees a new word sees the odd turn that came before it.
        void publish() noexcept {
            words const now{owner};
            turn.fetch_add(1, std::memory_order_relaxed);
            target.store(now.target(), std::memory_order_release);
            calls.store(now.calls(), std::memory_order_release);
            turn.fetch_add(1, std::memory_order_release);
        }
    };

    [[nodiscard]] static slot* find(device d, slot* from) noexcept {
        while (from != nullptr && !(from->where == d)) { from = from->next; }
        return from;
    }
    [[nodiscard]] static slot& slot_of(device d) {
        slot* const found = find(d, first().load(std::memory_order_acquire));
        bool const  there = found != nullptr && found->read().holds_resource();
        return there ? *found : made(d); // after `forget` there is a slot that holds nothing
    }
    /// The slot of `d`, with its default: for a device that is asked for the first time.
    [[nodiscard]] static slot& made(device d) {
        {
            std::lock_guard const held{mutex()};
            slot* const           found = find(d, first().load(std::memory_order_relaxed));
            if (found != nullptr && found->filled()) { return *found; }
        }
        // Calls the platform, and may ask for another's current one: without the lock.
        resource              mr = standard_of(d);
        std::lock_guard const held{mutex()};
        slot* const           head = first().load(std::memory_order_relaxed);
        if (slot* const found = find(d, head)) { // forgotten, or another thread was faster
            found->fill(mr);
            return *found;
        }
        auto* const fresh = new slot{d, std::move(mr), head};
        first().store(fresh, std::memory_order_release);
        return *fresh;
    }

    template <class R>
    [[nodiscard]] static R on(device d) {
        if constexpr (std::constructible_from<R, device>) {
            return R(d);
        } else {
            typename Platform::device_guard const there{d};
            return R{};
        }
    }
    [[nodiscard]] static resource standard_of(device d) {
        if constexpr (requires { typename Platform::async_resource; }) {
            return on<typename Platform::async_resource>(d);
        } else if constexpr (vram::resource<source>) {
            return on<source>(d);
        } else {
            return stream_ordered<source>{on<source>(d)};
        }
    }

    // In functions: nvcc 13.0 takes no static members of these types.
    [[nodiscard]] static std::atomic<slot*>& first() noexcept {
        static constinit std::atomic<slot*> head{nullptr};
        return head;
    }
    [[nodiscard]] static std::mutex& mutex() noexcept {
        static constinit std::mutex only;
        return only;
    }
};

/// The current resource of `d`: `current_resource<cuda_platform>(device)`.
template <platform Platform>
[[nodiscard]] auto current_resource(typename Platform::device d = Platform::current_device()) {
    return current<Platform>::get(d);
}

} // namespace vram
