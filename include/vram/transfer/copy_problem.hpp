// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `copy_problem` says of which batch it was that a copy failed.

#include <vram/base/requirements.hpp> // C++20

#include <vram/transfer/loader_error.hpp> // loader_error

#include <concepts>  // same_as
#include <cstddef>   // size_t
#include <exception> // exception_ptr, current_exception, make_exception_ptr, rethrow_exception
#include <string>    // string, to_string

namespace vram {

/// A platform whose errors can be given more text: `e.in(what)` is `e`, of the same type and
/// status, with `what` before its text.
template <class P>
concept explained_errors = requires(typename P::error const& e, std::string const& what) {
    { e.in(what) } -> std::same_as<typename P::error>;
};

/// "batch 3 (source index 17)", or "batch 3" if the index of the source is `unknown`.
[[nodiscard]] inline std::string batch_name(std::size_t index, std::size_t source_index) {
    std::string const name = "batch " + std::to_string(index);
    if (source_index == loader_error::unknown) { return name; }
    return name + " (source index " + std::to_string(source_index) + ")";
}

/// The exception that is being handled. Its text names the batch if it is an error of the platform;
/// `wrap` gets any other one and returns the exception to throw instead.
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
    } catch (...) { return met; } // no host memory for the text
}

/// The exception that is being handled, which the copy of a batch threw.
template <class Platform>
[[nodiscard]] std::exception_ptr
copy_problem(std::size_t index, std::size_t source_index = loader_error::unknown) noexcept {
    return named_problem<Platform>("copy of ", index, source_index,
                                   [](std::exception_ptr const& met) { return met; });
}

/// The exception that is being handled, which the source threw at a batch: `loader_error` with that
/// exception as its cause. An error of the platform stays what it is.
template <class Platform>
[[nodiscard]] std::exception_ptr source_problem(std::size_t index,
                                                std::size_t source_index) noexcept {
    return named_problem<Platform>("source at ", index, source_index,
                                   [&](std::exception_ptr const& met) {
                                       loader_error e{met};
                                       return std::make_exception_ptr(e.at(index, source_index));
                                   });
}

} // namespace vram
