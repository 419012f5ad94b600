// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `copy_problem` says of which batch it was that a copy failed.

#include <vram/base/requirements.hpp> // C++20

#include <concepts>  // same_as
#include <cstddef>   // size_t
#include <exception> // exception_ptr, current_exception, make_exception_ptr
#include <string>    // string, to_string

namespace vram {

/// A platform whose errors can be given more text: `e.in(what)` is `e`, of the same type and
/// status, with `what` before its text.
template <class P>
concept explained_errors = requires(typename P::error const& e, std::string const& what) {
    { e.in(what) } -> std::same_as<typename P::error>;
};

/// The exception that is being handled, which the copy of batch `index` met; its text names the
/// batch where it is an error of the platform's.
template <class Platform>
[[nodiscard]] std::exception_ptr copy_problem(std::size_t index) noexcept {
    std::exception_ptr const met = std::current_exception();
    if constexpr (explained_errors<Platform>) {
        try {
            throw;
        } catch (typename Platform::error const& e) {
            try {
                return std::make_exception_ptr(e.in("copy of batch " + std::to_string(index)));
            } catch (...) {} // no memory for the text
        } catch (...) {}
    }
    return met;
}

} // namespace vram
