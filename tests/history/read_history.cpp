// SPDX-License-Identifier: Apache-2.0
#include <vram/history/read_history.hpp> // first: the header stands alone

#include "recorded.hpp"

#include <vram/history/history_columns.hpp>
#include <vram/history/rmm_csv.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <random>
#include <string>

using namespace vram;

namespace {
history_record decoded(std::string const& bytes) {
    return detail::column_decoder{bytes, "test"}.result();
}
} // namespace

TEST_CASE("read_history: the record is that which was written") {
    recorded_history::file_name const file{"read"};
    for (history_record record :
         {recorded_history::sample(), recorded_history::sample(2000, 64), history_record{}}) {
        record.stacks.push_back({0x401000, 0x7FFF'FFFF'FFFF'FFFF});
        record.overwritten += 5;
        if (!record.events.empty()) { record.events[0].stack = 1; }
        detail::byte_file out{file.path()};
        history_columns(record, out);
        out.close();
        CHECK(read_history(file.path()) == record);
    }
}

TEST_CASE("read_history: extreme numbers") {
    history_record record;
    record.resources.push_back({"", ~std::uint64_t{0}});
    record.chunks.push_back({~std::uint64_t{0}, ~std::uint64_t{0}, 1});
    for (std::uint64_t const n :
         {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63}) {
        record.events.push_back({.kind   = memory_event_kind::marked,
                                 .thread = 0xFFFF,
                                 .time   = static_cast<std::int64_t>(n),
                                 .memory = n,
                                 .bytes  = n,
                                 .stream = n});
    }
    record.events.push_back(record.events[1]); // the bytes of the last event at the address
    record.events.push_back(record.events[1]);
    --record.events.back().bytes;
    std::string const file = recorded_history::written(record, history_columns);
    CHECK(file.starts_with("VRAMHIS2"));
    CHECK(decoded(file) == record);
}

TEST_CASE("read_history: a file that ends early or is damaged is an error, and never a crash") {
    std::string const whole =
        recorded_history::written(recorded_history::sample(120), history_columns);
    for (std::size_t n = 0; n != whole.size(); ++n) {
        CHECK_THROWS_AS((void)decoded(whole.substr(0, n)), file_error);
    }
    CHECK_THROWS_AS((void)decoded(whole + "x"), file_error);
    CHECK_THROWS_AS((void)read_history("/no/such/file"), file_error);

    std::minstd_rand random{1};
    std::size_t      read = 0;
    auto const       end  = std::chrono::steady_clock::now() + std::chrono::milliseconds{500};
    for (int i = 0; i != 20'000 && std::chrono::steady_clock::now() < end; ++i) {
        std::string damaged = whole;
        for (unsigned n = 1 + random() % 4; n != 0; --n) {
            std::size_t const at = random() % (random() % 2 == 0 ? whole.size() : 120);
            damaged[at]          = static_cast<char>(random() % 256);
        }
        try {
            history_record const record = decoded(damaged);
            ++read;
            for (history_record::event const& e : record.events) {
                if (e.tag >= record.tags.size() || e.resource >= record.resources.size() ||
                    e.site >= record.sites.size() || e.stack >= record.stacks.size()) {
                    FAIL("an index beyond its table");
                }
            }
        } catch (file_error const&) {}
    }
    CHECK(read > 0);
}

TEST_CASE("write_record: a record that was read is written in another format") {
    recorded_history::file_name const columns{"record.vram"}, first{"first.csv"}, second{"two.csv"};
    history                           log;
    log.observe(memory_event<sim_stream_view>{.kind = memory_event_kind::marked, .name = "step"});
    log.write(columns.path(), history_columns);
    log.write(first.path(), rmm_csv);
    write_record(read_history(columns.path()), second.path(), rmm_csv);
    CHECK(second.contents() == first.contents());
    CHECK_THROWS_AS(write_record({}, "/no such folder/x", rmm_csv), file_error);
}
