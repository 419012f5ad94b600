// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/byte_file.hpp> // first: the header stands alone

#include "../recorded.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using vram::file_error;
using vram::detail::byte_file;

namespace {
/// Returns the number of incomplete files of `path`.
int parts_of(std::filesystem::path const& path) {
    int parts = 0;
    for (auto const& each : std::filesystem::directory_iterator{path.parent_path()}) {
        std::string const file = each.path().filename().string();
        parts += file.starts_with(path.filename().string()) && file.ends_with(".part");
    }
    return parts;
}
} // namespace

TEST_CASE("byte_file: the file has its name only when it is complete") {
    recorded_history::file_name const name{"bytes"};
    std::string const                 large(100'000, 'x');
    {
        byte_file out{name.path()};
        out << "a," << 17 << '\n' << -3 << ' ';
        out.hexadecimal(255) << large;
        out.byte(0x80);
        CHECK_FALSE(name.exists());
        out.close();
    }
    CHECK(name.contents() == "a,17\n-3 0xff" + large + "\x80");
    { byte_file{name.path()} << "never closed"; }
    CHECK(name.contents().size() > 100'000);
    CHECK(parts_of(name.path()) == 0);
}

TEST_CASE("byte_file: two writers of one path do not mix their bytes") {
    recorded_history::file_name const name{"shared"};
    byte_file                         first{name.path()};
    first << "first";
    {
        byte_file second{name.path()};
        second << "the second";
        CHECK(parts_of(name.path()) == 2);
        second.close();
        CHECK(name.contents() == "the second");
    }
    { byte_file{name.path()} << "never closed"; }
    first.close();
    CHECK(name.contents() == "first");
    CHECK(parts_of(name.path()) == 0);
}

TEST_CASE("byte_file: a pipe or a device is not replaced by a file") {
    recorded_history::file_name const name{"pipe"};
    REQUIRE(::mkfifo(name.path().c_str(), 0600) == 0);
    int const reader = ::open(name.path().c_str(), O_RDWR); // else the next line would wait for one
    {
        byte_file out{name.path()};
        out << "text";
        out.close();
    }
    CHECK(std::filesystem::is_fifo(name.path()));
    char read[5] = "";
    CHECK(::read(reader, read, 4) == 4);
    CHECK(std::string{read} == "text");
    { byte_file{name.path()} << "never closed"; }
    CHECK(std::filesystem::is_fifo(name.path()));
    CHECK(parts_of(name.path()) == 0);
    ::close(reader);
    byte_file full{"/dev/full"};
    full << "text";
    CHECK_THROWS_AS(full.close(), file_error);
}

TEST_CASE("byte_file: errors have the path") {
    CHECK_THROWS_AS(byte_file{"/no/such/folder/file"}, file_error);
    try {
        byte_file out{"/proc/version"};
        FAIL("a file in /proc");
    } catch (file_error const& e) { CHECK(e.path() == "/proc/version"); }
}
