// SPDX-License-Identifier: Apache-2.0
#include <vram/data/core/file_calls.hpp> // first: the header stands alone

#include "../files.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using vram::detail::file_calls;

namespace file_calls_tests {

TEST_CASE("file_calls: a file, a folder, a pipe and a missing path are distinguished") {
    files::folder const here;
    int const           fd = file_calls::open((here / "new").c_str(), O_RDWR | O_CREAT);
    REQUIRE(fd >= 0);
    CHECK(file_calls::is_file(fd) == 1);
    CHECK((::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CHECK(file_calls::write(fd, "abc", 3, 5) == 3);
    CHECK(file_calls::size(fd) == 8);
    char read[3] = {};
    CHECK(file_calls::read(fd, read, 3, 5) == 3);
    CHECK(std::string_view{read, 3} == "abc");
    CHECK(file_calls::resize(fd, 2) == 0);
    CHECK(file_calls::size(fd) == 2);
    CHECK(file_calls::flush(fd) == 0);
    CHECK(file_calls::close(fd) == 0);

    int const folder = file_calls::open((here / ".").c_str(), O_RDONLY);
    REQUIRE(folder >= 0);
    errno = 0;
    CHECK(file_calls::is_file(folder) == -1);
    CHECK(errno == EISDIR);
    CHECK(file_calls::close(folder) == 0);

    REQUIRE(::mkfifo((here / "pipe").c_str(), 0600) == 0);
    int const pipe = file_calls::open((here / "pipe").c_str(), O_RDONLY); // and it does not wait
    REQUIRE(pipe >= 0);
    CHECK(file_calls::is_file(pipe) == 0);
    CHECK(file_calls::close(pipe) == 0);

    errno = 0;
    CHECK(file_calls::open((here / "missing").c_str(), O_RDONLY) == -1);
    CHECK(errno == ENOENT);
    CHECK(file_calls::is_file(-1) == -1);
    CHECK(errno == EBADF);
    CHECK(file_calls::size(-1) == -1);
}

} // namespace file_calls_tests
