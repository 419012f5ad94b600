// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `checked_scope` asks a question about the memory that a block of code took, when the block ends.

#include <vram/probe/error_count.hpp>  // error_count
#include <vram/probe/memory_delta.hpp> // memory_delta

#include <exception> // uncaught_exceptions
#include <utility>   // move

namespace vram {

/// Starts a `memory_delta` and shows it to `ask` when the scope ends, however it ends: at its last
/// line, by `return`, `break` or `continue`. When an exception leaves the scope, nothing is asked:
/// the exception is the news. This is what the assertion macros of the test frameworks stand on.
///
/// Failure   whatever `ask` throws, from the destructor: some test frameworks end a test so
/// Threads   one
/// Cost      one `usage()` at each end
template <measured_resource Resource, class Question>
class checked_scope {
public:
    checked_scope(Resource& memory, Question ask) : probe_{memory}, ask_{std::move(ask)} {}
    checked_scope(checked_scope&&) = delete;

    ~checked_scope() noexcept(false) {
        if (std::uncaught_exceptions() == exceptions_) { ask_(probe_); }
    }

private:
    memory_delta<Resource> probe_;
    Question               ask_;
    int                    exceptions_ = std::uncaught_exceptions();
};

/// The same for errors: shows an `error_count` to `ask` when the scope ends.
template <class Question>
class checked_errors {
public:
    explicit checked_errors(Question ask) : ask_{std::move(ask)} {}
    checked_errors(checked_errors&&) = delete;

    ~checked_errors() noexcept(false) {
        if (std::uncaught_exceptions() == exceptions_) { ask_(errors_); }
    }

private:
    error_count errors_;
    Question    ask_;
    int         exceptions_ = std::uncaught_exceptions();
};

} // namespace vram
