// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `what_text` is the text that `what()` of an exception returns.

#include <vram/base/call_site.hpp>

#include <exception> // exception, exception_ptr, rethrow_exception
#include <memory>    // shared_ptr, make_shared
#include <string>    // string, to_string

namespace vram {
namespace detail {

/// The text of an exception, built in the constructor; if building it throws, a fixed text replaces
/// it. Copies share the text and never throw.
///
///     text_{"vram: the file is too short", [&] { return "vram: " + std::to_string(n) + ...; }}
class what_text {
public:
    explicit what_text(char const* literal) noexcept : literal_{literal} {}

    /// Stores the text that `build()` returns. If `build` throws, the text is `literal`, which must
    /// outlive the object and its copies.
    template <class Build>
    what_text(char const* literal, Build const& build) noexcept : literal_{literal} {
        try {
            text_ = std::make_shared<std::string const>(build());
        } catch (...) {} // no host memory: keep the literal
    }

    [[nodiscard]] char const* c_str() const noexcept {
        return text_ != nullptr ? text_->c_str() : literal_;
    }

private:
    std::shared_ptr<std::string const> text_;
    char const*                        literal_;
};

/// Returns `what()` of the exception `of`, or a fixed text if it is no `std::exception`. Returns an
/// empty text if `of` is null.
[[nodiscard]] inline std::string what_of(std::exception_ptr const& of) {
    if (of == nullptr) { return {}; }
    try {
        std::rethrow_exception(of);
    } catch (std::exception const& e) { return e.what(); } catch (...) {
        return "an exception that is not a std::exception";
    }
}

/// Returns the line `at` as the beginning of a message, such as "train.cpp:12: ". Returns an empty
/// text if the line is unknown.
[[nodiscard]] inline std::string line_of(call_site at) {
    return at.known() ? std::string{at.file()} + ":" + std::to_string(at.line()) + ": " : "";
}

/// Returns `call()`. If the call throws an `Error` without a known line of the program, throws a
/// copy that has the line `at` as its `caller()`. If `at` is unknown too, the same exception leaves
/// the function.
template <class Error, class Call>
decltype(auto) naming(call_site at, Call&& call) {
    try {
        return call();
    } catch (Error const& e) {
        if (e.caller().known() || !at.known()) { throw; }
        throw Error{Error{e}.from(at)};
    }
}

} // namespace detail
} // namespace vram
