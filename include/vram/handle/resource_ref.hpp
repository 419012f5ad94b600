// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `resource_ref` borrows a resource of any type: the parameter of a function that allocates.

#include <vram/base/contract.hpp>        // expects
#include <vram/handle/erased.hpp>        // erased
#include <vram/source/null_resource.hpp> // the stand-in of the proofs below

#include <concepts>    // derived_from, same_as
#include <type_traits> // remove_const_t, remove_reference_t

namespace vram {

/// Whether resource `R` runs on `Platform` and its memory has all of `Properties`.
template <class R, class Platform, class... Properties>
concept resource_for = resource<R> && std::same_as<typename R::platform, Platform> &&
                       (has_property<R, Properties> && ...);

namespace detail {

/// What a borrowed handle of `mr` points at: `mr`, unless `mr` is a handle too and says otherwise.
template <class R>
R& referred(R& mr) noexcept {
    return mr;
}
template <class R>
auto& target_of(R& mr) noexcept(noexcept(referred(mr))) {
    return referred(mr); // found beside R, too
}

} // namespace detail

/// A resource of a type that is not known here, and that somebody else keeps alive.
///
///     void solve(resource_ref<cuda_platform, device_accessible> mr, cuda_stream_view stream);
///     solve(my_pool, stream);
///
/// It is two words, copied like a pointer, and never empty. Made from another handle (`shared`,
/// `any_resource`) it points at what that handle holds. Two are equal when they lead to one
/// resource, or to equal ones of one type.
///
/// Failure   as the resource
/// Threads   as the resource
/// Cost      one call through a pointer
template <class Platform, property... Properties>
class resource_ref : public erased<Platform> {
    using base = erased<Platform>;

public:
    using properties = property_set<Properties...>;

    /// Borrows `mr`, which outlives this: a temporary does not compile.
    template <class R>
        requires(!std::derived_from<std::remove_const_t<R>, base>) &&
                resource_for<R, Platform, Properties...>
    resource_ref(R& mr) noexcept(noexcept(detail::target_of(mr)))
        : base{&detail::target_of(mr),
               &calls_of<std::remove_reference_t<decltype(detail::target_of(mr))>>} {}

    /// Borrows what `handle`, a `resource_ref` or an `any_resource` that promises as much or more,
    /// leads to.
    template <class Handle>
        requires std::derived_from<Handle, base> && resource_for<Handle, Platform, Properties...>
    resource_ref(Handle& handle) : base{handle} {
        expects(handle.holds_resource(), "resource_ref: the handle holds a resource");
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

/// The `resource_ref` that promises all that `R` promises.
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

// A borrowed resource is a resource, of two words and no duties.
static_assert(resource<resource_ref_of<null_resource<>>>);
static_assert(fallible_resource<resource_ref_of<null_resource<>>>);
static_assert(std::is_trivially_copyable_v<resource_ref_of<null_resource<>>>);
static_assert(sizeof(resource_ref_of<null_resource<>>) == 2 * sizeof(void*));

} // namespace vram
