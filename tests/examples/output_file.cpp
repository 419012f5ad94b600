// SPDX-License-Identifier: Apache-2.0
#include "../../examples/output_file.hpp" // first: the header must stand alone

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

namespace {

/// A folder that ends with the test.
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
cli::exit_code refusal(std::string const& path) {
    try {
        cli::output_file const file{path};
    } catch (cli::failure const& e) { return e.code(); }
    return cli::success;
}

} // namespace

TEST_CASE("output_file: what was there stays until there is something better") {
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

TEST_CASE("output_file: a file is replaced as a whole, and what is behind a link is written to") {
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

TEST_CASE("output_file: what lies where a file is written first stays as it is") {
    scratch_folder const here;
    std::string const    path = here.path / "out";
    std::ofstream{path + ".part"} << "of somebody else";
    cli::output_file{path}.write("result");
    CHECK(content_of(path) == "result");
    CHECK(content_of(path + ".part") == "of somebody else");
}

TEST_CASE("output_file: where nothing was, only a result is left") {
    scratch_folder const here;
    std::string const    path = here.path / "out";
    { cli::output_file const given_up{path}; }
    CHECK_FALSE(std::filesystem::exists(path));
    { cli::output_file{path}.write("result"); }
    CHECK(content_of(path) == "result");
}

TEST_CASE("output_file: a place that cannot be written to is refused before the work") {
    scratch_folder const here;
    CHECK(refusal(here.path / "no" / "folder") == cli::bad_input);
    CHECK(refusal(here.path) == cli::bad_input);
    CHECK(refusal("") == cli::success); // nobody wants a file
    CHECK_FALSE(static_cast<bool>(cli::output_file{""}));
}
