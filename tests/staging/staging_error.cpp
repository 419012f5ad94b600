// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/staging_error.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

using namespace vram;

TEST_CASE("staging_error: every reason has its own text") {
    using r       = staging_error::reason;
    r const all[] = {r::failed, r::capturing, r::other_device, r::not_device_memory,
                     r::not_host_memory};
    for (r a : all) {
        for (r b : all) {
            CHECK((std::strcmp(staging_error{a}.what(), staging_error{b}.what()) == 0) == (a == b));
        }
    }
}

TEST_CASE("staging_error: it has the completed bytes and the exception that ended the copy") {
    auto const          cause = std::make_exception_ptr(std::runtime_error{"broken"});
    staging_error const e{cause, transfer_path::ring, 3, 10};
    CHECK(e.why() == staging_error::reason::failed);
    CHECK(e.whole() == 3);
    CHECK(e.bytes() == 10);
    CHECK(e.path() == transfer_path::ring);
    CHECK(e.cause() == cause);
    CHECK_THROWS_AS(e.rethrow_cause(), std::runtime_error);
}

TEST_CASE("staging_error: without a cause it is itself the cause") {
    int const           at = 0;
    staging_error const e{staging_error::reason::not_device_memory, 10, &at};
    CHECK(e.pointer() == &at);
    CHECK(e.bytes() == 10);
    CHECK(e.whole() == 0);
    CHECK(e.cause() == nullptr);
    CHECK_THROWS_AS(e.rethrow_cause(), staging_error);
}

TEST_CASE("staging_error: the text has the numbers, the path and the cause") {
    auto const cause = std::make_exception_ptr(std::runtime_error{"the disk is gone"});
    CHECK(std::string{staging_error{cause, transfer_path::ring, 4096, 65536}.what()} ==
          "vram: a staging copy failed (ring): 4096 of 65536 bytes from the beginning are "
          "copied: the disk is gone");
    using r = staging_error::reason;
    std::string const device =
        staging_error{r::not_device_memory, 64, reinterpret_cast<void*>(0x7f00)}.what();
    CHECK(device.find("(64 bytes at 0x7f00)") != std::string::npos);
    CHECK(std::string{staging_error{r::capturing, 64}.what()}.find("(64 bytes)") !=
          std::string::npos);
}
