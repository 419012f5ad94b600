// SPDX-License-Identifier: Apache-2.0
#include <vram/data/file_records.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"
#include "files.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace vram;

template class vram::file_records<file>;

namespace file_records_tests {

using files::content;
using files::same;

TEST_CASE("file_records: each batch has the given number of records, and the last one the rest") {
    files::folder const here;
    auto const          all = content(16 + 103 * 7);
    file_records const  source{file{here.with("a", all)}, 7, 10, {.header = 16}};
    CHECK(source.records() == 103);
    CHECK(source.record_bytes() == 7);
    CHECK(source.size() == 11);
    CHECK(source.batch_bytes() == 70);
    CHECK(source.source().path() == here / "a");
    std::vector<std::byte> to(70);
    for (std::size_t i = 0; i < 11; ++i) {
        std::size_t const n = source.fill(to, i);
        CHECK(n == (i < 10 ? 70 : 21));
        CHECK(source.records(i) == n / 7);
        CHECK(same(std::span{to}.first(n), std::span{all}.subspan(16 + i * 70, n)));
    }
    CHECK(source.fill(to, 11) == 0);
}

TEST_CASE("file_records: a last batch that is not full can be omitted") {
    files::folder const    here;
    auto const             path = here.with("a", content(103 * 7));
    std::vector<std::byte> to(7 * 200);
    file_records const     source{file{path}, 7, 10, {.drop_partial = true}};
    CHECK(source.size() == 10);
    CHECK(source.fill(to, 9) == 70);
    CHECK(source.fill(to, 10) == 0);
    CHECK(file_records{file{path}, 7, 103, {.drop_partial = true}}.size() == 1);
    file_records const none{file{path}, 7, 104, {.drop_partial = true}}; // the only one is not full
    CHECK(none.size() == 0);
    CHECK(none.fill(to, 0) == 0);
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((void)none.records(0), doubles::broken_contract);
    CHECK_THROWS_AS((void)none.batch_bytes(0), doubles::broken_contract);
}

TEST_CASE("file_records: fewer records than a batch are one batch, and zero records none") {
    files::folder const here;
    auto const          path = here.with("a", content(21));
    file_records const  few{file{path}, 7, unsatisfiable}; // no product of the two is formed
    CHECK(few.size() == 1);
    CHECK(few.batch_bytes() == 21);
    file_records const none{file{here.with("b", content(16))}, 7, 10, {.header = 16}};
    CHECK(none.size() == 0);
    CHECK(none.records() == 0);
    CHECK(none.batch_bytes() == 7);
}

TEST_CASE("file_records: a file that is not a multiple of the record is refused, with the offset") {
    files::folder const here;
    auto const          path = here.with("a", content(100));
    try {
        file_records const source{file{path}, 7, 10, {.header = 1}};
        FAIL("99 bytes are 14 records and one byte");
    } catch (file_error const& e) {
        CHECK(e.is(file_error::reason::partial_record));
        CHECK(e.path() == path);
        CHECK(e.offset() == 99);
        CHECK(e.wanted() == 7);
        CHECK(e.got() == 1);
    }
    try {
        file_records const source{file{path}, 7, 10, {.header = 101}};
        FAIL("the file ends within its header");
    } catch (file_error const& e) {
        CHECK(e.ends_early());
        CHECK(e.wanted() == 101);
        CHECK(e.got() == 100);
    }
    CHECK_THROWS_AS((file_records{file{path}, 0, 10}), layout_error);
    CHECK_THROWS_AS((file_records{file{path}, 10, 0}), layout_error);
}

} // namespace file_records_tests
