// SPDX-License-Identifier: Apache-2.0
#include <vram/history/perfetto_trace.hpp> // first: the header stands alone

#include "recorded.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

using namespace vram;

// tests/examples/record_history.py parses a trace with the classes that Perfetto generates.

namespace {
/// The fields of a message: numbers, and the bytes of texts and messages.
struct fields_of_message {
    std::map<unsigned, std::uint64_t>    numbers;
    std::map<unsigned, std::string_view> texts;
};
std::uint64_t varint(std::string_view& from) {
    std::uint64_t n = 0;
    for (unsigned shift = 0;; shift += 7) {
        REQUIRE(!from.empty());
        auto const byte = static_cast<unsigned char>(from[0]);
        from.remove_prefix(1);
        n |= std::uint64_t{byte & 0x7FU} << shift;
        if (byte < 0x80) { return n; }
    }
}
fields_of_message parsed(std::string_view from) {
    fields_of_message made;
    while (!from.empty()) {
        std::uint64_t const key = varint(from);
        if ((key & 7) == 0) {
            made.numbers[static_cast<unsigned>(key >> 3)] = varint(from);
            continue;
        }
        REQUIRE((key & 7) == 2);
        std::uint64_t const size = varint(from);
        REQUIRE(size <= from.size());
        made.texts[static_cast<unsigned>(key >> 3)] = from.substr(0, size);
        from.remove_prefix(size);
    }
    return made;
}
} // namespace

TEST_CASE("perfetto_trace: counters in bytes, with the tag, and events") {
    history_record const record = recorded_history::sample();
    std::string const    text   = recorded_history::written(record, perfetto_trace);
    std::string_view     rest   = text;
    std::map<std::uint64_t, std::string_view>              names;
    std::map<std::string_view, std::vector<std::uint64_t>> counters;
    std::vector<std::string_view>                          instants;
    std::uint64_t                                          time = 0;
    while (!rest.empty()) {
        REQUIRE(varint(rest) == (1 << 3 | 2));
        std::uint64_t const     size   = varint(rest);
        fields_of_message const packet = parsed(rest.substr(0, size));
        rest.remove_prefix(size);
        CHECK(packet.numbers.at(10) == 1);
        if (packet.texts.contains(60)) {
            auto const track           = parsed(packet.texts.at(60));
            names[track.numbers.at(1)] = track.texts.at(2);
            if (track.texts.contains(8)) { CHECK(parsed(track.texts.at(8)).numbers.at(3) == 3); }
            continue;
        }
        CHECK(packet.numbers.at(8) >= time);
        time             = packet.numbers.at(8);
        auto const event = parsed(packet.texts.at(11));
        auto const name  = names.at(event.numbers.at(11));
        if (event.numbers.at(9) == 4) {
            counters[name].push_back(event.numbers.at(30));
        } else {
            instants.push_back(event.texts.at(23));
        }
    }
    CHECK(names.at(1) == "vram device 1");
    CHECK(counters.at("live").back() == 5000);
    CHECK(counters.at("tag sample").back() == 0);
    CHECK(counters.at("reserved").back() == record.chunks.at(0).bytes * record.chunks.size());
    CHECK(instants.at(instants.size() - 2) == "the end, \"quoted\"");
    CHECK(instants.back() == "refused");
}

TEST_CASE("perfetto_trace: the name of the track states how many events were overwritten") {
    history_record record;
    record.overwritten = 17;
    CHECK(recorded_history::written(record, perfetto_trace)
              .find("17 older events were overwritten") != std::string::npos);
}
