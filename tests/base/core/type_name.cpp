// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/type_name.hpp> // first: the header stands alone

namespace of_type_name {
template <class>
struct generic {
    struct inner {};
};
template <class... Types>
struct names {
    template <class...>
    struct within {};
};
inline struct {
} without_name;
template <int Value>
struct numbered {};
} // namespace of_type_name

static_assert(vram::detail::type_name<of_type_name::generic<int>>() == "generic");
static_assert(vram::detail::type_name<of_type_name::generic<int> const>() == "generic");
static_assert(vram::detail::type_name<of_type_name::generic<int>::inner>() == "inner");
static_assert(
    vram::detail::type_name<of_type_name::names<of_type_name::generic<int>::inner>::within<
        of_type_name::generic<of_type_name::names<>>, auto (*)(int)->int>>() == "within");
static_assert(vram::detail::type_name<of_type_name::numbered<-1>>() == "numbered");
static_assert(vram::detail::type_name<decltype(of_type_name::without_name)>() == "unnamed");
static_assert(vram::detail::type_name<decltype([] {})>() == "unnamed");
static_assert(vram::detail::type_name<int>() == "int");
