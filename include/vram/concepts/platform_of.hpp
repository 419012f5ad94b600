// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform_of` is the platform of a stream type.

#include <vram/base/requirements.hpp>

namespace vram {

namespace detail {

template <class Stream>
struct find_platform;

template <class Type>
Type const& one_of() noexcept; // not defined: only for `decltype` and `requires`

template <class Stream>
    requires requires { typename Stream::platform; }
struct find_platform<Stream> { // for a type with a member type `platform`, such as a stream view
    using type = typename Stream::platform;
};

template <class Stream>
    requires(
        !requires { typename Stream::platform; } &&
        requires(Stream const& s) { typename decltype(s.view())::platform; })
// For an owner of a stream: the platform of the stream view that its member `view()` returns.
struct find_platform<Stream> {
    using type = typename decltype(one_of<Stream>().view())::platform;
};

} // namespace detail

/// The platform, such as `cuda_platform`, of a stream type. For handles such as `cudaStream_t`, a
/// platform specialises `detail::find_platform`.
template <class Stream>
using platform_of = typename detail::find_platform<Stream>::type;

} // namespace vram
