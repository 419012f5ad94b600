// SPDX-License-Identifier: Apache-2.0
#include "../../examples/output_file.hpp" // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

/// A folder that is removed at the end of the test.
struct scratch_folder {
    scratch_folder() { std::filesystem::create_directories(path); }
    scratch_folder(scratch_folder&&) = delete;
    ~scratch_folder() { std::filesystem::remove_all(path); }

    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("vram-output-" + std::to_string(getpid()));
};

std::string content_of(std::string const& path) {
    std::ifstream in{path};
    return {std::istreambuf_iterator<char>{in}, {}};
}
/// Redirects a standard stream of the process to a file for a scope.
class redirected {
public:
    explicit redirected(std::string const& path, int stream = STDOUT_FILENO)
        : stream_{stream}, before_{dup(stream)} {
        std::fflush(nullptr);
        int const file = open(path.c_str(), O_WRONLY | O_APPEND);
        REQUIRE(file >= 0);
        dup2(file, stream_);
        close(file);
    }
    redirected(redirected&&) = delete;
    ~redirected() {
        std::fflush(nullptr);
        dup2(before_, stream_);
        close(before_);
    }

private:
    int stream_;
    int before_;
};

cli::exit_code refusal(std::string const& path, std::vector<std::string> const& inputs = {}) {
    try {
        cli::output_file const file{path, inputs};
    } catch (cli::failure const& e) { return e.code(); }
    return cli::success;
}

} // namespace

TEST_CASE("output_file: the old file stays until the new one is complete") {
    scratch_folder const here;
    std::string const    path = here.path / "out";
    std::ofstream{path} << "before, and longer";
    { cli::output_file const given_up{path}; }
    CHECK(content_of(path) == "before, and longer");
    cli::output_file file{path};
    CHECK(static_cast<bool>(file));
    file.write("after");
    CHECK(content_of(path) == "after");
}

TEST_CASE("output_file: a file is replaced as a whole, and a link is followed") {
    scratch_folder const here;
    std::string const    path = here.path / "out";
    std::string const    link = here.path / "link";
    std::ofstream{path} << "before";
    std::filesystem::create_symlink(path, link);
    cli::output_file file{path};
    CHECK(file.can_be_replaced());
    file.write("once");
    file.write("again");
    CHECK(content_of(path) == "again");
    cli::output_file linked{link};
    CHECK_FALSE(linked.can_be_replaced());
    linked.write("through the link");
    CHECK(content_of(path) == "through the link");
    CHECK(std::filesystem::is_symlink(link));
    for (auto const& entry : std::filesystem::directory_iterator{here.path}) {
        CHECK((entry.path() == path || entry.path() == link)); // and nothing half written
    }
}

TEST_CASE("output_file: an existing file at the temporary path is not changed") {
    scratch_folder const here;
    std::string const    path = here.path / "out";
    std::ofstream{path + ".part"} << "of another program";
    cli::output_file{path}.write("result");
    CHECK(content_of(path) == "result");
    CHECK(content_of(path + ".part") == "of another program");
}

TEST_CASE("output_file: if there was no file, only a complete result is left") {
    scratch_folder const here;
    std::string const    path = here.path / "out";
    { cli::output_file const given_up{path}; }
    CHECK_FALSE(std::filesystem::exists(path));
    { cli::output_file{path}.write("result"); }
    CHECK(content_of(path) == "result");
}

TEST_CASE("output_file: an output that is an input is refused, also through links") {
    scratch_folder const here;
    std::string const    path = here.path / "in";
    std::string const    soft = here.path / "soft";
    std::string const    hard = here.path / "hard";
    std::ofstream{path} << "recorded";
    std::filesystem::create_symlink(path, soft);
    std::filesystem::create_hard_link(path, hard);
    for (std::string const& output : {path, soft, hard}) {
        for (std::string const& input : {path, soft, hard}) {
            CAPTURE(output);
            CAPTURE(input);
            CHECK(refusal(output, {"/no/such/file", input}) == cli::bad_usage);
        }
        CHECK(content_of(path) == "recorded");
    }
    CHECK(refusal(here.path / "other", {path}) == cli::success);
    CHECK(refusal("/dev/null", {"/dev/null"}) == cli::success); // nothing is lost there
}

TEST_CASE("output_file: an output that is the file of stdout is refused") {
    scratch_folder const here;
    std::string const    path = here.path / "printed";
    std::ofstream{path} << "printed";
    redirected const to{path};
    CHECK(refusal(path) == cli::bad_usage);
    CHECK(refusal(here.path / "other") == cli::success);
}

TEST_CASE("output_file: with '-' only the result goes to stdout") {
    scratch_folder const here;
    std::string const    out = here.path / "out";
    std::string const    err = here.path / "err";
    std::ofstream{out};
    std::ofstream{err};
    {
        redirected const first{out, STDOUT_FILENO};
        redirected const second{err, STDERR_FILENO};
        std::fputs("before\n", stdout);
        {
            cli::output_file file{"-"};
            CHECK(static_cast<bool>(file));
            CHECK_FALSE(file.can_be_replaced());
            std::fputs("for people\n", stdout);
            file.write("[1]\n");
        }
        std::fputs("after\n", stdout);
    }
    CHECK(content_of(out) == "before\n[1]\nafter\n");
    CHECK(content_of(err) == "for people\n");
    CHECK_FALSE(std::filesystem::exists("-"));
}

TEST_CASE("output_file: a path that cannot be written is refused before the work") {
    scratch_folder const here;
    CHECK(refusal(here.path / "no" / "folder") == cli::bad_input);
    CHECK(refusal(here.path) == cli::bad_input);
    CHECK(refusal("") == cli::success); // no file is requested
    CHECK_FALSE(static_cast<bool>(cli::output_file{""}));
}
