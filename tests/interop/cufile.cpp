// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/cufile.hpp> // first: the header stands alone

#include "../data/files.hpp"

#include <vram/base/bytes.hpp>
#include <vram/sim/sim.hpp>
#include <vram/staging/staging.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <optional>

using namespace vram;
using namespace vram::detail;

namespace cufile_tests {

/// The library, as far as it is called: storage that reaches the simulated device.
struct library {
    static inline std::atomic<int>         handles{0};
    static inline std::atomic<std::size_t> calls{0};
    static inline std::atomic<std::size_t> most{0};     ///< bytes that a call moves at most
    static inline std::atomic<std::size_t> fails_at{0}; ///< the call that does; 0: none
    static inline std::atomic<ssize_t>     fails_with{0};
    static inline bool                     refuses = false;

    static void reset() {
        calls = fails_at = 0;
        most             = unsatisfiable;
        fails_with       = 0;
        refuses          = false;
    }
    static cufile_calls table() {
        cufile_calls t;
        t.open_driver = [] { return cufile_calls::result{}; };
        t.add         = [](cufile_calls::handle* h, cufile_calls::description* d) {
            if (refuses || d->type != 1) { return cufile_calls::result{5027, 0}; }
            ++handles;
            *h = new int{d->handle.descriptor};
            return cufile_calls::result{};
        };
        t.remove = [](cufile_calls::handle h) {
            delete static_cast<int*>(h);
            --handles;
        };
        t.read = [](cufile_calls::handle h, void* p, std::size_t n, off_t place, off_t at) {
            if (auto const failed = failure()) { return *failed; }
            auto const             to = device(p, n, at);
            std::vector<std::byte> plain(to.size() + 4096);
            void* const aligned = align_address(plain.data(), 4096); // the descriptor may be direct
            ssize_t const got   = ::pread(*static_cast<int*>(h), aligned, to.size(), place);
            if (got > 0) { std::memcpy(to.data(), aligned, static_cast<std::size_t>(got)); }
            return got;
        };
        t.write = [](cufile_calls::handle h, void const* p, std::size_t n, off_t place, off_t at) {
            if (auto const failed = failure()) { return *failed; }
            auto const             from = device(const_cast<void*>(p), n, at);
            std::vector<std::byte> plain(from.size() + 4096);
            void* const            aligned = align_address(plain.data(), 4096);
            std::memcpy(aligned, from.data(), from.size());
            return ::pwrite(*static_cast<int*>(h), aligned, from.size(), place);
        };
        return t;
    }

private:
    static std::optional<ssize_t> failure() {
        if (++calls != fails_at) { return {}; }
        errno = EPERM;
        return fails_with.load();
    }
    static std::span<std::byte> device(void* p, std::size_t n, off_t at) {
        return sim_view(std::span{static_cast<std::byte*>(p) + at, std::min<std::size_t>(n, most)});
    }
};

/// Pages of 4 KiB, so that a direct descriptor takes them on any file system.
constexpr std::size_t bytes = 40 * 1024 * 1024;

struct on_device {
    on_device() : p{static_cast<std::byte*>(mr.allocate_sync(bytes))} {}
    on_device(on_device&&) = delete;
    ~on_device() { mr.deallocate_sync(p, bytes); }
    [[nodiscard]] std::span<std::byte> view() const { return sim_view(std::span{p, bytes}); }

    sim_resource mr{};
    std::byte*   p;
};

TEST_CASE("cufile: data moves between file and device without the host, in stream order") {
    library::reset();
    cufile_calls const  calls = library::table();
    files::folder const folder;
    auto const          all = files::content(bytes);
    sim_node            node;
    sim_stream const    stream;
    {
        on_device const device;
        cufile const    in{folder.with("in", all), {}, &calls};
        cufile          out{folder / "out", {.use = file_options::mode::create}, &calls};
        REQUIRE(in.reaches_device());
        CHECK(library::handles == 2);
        staging stage{stream, {.threads = 3, .chunk_bytes = 64_KiB}};
        library::most = 8_MiB; // a call may move less than it is asked for
        sim_launch(stream,
                   {.name = "before", .writes = {{device.p, bytes}}, .duration = sim_time{1000}});
        auto const up = stage.upload(stream, device.p, in, 0, bytes);
        CHECK(up == staging_result{bytes, transfer_path::gds, 3, 3});
        CHECK(node.now() >= sim_time{1000}); // it waited for the kernel
        CHECK(files::same(device.view(), all));
        CHECK(stage.download(stream, out, 0, device.p, bytes).path == transfer_path::gds);
        std::vector<std::byte> back(bytes);
        out.plain().read(back, 0);
        CHECK(files::same(back, all));
        CHECK(stage.upload(stream, device.p, in, 5, 100'000).path == transfer_path::one_thread);
        CHECK(files::same(device.view().first(100'000), std::span{all}.subspan(5, 100'000)));
    }
    CHECK(library::handles == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("cufile: without the library, or if it refuses the file, it is a plain file") {
    library::reset();
    cufile_calls const  calls = library::table();
    files::folder const folder;
    auto const          all = files::content(bytes);
    sim_node            node;
    sim_stream const    stream;
    {
        on_device const device;
        staging         stage{stream, {.threads = 2, .chunk_bytes = 64_KiB}};
        for (bool const there : {false, true}) {
            library::refuses = true;
            cufile file{folder.with("in", all),
                        {.use = file_options::mode::update},
                        there ? &calls : nullptr};
            CHECK_FALSE(file.reaches_device());
            CHECK(stage.upload(stream, device.p, file, 0, bytes).path == transfer_path::ring);
            CHECK(files::same(device.view(), all));
            CHECK(stage.download(stream, file, 0, device.p, bytes).path == transfer_path::ring);
        }
    }
    CHECK(library::handles == 0);
    CHECK_THROWS_AS((cufile{folder / "nothing", {}, &calls}), file_error);
    CHECK(node.reports().empty());
}

TEST_CASE("cufile: an error of the library is thrown with the bytes that are complete") {
    library::reset();
    cufile_calls const  calls = library::table();
    files::folder const folder;
    auto const          all = files::content(bytes);
    sim_node            node;
    sim_stream const    stream;
    on_device const     device;
    cufile const        in{folder.with("in", all), {}, &calls};
    {
        staging stage{stream, {.threads = 1, .chunk_bytes = 64_KiB}};
        for (std::size_t const n : {1U, 2U, 3U}) {
            for (ssize_t const with : {ssize_t{-1}, ssize_t{-5001}, ssize_t{0}}) {
                library::reset();
                library::fails_at   = n;
                library::fails_with = with;
                try {
                    stage.upload(stream, device.p, in, 0, bytes);
                    FAIL("the call failed");
                } catch (staging_error const& e) {
                    CHECK(e.whole() == (n - 1) * 16_MiB);
                    CHECK(e.path() == transfer_path::gds);
                    try {
                        e.rethrow_cause();
                    } catch (file_error const& why) {
                        CHECK(why.ends_early() == (with == 0));
                        if (with != 0) { CHECK(why.code().value() == (with == -1 ? EPERM : EIO)); }
                    }
                    CHECK(files::same(device.view().first(e.whole()),
                                      std::span{all}.first(e.whole())));
                }
            }
        }
    }
    CHECK(node.reports().empty());
}

} // namespace cufile_tests
