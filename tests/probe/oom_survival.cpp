// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/oom_survival.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <sstream>
#include <string>

using namespace vram;

namespace oom_survival_test {

bool has(oom_survival const& result, char const* words) {
    return result.text().find(words) != std::string::npos;
}

TEST_CASE("oom_survival: without a mistake it is true and names the numbers") {
    oom_survival const good{.requests = 3, .runs = 14};
    CHECK(good);
    CHECK(has(good, "3 requests"));
    CHECK(has(good, "14 runs"));
    oom_survival const one{.refused = 2, .requests = 3, .runs = 7, .only = 2};
    CHECK(one);
    CHECK(one.text() == "Request 2 of 3 was refused; all 7 runs are correct.");
    oom_survival const absent{.requests = 3, .runs = 3, .only = 4};
    CHECK(absent);
    CHECK(absent.text() == "No request was refused: a run has 3, and survives_oom_options::only "
                           "is 4.");
}

TEST_CASE("oom_survival: the text names the refused request, the mistake and the lines") {
    call_site const    here = call_site::current();
    std::string const  line = here.known() ? "oom_survival.cpp:" : "";
    oom_survival const leak{.fault        = oom_fault::leak,
                            .refused      = 2,
                            .bytes        = 1024,
                            .at           = here,
                            .leaked       = 4096,
                            .block_bytes  = 2048,
                            .allocated_at = here,
                            .requests     = 5};
    CHECK_FALSE(leak);
    CHECK(has(leak, "Request 2 of 5 (1.00 KiB"));
    CHECK(has(leak, "4.00 KiB leaked"));
    CHECK(has(leak, "block of 2.00 KiB"));
    CHECK(has(leak, line.c_str()));
    CHECK_FALSE(has(leak, "later"));

    oom_survival const loop{.fault = oom_fault::endless_retry, .refused = 1, .for_good = true};
    CHECK(has(loop, "and all later ones were refused"));
    CHECK(has(loop, "without an end"));

    oom_survival const thrown{
        .fault = oom_fault::damaged, .refused = 1, .afterwards = true, .cause = "bad day"};
    CHECK(has(thrown, "in the next run"));
    CHECK(has(thrown, "bad day"));

    oom_survival const size{
        .fault = oom_fault::wrong_size, .refused = 1, .block_bytes = 64, .wrong_bytes = 32};
    CHECK(has(size, "block of 64 B"));
    CHECK(has(size, "freed with 32 B"));
    tagged const       scope{"solver"};
    oom_survival const named{.fault       = oom_fault::double_free,
                             .refused     = 1,
                             .owner       = current_tag(),
                             .block_owner = current_tag(),
                             .freed_at    = here};
    CHECK(has(named, "Request 1 (0 B of tag \"solver\")"));
    CHECK(has(named, "block of 0 B of tag \"solver\""));
    CHECK(has(named, "freed again"));
    CHECK_FALSE(has(named, "/")); // lines without folders
    CHECK(has({.fault = oom_fault::unsteady}, "Without a refusal, two runs"));
    CHECK(has({.fault = oom_fault::unsteady, .cause = "odd"}, "throws: odd"));
    CHECK(has({.fault = oom_fault::swallowed, .refused = 1}, "no exception"));
    CHECK(has({.fault = oom_fault::error_reported, .refused = 1, .cause = "a leak"}, "a leak"));
    CHECK(has({.fault = oom_fault::too_many_requests}, "most_requests"));
}

TEST_CASE("oom_survival: it prints its text") {
    std::ostringstream out;
    out << oom_survival{.requests = 1, .runs = 6};
    CHECK(out.str() == oom_survival{.requests = 1, .runs = 6}.text());
}

} // namespace oom_survival_test
