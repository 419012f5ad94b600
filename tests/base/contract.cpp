// SPDX-License-Identifier: Apache-2.0
#include <vram/base/contract.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstring>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

using namespace vram;

TEST_CASE("contract: a condition that holds is not reported") {
    expects(true, "holds");
    static_assert((expects(true, "holds, when compiled too"), true));
    CHECK(true);
}

TEST_CASE("contract: the handler receives the broken condition and the caller's source location") {
    doubles::contracts_throw const throws;
    unsigned const                 here = __LINE__ + 2;
    try {
        expects(1 + 1 == 3, "sums");
        FAIL("a broken contract does not return");
    } catch (doubles::broken_contract const& b) {
        CHECK(b.what == "sums");
        CHECK(b.line == here);
    }
}

TEST_CASE("contract: a known line of the program is reported instead of that of the check") {
    doubles::contracts_throw const throws;
    auto const                     line_of = [](auto call) {
        try {
            call();
        } catch (doubles::broken_contract const& b) { return b.line; }
        return 0U;
    };
    call_site const caller = call_site::current();
    unsigned const  from   = __LINE__ - 1;
    CHECK(line_of([&] { expects(true, "holds", caller); }) == 0);
    CHECK(line_of([&] { expects(false, "sums", caller); }) == from);
    CHECK(line_of([&] { broken_contract("sums", caller); }) == from);
    unsigned const here = __LINE__;
    CHECK(line_of([&] { expects(false, "sums", call_site{}); }) == here + 1);
    CHECK(line_of([&] { broken_contract("sums", call_site{}); }) == here + 2);
}

TEST_CASE("contract: without a handler the program prints the condition and aborts") {
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    pid_t const child = ::fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);
        ::dup2(pipe_ends[1], 2);
        set_contract_handler(nullptr);
        broken_contract("no memory left to give");
    }
    ::close(pipe_ends[1]);
    std::string said;
    char        buffer[256];
    for (ssize_t n; (n = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
        said.append(buffer, static_cast<std::size_t>(n));
    }
    ::close(pipe_ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
    CHECK(said.starts_with("vram: broken contract: no memory left to give\n"));
    CHECK(said.find("contract.cpp") != std::string::npos);
}
