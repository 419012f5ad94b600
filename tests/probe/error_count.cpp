// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/error_count.hpp> // first: the header stands alone

#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace vram;

namespace {

/// A sink that counts errors and passes them on to the sink that it replaced.
template <int Number>
struct passing_sink {
    static inline int        calls  = 0;
    static inline error_sink before = nullptr;
    static inline bool       copies = false; // passes on a copy with another text

    static void receive(error const& e) noexcept {
        if (++calls > 50) { return; } // or the test would not end
        error copy = e;
        copy.cause = "a copy";
        before(copies ? copy : e);
    }
    static void install() { before = set_error_sink(receive); }
};

} // namespace

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

TEST_CASE("error_count: a sink that passes errors on may stay installed after the scope") {
    for (bool const copies : {false, true}) {
        CAPTURE(copies);
        doubles::mishaps const sink;
        using first  = passing_sink<1>;
        using second = passing_sink<2>;
        first::calls = second::calls = 0;
        first::copies = second::copies = copies;
        {
            error_count const errors;
            first::install();
            report_error({.kind = error_kind::leak});
            CHECK(errors.count() == 1);
            CHECK(first::calls == 1);
            CHECK(sink.count() == 1);
        }
        report_error({.kind = error_kind::leak});
        CHECK(first::calls == 2);
        CHECK(sink.count() == 2);
        for (int i = 0; i < 2; ++i) {
            error_count const errors;
            report_error({.kind = error_kind::leak});
            report_error({.kind = error_kind::double_free});
            CHECK(errors.count() == 2);
        }
        CHECK(first::calls == 6);
        CHECK(sink.count() == 6);
        {
            error_count const errors;
            second::install();
        }
        {
            error_count const errors;
            report_error({.kind = error_kind::leak});
            CHECK(errors.count() == 1);
        }
        report_error({.kind = error_kind::leak});
        CHECK(second::calls == 2);
        CHECK(first::calls == 8);
        CHECK(sink.count() == 8);
    }
}

TEST_CASE("error_count: an error that a sink reports itself is counted and reaches the sink") {
    doubles::mishaps sink;
    bool             once = false;
    sink.also             = [&] {
        if (!once) {
            once = true;
            report_error({.kind = error_kind::wrong_size});
        }
    };
    error_count const errors;
    report_error({.kind = error_kind::leak});
    CHECK(errors.count() == 2);
    CHECK(sink.count() == 2);
}

TEST_CASE("error_count: sinks that replace each other in many scopes receive an error once") {
    doubles::mishaps const sink;
    using first  = passing_sink<3>;
    using second = passing_sink<4>;
    for (int i = 0; i < 20; ++i) {
        error_count const errors;
        (i % 2 == 0 ? first::install : second::install)();
    }
    error_count const errors;
    report_error({.kind = error_kind::leak});
    CHECK(errors.count() == 1);
    CHECK(first::calls == 1);
    CHECK(second::calls == 1);
    CHECK(sink.count() == 1);
}
