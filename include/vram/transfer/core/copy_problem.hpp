// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `copy_problem` adds the number of the batch to the exception of a failed copy.

#include <vram/base/requirements.hpp>

#include <vram/transfer/loader_error.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <exception> // exception_ptr, current_exception, make_exception_ptr, rethrow_exception
#include <string>    // string, to_string

namespace vram {
namespace detail {

/// A platform with errors that can be extended by a text: `e.in(what)` returns a copy of the error
/// with `what` in front.
template <class P>
concept explained_errors = requires(typename P::error const& e, std::string const& what) {
    { e.in(what) } -> std::same_as<typename P::error>;
};

/// Returns "batch 3 (source index 17)", or "batch 3" if `source_index` is `unknown`.
[[nodiscard]] inline std::string batch_name(std::size_t index, std::size_t source_index) {
    std::string const name = "batch " + std::to_string(index);
    if (source_index == loader_error::unknown) { return name; }
    return name + " (source index " + std::to_string(source_index) + ")";
}

/// Must be called in a `catch` block. Returns the exception to report instead of the caught one. If
/// the caught exception is an error of the platform, and `explained_errors<Platform>` holds, puts
/// `where` and the name of the batch in front of its text. Otherwise returns `wrap(exception)`.
template <class Platform, class Wrap>
[[nodiscard]] std::exception_ptr named_problem(char const* where, std::size_t index,
                                               std::size_t source_index,
                                               Wrap const& wrap) noexcept {
    std::exception_ptr const met = std::current_exception();
    try {
        if constexpr (explained_errors<Platform>) {
            try {
                std::rethrow_exception(met);
            } catch (typename Platform::error const& e) {
                return std::make_exception_ptr(e.in(where + batch_name(index, source_index)));
            } catch (...) {}
        }
        return wrap(met);
    } catch (...) { return met; } // no host memory for the text: the exception without it
}

/// Must be called in a `catch` block, for the exception of a failed copy. Returns this exception.
/// If the exception is an error of the platform, its text also names the batch.
template <class Platform>
[[nodiscard]] std::exception_ptr
copy_problem(std::size_t index, std::size_t source_index = loader_error::unknown) noexcept {
    return named_problem<Platform>("copy of ", index, source_index,
                                   [](std::exception_ptr const& met) { return met; });
}

/// Must be called in a `catch` block, for an exception of the source. If the exception is an error
/// of the platform, returns this error with the batch named in its text. Any other exception
/// becomes the cause of the returned `loader_error`.
template <class Platform>
[[nodiscard]] std::exception_ptr source_problem(std::size_t index,
                                                std::size_t source_index) noexcept {
    return named_problem<Platform>("source at ", index, source_index,
                                   [&](std::exception_ptr const& met) {
                                       loader_error e{met};
                                       return std::make_exception_ptr(e.at(index, source_index));
                                   });
}

} // namespace detail
} // namespace vram
