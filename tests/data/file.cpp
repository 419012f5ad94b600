// SPDX-License-Identifier: Apache-2.0
#include <vram/data/file.hpp> // first: the header stands alone

#include "files.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace file_tests {

using files::content;
using files::same;

/// System calls with the restrictions that the test selects.
struct poor_calls : file_calls {
    static inline std::size_t most_bytes   = unsatisfiable; ///< that one call moves
    static inline int         interrupt    = 0;             ///< every n-th call is; 0: none
    static inline int         calls        = 0;
    static inline int         open_direct  = 0; ///< error of opening with `direct_flag`; 0: none
    static inline int         use_direct   = 0; ///< error of using that
    static inline int         error        = 0; ///< of every other call that reads or writes
    static inline bool        no_room      = false;
    static inline int         size_error   = 0;
    static inline std::size_t direct_bytes = 0;
    static inline int         direct_fd    = -1;

    static void reset() {
        most_bytes = unsatisfiable;
        interrupt = calls = open_direct = use_direct = error = size_error = 0;
        no_room                                                           = false;
        direct_bytes                                                      = 0;
        direct_fd                                                         = -1;
    }

    static int refuse(int code) noexcept {
        errno = code;
        return -1;
    }
    static bool interrupted() noexcept {
        return interrupt != 0 && ++calls % interrupt == 0 && refuse(EINTR) != 0;
    }
    static int open(char const* path, int flags) noexcept {
        if (interrupted()) { return -1; }
        if ((flags & direct_flag) == 0) { return file_calls::open(path, flags); }
        if (open_direct != 0) { return refuse(open_direct); }
        // Not every file system on which the tests run supports direct input, so only the flag is
        // recorded.
        return direct_fd = file_calls::open(path, flags & ~direct_flag);
    }
    static off_t size(int fd) noexcept {
        return size_error != 0 ? refuse(size_error) : file_calls::size(fd);
    }
    template <class Call>
    static ssize_t some(int fd, void const* p, std::size_t bytes, off_t at, Call call) noexcept {
        if (interrupted()) { return -1; }
        if (error != 0) { return refuse(error); }
        if (fd == direct_fd) {
            if (use_direct != 0) { return refuse(use_direct); }
            bool const aligned = is_aligned(p, 4096) && bytes % 4096 == 0 && at % 4096 == 0;
            if (!aligned) { return refuse(EINVAL); }
        }
        ssize_t const n = call(bytes < most_bytes ? bytes : most_bytes);
        if (fd == direct_fd && n > 0) { direct_bytes += static_cast<std::size_t>(n); }
        return n;
    }
    static ssize_t read(int fd, void* to, std::size_t bytes, off_t at) noexcept {
        return some(fd, to, bytes, at,
                    [&](std::size_t n) { return file_calls::read(fd, to, n, at); });
    }
    static ssize_t write(int fd, void const* from, std::size_t bytes, off_t at) noexcept {
        if (no_room) { return 0; }
        return some(fd, from, bytes, at,
                    [&](std::size_t n) { return file_calls::write(fd, from, n, at); });
    }
    static int resize(int fd, off_t bytes) noexcept {
        if (interrupted()) { return -1; }
        return error != 0 ? refuse(error) : file_calls::resize(fd, bytes);
    }
    static int flush(int fd) noexcept {
        if (interrupted()) { return -1; }
        return error != 0 ? refuse(error) : file_calls::flush(fd);
    }
};
using poor_file = basic_file<poor_calls>;

/// Memory at a multiple of 4096.
struct page_memory {
    explicit page_memory(std::size_t bytes)
        : all{static_cast<std::byte*>(::operator new(bytes, std::align_val_t{4096})), bytes} {}
    page_memory(page_memory&&) = delete;
    ~page_memory() { ::operator delete(all.data(), std::align_val_t{4096}); }

    std::span<std::byte> all;
};

/// The error of a call that must throw one.
template <class Call>
file_error refusal(Call call) {
    try {
        call();
    } catch (file_error const& e) { return e; }
    FAIL("nothing was thrown");
    return {file_error::reason::not_a_file, ""};
}

static_assert(std::is_nothrow_move_constructible_v<file> &&
              std::is_nothrow_move_assignable_v<file>);
static_assert(!std::is_copy_constructible_v<file>);

TEST_CASE("file: it reads all requested bytes at an offset") {
    files::folder const here;
    auto const          all = content(10000);
    file const          f{here.with("a", all)};
    CHECK(f.size() == 10000);
    CHECK(f.path() == here / "a");
    CHECK_FALSE(f.direct());
    CHECK_FALSE(f.direct_refused());
    std::vector<std::byte> some(1234);
    f.read(some, 0);
    CHECK(same(some, std::span{all}.first(1234)));
    f.read(some, 10000 - 1234);
    CHECK(same(some, std::span{all}.last(1234)));
    f.read({}, 0);
    f.read({}, 20000); // nothing is there, and nothing is wanted
}

TEST_CASE(
    "file: if the file ends early, the error has the offset, the requested and the read bytes") {
    files::folder const    here;
    file const             f{here.with("a", content(1000))};
    std::vector<std::byte> some(300);
    auto const             e = refusal([&] { f.read(some, 800); });
    CHECK(e.ends_early());
    CHECK(e.path() == here / "a");
    CHECK(e.offset() == 800);
    CHECK(e.wanted() == 300);
    CHECK(e.got() == 200);
    CHECK(refusal([&] { f.read(some, 1000); }).got() == 0);
    CHECK(refusal([&] { f.read(some, 5000); }).ends_early());
    std::filesystem::resize_file(here / "a", 100); // the file is shortened while it is open
    auto const cut = refusal([&] { f.read(some, 0); });
    CHECK(cut.ends_early());
    CHECK(cut.got() == 100);
}

TEST_CASE("file: a missing file, a folder, a pipe, an unseekable device and a lack of permission "
          "are errors") {
    files::folder const here;
    CHECK(refusal([&] { file{here / "missing"}; }).code() == std::errc::no_such_file_or_directory);
    CHECK(refusal([&] { file{here / "missing", {.use = file_options::mode::update}}; }).code() ==
          std::errc::no_such_file_or_directory);
    CHECK(refusal([&] { file{here / "."}; }).code() == std::errc::is_a_directory);
    CHECK(refusal([&] { file{""}; }).code() == std::errc::no_such_file_or_directory);
    REQUIRE(::mkfifo((here / "pipe").c_str(), 0600) == 0);
    CHECK(refusal([&] { file{here / "pipe"}; }).is(file_error::reason::not_a_file));
    CHECK(refusal([&] { file{"/dev/null"}; }).is(file_error::reason::not_a_file));
    file const             empty{here.with("empty", {})};
    std::vector<std::byte> one(1);
    CHECK(empty.size() == 0);
    CHECK(refusal([&] { empty.read(one, 0); }).ends_early());
    file read_only{here.with("a", content(5))};
    CHECK(refusal([&] { read_only.write(one, 3); }).code() == std::errc::bad_file_descriptor);
}

TEST_CASE("file: written data can be read, and the file grows as needed") {
    files::folder const here;
    auto const          all = content(5000);
    file                f{here / "new", {.use = file_options::mode::create}};
    CHECK(f.size() == 0);
    f.write(std::span{all}.subspan(1000), 1000);
    f.write(std::span{all}.first(1000), 0);
    f.flush();
    CHECK(f.size() == 5000);
    std::vector<std::byte> back(5000);
    file{here / "new"}.read(back, 0);
    CHECK(same(back, all));
    f.resize(2000);
    CHECK(f.size() == 2000);
    f.resize(3000);
    f.read(std::span{back}.first(1000), 2000);
    CHECK(same(std::span{back}.first(1000), std::vector<std::byte>(1000)));
    {
        file again{here / "new", {.use = file_options::mode::update}};
        CHECK(again.size() == 3000); // not emptied
        again.write(std::span{all}.first(1), 0);
    }
    CHECK(file{here / "new", {.use = file_options::mode::create}}.size() == 0); // emptied
}

TEST_CASE("file: offsets beyond 4 GiB work") {
    files::folder const    here;
    constexpr std::size_t  far = (std::size_t{5} << 30) + 12345;
    std::vector<std::byte> back(100);
    auto const             all = content(100);
    file                   f{here.sparse("large", far), {.use = file_options::mode::update}};
    CHECK(f.size() == far);
    f.write(all, far);
    CHECK(f.size() == far + 100);
    f.read(back, far);
    CHECK(same(back, all));
    f.read(std::span{back}.first(50), far - 50);
    CHECK(same(std::span{back}.first(50), std::vector<std::byte>(50)));
    f.read(back, far - (std::size_t{4} << 30)); // the position to which a 32-bit offset would wrap
    CHECK(same(back, std::vector<std::byte>(100)));
}

TEST_CASE("file: an offset that no file can have is refused without a system call") {
    files::folder const    here;
    file                   f{here / "a", {.use = file_options::mode::create}};
    std::vector<std::byte> some(2);
    for (std::size_t const place : {unsatisfiable, file_calls::most + 1, file_calls::most - 1}) {
        CHECK(refusal([&] { f.read(some, place); }).code() == std::errc::value_too_large);
        CHECK(refusal([&] { f.write(some, place); }).code() == std::errc::value_too_large);
    }
    CHECK(refusal([&] { f.resize(unsatisfiable); }).code() == std::errc::file_too_large);
}

TEST_CASE("file: system calls that are interrupted or incomplete are repeated") {
    files::folder const here;
    auto const          all = content(3000);
    for (std::size_t const most : {std::size_t{1}, std::size_t{7}, std::size_t{2999}}) {
        poor_calls::reset();
        poor_calls::most_bytes = most;
        poor_calls::interrupt  = 3;
        poor_calls::calls      = 2; // the opening is interrupted too
        poor_file f{here / "a", {.use = file_options::mode::create}};
        f.resize(10);
        f.write(all, 0);
        f.flush();
        std::vector<std::byte> back(3000);
        f.read(back, 0);
        CHECK(same(back, all));
        poor_calls::interrupt = 2;
        poor_calls::calls     = 1;
        f.resize(10);
        poor_calls::calls = 1;
        f.flush();
        CHECK(f.size() == 10);
    }
    poor_calls::reset();
}

TEST_CASE("file: an error of the system is thrown with its code and the bytes done before") {
    files::folder const here;
    poor_calls::reset();
    auto const             all = content(10);
    poor_file              f{here / "a", {.use = file_options::mode::create}};
    std::vector<std::byte> back(10);
    f.write(all, 0);
    poor_calls::error = EIO;
    auto const e      = refusal([&] { f.read(back, 4); });
    CHECK(e.code() == std::errc::io_error);
    CHECK(e.offset() == 4);
    CHECK(e.wanted() == 10);
    CHECK(e.got() == 0);
    CHECK(refusal([&] { f.write(all, 0); }).code() == std::errc::io_error);
    CHECK(refusal([&] { f.resize(3); }).code() == std::errc::io_error);
    CHECK(refusal([&] { f.flush(); }).code() == std::errc::io_error);
    poor_calls::reset();
    poor_calls::no_room = true; // a write that writes nothing must not go on for ever
    CHECK(refusal([&] { f.write(all, 0); }).code() == std::errc::no_space_on_device);
    poor_calls::reset();
    poor_calls::size_error = EOVERFLOW;
    CHECK(refusal([&] { (void)f.size(); }).code() == std::errc::value_too_large);
    poor_calls::reset();
}

TEST_CASE("file: aligned parts use direct I/O, others the page cache, and all data arrives") {
    files::folder const here;
    poor_calls::reset();
    auto const        all = content(6 * 4096 + 100);
    page_memory const memory{8 * 4096};
    poor_file         f{here.with("a", all), {.use = file_options::mode::update, .direct = true}};
    REQUIRE(f.direct());
    struct {
        std::size_t at, offset, bytes, directly;
    } const reads[] = {
        {0, 0, 4096, 4096},                // all aligned
        {0, 4096, 3 * 4096 + 5, 3 * 4096}, // a tail
        {100, 100, 2 * 4096, 4096},        // a head and a tail
        {100, 200, 2 * 4096, 0},          // address and position are never aligned at the same time
        {0, 100, 4096, 0},                //
        {0, 0, 6 * 4096 + 100, 6 * 4096}, // the whole file
        {0, 8192, 4095, 0},               // less than a unit
        {4095, 4095, 2, 0},               // over a border
        {4000, 4000, 96 + 4096, 4096},    // a head without a tail
    };
    for (auto const& r : reads) {
        CAPTURE(r.offset);
        CAPTURE(r.bytes);
        for (std::size_t const most : {unsatisfiable, std::size_t{4096}, std::size_t{1000}}) {
            poor_calls::most_bytes   = most; // cut short within a unit, it ends through the cache
            poor_calls::direct_bytes = 0;
            auto const part          = memory.all.subspan(r.at, r.bytes);
            f.read(part, r.offset);
            CHECK(same(part, std::span{all}.subspan(r.offset, r.bytes)));
            if (most >= 4096) { CHECK(poor_calls::direct_bytes == r.directly); }
            poor_calls::direct_bytes = 0;
            f.write(part, r.offset);
            if (most >= 4096) { CHECK(poor_calls::direct_bytes == r.directly); }
        }
    }
    CHECK(f.direct()); // no direct call was refused
    poor_calls::reset();
    std::vector<std::byte> whole(all.size());
    f.read(whole, 0);
    CHECK(same(whole, all));
    CHECK(refusal([&] { f.read(memory.all, 0); }).got() == all.size());
}

TEST_CASE("file: if direct I/O is refused it uses the page cache, and reports the reason") {
    files::folder const here;
    poor_calls::reset();
    auto const        all  = content(3 * 4096);
    auto const        path = here.with("a", all);
    page_memory const memory{3 * 4096};
    SUBCASE("when the file is opened") {
        poor_calls::open_direct = EINVAL;
        poor_file const f{path, {.direct = true}};
        CHECK_FALSE(f.direct());
        CHECK(f.direct_refused() == std::errc::invalid_argument);
        f.read(memory.all, 0);
        CHECK(same(memory.all, all));
    }
    SUBCASE("when it is read") {
        poor_calls::use_direct = EINVAL;
        poor_file const f{path, {.direct = true}};
        CHECK(f.direct());
        f.read(memory.all, 0);
        CHECK(same(memory.all, all));
        CHECK_FALSE(f.direct());
        CHECK(f.direct_refused() == std::errc::invalid_argument);
    }
    SUBCASE("but a true error is one") {
        poor_calls::use_direct = EIO;
        poor_file const f{path, {.direct = true}};
        CHECK(refusal([&] { f.read(memory.all, 0); }).code() == std::errc::io_error);
    }
    poor_calls::reset();
}

TEST_CASE("file: this system supports direct I/O, or the reason is given") {
    files::folder const here;
    auto const          all = content(64 * 4096 + 77);
    file                f{here / "a", {.use = file_options::mode::create, .direct = true}};
    page_memory const   memory{65 * 4096};
    auto const          part = memory.all.first(all.size());
    std::memcpy(part.data(), all.data(), all.size());
    f.write(part, 0);
    std::memset(part.data(), 0, part.size());
    f.read(part, 0);
    CHECK(same(part, all));
    CHECK(f.direct() == !f.direct_refused());
    MESSAGE("direct: ", f.direct(), ", ", f.direct_refused().message());
}

TEST_CASE("file: a move transfers the file, and closes the previous one") {
    files::folder const here;
    file                a{here.with("a", content(10))};
    file                b{here.with("b", content(20))};
    int const           had = a.descriptor(), other = b.descriptor();
    a = std::move(b);
    CHECK(a.size() == 20);
    CHECK(a.path() == here / "b");
    CHECK(a.descriptor() == other);
    CHECK(::fcntl(had, F_GETFD) == -1);
    file const c{std::move(a)};
    CHECK(c.size() == 20);
    CHECK(a.descriptor() == -1); // NOLINT(bugprone-use-after-move)
}

TEST_CASE("file: many threads read and write concurrently") {
    files::folder const   here;
    constexpr int         threads = 4;
    constexpr std::size_t each = 5000, times = 20;
    file                  f{here / "a", {.use = file_options::mode::create, .direct = true}};
    bool                  right[threads] = {};
    {
        std::vector<std::jthread> all;
        for (int t = 0; t < threads; ++t) {
            all.emplace_back([&, t] {
                std::vector<std::byte> back(each);
                right[t] = true;
                for (std::size_t i = 0; i < times; ++i) {
                    std::size_t const place = (i * threads + static_cast<std::size_t>(t)) * each;
                    auto const        mine  = content(each, place);
                    f.write(mine, place);
                    f.read(back, place);
                    right[t] = right[t] && same(back, mine);
                }
            });
        }
    }
    for (bool r : right) { CHECK(r); }
    std::vector<std::byte> whole(each * times * threads);
    f.read(whole, 0);
    CHECK(same(whole, content(whole.size())));
}

} // namespace file_tests

template class vram::basic_file<file_calls>;
template class vram::basic_file<file_tests::poor_calls>;
