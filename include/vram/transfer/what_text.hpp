// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `what_text` is the text that `what()` of an exception returns.

#include <vram/base/requirements.hpp> // C++20

#include <exception> // exception, exception_ptr, rethrow_exception
#include <memory>    // shared_ptr, make_shared
#include <string>    // string

namespace vram {

/// A text with numbers, which is built when the exception is; or a literal, if there is no host
/// memory for it.
///
///     text_{"vram: the file is too short", [&] { return "vram: " + std::to_string(n) + ...; }}
///
/// Threads   copies share the text; copying throws nothing
/// Cost      one allocation
class what_text {
public:
    explicit what_text(char const* literal) noexcept : literal_{literal} {}

    /// `build()` returns a `std::string`.
    template <class Build>
    what_text(char const* literal, Build const& build) noexcept : literal_{literal} {
        try {
            text_ = std::make_shared<std::string const>(build());
        } catch (...) {} // no host memory: the literal
    }

    [[nodiscard]] char const* c_str() const noexcept {
        return text_ != nullptr ? text_->c_str() : literal_;
    }

private:
    std::shared_ptr<std::string const> text_;
    char const*                        literal_;
};

/// What the exception `of` says: the text of a `std::exception`; empty if there is none.
[[nodiscard]] inline std::string what_of(std::exception_ptr const& of) {
    if (of == nullptr) { return {}; }
    try {
        std::rethrow_exception(of);
    } catch (std::exception const& e) { return e.what(); } catch (...) {
        return "an exception that is no std::exception";
    }
}

} // namespace vram
