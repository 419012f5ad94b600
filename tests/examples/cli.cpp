// SPDX-License-Identifier: Apache-2.0
#include "../../examples/cli.hpp" // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <limits>
#include <unistd.h>

using cli::parse_size;

TEST_CASE("cli: sizes are read with their units") {
    CHECK(parse_size("0") == 0);
    CHECK(parse_size("4096") == 4096);
    CHECK(parse_size("17B") == 17);
    CHECK(parse_size("64KiB") == 65536);
    CHECK(parse_size("64 KiB") == 65536);
    CHECK(parse_size("8M") == 8388608);
    CHECK(parse_size("1GiB") == 1073741824);
    CHECK(parse_size("1.5GiB") == 1610612736);
    CHECK(parse_size("139.8GiB") == 150109106995);
    CHECK(parse_size("10MB") == 10000000);
    CHECK(parse_size("2TiB") == 2199023255552);
}

TEST_CASE("cli: text that is not a size is refused") {
    for (char const* text :
         {"", " ", "KiB", "-1", "-1KiB", "1KiBs", "1 2", "1e3", "0x10", "ten", "nan", "inf", "1..5",
          "9000000TiB", "18446744073709551616", "1  KiB"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_size(text).has_value());
    }
}

namespace {

int run(std::initializer_list<char const*> arguments, std::size_t& size) {
    CLI::App app{"about", "program"};
    cli::add_size(app, "--size", size, "a size");
    std::vector<char*> argv{const_cast<char*>("program")};
    for (char const* each : arguments) { argv.push_back(const_cast<char*>(each)); }
    return cli::run(app, static_cast<int>(argv.size()), argv.data(), [] { return 0; });
}

int end_with(auto const& what) {
    CLI::App app{"about", "program"};
    char     name[] = "program";
    char*    argv[] = {name, nullptr};
    return cli::run(app, 1, argv, [&]() -> int { throw what; });
}

} // namespace

TEST_CASE("cli: a size option accepts a size and refuses anything else with the exit code for "
          "wrong usage") {
    std::size_t size = 1;
    CHECK(run({"--size", "2KiB"}, size) == 0);
    CHECK(size == 2048);
    CHECK(run({"--size", "many"}, size) == cli::bad_usage);
    CHECK(run({"--size"}, size) == cli::bad_usage);
    CHECK(run({"--sise", "1"}, size) == cli::bad_usage);
    CHECK(run({"stray"}, size) == cli::bad_usage);
    CHECK(size == 2048);
}

TEST_CASE("cli: each kind of failure has its own exit code") {
    CHECK(end_with(cli::failure{cli::bad_usage, "no stack"}) == cli::bad_usage);
    CHECK(end_with(cli::failure{cli::bad_input, "no file"}) == cli::bad_input);
    CHECK(end_with(cli::failure{cli::wrong_result, "not the CPU's"}) == cli::wrong_result);
    CHECK(end_with(vram::out_of_memory{{.asked = 7}}) == cli::no_memory);
    CHECK(end_with(std::runtime_error{"else"}) == cli::failed);
    CHECK(cli::wrong_result == 5); // scripts of users rely on it
}

TEST_CASE("cli: a stdout that does not accept all output is a failure") {
    int const full = open("/dev/full", O_WRONLY);
    if (full < 0) { return; } // not on this system
    std::fflush(stdout);
    int const  before = dup(STDOUT_FILENO);
    auto const print  = [] {
        std::fputs("a report\n", stdout);
        return 0;
    };
    CLI::App app{"about", "program"};
    char     name[] = "program";
    char     help[] = "--help";
    char*    argv[] = {name, nullptr};
    char*    asks[] = {name, help, nullptr};
    dup2(full, STDOUT_FILENO);
    int const printed = cli::run(app, 1, argv, print);
    std::clearerr(stdout);
    int const helped = cli::run(app, 2, asks, print);
    std::cout.clear();
    std::clearerr(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(full);
    CHECK(printed == cli::failed);
    CHECK(helped == cli::failed);
    CHECK(cli::run(app, 1, argv, [] { return 0; }) == cli::success);
}
