// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `null_if_thrown` is a `try_allocate` by means of a function that throws.

#include <vram/base/call_site.hpp>
#include <vram/base/core/report_caught.hpp>

#include <cstddef>
#include <new>             // bad_alloc
#include <source_location> // source_location

namespace vram {
namespace detail {

/// Returns the result of `attempt()`, or null if `attempt` throws. Reports exceptions other than
/// `std::bad_alloc` to the error sink.
template <class Attempt>
[[nodiscard]] void*
null_if_thrown(char const* resource, std::size_t bytes, Attempt const& attempt,
               call_site            caller = {},
               std::source_location where  = std::source_location::current()) noexcept {
    try {
        return attempt();
    } catch (std::bad_alloc const&) {
    } catch (...) {
        report_caught({.kind     = error_kind::platform_error,
                       .bytes    = bytes,
                       .where    = where,
                       .caller   = caller,
                       .resource = resource,
                       .call     = "try_allocate",
                       .advice   = "try_allocate returned null; allocate throws the error."});
    }
    return nullptr;
}

} // namespace detail
} // namespace vram
