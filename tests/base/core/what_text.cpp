// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/what_text.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/staging/staging.hpp>
#include <vram/staging/staging_error.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/loader_error.hpp>
#include <vram/transfer/unloader.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {

/// Returns the error that `act` throws.
template <class Error, class Act>
Error error_of(Act act) {
    try {
        act();
    } catch (Error const& e) { return e; }
    FAIL("it throws");
    return Error{typename Error::reason{}};
}

/// Checks that the error and its text name the line `line` of this file.
template <class Error>
void names(Error const& e, unsigned line) {
    CAPTURE(std::string{e.what()});
    REQUIRE(e.caller().known());
    CHECK(e.caller().line() == line);
    CHECK(std::string{e.caller().file()}.ends_with("what_text.cpp"));
    std::string const begin =
        std::string{e.caller().file()} + ":" + std::to_string(line) + ": vram: ";
    CHECK(std::string{e.what()}.starts_with(begin));
}

} // namespace

TEST_CASE("what_text: it is the text that was built, or a literal if building it throws") {
    what_text const built{"literal", [] { return std::string{"text with 7"}; }};
    what_text const copy = built;
    CHECK(std::string{copy.c_str()} == "text with 7");
    CHECK(copy.c_str() == built.c_str());
    what_text const none{"literal", []() -> std::string { throw std::bad_alloc{}; }};
    CHECK(std::string{none.c_str()} == "literal");
    CHECK(std::string{what_text{"literal"}.c_str()} == "literal");
}

TEST_CASE("what_text: every exception has a text") {
    CHECK(what_of(std::make_exception_ptr(std::runtime_error{"news"})) == "news");
    CHECK(what_of(std::make_exception_ptr(7)) == "an exception that is not a std::exception");
    CHECK(what_of(nullptr).empty());
}

TEST_CASE("loader: an error names the line of the call, or of the loop") {
    sim_node   node;
    sim_stream stream;
    auto const fill = [](std::span<std::byte> to, std::size_t) { return to.size(); };
    auto const bad  = [](std::span<std::byte>, std::size_t) -> long long { return -1; };
    using error     = loader_error;

    unsigned at = __LINE__ + 1;
    names(error_of<error>([&] { loader l{fill, stream, {.batch_bytes = 64, .shuffle = true}}; }),
          at);

    loader failing{bad, stream, {.batch_bytes = 64}};
    auto   loop = [&] {
        at = __LINE__ + 1;
        for (auto& b : failing) { CHECK(b.empty()); }
    };
    error const in_loop = error_of<error>(loop);
    names(in_loop, at);
    at = __LINE__ + 1;
    names(error_of<error>([&] { (void)failing.begin(); }), at);

    loader endless{fill, stream, {.batch_bytes = 66}};
    at = __LINE__ + 1;
    names(error_of<error>([&] { (void)(*endless.begin()).span<double>(); }), at);
    at = __LINE__ + 1;
    names(error_of<error>([&] { endless.restart(); }), at);
}

TEST_CASE("unloader: an error names the line of the call") {
    sim_node     node;
    sim_stream   stream;
    unloader     out{[](std::span<std::byte const>, std::size_t) {}, stream, {.batch_bytes = 64}};
    sim_resource memory;
    auto const   p = static_cast<std::byte*>(memory.allocate_sync(128));
    using error    = loader_error;

    unsigned at = __LINE__ + 1;
    names(error_of<error>([&] { out.push({p, 128}); }), at);
    auto result = out.next();
    at          = __LINE__ + 1;
    names(error_of<error>([&] { result.send(65); }), at);
    sim_graph::begin(stream);
    at = __LINE__ + 1;
    names(error_of<error>([&] { (void)out.next(); }), at);
    (void)sim_graph::end(stream);
    memory.deallocate_sync(p, 128);
}

TEST_CASE("staging: an error names the line of the call") {
    sim_node          node;
    sim_stream        stream;
    staging           stage{stream};
    std::vector<char> host(64);
    using error = staging_error;

    unsigned at = __LINE__ + 1;
    names(error_of<error>([&] { stage.upload(stream, nullptr, host); }), at);
    at = __LINE__ + 1;
    names(error_of<error>([&] { stage.download(stream, host, nullptr); }), at);
    call_site const wrapper = call_site::current(); // a function that forwards its caller's line
    names(error_of<error>([&] { stage.upload(stream, nullptr, host, wrapper); }), wrapper.line());
}

TEST_CASE("errors: without a line of the caller, the text is as before") {
    loader_error e{loader_error::reason::capturing, 3};
    CHECK_FALSE(e.caller().known());
    CHECK(std::string{e.what()}.starts_with("vram: batch 3 "));
    CHECK(
        std::string{staging_error{staging_error::reason::capturing}.what()}.starts_with("vram: "));
}
