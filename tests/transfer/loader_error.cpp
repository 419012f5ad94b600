// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/loader_error.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>

using vram::loader_error;

TEST_CASE("loader_error: every reason has words of its own") {
    using r       = loader_error::reason;
    r const all[] = {r::too_large, r::all_held,  r::capturing, r::already_begun, r::wrong_alignment,
                     r::not_ended, r::timed_out, r::no_size,   r::ended,         r::forked};
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
