// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/loader_error.hpp> // first: the header stands alone

#include "../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

using vram::loader_error;

TEST_CASE("loader_error: every reason has its own text") {
    using r       = loader_error::reason;
    r const all[] = {r::too_large,       r::all_held,   r::capturing, r::already_begun,
                     r::wrong_alignment, r::not_ended,  r::timed_out, r::no_size,
                     r::no_index,        r::ended,      r::forked,    r::source_failed,
                     r::ends_early,      r::short_batch};
    for (r a : all) {
        for (r b : all) {
            CHECK((std::strcmp(loader_error{a}.what(), loader_error{b}.what()) == 0) == (a == b));
        }
    }
    loader_error const e{r::too_large, 3, 65, 64};
    CHECK(e.why() == r::too_large);
    CHECK(e.index() == 3);
    CHECK(e.bytes() == 65);
    CHECK(e.limit() == 64);
}

TEST_CASE("loader_error: the text has the batch, the source index and the numbers") {
    using r         = loader_error::reason;
    auto const text = [](loader_error e) { return std::string{e.at(3, 17).what()}; };
    CHECK(text(loader_error{r::too_large, 0, 65, 64}) ==
          "vram: batch 3 (source index 17) has 65 bytes, but a slot has 64; increase "
          "batch_bytes");
    CHECK(text(loader_error{r::ends_early, 0, 0, 20}) ==
          "vram: the source returned 0 bytes for batch 3 (source index 17), although its size() is "
          "20");
    CHECK(text(loader_error{r::short_batch, 0, 5, 64}).find("has 5 bytes instead of 64") !=
          std::string::npos);
    CHECK(text(loader_error::negative(-1, 0)) ==
          "vram: the source failed at batch 3 (source index 17): it returned -1");
    vram::slot_states const states{.empty = 1, .filling = 2, .held = 7, .waiting = 9};
    std::string const       late = loader_error{r::timed_out, 4, 0, 0, states}.what();
    for (char const* part : {"batch 4 ", "1 empty", "2 being filled", "7 held", "9 producers"}) {
        CAPTURE(part);
        CHECK(late.find(part) != std::string::npos);
    }
    CHECK(std::string{loader_error{r::all_held, 4, 2, 2}.what()} ==
          "vram: batch 4 is not available: the program holds all 2 slots on the device; release a "
          "batch, or increase device_depth");
    CHECK(loader_error{r::all_held, 4, 2, 2}.source_index() == loader_error::unknown);
    CHECK(std::string{loader_error{r::wrong_alignment, 4, 66, 64}.what()} ==
          "vram: batch 4 has 66 bytes, which is not a whole number of elements of 64 bytes");
}

TEST_CASE("loader_error: the text and the error have the exception of the source") {
    loader_error e{std::make_exception_ptr(std::runtime_error{"disk is gone"})};
    e.at(3, 17);
    CHECK(std::string{e.what()} ==
          "vram: the source failed at batch 3 (source index 17): disk is gone");
    CHECK_THROWS_WITH_AS(e.rethrow_cause(), "disk is gone", std::runtime_error);
    loader_error const number{std::make_exception_ptr(7)};
    CHECK_THROWS_AS(number.rethrow_cause(), int);
    loader_error const none{loader_error::reason::no_size};
    CHECK_THROWS_AS(none.rethrow_cause(), loader_error);
}

TEST_CASE("loader_error: without host memory the text is a literal") {
    std::string what;
    {
        doubles::bombing   armed{1};
        loader_error const e{loader_error::reason::too_large, 3, 65, 64};
        CHECK(armed.defuse());
        what = e.what();
    }
    CHECK(what == "vram: a batch is larger than the loader's slots");
}
