// SPDX-License-Identifier: Apache-2.0
#include <vram/data/file_error.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <type_traits>

using vram::file_error;

namespace file_error_tests {

TEST_CASE("file_error: it has the file, the offset, and the requested and completed bytes") {
    file_error const e{std::make_error_code(std::errc::io_error), "a/b.bin", 4096, 100, 3};
    CHECK(e.path() == "a/b.bin");
    CHECK(e.offset() == 4096);
    CHECK(e.wanted() == 100);
    CHECK(e.got() == 3);
    CHECK(e.code() == std::errc::io_error);
    CHECK_FALSE(e.ends_early());
    CHECK(std::string{e.what()}.find("a/b.bin") != std::string::npos);
    CHECK(std::string{e.what()}.find(e.code().message()) != std::string::npos);
}

TEST_CASE("file_error: every reason has its own text and number") {
    using r       = file_error::reason;
    r const all[] = {r::ends_early, r::not_a_file, r::partial_record};
    for (r a : all) {
        file_error const e{a, "x"};
        CHECK(e.code().category() == file_error::category());
        CHECK(e.code().message() != file_error::category().message(99));
        for (r b : all) {
            CHECK(e.is(b) == (a == b));
            CHECK((e.code().message() == file_error{b, "x"}.code().message()) == (a == b));
        }
    }
    CHECK(file_error{r::ends_early, "x"}.ends_early());
    CHECK_FALSE(file_error{{1, std::generic_category()}, "x"}.ends_early()); // EPERM is 1 as well
    CHECK(std::string{file_error::category().name()} == "file");
}

TEST_CASE("file_error: a copy does not throw") {
    static_assert(std::is_nothrow_copy_constructible_v<file_error>);
    file_error const e{file_error::reason::ends_early, std::string(100, 'p'), 1, 2, 3};
    file_error const copy{e};
    CHECK(&copy.path() == &e.path());
    CHECK(copy.got() == 3);
}

} // namespace file_error_tests

TEST_CASE("file_error: the text has the numbers that are known") {
    using r = file_error::reason;
    CHECK(std::string{file_error{r::ends_early, "a.bin", 600, 300, 100}.what()} ==
          "vram: a.bin: the file ends before the requested bytes: 100 of 300 bytes at offset "
          "600");
    CHECK(std::string{file_error{r::partial_record, "a.bin", 960, 64, 40}.what()} ==
          "vram: a.bin: the file is not a whole number of records: 40 bytes remain at offset 960, "
          "and "
          "a record or an element has 64");
    file_error const missing{std::error_code{ENOENT, std::generic_category()}, "a.bin"};
    file_error const refused{{EINVAL, std::generic_category()}, "a.bin", 100}; // by `resize(100)`
    CHECK(std::string{refused.what()} ==
          "vram: a.bin: " + std::generic_category().message(EINVAL) + ": at offset 100");
    CHECK(std::string{missing.what()} == "vram: a.bin: " + std::generic_category().message(ENOENT));
    file_error const full{std::error_code{ENOSPC, std::generic_category()}, "a.bin", 7, 9, 2};
    file_error const copy = full;
    CHECK(std::string{copy.what()} ==
          "vram: a.bin: " + std::generic_category().message(ENOSPC) + ": 2 of 9 bytes at offset 7");
}
