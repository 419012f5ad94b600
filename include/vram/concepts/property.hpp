// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `property` is a tag type that states which processors may access the memory of a resource.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstddef>

namespace vram {

/// States that kernels may read and write the memory of a resource.
struct device_accessible {};

/// States that the host may read and write the memory of a resource through its pointers.
struct host_accessible {};

namespace detail {

/// Returns true if the type `W` has the name `word`, in any namespace. So
/// `::cuda::mr::device_accessible` is recognised without its header.
template <class W, std::size_t Size>
consteval bool is_named(char const (&word)[Size]) {
#if defined(_MSC_VER) && !defined(__clang__)
    char const* at = __FUNCSIG__;
#else
    // The signature of this function, in which compilers write the type as "[with W = a::b; ...]",
    // "[W = a::b, ...]" or "[with W=a::b, ...]".
    char const* at = __PRETTY_FUNCTION__;
#endif
    while (*at != '\0' && !(at[0] == 'W' && (at[1] == '=' || (at[1] == ' ' && at[2] == '=')))) {
        ++at;
    }
    if (*at != '\0') { at += at[1] == '=' ? 2 : 4; } // skips "W=" or "W = " before the type's name
    // The start of the name of `W` without its namespaces: the position after the last "::".
    char const* last = at;
    for (; *at != '\0' && *at != ';' && *at != ',' && *at != ']'; ++at) {
        // The name of a template specialization contains '<', so it is not equal to `word`.
        if (*at == '<') { return false; }
        if (*at == ':') { last = at + 1; }
    }
    std::size_t same = 0;
    while (same + 1 < Size && last[same] == word[same]) { ++same; }
    return same + 1 == Size && last + same == at;
}

} // namespace detail

/// `device_accessible` or `host_accessible`, of vram or of another library: a type with one of
/// these names in any namespace, or in none.
template <class P>
concept property =
    detail::is_named<P>("device_accessible") || detail::is_named<P>("host_accessible");

/// Two property types that are both named `device_accessible`, or both `host_accessible`, in any
/// namespaces.
template <class P, class Q>
concept same_property =
    (detail::is_named<P>("device_accessible") && detail::is_named<Q>("device_accessible")) ||
    (detail::is_named<P>("host_accessible") && detail::is_named<Q>("host_accessible"));

/// The properties of the memory of a resource, which declares for example:
///
///     using properties = property_set<device_accessible>;
template <property... Ps>
struct property_set {
    /// True if the set contains `P`, or a property of the same name from another namespace.
    template <class P>
    static constexpr bool has = (same_property<P, Ps> || ...);
};

/// True if the memory of resource `R` has property `P`.
template <class R, class P>
concept has_property = R::properties::template has<P>;

/// CCCL finds this function by argument-dependent lookup, to query a property. It exists only for
/// properties that `R` has.
template <class R, property P>
    requires has_property<R, P>
constexpr void get_property(R const&, P) noexcept {}

} // namespace vram
