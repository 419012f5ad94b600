// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/staging.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/data/file.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/sim/machine/sim_register.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/transfer/platform_clock.hpp>

#include "../data/files.hpp"
#include "../doubles/bombing.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/effort.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::staging<sim_platform, sim_pinned_resource>;
template class vram::staging<host_platform, host_resource>;

namespace staging_tests {

/// Device memory for a scope.
struct on_device {
    explicit on_device(std::size_t n) : bytes{n}, p{mr.allocate_sync(n)} {}
    on_device(on_device&&) = delete;
    ~on_device() { mr.deallocate_sync(p, bytes); }

    sim_resource mr{};
    std::size_t  bytes;
    void*        p;
};

/// Returns the contents of device memory, and declares the read to the checker.
std::vector<std::byte> contents(void const* p, std::size_t bytes) {
    auto const view = sim_view(std::span{static_cast<std::byte const*>(p), bytes});
    return {view.begin(), view.end()};
}

/// Small chunks, so that little memory makes many pieces.
constexpr staging_options small(unsigned threads) {
    return {.threads      = threads,
            .chunk_bytes  = 16_KiB,
            .first_bytes  = 4_KiB,
            .direct_bytes = 64,
            .alone_bytes  = 128};
}

TEST_CASE("staging: every size and alignment is copied both ways, with any number of threads") {
    for (unsigned threads = 1; threads <= 16; threads += threads < 4 ? 1 : 6) {
        sim_node         node{{.on_report = sim_on_report::collect}};
        sim_stream const stream;
        {
            staging     stage{stream, small(threads)};
            std::size_t most = 40 * 16_KiB + 2;
            on_device   device{most + 8};
            auto const  from = files::content(most + 8);
            for (std::size_t const chunks : {0U, 1U, 2U, 3U, 10U, 40U}) {
                for (int const more : {-1, 0, 1, 2}) {
                    std::size_t const bytes = chunks * 16_KiB + static_cast<std::size_t>(more);
                    if (bytes > most) { continue; }
                    for (std::size_t const shift : {0U, 1U, 7U}) {
                        CAPTURE(bytes);
                        CAPTURE(shift);
                        auto* const            at = static_cast<std::byte*>(device.p) + (7 - shift);
                        std::vector<std::byte> to(bytes + 10);
                        auto const             sent = std::span{from}.subspan(shift, bytes);
                        auto const             up   = stage.upload(stream, at, sent);
                        auto const             down =
                            stage.download(stream, std::span{to}.subspan(3, bytes), at);
                        stream.synchronize();
                        CHECK(up == down);
                        CHECK(up.bytes == bytes);
                        CHECK(up.path == (bytes == 0     ? transfer_path::nothing
                                          : bytes <= 64  ? transfer_path::direct_small
                                          : bytes <= 128 ? transfer_path::one_thread
                                                         : transfer_path::ring));
                        CHECK(files::same(sent, std::span{to}.subspan(3, bytes)));
                        CHECK(to[2] == std::byte{});
                        CHECK(to[bytes + 3] == std::byte{});
                    }
                }
            }
        }
        stream.synchronize();
        CHECK(node.reports().empty());
    }
}

TEST_CASE("staging: the path depends on the memory, the size and the platform, with a reason") {
    for (bool const tables : {false, true}) {
        sim_node               node{{.host_page_tables = tables}};
        sim_stream const       stream;
        on_device              device{4_MiB};
        sim_pinned_resource    pinned;
        sim_managed_resource   managed;
        auto* const            p = static_cast<std::byte*>(pinned.allocate_sync(2_MiB));
        auto* const            m = static_cast<std::byte*>(managed.allocate_sync(2_MiB));
        std::vector<std::byte> plain(4_MiB);
        {
            staging    stage{stream, {.threads = 2}};
            auto const way = [&](std::byte* host, std::size_t bytes) {
                auto const up   = stage.upload(stream, device.p, std::span{host, bytes});
                auto const down = stage.download(stream, std::span{host, bytes}, device.p);
                CHECK(up.path == down.path);
                CHECK(up.path == stage.path_for(host, bytes));
                CHECK(std::strcmp(up.reason(), reason(up.path)) == 0);
                return up.path;
            };
            using enum transfer_path;
            CHECK(way(plain.data(), 0) == nothing);
            CHECK(way(p, 2_MiB) == direct_pinned);
            CHECK(way(p, 1) == direct_pinned);
            CHECK(way(m, 2_MiB) == direct_managed);
            CHECK(way(plain.data(), 1_MiB) == (tables ? direct_host_page_tables : direct_small));
            CHECK(way(plain.data(), 1025_KiB) == (tables ? direct_host_page_tables : ring));
            {
                sim_register const half{{plain.data(), 2_MiB}};
                CHECK(way(plain.data(), 2_MiB) == direct_pinned);
                CHECK(stage.path_for(plain.data(), 4_MiB) ==
                      (tables ? direct_host_page_tables : ring)); // not all of it is
                stream.synchronize();
            }
            CHECK(stage.path_for(1_GiB) == ring); // a file
            CHECK(stage.path_for(512_KiB) == one_thread);
            CHECK(stage.path_for(513_KiB) == ring);
            CHECK(stage.path_for(1) == one_thread);
            CHECK(stage.path_for(std::size_t{0}) == nothing);
            CHECK(stage.threads() == 2);
            CHECK(stage.options().threads == 2);
            CHECK(stage.pinned_bytes() == 2 * 2 * 4_MiB);
        }
        stream.synchronize();
        managed.deallocate_sync(m, 2_MiB);
        pinned.deallocate_sync(p, 2_MiB);
        CHECK(node.reports().empty());
    }
}

TEST_CASE("staging: it is ordered after earlier and before later work of the stream") {
    for (std::size_t const bytes : {50U, 100U, 300'000U}) { // each way once
        for (bool const pinned : {false, true}) {
            sim_node            node;
            sim_stream const    stream;
            on_device           device{bytes};
            auto                from = files::content(bytes);
            sim_pinned_resource mr;
            auto* const         p = static_cast<std::byte*>(mr.allocate_sync(bytes));
            std::memcpy(p, from.data(), bytes);
            {
                staging    stage{stream, small(3)};
                auto const host = pinned ? std::span{p, bytes} : std::span{from};
                auto const use  = [&](std::byte value) {
                    sim_launch(
                        stream,
                        {.name = "use", .writes = {{device.p, bytes}}, .duration = sim_time{500}},
                        [&device, value, bytes] {
                            auto* const at = static_cast<std::byte*>(device.p);
                            for (std::byte& b : sim_view(std::span{at, bytes})) { b = value; }
                        });
                };
                use(std::byte{1});
                stage.upload(stream, device.p, host); // else the kernel would overwrite it
                sim_launch(stream, {.name = "read", .reads = {{device.p, bytes}}});
                stream.synchronize();
                CHECK(files::same(contents(device.p, bytes), from));
                use(std::byte{7});
                stage.download(stream, host, device.p);
                CHECK(host[0] == std::byte{7});
                CHECK(host[bytes - 1] == std::byte{7});
                use(std::byte{8}); // after the copy has been read
                stream.synchronize();
                CHECK(host[0] == std::byte{7});
            }
            mr.deallocate_sync(p, bytes);
            CHECK(node.reports().empty());
        }
    }
}

TEST_CASE("staging: the source may be reused as soon as the call returns") {
    for (std::size_t const bytes : {50U, 100U, 300'000U}) {
        sim_node               node;
        sim_stream const       stream;
        on_device              device{bytes};
        auto const             first = files::content(bytes);
        std::vector<std::byte> from  = first;
        staging                stage{stream, small(2)};
        stage.upload(stream, device.p, from);
        std::fill(from.begin(), from.end(), std::byte{0xFF});
        stream.synchronize();
        CHECK(files::same(contents(device.p, bytes), first));
        CHECK(node.reports().empty());
    }
}

TEST_CASE("staging: after construction nothing is allocated, pinned, or created") {
    sim_node         node;
    sim_stream const stream;
    on_device        device{1_MiB};
    auto             host = files::content(1_MiB);
    {
        using enum sim_call_kind;
        staging    stage{stream, small(3)};
        auto&      calls = node.faults();
        auto const made  = [&] {
            return calls.calls(allocate) + calls.calls(allocate_host) + calls.calls(pin) +
                   calls.calls(create_stream) + calls.calls(create_event);
        };
        auto const before = made();
        for (int i = 0; i < 5; ++i) {
            stage.upload(stream, device.p, host);
            stage.download(stream, host, device.p);
        }
        CHECK(made() == before);
        CHECK(files::same(host, files::content(1_MiB)));
    }
    // The simulated machine allocates for every call; one of plain host memory does not.
    staging<host_platform> plain{host_platform::stream{}, small(3)};
    auto const             allocated = doubles::host_allocations();
    for (int i = 0; i < 5; ++i) {
        plain.upload({}, host.data(), std::span{host}.subspan(0, 0));
        plain.upload({}, host.data(), std::span{host}.subspan(512_KiB)); // overlaps by nothing
        plain.download({}, std::span{host}.first(512_KiB), host.data() + 512_KiB);
    }
    CHECK(doubles::host_allocations() == allocated);
}

TEST_CASE("staging: files are copied to the device and back, at any offset") {
    files::folder const here;
    auto const          all = files::content(500'000);
    file const          in{here.with("in", all)};
    for (bool const direct : {false, true}) {
        sim_node         node;
        sim_stream const stream;
        on_device        device{500'000};
        {
            file    out{here / "out", {.use = file_options::mode::create, .direct = direct}};
            file    source{here / "in", {.direct = direct}};
            staging stage{stream, small(3)};
            for (auto const [offset, bytes] :
                 {std::array<std::size_t, 2>{0, 500'000}, {1, 100}, {4096, 65536}, {77, 300'001}}) {
                auto const up = stage.upload(stream, device.p, source, offset, bytes);
                CHECK(up.bytes == bytes);
                CHECK(up.path == stage.path_for(bytes));
                stage.download(stream, out, 1000, device.p, bytes);
                std::vector<std::byte> back(bytes);
                out.read(back, 1000);
                CHECK(files::same(back, std::span{all}.subspan(offset, bytes)));
            }
            CHECK(stage.upload(stream, device.p, in, 0, 0).path == transfer_path::nothing);
        }
        CHECK(node.reports().empty());
    }
}

TEST_CASE("staging: a file that ends early is an error with the bytes that exist") {
    files::folder const here;
    file const          in{here.with("in", files::content(200'000))};
    sim_node            node;
    sim_stream const    stream;
    on_device           device{300'000};
    {
        staging stage{stream, small(3)};
        try {
            stage.upload(stream, device.p, in, 0, 300'000);
            FAIL("the file is shorter");
        } catch (staging_error const& e) {
            CHECK(e.why() == staging_error::reason::failed);
            CHECK(e.bytes() == 300'000);
            CHECK(e.path() == transfer_path::ring);
            CHECK(e.whole() <= 200'000);
            CHECK(e.whole() > 150'000); // up to the piece that the end lies in
            CHECK(files::same(contents(device.p, e.whole()), files::content(e.whole())));
            CHECK_THROWS_AS(e.rethrow_cause(), file_error);
        }
        CHECK(stage.upload(stream, device.p, in, 0, 200'000).bytes == 200'000);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("staging: invalid pointers are named") {
    using r = staging_error::reason;
    sim_node               node{{.devices = 2}};
    sim_stream const       stream;
    on_device              device{1000};
    std::vector<std::byte> plain(1000);
    auto* const            far = static_cast<std::byte*>(device.p);
    {
        staging    stage{stream, small(2)};
        auto const why = [](auto call) {
            std::optional<std::pair<r, void const*>> found;
            try {
                call();
            } catch (staging_error const& e) {
                found = {e.why(), e.pointer()};
                CHECK(e.whole() == 0);
            }
            REQUIRE(found);
            return *found;
        };
        using told            = std::pair<r, void const*>;
        std::byte* const none = nullptr;
        CHECK(why([&] { stage.upload(stream, plain.data(), plain); }) ==
              told{r::not_device_memory, plain.data()});
        CHECK(why([&] { stage.upload(stream, nullptr, plain); }) ==
              told{r::not_device_memory, nullptr});
        CHECK(why([&] { stage.upload(stream, far, std::span{far, 1000}); }) ==
              told{r::not_host_memory, far});
        CHECK(why([&] { stage.upload(stream, far, std::span{none, 1000}); }) ==
              told{r::not_host_memory, nullptr});
        CHECK(why([&] { stage.download(stream, plain, plain.data()); }) ==
              told{r::not_device_memory, plain.data()});
        CHECK(why([&] { stage.download(stream, std::span{far, 1000}, far); }) ==
              told{r::not_host_memory, far});
        sim_stream const other{sim_device{1}};
        CHECK(why([&] { stage.upload(other, far, plain); }) == told{r::other_device, nullptr});
        {
            sim_graph::begin(stream, sim_capture_mode::relaxed);
            CHECK(why([&] { stage.upload(stream, far, plain); }) == told{r::capturing, nullptr});
            auto const graph = sim_graph::end(stream);
        }
        CHECK_NOTHROW(stage.upload(stream, nullptr, std::span{none, 0}));
    }
    CHECK(node.reports().empty());
}

/// One upload and one download under a fault; everything must be as it was, and usable. If
/// `in_wait`, the fault makes a wait for the device fail. Returns whether one of them threw.
bool survives(sim_node& node, sim_stream const& stream, auto plant, std::size_t bytes,
              bool in_wait) {
    bool      threw = false;
    on_device device{bytes};
    auto      from = files::content(bytes);
    auto      to   = std::vector<std::byte>(bytes);
    {
        staging stage{stream, small(3)};
        for (bool const up : {true, false}) {
            plant();
            try {
                if (up) {
                    stage.upload(stream, device.p, from);
                } else {
                    stage.download(stream, to, device.p);
                }
            } catch (staging_error const& e) {
                threw = true;
                CHECK(e.why() == staging_error::reason::failed);
                CHECK(e.bytes() == bytes);
                CHECK(e.whole() <= (in_wait ? 0 : bytes));
                CHECK(e.cause() != nullptr);
                auto const got =
                    up ? contents(device.p, e.whole())
                       : std::vector(to.begin(), to.begin() + std::ptrdiff_t(e.whole()));
                CHECK(files::same(got, std::span{from}.first(e.whole())));
            }
            node.faults().clear();
            try { // a copy in the stream itself may fail later than its call
                stream.synchronize();
            } catch (sim_error const&) { threw = true; }
            std::fill(to.begin(), to.end(), std::byte{}); // and then it works
            stage.upload(stream, device.p, from);
            stage.download(stream, to, device.p);
            CHECK(files::same(to, from));
        }
    }
    stream.synchronize();
    return threw;
}

TEST_CASE("staging: after any failed call the prefix is complete, nothing is in flight, and it "
          "still works") {
    using enum sim_call_kind;
    std::size_t threw = 0;
    for (std::size_t const bytes : {50U, 100U, 200'000U}) {
        for (auto const failing : {copy, record, wait, synchronize}) {
            for (bool const later : {false, true}) {
                if (later && failing != copy) { continue; }
                for (unsigned n = 1; n <= 40; n += laws::stride) {
                    CAPTURE(bytes);
                    CAPTURE(n);
                    CAPTURE(static_cast<int>(failing));
                    doubles::mishaps const told;
                    sim_node               node{{.on_report = sim_on_report::collect}};
                    {
                        sim_stream const stream;
                        auto const plant = [&] { node.faults().at(failing, n, {.later = later}); };
                        bool const in_wait = later || failing == synchronize;
                        threw += survives(node, stream, plant, bytes, in_wait) ? 1 : 0;
                    }
                    node.finish();
                    CHECK(told.count() == 0);
                    CHECK(node.reports().empty());
                }
            }
        }
    }
    CHECK(threw > 60 / laws::stride);
}

TEST_CASE("staging: failed host allocations are errors too") {
    doubles::mishaps const told; // the simulated machine may report that a gate lacks memory
    std::size_t            threw = 0;
    sim_node               node{{.on_report = sim_on_report::collect}};
    sim_stream const       stream;
    std::size_t            bytes = 100'000;
    on_device              device{bytes};
    auto                   from = files::content(bytes);
    {
        staging stage{stream, small(1)}; // `bombing` affects only this thread
        for (std::uint64_t n = 1; n < 200; n += laws::stride) {
            bool             failed = false;
            std::size_t      whole  = bytes;
            doubles::bombing armed{n};
            try {
                stage.upload(stream, device.p, from);
            } catch (staging_error const& e) {
                failed = true;
                whole  = e.whole();
            } catch (std::bad_alloc const&) { // no memory was left for the error itself
                failed = true;
                whole  = 0;
            }
            bool const struck = armed.defuse();
            CHECK((struck || !failed));
            CHECK(files::same(contents(device.p, whole), std::span{from}.first(whole)));
            threw += failed ? 1 : 0;
            stage.upload(stream, device.p, from);
        }
    }
    CHECK(threw > 10 / laws::stride);
    stream.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("staging: any failure in its constructor leaves nothing behind") {
    using enum sim_call_kind;
    for (auto const failing : {allocate_host, create_stream, create_event}) {
        for (unsigned n = 1; n <= 9; ++n) {
            sim_node node{{.on_report = sim_on_report::collect}};
            bool     made = true;
            {
                sim_stream const stream;
                node.faults().at(failing, n);
                try {
                    staging const stage{stream, small(3)};
                } catch (std::exception const&) { made = false; }
            }
            CHECK(made == (n > (failing == create_event ? 7U : 1U)));
            node.finish();
            CHECK(node.reports().empty());
        }
    }
}

TEST_CASE("staging: after the loss of a device, the loss is reported once, and memory that the "
          "device may still write is not freed") {
    doubles::mishaps const told;
    sim_node               node{{.on_report = sim_on_report::collect}};
    sim_stream const       stream;
    on_device              device{300'000};
    auto                   to = std::vector<std::byte>(300'000);
    {
        staging stage{stream, small(2)};
        node.faults().at(sim_call_kind::record, 4, {.lost = true});
        CHECK_THROWS_AS(stage.download(stream, to, device.p), staging_error);
    }
    CHECK(told.count() == 1);
    CHECK(told.count(error_kind::platform_error) == 1);
}

TEST_CASE("staging: threads overlap with each other and with the link") {
    if constexpr (!sim_ordered_threads) { return; }
    std::size_t const bytes = 64_MiB;
    // One thread of the host copies 7 GB/s, the link 28 GB/s.
    auto const of_link = [&](unsigned threads, bool up) {
        sim_node node{{.backed = false, .host_bandwidth = 28_GB, .host_copy_bandwidth = 7_GB}};
        sim_stream const       stream;
        on_device              device{bytes};
        std::vector<std::byte> host(bytes);
        staging    stage{stream, {.threads = threads, .chunk_bytes = 1_MiB, .first_bytes = 64_KiB}};
        auto const begin = node.now();
        if (up) {
            stage.upload(stream, device.p, host);
        } else {
            stage.download(stream, host, device.p);
        }
        auto const took = static_cast<double>((node.now() - begin).count());
        CHECK(node.reports().empty());
        return static_cast<double>(bytes) / 28 / took;
    };
    for (bool const up : {true, false}) {
        CAPTURE(up);
        CHECK(of_link(1, up) > 0.24); // one thread alone is a quarter of the link
        CHECK(of_link(1, up) < 0.25);
        CHECK(of_link(2, up) > 0.48);
        CHECK(of_link(3, up) > 0.72);
        CHECK(of_link(6, up) > 0.95); // the link is the limit
        CHECK(of_link(8, up) > 0.95);
        CHECK(of_link(8, up) < 1.0);
    }
}

TEST_CASE("staging: every order of its threads is correct, without a race") {
    if constexpr (!sim_ordered_threads) { return; }
    auto const from  = files::content(40'000);
    auto const found = sim_explore({.node = {.preemptions = 1}}, [&](sim_node& node) {
        sim_stream const stream;
        on_device        device{from.size()};
        auto             to = std::vector<std::byte>(from.size());
        {
            staging stage{stream, small(2)};
            stage.upload(stream, device.p, from);
            stage.download(stream, to, device.p);
        }
        if (to != from || !node.reports().empty()) { throw std::runtime_error{"it went wrong"}; }
    });
    CHECK(found.failures == 0);
    CHECK(found.runs > 10);
}

TEST_CASE("staging: several threads may call it, and take turns") {
    std::size_t const      bytes = 200'000;
    staging<host_platform> stage{host_platform::stream{}, small(3)};
    std::vector<worker>    callers;
    std::atomic<int>       wrong = 0;
    for (int i = 0; i < 3; ++i) {
        callers.emplace_back(0, [&, i] {
            auto const             from = files::content(bytes, static_cast<std::size_t>(i));
            std::vector<std::byte> device(bytes), to(bytes);
            for (int k = 0; k < 5; ++k) {
                stage.upload({}, device.data(), from);
                stage.download({}, to, device.data());
                wrong += to == from ? 0 : 1;
            }
        });
    }
    callers.clear();
    CHECK(wrong == 0);
}

TEST_CASE("staging: the pinned memory may come from any resource") {
    sim_node         node;
    sim_stream const stream;
    on_device        device{300'000};
    auto             host = files::content(300'000);
    {
        shared<limiting<sim_pinned_resource>> mine{limiting{sim_pinned_resource{}, 64_KiB}};
        staging                               stage{stream, mine, small(2)};
        CHECK(mine.get().used() == 64_KiB);
        CHECK_THROWS_AS((staging{stream, mine, small(2)}), over_limit);
        CHECK(stage.upload(stream, device.p, host).path == transfer_path::ring);
    }
    CHECK(files::same(contents(device.p, host.size()), host));
}

} // namespace staging_tests
