// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/pickle_writer.hpp> // first: the header stands alone

#include "../recorded.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using vram::detail::byte_file;
using vram::detail::pickle_writer;

namespace {
template <class Write>
std::string pickled(Write const& write) {
    recorded_history::file_name const name{"pickle"};
    byte_file                         out{name.path()};
    pickle_writer                     to{out};
    write(to);
    to.finish();
    out.close();
    return name.contents();
}
std::string number(std::uint64_t n) {
    std::string const all = pickled([&](pickle_writer& to) { to.number(n); });
    return all.substr(2, all.size() - 3);
}
} // namespace

TEST_CASE("pickle_writer: a number takes the shortest form") {
    using std::string;
    CHECK(number(7) == "K\x07");
    CHECK(number(0x1234) == "M\x34\x12");
    CHECK(number(0x7FFF'FFFF) == "J\xFF\xFF\xFF\x7F");
    CHECK(number(0x8000'0000) == string{"\x8a\x05\x00\x00\x00\x80\x00", 7}); // positive
    CHECK(number(0x7F'0000'0000) == string{"\x8a\x05\x00\x00\x00\x00\x7F", 7});
    CHECK(number(0x7FFF'FFFF'FFFF'FFFF) == "\x8a\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F");
    CHECK(number(~std::uint64_t{0}) == string{"\x8a\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00", 11});
}

TEST_CASE("pickle_writer: strings and shared values are stored once") {
    std::string const all = pickled([](pickle_writer& to) {
        to.list([&] {
            for (int i = 0; i != 2; ++i) {
                to.item([&] { to.string("size"); });
                to.item([&] { to.shared(9, [&] { to.list([] {}); }); });
            }
            to.item([&] { to.truth(true); });
        });
    });
    CHECK(all == std::string{"\x80\x02](X\x04\x00\x00\x00sizeq\x00]q\x01h\x00h\x01\x88"
                             "e.",
                             25});
}

TEST_CASE("pickle_writer: a long list is written in pieces") {
    std::string const all = pickled([](pickle_writer& to) {
        to.list([&] {
            for (int i = 0; i != 2500; ++i) {
                to.item([&] { to.number(1); });
            }
        });
    });
    CHECK(std::count(all.begin(), all.end(), '(') == 3);
    CHECK(std::count(all.begin(), all.end(), 'e') == 3);
}
