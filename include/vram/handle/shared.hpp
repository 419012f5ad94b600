// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `shared` is a copyable handle of a resource that must not be copied.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp>               // expects
#include <vram/concepts/core/diagnosed.hpp>     // refuse_order
#include <vram/concepts/core/held_resource.hpp> // expect_resource
#include <vram/concepts/observer.hpp>           // observed_resource
#include <vram/concepts/powers.hpp> // fallible_resource, owning_resource, measured_resource
#include <vram/concepts/sited.hpp>
#include <vram/handle/core/cccl_3_0_calls.hpp>
#include <vram/handle/core/counted.hpp>
#include <vram/layer/with.hpp> // pending_layer

#include <cstddef>
#include <utility>

namespace vram {

namespace detail {
struct shared_access;
}

/// A reference-counted handle of a resource, which lives until its last handle is destroyed. A copy
/// is another handle of one resource.
///
///     shared memory{pool{stream_ordered{cuda_resource{}}}};
///     worker a{device, [memory] { ... }};
///
/// Functions of the resource that the handle does not have are called with `get()`. A handle that
/// was moved from may only be assigned to or destroyed.
///
/// Failure   The first handle throws `std::bad_alloc`.
/// Threads   The rules are those of the resource; one thread at a time uses a handle.
/// Cost      One host allocation for the first handle, and one indirection for each call.
template <synchronous_resource R>
class shared : public detail::cccl_3_0_calls<shared<R>> {
public:
    using resource_type = R;
    using platform      = typename R::platform;
    using stream        = typename platform::stream;
    using properties    = typename R::properties;
    using detail::cccl_3_0_calls<shared>::allocate;
    using detail::cccl_3_0_calls<shared>::deallocate;

    /// Moves the resource `mr` into shared ownership.
    explicit shared(R mr) : block_{new block{std::in_place, std::move(mr)}} {}
    /// Constructs the resource in place from `args`, for a resource that cannot be moved.
    template <class... Args>
    explicit shared(std::in_place_t, Args&&... args)
        : block_{new block{std::in_place, std::forward<Args>(args)...}} {}

    shared(shared const& other) noexcept : block_{other.block_} {
        if (block_ != nullptr) { block_->hold(); }
    }
    shared(shared&& other) noexcept : block_{std::exchange(other.block_, nullptr)} {}
    shared& operator=(shared other) noexcept {
        std::swap(block_, other.block_);
        return *this;
    }
    ~shared() {
        if (block_ != nullptr) { block_->drop(); }
    }

    /// Selected for a call `allocate(stream, bytes)` if the resource takes no stream. Does not
    /// compile: the error message names the alternatives.
    template <detail::not_a_size Stream>
        requires(!resource<R>)
    [[nodiscard]] void* allocate(Stream&&, std::size_t) const {
        detail::refuse_order<Stream>();
        return nullptr;
    }
    template <detail::not_a_size Stream>
        requires(!resource<R>)
    void deallocate(Stream&&, void*, std::size_t) const noexcept {
        detail::refuse_order<Stream>();
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current()) const
        requires resource<R>
    {
        return sited{held(at).value, at}.allocate(s, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) const {
        return sited{held(at).value, at}.allocate_sync(bytes, alignment);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) const noexcept
        requires resource<R> && fallible_resource<R>
    {
        return sited{held(at).value, at}.try_allocate(s, bytes, alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at = call_site::current()) const noexcept
        requires fallible_resource<R>
    {
        return sited{held(at).value, at}.try_allocate_sync(bytes, alignment);
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) const noexcept
        requires resource<R>
    {
        sited{held(at).value, at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) const noexcept {
        sited{held(at).value, at}.deallocate_sync(p, bytes, alignment);
    }

    [[nodiscard]] bool owns(void const* p) const
        requires owning_resource<R>
    {
        return get().owns(p);
    }
    [[nodiscard]] memory_usage usage() const
        requires measured_resource<R>
    {
        return get().usage();
    }
    std::size_t trim(std::size_t keep = 0) const
        requires trimmable_resource<R>
    {
        return get().trim(keep);
    }
    void retire(stream s) const
        requires retiring_resource<R>
    {
        get().retire(s);
    }
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) const
        requires reusing_resource<R>
    {
        return sited{held(at).value, at}.try_allocate_ready(s, bytes, alignment);
    }
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes, std::size_t alignment) const noexcept
        requires rounding_resource<R>
    {
        return get().rounded_size(bytes, alignment);
    }
    [[nodiscard]] auto device() const
        requires detail::names_device<R>
    {
        return get().device();
    }
    std::size_t trim_no_wait() const
        requires promptly_trimmable_resource<R>
    {
        return get().trim_no_wait();
    }
    [[nodiscard]] auto free_memory() const
        requires surveyed_resource<R>
    {
        return get().free_memory();
    }
    memory_usage reset_peaks() const
        requires peaking_resource<R>
    {
        return get().reset_peaks();
    }
    void raise_peaks(memory_usage const& before) const
        requires peaking_resource<R>
    {
        get().raise_peaks(before);
    }

    /// Returns the observer that is notified of the resource's events.
    [[nodiscard]] decltype(auto) observer() const
        requires observed_resource<R>
    {
        return get().observer();
    }

    /// Returns the resource itself, for functions that only its type has.
    [[nodiscard]] R& get() const noexcept { return held().value; }
    /// Accesses members of the resource itself: `handle->member`.
    [[nodiscard]] R* operator->() const noexcept { return &held().value; }

    /// Returns false if the handle was moved from and has not been assigned since.
    [[nodiscard]] bool holds_resource() const noexcept { return block_ != nullptr; }

    /// Returns the number of handles of the resource, which other threads may change at any time.
    [[nodiscard]] std::size_t holders() const noexcept { return held().holders(); }

    /// Returns true if both handles refer to one resource, to equal resources, or to no resource.
    friend bool operator==(shared const& a, shared const& b) {
        return a.block_ == b.block_ ||
               (a.block_ != nullptr && b.block_ != nullptr && a.get() == b.get());
    }

    /// Returns the resource that `handle` owns. A `resource_ref` made from `handle` calls this
    /// function, so that the reference refers to the resource and not to `handle`.
    friend R& referred(shared const& handle) {
        detail::expect_resource(handle,
                                "shared: the handle must hold a resource; it was moved from");
        return handle.get();
    }
    friend R& referred(shared& handle) { return referred(std::as_const(handle)); }

private:
    using block = detail::counted_value<R>;

    friend struct detail::shared_access;

    /// `at`: line of the program that called, for the report if the handle was moved from.
    [[nodiscard]] block& held(call_site at = {}) const noexcept {
        expects(block_ != nullptr, "shared: the handle must hold a resource; it was moved from",
                at);
        return *block_;
    }

    block* block_;
};

namespace detail {
/// Lets `any_resource` take over the reference of a `shared` handle, which is then empty.
struct shared_access {
    template <class R>
    [[nodiscard]] static counted_value<R>* take(shared<R>& handle) noexcept {
        return std::exchange(handle.block_, nullptr);
    }
};
} // namespace detail

namespace with {
/// Puts a stack (a resource with all its upstreams) into a `shared` handle:
/// `source | with::stream_ordered | with::shared`.
inline constexpr detail::pending_layer<vram::shared> shared{};
} // namespace with

} // namespace vram
