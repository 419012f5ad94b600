// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/cufile_calls.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using vram::detail::cufile_calls;

TEST_CASE("cufile_calls: a missing or different library has no calls") {
    CHECK((cufile_calls::look_up("libno-such-library.so.0").read == nullptr));
    CHECK((cufile_calls::look_up("libc.so.6").read == nullptr));
    cufile_calls const* const here = cufile_calls::here(); // the library may start threads
    CHECK(here == cufile_calls::here());
    CHECK((here == nullptr || (here->add != nullptr && here->write != nullptr)));
}
