// SPDX-License-Identifier: Apache-2.0
#include "../../examples/trace.hpp" // first: the header must stand alone

#include "../fuzz/damaged.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <unistd.h>

namespace {

std::string const header = "Thread,Time,Action,Pointer,Size,Stream\n";

/// A file that is removed at the end of the test.
class scratch_file {
public:
    explicit scratch_file(std::string const& content) {
        char const* const folder = std::getenv("TMPDIR");
        path_          = std::string{folder != nullptr ? folder : "/tmp"} + "/vram-XXXXXX";
        int const file = mkstemp(path_.data());
        REQUIRE(file >= 0);
        REQUIRE(write(file, content.data(), content.size()) ==
                static_cast<ssize_t>(content.size()));
        close(file);
    }
    scratch_file(scratch_file&&) = delete;
    ~scratch_file() { std::remove(path_.c_str()); }

    [[nodiscard]] std::string const& path() const { return path_; }

private:
    std::string path_;
};

trace read(std::string const& content) { return read_trace(scratch_file{content}.path()); }

/// Returns the message for a malformed trace, without the file's name.
std::string complaint(std::string const& content) {
    scratch_file const file{content};
    try {
        (void)read_trace(file.path());
    } catch (cli::failure const& e) {
        CHECK(e.code() == cli::bad_input);
        std::string const what = e.what();
        REQUIRE(what.starts_with(file.path()));
        return what.substr(file.path().size());
    }
    return "nothing";
}

std::string compressed(std::string const& content) {
    scratch_file const file{""};
    gzFile const       out = gzopen(file.path().c_str(), "wb");
    REQUIRE(gzwrite(out, content.data(), static_cast<unsigned>(content.size())) ==
            static_cast<int>(content.size()));
    REQUIRE(gzclose(out) == Z_OK);
    std::ifstream in{file.path(), std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
}

} // namespace

TEST_CASE("trace: pointers become slots that are reused, and streams become small numbers") {
    trace const t = read(header + "1,00:00:00:000000,allocate,0x10,100,7\n"
                                  "1,00:00:00:000001,allocate,0x20,50,0x9\n"
                                  "1,00:00:00:000002,free,0x10,100,7\n"
                                  "2,00:00:00:000003,allocate,0x30,10,7\n"
                                  "2,00:00:00:000004,allocate,64,1,7\n");
    REQUIRE(t.steps.size() == 5);
    CHECK(t.slots == 3);
    CHECK(t.streams == 2);
    CHECK(t.peak_live == 150);
    CHECK(t.steps[0].slot == 0);
    CHECK(t.steps[1].slot == 1);
    CHECK(t.steps[1].stream == 1);
    CHECK(t.steps[2].action == trace_step::kind::free);
    CHECK(t.steps[2].slot == 0);
    CHECK(t.steps[3].slot == 0); // free again
    CHECK(t.steps[3].stream == 0);
    CHECK(t.steps[4].slot == 2);
    CHECK(t.steps[4].line == 6);
}

TEST_CASE("trace: a pointer may be allocated again after its free") {
    trace const t = read(header + "1,t,allocate,0x10,1,0\n1,t,free,0x10,1,0\n"
                                  "1,t,allocate,0x10,2,0\n1,t,free,0x10,2,0\n");
    CHECK(t.steps.size() == 4);
    CHECK(t.slots == 1);
}

TEST_CASE(
    "trace: gzip, carriage returns, a byte order mark and an unterminated last line are accepted") {
    std::string const plain = header + "1,t,allocate,0x10,1,0\n1,t,free,0x10,1,0";
    CHECK(read(plain).steps.size() == 2);
    CHECK(read(compressed(plain)).steps.size() == 2);
    CHECK(read("\xEF\xBB\xBF" + plain).steps.size() == 2);
    CHECK(read(plain + "\n\n\n").steps.size() == 2); // blank lines at the end
    std::string dos;
    for (char const c : plain) { dos += c == '\n' ? std::string{"\r\n"} : std::string(1, c); }
    CHECK(read(dos).steps.size() == 2);
}

TEST_CASE("trace: recorded failures are counted and not replayed, and zero bytes are ignored") {
    trace const t = read(header + "1,t,allocate failure,0x0,900,0\n"
                                  "1,t,allocate failure,(nil),900,0\n"
                                  "1,t,allocate,0x0,0,0\n1,t,free,0x0,0,0\n"
                                  "1,t,allocate,(nil),0,0\n1,t,free,(nil),0,0\n"
                                  "1,t,allocate,0x1,5,0\n");
    CHECK(t.failures == 2);
    CHECK(t.steps.size() == 1);
}

TEST_CASE("trace: further columns are ignored, and empty lines at the end of a log") {
    std::string const more = "Thread,Time,Action,Pointer,Size,Stream,Tag,File,Line\n";
    CHECK(read(more + "1,t,allocate,0x10,100,0,\"a, b\",main.cpp,7\n1,t,free,0x10,100,0,,,\n"
                      "\n\n\n")
              .steps.size() == 2);
    CHECK(complaint(more + "1,t,free,0x10,100\n") == ":2: 5 fields where 6 belong");
}

TEST_CASE("trace: every kind of malformed line is reported with its number") {
    std::string const good = header + "1,t,allocate,0x10,100,0\n";
    CHECK(complaint("1,t,allocate,0x10,100,0\n") ==
          ":1: the first line is not Thread,Time,Action,Pointer,Size,Stream");
    CHECK(complaint("\n" + good) ==
          ":1: the first line is not Thread,Time,Action,Pointer,Size,Stream");
    CHECK(complaint(good + "1,t,free,0x10,100\n") == ":3: 5 fields where 6 belong");
    CHECK(complaint(good + "garbage\n") == ":3: 1 fields where 6 belong");
    CHECK(complaint(good + "1,t,free,0x10,100,0,0\n") == ":3: more than 6 fields");
    CHECK(complaint(good + "x,t,free,0x10,100,0\n") == ":3: the thread 'x' is no number");
    CHECK(complaint(good + ",t,free,0x10,100,0\n") == ":3: the thread '' is no number");
    CHECK(complaint(good + "1,,free,0x10,100,0\n") == ":3: no time");
    CHECK(complaint(good + "1,t,realloc,0x10,100,0\n") ==
          ":3: the action 'realloc' is none of allocate, free, allocate failure");
    CHECK(complaint(good + "1,t,free,0xZZ,100,0\n") == ":3: the pointer '0xZZ' is no number");
    CHECK(complaint(good + "1,t,free,0x10,-1,0\n") == ":3: the size '-1' is no number");
    CHECK(complaint(good + "1,t,free,0x10,100 ,0\n") == ":3: the size '100 ' is no number");
    CHECK(complaint(good + "1,t,free,0x10,99999999999999999999,0\n") ==
          ":3: the size '99999999999999999999' is too large");
    CHECK(complaint(good + "1,t,free,0x10,100,default\n") ==
          ":3: the stream 'default' is no number");
    CHECK(complaint(good + "\n1,t,free,0x10,100,0\n") == ":3: an empty line");
    CHECK(complaint(good + "1,t,free,(null),100,0\n") == ":3: the pointer '(null)' is no number");
    CHECK(complaint(good + "1,t,free,0x10,(nil),0\n") == ":3: the size '(nil)' is no number");
    CHECK(complaint(good + "1,t,allocate,(nil),100,0\n") ==
          ":3: a null pointer of more than 0 bytes");
    CHECK(complaint(good + "1,t,allocate,0x0,100,0\n") ==
          ":3: a null pointer of more than 0 bytes");
}

TEST_CASE("trace: an impossible sequence is reported with its lines") {
    std::string const good = header + "1,t,allocate,0x10,100,0\n";
    CHECK(complaint(good + "1,t,free,0x20,100,0\n") == ":3: 0x20 is freed but not out");
    CHECK(complaint(good + "1,t,free,0x10,100,0\n1,t,free,0x10,100,0\n") ==
          ":4: 0x10 is freed but not out");
    CHECK(complaint(good + "1,t,free,0x10,99,0\n") ==
          ":3: 0x10 is freed with 99 bytes; line 2 allocated 100");
    CHECK(complaint(good + "1,t,allocate,0x10,5,0\n") ==
          ":3: 0x10 is allocated again; it is out since line 2");
    CHECK(complaint(header + "1,t,allocate,0x1,18446744073709551615,0\n1,t,allocate,0x2,1,0\n") ==
          ":3: the sizes overflow");
}

TEST_CASE("trace: an empty, missing or truncated file, and a folder, are reported as such") {
    CHECK(complaint("") == ": the file is empty");
    CHECK(complaint(header) == ": the file holds no allocation");
    CHECK_THROWS_WITH_AS((void)read_trace("/no/such/file"),
                         "/no/such/file: No such file or directory", cli::failure);
    CHECK_THROWS_WITH_AS((void)read_trace("/"), "/: Is a directory", cli::failure);

    std::string body = header;
    for (int i = 1; i < 2000; ++i) { body += fmt::format("1,t,allocate,{},{},0\n", i, i * 7); }
    std::string packed = compressed(body);
    CHECK(read(packed).steps.size() == 1999);
    CHECK(complaint(packed.substr(0, packed.size() / 2)).find("unexpected end of file") !=
          std::string::npos);
    CHECK(complaint(packed.substr(0, packed.size() - 3)).find("unexpected end of file") !=
          std::string::npos);
    packed[packed.size() / 2] = static_cast<char>(~packed[packed.size() / 2]);
    CHECK(complaint(packed) != "nothing");
}

TEST_CASE("trace: lines longer and shorter than a read are joined") {
    std::string body = header;
    for (int i = 1; i < 20000; ++i) {
        body += fmt::format("1,00:00:00:000000,allocate,{},1,0\n", i);
    }
    CHECK(read(body).steps.size() == 19999);
    CHECK(complaint(header + std::string(200000, 'x') + "\n") == ":2: 1 fields where 6 belong");
}

TEST_CASE("trace: a damaged file is refused with its name, or is a correct trace") {
    // For a second, or VRAM_FUZZ_SECONDS.
    char const* const given = std::getenv("VRAM_FUZZ_SECONDS");
    auto const        until = std::chrono::steady_clock::now() +
                       std::chrono::seconds{given != nullptr ? std::atol(given) : 1};
    std::mt19937_64 random{given != nullptr ? std::random_device{}() : 1};
    std::string     plain = header, more = "Thread,Time,Action,Pointer,Size,Stream,Tag,Line\n";
    for (unsigned i = 1; i != 30; ++i) {
        std::string const at = std::to_string(4096 * i), size = std::to_string(100 * i);
        plain += "0,12:00:00,allocate,0x" + at + "," + size + ",0x1\n";
        more += "1,12:00:00.5,allocate,0x" + at + "," + size + ",2,\"a \"\"tag\"\"\",f.cpp:1\n";
        if (i % 3 == 0) { continue; }
        plain += "0,12:00:01,free,0x" + at + "," + size + ",0x1\n";
        more += "1,12:00:01.5,free,0x" + at + "," + size + ",2,,\n";
    }
    std::string const files[]  = {plain, more, compressed(plain)};
    unsigned long     accepted = 0, refused = 0;
    while (std::chrono::steady_clock::now() < until) {
        scratch_file const file{fuzz::damaged(files[random() % 3], random)};
        try {
            trace const             read = read_trace(file.path());
            std::vector<trace_step> live(read.slots);
            for (trace_step const& each : read.steps) {
                REQUIRE(each.slot < read.slots);
                REQUIRE(each.stream < read.streams);
                bool const allocates = each.action == trace_step::kind::allocate;
                REQUIRE((live[each.slot].line == 0) == allocates); // a block only is freed
                live[each.slot] = allocates ? each : trace_step{};
            }
            ++accepted;
        } catch (cli::failure const& e) {
            REQUIRE(e.code() == cli::bad_input);
            REQUIRE(std::string{e.what()}.starts_with(file.path()));
            ++refused;
        }
    }
    MESSAGE("accepted ", accepted, ", refused ", refused);
    CHECK(accepted > 0);
    CHECK(refused > 0);
}
