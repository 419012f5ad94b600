// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `checked_scope` calls a check with the facts about the memory of a block of code, at its end.

#include <vram/probe/core/balance_facts.hpp>
#include <vram/probe/core/scope_facts.hpp>
#include <vram/probe/error_count.hpp>

#include <exception> // uncaught_exceptions
#include <utility>   // move

namespace vram {
namespace detail {

/// Measures a scope with a `scope_facts` and calls `ask` with it at the end of the scope: at its
/// last line, or by `return`, `break` or `continue`. If an exception leaves the scope, `ask` is not
/// called, because the exception is the failure to report. The assertion macros for test frameworks
/// use this class.
///
/// Failure   The destructor throws the exceptions of `ask`; some test frameworks use them.
/// Threads   One thread.
/// Cost      One call of `usage()` at each end.
template <measured_resource Resource, class Question>
class checked_scope {
public:
    checked_scope(Resource& memory, Question ask) : facts_{memory}, ask_{std::move(ask)} {}
    checked_scope(checked_scope&&) = delete;

    ~checked_scope() noexcept(false) {
        if (std::uncaught_exceptions() == exceptions_) { ask_(facts_); }
    }

private:
    scope_facts<Resource> facts_;
    Question              ask_;
    int                   exceptions_ = std::uncaught_exceptions();
};

/// Compares the live blocks at the start and the end of a scope, and calls `ask` with a
/// `balance_facts` at the end. If an exception leaves the scope, `ask` is not called.
template <class Resource, class Question>
class checked_balance {
public:
    checked_balance(Resource& memory, Question ask) : facts_{memory}, ask_{std::move(ask)} {}
    checked_balance(checked_balance&&) = delete;

    ~checked_balance() noexcept(false) {
        if (std::uncaught_exceptions() == exceptions_) { ask_(facts_); }
    }

private:
    balance_facts<Resource> facts_;
    Question                ask_;
    int                     exceptions_ = std::uncaught_exceptions();
};

/// Counts the errors reported in a scope and calls `ask` with the `error_count` at the end of the
/// scope. If an exception leaves the scope, `ask` is not called.
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

} // namespace detail
} // namespace vram
