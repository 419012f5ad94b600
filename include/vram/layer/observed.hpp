// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `observed` is a layer that has an observer, which all resources over it notify.

#include <vram/base/call_site.hpp>
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy
#include <vram/concepts/expandable.hpp>     // expandable_resource, remappable_resource
#include <vram/concepts/observer.hpp>       // observer, memory_event
#include <vram/concepts/powers.hpp>         // fallible_resource, reusing_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::layer_of

#include <concepts> // default_initializable, same_as
#include <cstddef>
#include <type_traits> // unwrap_reference_t
#include <utility>

namespace vram {

/// Gives an observer (an object that is notified of memory events) to the pools and layers above
/// this layer in the stack. They notify the observer of each block and chunk that they allocate and
/// free.
///
///     pool<observed<stream_ordered<cuda_resource>, my_log>> memory;
///     memory.observer().print();
///     auto mr = cuda_resource{} | with::stream_ordered | with::observed(log) | with::pool;
///
/// The resources below this layer do not notify the observer. Of the functions of the layer, only
/// `mark` and `forget_captures` call it. The layer stores the observer, which moves with it. If
/// `Observer` is a `std::reference_wrapper`, the layer refers to an object of the program instead.
/// A resource above a `resource_ref` or `any_resource` has no observer, because these two types do
/// not know the type of the observer.
///
/// Failure   The functions fail as those of the upstream.
/// Threads   The rules are those of the upstream. The observer is called by each thread that calls
///           a resource over the layer. That resource may hold its lock, so the observer must not
///           call the resource.
/// Cost      None for the layer. The resources over it call the observer once for each event.
template <synchronous_resource Upstream, class Observer>
    requires observer<std::unwrap_reference_t<Observer>, typename Upstream::platform::stream>
class observed : public layer_base<Upstream> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;
    /// The type of the observer: `T&` if `Observer` is `std::reference_wrapper<T>`, otherwise
    /// `Observer` itself.
    using observer_type = std::unwrap_reference_t<Observer>;

    observed()
        requires std::default_initializable<Upstream> && std::default_initializable<Observer>
        : observed{Upstream{}, Observer{}} {}
    /// Creates the layer over `upstream` with an observer.
    observed(Upstream upstream, Observer to) : base{std::move(upstream)}, to_{std::move(to)} {}
    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<observed> Same>
    observed(Same& other) : observed{detail::refuse_copy(other)} {}
    template <std::same_as<observed> Same>
    observed& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        return sited{this->upstream_, at}.allocate(s, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        return sited{this->upstream_, at}.allocate_sync(bytes, alignment);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        return sited{this->upstream_, at}.try_allocate(s, bytes, alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        return sited{this->upstream_, at}.try_allocate_sync(bytes, alignment);
    }
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        return sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    /// Calls `extend` of the upstream: adds `more` bytes with physical memory to the end of the
    /// block at `p`. Returns false and changes nothing if that is not possible.
    [[nodiscard]] bool extend(void* p, std::size_t bytes, std::size_t more) noexcept
        requires expandable_resource<Upstream>
    {
        return this->upstream_.extend(p, bytes, more);
    }
    /// Calls `shrink` of the upstream: cuts `less` bytes off the end of the block at `p`. Returns
    /// the number of bytes of physical memory released.
    std::size_t shrink(void* p, std::size_t bytes, std::size_t less) noexcept
        requires expandable_resource<Upstream>
    {
        return this->upstream_.shrink(p, bytes, less);
    }
    /// Returns the size in bytes of a page, the unit in which the upstream maps physical memory.
    [[nodiscard]] std::size_t page_size() const
        requires expandable_resource<Upstream>
    {
        return this->upstream_.page_size();
    }
    /// Calls `widen` of the upstream: adds `more` bytes of addresses to the end of the block, and
    /// maps no memory. Returns false if that is not possible.
    [[nodiscard]] bool widen(void* p, std::size_t bytes, std::size_t more) noexcept
        requires remappable_resource<Upstream>
    {
        return this->upstream_.widen(p, bytes, more);
    }
    /// Calls `mapped` of the upstream: returns how many bytes of the range [q, q + n) have physical
    /// memory.
    [[nodiscard]] std::size_t mapped(void const* q, std::size_t n) const noexcept
        requires remappable_resource<Upstream>
    {
        return this->upstream_.mapped(q, n);
    }
    /// Calls `fill` of the upstream: maps physical memory to the pages of [q, q + n) that have
    /// none. Returns false and maps none if that is not possible.
    [[nodiscard]] bool fill(void* q, std::size_t n) noexcept
        requires remappable_resource<Upstream>
    {
        return this->upstream_.fill(q, n);
    }
    /// Calls `drop` of the upstream: unmaps the pages inside [q, q + n), but keeps their addresses.
    /// Returns the number of bytes unmapped.
    std::size_t drop(void* q, std::size_t n) noexcept
        requires remappable_resource<Upstream>
    {
        return this->upstream_.drop(q, n);
    }
    /// Calls `remap` of the upstream: moves physical memory from pages in [from, from + n) to
    /// unmapped pages of [to, to + m). Returns the number of bytes moved.
    std::size_t remap(void* from, std::size_t n, void* to, std::size_t m) noexcept
        requires remappable_resource<Upstream>
    {
        return this->upstream_.remap(from, n, to, m);
    }
    /// Calls `moved_to` of the upstream. If the physical memory that last backed the page at `q` is
    /// now mapped to another page, returns the address of that page. Otherwise returns null.
    [[nodiscard]] void* moved_to(void const* q) const noexcept
        requires remappable_resource<Upstream>
    {
        return this->upstream_.moved_to(q);
    }

    /// Calls `forget_captures` of the observer, if it has that function, and then that of the
    /// upstream, which may return memory of captured graphs.
    void forget_captures()
        requires forgetting_resource<Upstream>
    {
        if constexpr (requires(observer_type& to) { to.forget_captures(); }) {
            observer().forget_captures();
        }
        base::forget_captures();
    }

    /// Returns the observer.
    [[nodiscard]] observer_type& observer() noexcept { return to_; }
    /// Notifies the observer of a mark: an event with a text, which must live as long as the
    /// observer uses it.
    void mark(char const* text, call_site at = call_site::current()) noexcept {
        memory_event<stream> e{};
        e.kind     = memory_event_kind::marked;
        e.name     = text;
        e.resource = this;
        e.at       = at;
        observer().observe(e);
    }

private:
    [[no_unique_address]] Observer to_;
};

namespace with {
/// Puts an `observed` layer over a resource: `source | with::observed(my_log{}) | with::pool`. If
/// the argument is `std::ref(log)`, the layer refers to `log` and stores no observer of its own.
template <class Observer>
[[nodiscard]] auto observed(Observer to) {
    return layer_of<vram::observed, Observer>(std::move(to));
}
} // namespace with

} // namespace vram
