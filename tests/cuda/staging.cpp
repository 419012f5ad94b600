// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/staging.hpp> // first: the header stands alone

#include "../data/files.hpp"
#include "machine.hpp"

#include <vram/base/bytes.hpp>
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/cuda/managed_resource.hpp>
#include <vram/cuda/pinned_resource.hpp>
#include <vram/cuda/registered_resource.hpp>
#include <vram/data/file.hpp>

#include <optional> // optional
#include <vector>   // vector

using namespace vram;
using tests::machine;

template class vram::staging<cuda_platform>;
template class vram::staging<cuda_platform, registered_resource>;

namespace cuda_staging_tests {

/// Device memory for a scope.
struct on_device {
    explicit on_device(std::size_t n) : bytes{n}, p{mr.allocate_sync(n)} {}
    on_device(on_device&&) = delete;
    ~on_device() { mr.deallocate_sync(p, bytes); }

    cuda_resource mr{};
    std::size_t   bytes;
    void*         p;
};

constexpr staging_options small(unsigned threads) {
    return {.threads      = threads,
            .chunk_bytes  = 64_KiB,
            .first_bytes  = 16_KiB,
            .direct_bytes = 1_KiB,
            .alone_bytes  = 40_KiB};
}

/// The way back, without staging.
std::vector<std::byte> fetched(void const* p, std::size_t bytes) {
    std::vector<std::byte> all(bytes);
    cuda_stream const      stream;
    cuda_copy(stream, all.data(), p, bytes);
    stream.synchronize();
    return all;
}

TEST_CASE("staging on CUDA: every size is copied both ways, with any number of threads") {
    machine const     here;
    cuda_stream const stream;
    on_device         device{3_MiB};
    auto const        from = files::content(3_MiB);
    for (unsigned const threads : {1U, 2U, 4U, 8U}) {
        staging stage{stream, small(threads)};
        for (std::size_t const bytes :
             {std::size_t{0}, std::size_t{1}, 1_KiB, 1_KiB + 1, 40_KiB, 40_KiB + 1, 64_KiB - 1,
              64_KiB, 64_KiB + 1, 1_MiB + 7, 3_MiB - 9}) {
            for (std::size_t const shift : {0U, 1U, 8U}) {
                CAPTURE(bytes);
                CAPTURE(shift);
                auto* const at   = static_cast<std::byte*>(device.p) + (8 - shift);
                auto const  sent = std::span{from}.subspan(shift, bytes);
                auto const  up   = stage.upload(stream, at, sent);
                // Few bytes are copied in stream order, and `fetched` uses another stream.
                stream.synchronize();
                CHECK(files::same(fetched(at, bytes), sent));
                std::vector<std::byte> to(bytes + 2);
                auto const down = stage.download(stream, std::span{to}.subspan(1, bytes), at);
                CHECK(files::same(std::span{to}.subspan(1, bytes), sent));
                CHECK(to[0] == std::byte{});
                CHECK(to[bytes + 1] == std::byte{});
                CHECK(up == down);
                CHECK(up.bytes == bytes);
            }
        }
    }
}

TEST_CASE("staging on CUDA: the path depends on the memory") {
    machine const          here;
    cuda_stream const      stream;
    on_device              device{1_MiB};
    pinned_resource        pinned;
    managed_resource       managed;
    auto* const            p     = static_cast<std::byte*>(pinned.allocate_sync(1_MiB));
    auto* const            m     = static_cast<std::byte*>(managed.allocate_sync(1_MiB));
    std::vector<std::byte> plain = files::content(1_MiB);
    {
        staging    stage{stream, small(3)};
        bool const tables = cuda_platform::uses_host_page_tables(cuda_device::current());
        auto const way    = [&](std::byte* host, std::size_t bytes) {
            // After this the host may access managed memory.
            cuda_platform::synchronize(cuda_device::current());
            std::memcpy(host, plain.data(), bytes);
            auto const up = stage.upload(stream, device.p, std::span{host, bytes});
            stream.synchronize();
            std::memset(host, 0, bytes);
            auto const down = stage.download(stream, std::span{host, bytes}, device.p);
            CHECK(files::same(std::span{host, bytes}, std::span{plain}.first(bytes)));
            CHECK(up.path == down.path);
            return up.path;
        };
        std::vector<std::byte> other(1_MiB);
        using enum transfer_path;
        CHECK(way(p, 1_MiB) == direct_pinned);
        CHECK(way(m, 1_MiB) == direct_managed);
        CHECK(way(other.data(), 1_MiB) == (tables ? direct_host_page_tables : ring));
        CHECK(way(other.data(), 30_KiB) == (tables ? direct_host_page_tables : one_thread));
        CHECK(way(other.data(), 1_KiB) == (tables ? direct_host_page_tables : direct_small));
    }
    managed.deallocate_sync(m, 1_MiB);
    pinned.deallocate_sync(p, 1_MiB);
}

TEST_CASE("staging on CUDA: it is ordered after earlier and before later work of the stream") {
    machine const     here;
    cuda_stream const stream;
    on_device         device{2_MiB};
    auto const        from = files::content(2_MiB);
    staging           stage{stream, small(4)};
    for (int i = 0; i < 5; ++i) {
        for (int k = 0; k < 20; ++k) { cuda_fill(stream, device.p, std::byte{1}, 2_MiB); }
        stage.upload(stream, device.p, from);
        CHECK(files::same(fetched(device.p, 2_MiB), from));
        std::vector<std::byte> to(2_MiB);
        for (int k = 0; k < 20; ++k) { cuda_fill(stream, device.p, std::byte(unsigned(k)), 2_MiB); }
        stage.download(stream, to, device.p);
        cuda_fill(stream, device.p, std::byte{99}, 2_MiB);
        CHECK(to == std::vector<std::byte>(2_MiB, std::byte{19}));
        stream.synchronize();
    }
}

TEST_CASE("staging on CUDA: files are copied both ways") {
    machine const       here;
    files::folder const folder;
    auto const          all = files::content(1_MiB);
    vram::file const    in{folder.with("in", all)};
    vram::file          out{folder / "out", {.use = file_options::mode::create}};
    cuda_stream const   stream;
    on_device           device{1_MiB};
    staging             stage{stream, registered_resource{}, small(4)};
    CHECK(stage.upload(stream, device.p, in, 0, 1_MiB).path == transfer_path::ring);
    stage.download(stream, out, 5, device.p, 1_MiB);
    std::vector<std::byte> back(1_MiB);
    out.read(back, 5);
    CHECK(files::same(back, all));
    try {
        stage.upload(stream, device.p, in, 1, 1_MiB);
        FAIL("the file is shorter");
    } catch (staging_error const& e) {
        CHECK(e.whole() < 1_MiB);
        CHECK(e.whole() >= 1_MiB - 64_KiB);
        CHECK(files::same(fetched(device.p, e.whole()), std::span{all}.subspan(1, e.whole())));
    }
}

TEST_CASE("staging on CUDA: a capture on its stream is refused, and another stays valid") {
    machine const     here;
    cuda_stream const stream, captured;
    on_device         device{1_MiB};
    auto              host = files::content(1_MiB);
    staging           stage{stream, small(3)};
    cuda_check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
    cuda_fill(captured, device.p, std::byte{1}, 16);
    std::optional<staging_error::reason> why;
    try {
        stage.upload(captured, device.p, host);
    } catch (staging_error const& e) { why = e.why(); }
    CHECK(why == staging_error::reason::capturing);
    CHECK(stage.upload(stream, device.p, host).path == transfer_path::ring);
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamEndCapture(captured.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
    CHECK(files::same(fetched(device.p, 1_MiB), host));
}

TEST_CASE("staging on CUDA: invalid pointers are named") {
    machine const     here;
    cuda_stream const stream;
    on_device         device{1_MiB};
    auto              host = files::content(1_MiB);
    staging           stage{stream, small(2)};
    auto const        why = [](auto call) {
        try {
            call();
        } catch (staging_error const& e) { return e.why(); }
        return staging_error::reason::failed;
    };
    using enum staging_error::reason;
    auto* const far = static_cast<std::byte*>(device.p);
    CHECK(why([&] { stage.upload(stream, host.data(), host); }) == not_device_memory);
    CHECK(why([&] { stage.upload(stream, far, std::span{far, 1_MiB}); }) == not_host_memory);
    CHECK(why([&] { stage.download(stream, host, host.data()); }) == not_device_memory);
    CHECK(why([&] { stage.download(stream, host, nullptr); }) == not_device_memory);
}

TEST_CASE("staging on CUDA: it uses its own device, with any current device") {
    machine const here;
    if (!tests::two_devices()) { return; }
    std::optional<cuda_device_guard> second{cuda_device{1}};
    cuda_stream const                stream;
    auto                             host = files::content(1_MiB);
    {
        on_device device{1_MiB};
        second.reset();
        staging stage{stream, small(3)};
        CHECK(stage.where() == cuda_device{1});
        CHECK(stage.upload(stream, device.p, host).bytes == 1_MiB);
        std::vector<std::byte> to(1_MiB);
        stage.download(stream, to, device.p);
        CHECK(to == host);
        CHECK(cuda_device::current() == cuda_device{0});
        cuda_stream const first;
        CHECK_THROWS_AS(stage.upload(first, device.p, host), staging_error);
    }
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE(
    "staging on CUDA: after any failed call the prefix is complete, and nothing is left over") {
    using namespace doubles;
    machine const     here;
    cuda_stream const stream;
    on_device         device{500'000};
    auto const        from = files::content(500'000);
    pinned_resource   pinned;
    auto* const       p = static_cast<std::byte*>(pinned.allocate_sync(500'000));
    std::memcpy(p, from.data(), 500'000);
    for (std::size_t const bytes : {500U, 20'000U, 500'000U}) {
        for (bool const is_pinned : {false, true}) {
            for (bool const up : {true, false}) {
                staging stage{stream, small(1)}; // with one thread the order of the calls is fixed
                bool    struck = true;
                for (std::uint64_t n = 1; struck; ++n) {
                    REQUIRE(n < 1000);
                    CAPTURE(n);
                    CAPTURE(bytes);
                    CAPTURE(up);
                    mishaps const          told;
                    std::vector<std::byte> plain(from.begin(),
                                                 from.begin() + std::ptrdiff_t(bytes));
                    auto const  host   = is_pinned ? std::span{p, bytes} : std::span{plain};
                    std::size_t whole  = bytes;
                    bool        threw  = false;
                    auto const  before = cudart::out();
                    if (!up) {
                        cuda_copy(stream, device.p, from.data(), bytes);
                        std::memset(host.data(), 0, bytes);
                    }
                    cudart::fail_nth(n, cudaErrorUnknown);
                    try {
                        if (up) {
                            stage.upload(stream, device.p, host);
                        } else {
                            stage.download(stream, host, device.p);
                        }
                    } catch (staging_error const& e) {
                        threw = true;
                        whole = e.whole();
                        CHECK_THROWS_AS(e.rethrow_cause(), cuda_error);
                    }
                    struck = cudart::forgive();
                    CHECK((struck || !threw));
                    CHECK(cudaPeekAtLastError() == cudaSuccess);
                    CHECK(cudart::out() == before);
                    stream.synchronize();
                    CHECK(files::same(
                        up ? fetched(device.p, whole)
                           : std::vector(host.begin(), host.begin() + std::ptrdiff_t(whole)),
                        std::span{from}.first(whole)));
                    std::memcpy(p, from.data(), bytes);
                    cudaSetDevice(0);
                }
            }
        }
    }
    pinned.deallocate_sync(p, 500'000);
}

TEST_CASE("staging on CUDA: any failure in its constructor leaves nothing behind") {
    machine const     here;
    cuda_stream const stream;
    for (cudaError_t const status : tests::refusals) {
        bool struck = true;
        for (std::uint64_t n = 1; struck; ++n) {
            doubles::mishaps const told;
            auto const             before = doubles::cudart::out();
            doubles::cudart::fail_nth(n, status);
            try {
                staging const stage{stream, small(3)};
            } catch (std::exception const&) {}
            struck = doubles::cudart::forgive();
            CHECK(doubles::cudart::out() == before);
            CHECK(cudaPeekAtLastError() == cudaSuccess);
            cudaSetDevice(0);
        }
    }
}

TEST_CASE("staging on CUDA: a broken context is reported, and memory that it may still write is "
          "not freed") {
    machine const          here;
    doubles::mishaps const told;
    cuda_stream const      stream;
    auto                   host = files::content(500'000);
    void*                  p    = nullptr;
    cuda_check(cudaMalloc(&p, 500'000));
    {
        staging stage{stream, small(2)};
        stage.upload(stream, p, host);
        doubles::cudart::break_context(cudaErrorIllegalAddress);
        CHECK_THROWS_AS(stage.upload(stream, p, host), staging_error);
    }
    CHECK(told.count() > 0);
    doubles::cudart::reset();
}

TEST_CASE("staging on CUDA: if the device uses the host's page tables it copies directly") {
    machine const     here{{.page_tables = true}};
    cuda_stream const stream;
    on_device         device{1_MiB};
    auto const        host = files::content(1_MiB);
    staging           stage{stream, small(2)};
    CHECK(stage.upload(stream, device.p, host).path == transfer_path::direct_host_page_tables);
    CHECK(files::same(fetched(device.p, 1_MiB), host));
}
#endif

} // namespace cuda_staging_tests
