// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/report_caught.hpp> // first: the header stands alone

#include <vram/base/core/lock.hpp>

#include <doctest/doctest.h>

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

using namespace vram;
using namespace vram::detail;

namespace {
error       last{};
std::string cause;

struct keeping { // the errors that the sink receives
    error_sink before = set_error_sink(+[](error const& e) noexcept {
        last  = e;
        cause = e.cause != nullptr ? e.cause : "";
    });
    keeping() { cause.clear(); }
    keeping(keeping const&) = delete;
    ~keeping() { set_error_sink(before); }
};
} // namespace

TEST_CASE("report_caught: the code and the text of the exception are reported") {
    keeping const sink;
    try {
        throw std::system_error{ENOSPC, std::generic_category(), "out.bin"};
    } catch (...) { report_caught({.kind = error_kind::platform_error, .call = "write"}); }
    CHECK(last.code == ENOSPC);
    CHECK(cause == "out.bin: No space left on device");
    CHECK(std::string{last.call} == "write");

    try {
        throw std::runtime_error{"no more"};
    } catch (...) { report_caught({.kind = error_kind::lost_exception}); }
    CHECK(last.code == 0);
    CHECK(cause == "no more");

    try {
        throw 5;
    } catch (...) { report_caught({.kind = error_kind::lost_exception}); }
    CHECK(last.cause == nullptr);
}

TEST_CASE("report_caught: report_failed_call names the call, the code and the line of its caller") {
    keeping const sink;
    try {
        throw std::system_error{7, std::generic_category(), "no"};
    } catch (...) { report_failed_call("the wait"); }
    constexpr unsigned line = __LINE__ - 1;
    CHECK(last.kind == error_kind::platform_error);
    CHECK(last.code == 7);
    CHECK(std::string{last.call} == "the wait");
    CHECK(last.where.line() == line);
}

TEST_CASE(
    "report_caught: the text is kept until the lock is released, and truncated if it is long") {
    keeping const sink;
    lock const    one;
    {
        auto const held = one.hold();
        try {
            throw std::runtime_error{"no more"};
        } catch (...) { report_caught({.kind = error_kind::platform_error}); }
    }
    CHECK(cause == "no more");
    {
        auto const held = one.hold();
        try {
            throw std::runtime_error{std::string(1000, 'x')};
        } catch (...) { report_caught({.kind = error_kind::platform_error}); }
    }
    CHECK(cause == std::string(199, 'x'));
}
