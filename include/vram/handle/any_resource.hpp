// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `any_resource` owns a resource of any type: the usual member of a class that allocates.

#include <vram/concepts/core/diagnosed.hpp> // refuse_platform, refuse_order
#include <vram/handle/core/counted.hpp>
#include <vram/handle/resource_ref.hpp> // resource_ref, resource_for
#include <vram/handle/shared.hpp>

#include <concepts>    // derived_from
#include <type_traits> // remove_cvref_t
#include <utility>

namespace vram {

/// A copyable, type-erased handle that owns a resource together with its copies. The resource is
/// destroyed with its last handle.
///
///     any_resource<cuda_platform, device_accessible> memory = stream_ordered{cuda_resource{}};
///
/// Made from a `shared`, the handle shares that resource. Made from a `resource_ref`, the handle
/// borrows the resource. A handle that was moved from may only be assigned to or destroyed.
///
/// Failure   Making the first handle of a resource throws `std::bad_alloc`.
/// Threads   The rules are those of the resource; one thread at a time uses a handle.
/// Cost      One host allocation for the first handle, and one call through a pointer for each use.
template <class Platform, property... Properties>
class any_resource : public detail::erased<Platform> {
    using base = detail::erased<Platform>;

public:
    using properties = property_set<Properties...>;

    /// Moves the resource `mr` into a new object in host memory. This handle and its copies own the
    /// object together.
    template <class R>
        requires(!std::derived_from<R, base>) && resource_for<R, Platform, Properties...>
    any_resource(R mr)
        : any_resource{new detail::counted_value<R>{std::in_place, std::move(mr)}, adopted{}} {}

    /// Shares the ownership of the resource that `handle` owns. The resource is not copied.
    template <class R>
        requires resource_for<R, Platform, Properties...>
    any_resource(shared<R> handle)
        : any_resource{detail::shared_access::take(checked(handle)), adopted{}} {}

    /// Selected for a resource of another platform. Does not compile; the error message names the
    /// remedy.
    template <class R>
        requires detail::resource_of_another_platform<std::remove_cvref_t<R>, Platform>
    any_resource(R&&) : base{nullptr, nullptr} {
        detail::refuse_platform<R>();
    }
    /// Selected for a resource without stream order. Does not compile; the error message names the
    /// layer `stream_ordered`.
    template <class R>
        requires(!std::derived_from<std::remove_cvref_t<R>, base>) &&
                detail::synchronous_of<std::remove_cvref_t<R>, Platform>
    any_resource(R&&) : base{nullptr, nullptr} {
        detail::refuse_order<R>();
    }

    /// Borrows the resource of `borrowed`, which must outlive this handle and its copies.
    template <property... Others>
        requires(property_set<Others...>::template has<Properties> && ...)
    any_resource(resource_ref<Platform, Others...> borrowed) noexcept : base{borrowed} {}

    /// Makes a handle of the resource of `other`, a handle with at least these `Properties`. The
    /// new handle owns or borrows the resource as `other` did.
    template <property... Others>
        requires(property_set<Others...>::template has<Properties> && ...)
    any_resource(any_resource<Platform, Others...> other)
        : base{checked(other)}, block_{std::exchange(other.block_, nullptr)} {}

    any_resource(any_resource const& other) noexcept : base{other}, block_{other.block_} {
        if (block_ != nullptr) { block_->hold(); }
    }
    any_resource(any_resource&& other) noexcept
        : base{other}, block_{std::exchange(other.block_, nullptr)} {
        other.let_go();
    }
    any_resource& operator=(any_resource other) noexcept {
        std::swap(this->target_, other.target_);
        std::swap(this->calls_, other.calls_);
        std::swap(block_, other.block_);
        return *this;
    }
    ~any_resource() {
        if (block_ != nullptr) { block_->drop(); }
    }

    /// Makes memory available again that the resource keeps for captured graphs. The caller
    /// guarantees that no such graph is launched again.
    void forget_captures() const {
        if (this->calls_->forget_captures != nullptr) {
            this->calls_->forget_captures(this->target_);
        }
    }

    /// Returns the number of handles that own the resource, including handles of type `shared`.
    /// Returns 0 if this handle borrows the resource, or was moved from.
    [[nodiscard]] std::size_t holders() const noexcept {
        return block_ == nullptr ? 0 : block_->holders();
    }

private:
    template <class, property...>
    friend class any_resource;

    struct adopted {};

    template <class Handle>
    static Handle& checked(Handle& handle) {
        detail::expect_resource(handle,
                                "any_resource: the handle must hold a resource; it was moved from");
        return handle;
    }

    template <class R>
    any_resource(detail::counted_value<R>* block, adopted) noexcept
        : base{&block->value, &detail::calls_of<R>}, block_{block} {}

    detail::counted* block_ = nullptr;
};

namespace detail {
template <class Platform, class Properties>
struct any_of;
template <class Platform, class... Properties>
struct any_of<Platform, property_set<Properties...>> {
    using type = any_resource<Platform, Properties...>;
};
} // namespace detail

/// The type `any_resource` with the platform and all properties of `R`: it can hold an `R`.
template <resource R>
using any_resource_of = typename detail::any_of<typename R::platform, typename R::properties>::type;

} // namespace vram
