// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `current` is the default resource of each device, for code that names no resource.

#include <vram/concepts/platform.hpp>
#include <vram/handle/any_resource.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/layer/stream_ordered.hpp>

#include <atomic>   // atomic
#include <concepts> // constructible_from
#include <mutex>    // mutex, lock_guard
#include <optional> // optional
#include <utility>

namespace vram {

template <platform Platform>
class current_resource_guard;

/// The current resource of a device: the resource that code uses by default. Each device of a
/// platform has one, and all threads of the process share it.
///
///     auto before = current<cuda_platform>::set(device, my_stack);
///     buffer scratch{current<cuda_platform>::get(), stream, 64_MiB};
///
/// Until `set` is called, the current resource is the default resource: the platform's
/// `async_resource` if there is one, otherwise its `device_resource` in stream order. `set` returns
/// the resource that was current before. The caller must keep that resource until all its memory is
/// freed.
///
/// Failure   The first call for a device throws the exceptions of making the default resource.
/// Threads   Any thread may call.
/// Cost      `get` locks only in the first call for a device, and compares the device with each
///           device used before.
template <platform Platform>
class current {
    using source = typename Platform::device_resource;

public:
    using device   = typename Platform::device;
    using ref      = typename detail::ref_of<Platform, typename source::properties>::type;
    using resource = typename detail::any_of<Platform, typename source::properties>::type;

    /// Returns a reference to the current resource of the thread's current device.
    [[nodiscard]] static ref get() { return get(Platform::current_device()); }
    /// Returns a reference to the current resource of the device `d`: that of the last `set`, or
    /// else the default resource.
    [[nodiscard]] static ref get(device d) {
        if (slot* const found = find(d, first().load(std::memory_order_acquire))) {
            words const seen = found->read();
            if (seen.target() != nullptr) [[likely]] { return seen; }
        }
        words const fresh = made(d).read();
        return fresh;
    }

    /// Makes `mr` the current resource of the device `d`. Returns the resource that was current
    /// before. If `mr` holds no resource because it was moved from, calls `reset(d)` instead.
    static resource set(device d, resource mr) {
        if (!mr.holds_resource()) { return reset(d); }
        return slot_of(d).exchange(std::move(mr));
    }
    /// Makes the default resource the current one of `d` again and returns the previous one.
    static resource reset(device d) { return made(d).restore(); }
    /// Drops the handles of the default and the current resource of `d`. Must be called before the
    /// device is destroyed.
    static void forget(device d) {
        slot* const found = find(d, first().load(std::memory_order_acquire));
        if (found != nullptr) { found->clear(); }
    }

private:
    friend class current_resource_guard<Platform>;

    /// Makes `mr` the current resource of `d` again. Does nothing if `forget` was called for `d`,
    /// so that no default resource is made.
    static void put_back(device d, resource mr) noexcept {
        slot* const found = find(d, first().load(std::memory_order_acquire));
        if (found != nullptr) { found->put_back(mr); }
    }

    /// A type-erased reference to a resource: the address of the resource, and the address of the
    /// table of its functions.
    struct words : detail::erased<Platform> {
        using properties = typename source::properties;
        using calls_type = typename detail::erased<Platform>::calls_type;

        words(detail::erased<Platform> const& from) noexcept : detail::erased<Platform>{from} {}
        words(void* target, calls_type const* calls) noexcept
            : detail::erased<Platform>{target, calls} {}

        [[nodiscard]] void*             target() const noexcept { return this->target_; }
        [[nodiscard]] calls_type const* calls() const noexcept { return this->calls_; }
    };

    /// Entry for one device in a list of devices: the default and the current resource of the
    /// device. An entry is never removed from the list, so that readers need no lock. `clear()`
    /// only removes the two resources.
    struct slot {
        slot(device d, resource mr, slot* after)
            : where{d}, next{after}, standard{std::move(mr)}, owner{standard} {
            publish();
        }

        device const where;
        slot* const  next;
        resource     standard; ///< the default resource of the device
        /// The current resource of the device, protected by the mutex. A thread that does not hold
        /// the mutex reads `target` and `calls` instead.
        resource owner;

        // The addresses of the current resource and of its function table. `read` loads both
        // without the mutex. `turn` is odd while a thread changes them: `read` then loads them
        // again.
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
        /// Makes the default resource current. Returns the resource that was current before. Copies
        /// the member `standard` under the mutex, because `forget` on another thread may empty it.
        resource restore() noexcept {
            std::lock_guard const held{mutex()};
            resource              mr{standard};
            std::swap(owner, mr);
            publish();
            return mr;
        }
        /// Exchanges the current resource with `mr`, or with the default one if `mr` is empty. Does
        /// nothing if `clear` has removed the current resource.
        void put_back(resource& mr) noexcept {
            std::lock_guard const held{mutex()};
            if (!owner.holds_resource()) { return; }
            if (!mr.holds_resource()) { mr = standard; }
            std::swap(owner, mr);
            publish();
        }
        void clear() noexcept {
            // Both resources are moved to these variables, and so destroyed after the mutex is
            // unlocked. The destructor of a resource may call functions of `current`.
            std::optional<resource> no_default, no_owner;
            std::lock_guard const   held{mutex()};
            no_default.emplace(std::move(standard));
            no_owner.emplace(std::move(owner));
            publish();
        }
        /// Returns true if the device has a default resource. The mutex must be held.
        [[nodiscard]] bool filled() const noexcept { return words{standard}.target() != nullptr; }
        /// If the device has a default resource, does nothing. Otherwise makes `mr` the default
        /// resource and, if there is no current resource, also the current one. The mutex must be
        /// held.
        void fill(resource& mr) {
            if (filled()) { return; }
            std::swap(standard, mr);
            if (words{owner}.target() == nullptr) { owner = standard; }
            publish();
        }
        // Copies the addresses in `owner` to `target` and `calls`, which `read` loads without the
        // mutex. If `read` loads a new address, it also sees the new value of `turn`, because the
        // stores have release order.
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
        return there ? *found : made(d);
    }
    /// Returns the `slot` of the device `d`, with the default and the current resource of the
    /// device. Makes the default resource first if there is none.
    [[nodiscard]] static slot& made(device d) {
        {
            std::lock_guard const held{mutex()};
            slot* const           found = find(d, first().load(std::memory_order_relaxed));
            if (found != nullptr && found->filled()) { return *found; }
        }
        // Calls `standard_of` without the mutex. This function calls the platform, which may call
        // functions of `current` that lock the mutex.
        resource              mr = standard_of(d);
        std::lock_guard const held{mutex()};
        slot* const           head = first().load(std::memory_order_relaxed);
        if (slot* const found = find(d, head)) {
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

    // The head of the list of slots, and the mutex, are static variables of functions, because nvcc
    // 13.0 rejects static members of these types.
    [[nodiscard]] static std::atomic<slot*>& first() noexcept {
        static constinit std::atomic<slot*> head{nullptr};
        return head;
    }
    [[nodiscard]] static std::mutex& mutex() noexcept {
        static constinit std::mutex only;
        return only;
    }
};

/// Returns a reference to the current resource of `d`: `current_resource<cuda_platform>(device)`.
template <platform Platform>
[[nodiscard]] auto current_resource(typename Platform::device d = Platform::current_device()) {
    return current<Platform>::get(d);
}

} // namespace vram
