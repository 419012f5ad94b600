// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform_of` is the platform of a stream type.

#include <vram/base/requirements.hpp> // C++20

namespace vram {

namespace detail {

template <class Stream>
struct find_platform;

template <class Type>
Type const& one_of() noexcept; // declared only, for unevaluated expressions

template <class Stream>
    requires requires { typename Stream::platform; }
struct find_platform<Stream> { // a stream view names its platform
    using type = typename Stream::platform;
};

template <class Stream>
    requires(
        !requires { typename Stream::platform; } &&
        requires(Stream const& s) { typename decltype(s.view())::platform; })
struct find_platform<Stream> { // an owner of a stream has a view, which names the platform
    using type = typename decltype(one_of<Stream>().view())::platform;
};

} // namespace detail

/// The platform of a stream view, or of a type with a member `view()` that returns one. A platform
/// adds foreign handle types, such as `cudaStream_t`, by specialising `detail::find_platform`.
template <class Stream>
using platform_of = typename detail::find_platform<Stream>::type;

} // namespace vram
