// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `resource_ref` borrows a resource of any type: the usual parameter of a function that allocates.

#include <vram/base/contract.hpp>           // expects
#include <vram/concepts/core/diagnosed.hpp> // refuse_platform, refuse_order
#include <vram/handle/core/erased.hpp>

#include <concepts>    // derived_from, same_as
#include <type_traits> // remove_const_t, remove_reference_t

namespace vram {

/// A stream-ordered resource of the platform `Platform`. Its memory has all `Properties`, such as
/// `device_accessible`.
template <class R, class Platform, class... Properties>
concept resource_for = resource<R> && std::same_as<typename R::platform, Platform> &&
                       (has_property<R, Properties> && ...);

namespace detail {

/// Returns the resource to which a `resource_ref` made from `mr` refers: `mr` itself. Handles such
/// as `shared` have an overload that returns the resource of the handle.
template <class R>
R& referred(R& mr) noexcept {
    return mr;
}
template <class R>
auto& target_of(R& mr) noexcept(noexcept(referred(mr))) {
    return referred(mr); // unqualified, to find the overloads of handles such as `shared`
}

} // namespace detail

/// A type-erased reference to a resource that the caller keeps alive. A `resource_ref` is copied
/// like a pointer and is never empty.
///
///     void solve(resource_ref<cuda_platform, device_accessible> mr, cuda_stream_view stream);
///     solve(my_pool, stream);
///
/// A `resource_ref` made from another handle (`shared`, `any_resource`) refers to the resource of
/// that handle.
///
/// Failure   Each function fails as the same function of the resource.
/// Threads   The rules are those of the resource.
/// Cost      One call through a pointer.
template <class Platform, property... Properties>
class resource_ref : public detail::erased<Platform> {
    using base = detail::erased<Platform>;

public:
    using properties = property_set<Properties...>;

    /// Borrows `mr`, which must outlive this reference. A temporary does not compile.
    template <class R>
        requires(!std::derived_from<std::remove_const_t<R>, base>) &&
                resource_for<R, Platform, Properties...>
    resource_ref(R& mr) noexcept(noexcept(detail::target_of(mr)))
        : base{&detail::target_of(mr),
               &detail::calls_of<std::remove_reference_t<decltype(detail::target_of(mr))>>} {}

    /// Borrows the resource of `handle`, a `resource_ref` or `any_resource` with at least the
    /// properties `Properties`. The resource must outlive this reference.
    template <class Handle>
        requires std::derived_from<Handle, base> && resource_for<Handle, Platform, Properties...>
    resource_ref(Handle& handle) : base{handle} {
        expects(handle.holds_resource(),
                "resource_ref: the handle must hold a resource; it was moved from");
    }
    /// Selected for a resource of another platform. Does not compile; the error message names the
    /// remedy.
    template <detail::resource_of_another_platform<Platform> R>
    resource_ref(R&) : base{nullptr, nullptr} {
        detail::refuse_platform<R>();
    }
    /// Selected for a resource without stream order. Does not compile; the error message names the
    /// layer `stream_ordered`.
    template <class R>
        requires(!std::derived_from<R, base>) && detail::synchronous_of<R, Platform>
    resource_ref(R&) : base{nullptr, nullptr} {
        detail::refuse_order<R>();
    }
    resource_ref(resource_ref const&) noexcept            = default;
    resource_ref& operator=(resource_ref const&) noexcept = default;

    template <property... Others>
        requires(property_set<Others...>::template has<Properties> && ...)
    resource_ref(resource_ref<Platform, Others...>&& other) noexcept : base{other} {}
};

namespace detail {
template <class Platform, class Properties>
struct ref_of;
template <class Platform, class... Properties>
struct ref_of<Platform, property_set<Properties...>> {
    using type = resource_ref<Platform, Properties...>;
};
} // namespace detail

/// The `resource_ref` type with the platform and all properties of `R`.
template <resource R>
using resource_ref_of = typename detail::ref_of<typename R::platform, typename R::properties>::type;

// clang-format off
template <class R>
    requires has_property<R, device_accessible> && has_property<R, host_accessible>
resource_ref(R&) -> resource_ref<typename R::platform, device_accessible, host_accessible>;
template <class R>
    requires has_property<R, device_accessible> && (!has_property<R, host_accessible>)
resource_ref(R&) -> resource_ref<typename R::platform, device_accessible>;
template <class R>
    requires (!has_property<R, device_accessible>) && has_property<R, host_accessible>
resource_ref(R&) -> resource_ref<typename R::platform, host_accessible>;
// clang-format on

} // namespace vram
