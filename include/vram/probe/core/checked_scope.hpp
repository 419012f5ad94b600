// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `checked_scope` calls a check with the facts about the memory of a block of code, at its end.

#include <vram/probe/core/balance_facts.hpp>
#include <vram/probe/core/scope_facts.hpp>
#include <vram/probe/error_count.hpp>

#include <exception> // uncaught_exceptions
#include <utility>

namespace vram {
namespace detail {

/// Constructs `Facts` at the start of a scope, and calls `ask` with them at its end: at its last
/// line, or by `return`, `break` or `continue`. If an exception leaves the scope, `ask` is not
/// called, because the exception is the failure to report.
///
/// Failure   The destructor throws the exceptions of `ask`; some test frameworks use them.
/// Threads   One thread.
template <class Facts, class Question>
class asked_at_end {
public:
    template <class... Args>
    explicit asked_at_end(Question ask, Args&... args) : facts_{args...}, ask_{std::move(ask)} {}
    asked_at_end(asked_at_end&&) = delete;

    ~asked_at_end() noexcept(false) {
        if (std::uncaught_exceptions() == exceptions_) { ask_(facts_); }
    }

private:
    Facts    facts_;
    Question ask_;
    int      exceptions_ = std::uncaught_exceptions();
};

/// Measures a scope, and calls `ask` with a `scope_facts` at its end. The assertion macros for test
/// frameworks use this class.
///
/// Cost      One call of `usage()` at each end.
template <measured_resource Resource, class Question>
class checked_scope : public asked_at_end<scope_facts<Resource>, Question> {
public:
    checked_scope(Resource& memory, Question ask)
        : asked_at_end<scope_facts<Resource>, Question>{std::move(ask), memory} {}
};

/// For `VRAM_CHECK_BALANCED`: stores the live blocks at the start of a scope in a `balance_facts`,
/// and at the end calls the caller's function `ask(facts)`. That function fails the test if other
/// blocks are live then, or if a block was freed on another stream than that of its allocation.
template <class Resource, class Question>
class checked_balance : public asked_at_end<balance_facts<Resource>, Question> {
public:
    checked_balance(Resource& memory, Question ask)
        : asked_at_end<balance_facts<Resource>, Question>{std::move(ask), memory} {}
};

/// Counts the errors reported in a scope, and calls `ask` with the `error_count` at its end.
template <class Question>
class checked_errors : public asked_at_end<error_count, Question> {
public:
    explicit checked_errors(Question ask) : asked_at_end<error_count, Question>{std::move(ask)} {}
};

} // namespace detail
} // namespace vram
