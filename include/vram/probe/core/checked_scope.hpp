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

/// Constructs `Facts` (an object that measures) at the start of a scope, and calls `ask(facts)` at
/// the end, except if an exception leaves the scope. The destructor throws the exceptions of `ask`.
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

/// Measures the memory of a resource during a scope, for the assertion macros of test frameworks.
/// At the end of the scope, calls `ask` with the measurement, a `scope_facts`.
template <measured_resource Resource, class Question>
class checked_scope : public asked_at_end<scope_facts<Resource>, Question> {
public:
    checked_scope(Resource& memory, Question ask)
        : asked_at_end<scope_facts<Resource>, Question>{std::move(ask), memory} {}
};

/// Stores the live blocks of a resource at the start of a scope, for `VRAM_CHECK_BALANCED`. At the
/// end of the scope, calls `ask` with these blocks, a `balance_facts`.
template <class Resource, class Question>
class checked_balance : public asked_at_end<balance_facts<Resource>, Question> {
public:
    checked_balance(Resource& memory, Question ask)
        : asked_at_end<balance_facts<Resource>, Question>{std::move(ask), memory} {}
};

/// Counts the errors that are reported during a scope. At the end of the scope, calls `ask` with
/// the `error_count`.
template <class Question>
class checked_errors : public asked_at_end<error_count, Question> {
public:
    explicit checked_errors(Question ask) : asked_at_end<error_count, Question>{std::move(ask)} {}
};

} // namespace detail
} // namespace vram
