// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/type_name.hpp> // first: the header stands alone

namespace of_type_name {
template <class>
struct generic {
    struct inner {};
};
} // namespace of_type_name

static_assert(vram::detail::type_name<of_type_name::generic<int>>() == "generic");
static_assert(vram::detail::type_name<of_type_name::generic<int> const>() == "generic");
static_assert(vram::detail::type_name<int>() == "int");
