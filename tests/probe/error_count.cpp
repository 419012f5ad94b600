// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/error_count.hpp> // first: the header stands alone

#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace vram;

TEST_CASE("error_count: errors of the scope are counted, and the sink still receives them") {
    doubles::mishaps const sink;
    report_error({.kind = error_kind::leak});
    {
        error_count const outer;
        CHECK(outer.count() == 0);
        CHECK(std::string{outer.first()}.empty());
        report_error({.kind = error_kind::double_free, .bytes = 64});
        {
            error_count const inner;
            report_error({.kind = error_kind::wrong_size});
            CHECK(inner.count() == 1);
            CHECK(std::string{inner.first()}.find("wrong size") != std::string::npos);
        }
        CHECK(outer.count() == 2);
        CHECK(std::string{outer.first()}.find("double free") != std::string::npos);
        CHECK(std::string{outer.first()}.find("64 bytes") != std::string::npos);
    }
    CHECK(sink.count() == 3);
    report_error({.kind = error_kind::leak});
    CHECK(sink.count() == 4);
}

TEST_CASE("error_count: a sink that the scope installs stays installed") {
    doubles::mishaps const before;
    {
        error_count const errors;
        (void)set_error_sink([](error const&) noexcept {});
        report_error({.kind = error_kind::leak});
        CHECK(errors.count() == 0);
    }
    report_error({.kind = error_kind::leak});
    CHECK(before.count() == 0);
}
