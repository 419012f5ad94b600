// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/staging_core.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/staging/staging.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace staging_core_tests {

/// A file that reaches the device, or does not.
struct storage {
    [[nodiscard]] bool reaches_device() const noexcept { return reaches; }
    void               read_device(void*, std::size_t, std::size_t) const {}
    void               read(std::span<std::byte>, std::size_t) const {}

    bool reaches = true;
};

TEST_CASE("staging_core: storage with direct access to the device is used instead of the ring") {
    sim_node const   node;
    sim_stream const stream;
    staging const    stage{stream, {.threads = 1, .chunk_bytes = 4096}};
    CHECK(stage.path_for(1_MiB, storage{true}) == transfer_path::gds);
    CHECK(stage.path_for(1_MiB, storage{false}) == transfer_path::ring);
    CHECK(stage.path_for(1_KiB, storage{true}) == transfer_path::one_thread);
    CHECK(stage.path_for(0, storage{true}) == transfer_path::nothing);
    CHECK(stage.path_for(1_MiB, 5) == transfer_path::ring); // nothing that could reach anything
    CHECK(stage.where() == sim_device{});
}

/// Storage that reaches the device, and counts the calls with another device current.
struct watched_storage {
    [[nodiscard]] static bool reaches_device() noexcept { return true; }
    void                      read_device(void*, std::size_t, std::size_t) const { note(); }
    void                      write_device(void const*, std::size_t, std::size_t) { note(); }
    void                      read(std::span<std::byte>, std::size_t) const {}
    void                      write(std::span<std::byte const>, std::size_t) {}
    void                      note() const { astray += !(sim_device::current() == wanted); }

    sim_device wanted;
    std::atomic<int> mutable astray = 0;
};

TEST_CASE("staging_core: storage with direct access is called with the device of the staging") {
    sim_node const   node{{.devices = 2}};
    sim_stream const stream{sim_device{1}};
    staging          stage{stream, {.threads = 2, .chunk_bytes = 4096}};
    sim_resource     memory{sim_device{1}};
    watched_storage  storage{.wanted = sim_device{1}};
    void* const      p = memory.allocate_sync(40_MiB);
    CHECK(stage.upload(stream, p, storage, 0, 40_MiB).path == transfer_path::gds);
    CHECK(stage.download(stream, storage, 0, p, 40_MiB).path == transfer_path::gds);
    CHECK(storage.astray == 0);
    CHECK(sim_device::current() == sim_device{0});
    memory.deallocate_sync(p, 40_MiB);
}

/// A staging whose choice between the two kinds of stores is public.
struct choosing : staging<sim_platform> {
    using staging::staging;
    using staging_core::downloads_past_caches;
    using staging_core::uploads_past_caches;
};

TEST_CASE("staging_core: uploads bypass the caches if several threads copy at most 2 MiB each") {
    sim_node const   node;
    sim_stream const stream;
    for (unsigned const threads : {2U, 8U}) {
        choosing const    stage{stream, {.threads = threads, .chunk_bytes = 4096}};
        std::size_t const most = threads * 2_MiB;
        CHECK_FALSE(stage.uploads_past_caches(0));
        CHECK_FALSE(stage.uploads_past_caches(512_KiB)); // copied by one thread
        CHECK(stage.uploads_past_caches(512_KiB + 1));
        CHECK(stage.uploads_past_caches(most));
        CHECK_FALSE(stage.uploads_past_caches(most + 1));
    }
    choosing const alone{stream, {.threads = 1, .chunk_bytes = 4096}};
    CHECK_FALSE(alone.uploads_past_caches(1_MiB));
}

TEST_CASE("staging_core: downloads of 8 to 64 MiB by 8 or more threads use the caches") {
    sim_node const   node;
    sim_stream const stream;
    for (unsigned const threads : {1U, 7U, 8U, 9U}) {
        choosing const stage{stream, {.threads = threads, .chunk_bytes = 4096}};
        CHECK(stage.downloads_past_caches(0));
        CHECK(stage.downloads_past_caches(8_MiB - 1));
        CHECK(stage.downloads_past_caches(8_MiB) == (threads < 8));
        CHECK(stage.downloads_past_caches(64_MiB) == (threads < 8));
        CHECK(stage.downloads_past_caches(64_MiB + 1));
    }
    choosing const by_one{stream, {.threads = 8, .chunk_bytes = 4096, .alone_bytes = 16_MiB}};
    CHECK(by_one.downloads_past_caches(16_MiB)); // only the caller's thread copies
    CHECK_FALSE(by_one.downloads_past_caches(16_MiB + 1));
}

TEST_CASE("staging_core: the option `streaming` decides for all numbers of bytes and threads") {
    sim_node const   node;
    sim_stream const stream;
    for (bool const past : {false, true}) {
        for (unsigned const threads : {1U, 8U}) {
            choosing const stage{stream,
                                 {.threads = threads, .chunk_bytes = 4096, .streaming = past}};
            for (std::size_t const bytes : {1_KiB, 4_MiB, 16_MiB, 1_GiB}) {
                CHECK(stage.uploads_past_caches(bytes) == past);
                CHECK(stage.downloads_past_caches(bytes) == past);
            }
        }
    }
}

/// A platform of the host that counts the copies of the host, and the threads that are between a
/// copy to or from a chunk and its record.
struct counting_platform : host_platform {
    static inline std::atomic<int> ordinary{0};
    static inline std::atomic<int> past_caches{0};
    static inline std::atomic<int> inside{0};
    static inline std::atomic<int> most_inside{0};

    static void host_copies(void*, void const*, std::size_t, bool past) {
        ++(past ? past_caches : ordinary);
    }
    static void copy(stream s, void* to, void const* from, std::size_t bytes) noexcept {
        int const now = ++inside;
        if (most_inside.load() < now) { most_inside.store(now); }
        host_platform::copy(s, to, from, bytes);
        std::this_thread::yield();
    }
    static void record(event& e, stream s) noexcept {
        host_platform::record(e, s);
        if (inside.load() != 0) { --inside; } // else it is the record before the first copy
    }
};

TEST_CASE("staging_core: copies of the host are made as the option says") {
    std::vector<std::byte> host(100'000), device(100'000);
    for (bool const past : {false, true}) {
        counting_platform::ordinary = counting_platform::past_caches = 0;
        staging<counting_platform> stage{
            {}, {.threads = 3, .chunk_bytes = 4096, .direct_bytes = 0, .streaming = past}};
        auto const& used   = past ? counting_platform::past_caches : counting_platform::ordinary;
        auto const& unused = past ? counting_platform::ordinary : counting_platform::past_caches;
        stage.upload({}, device.data(), host);
        int const pieces = used.load();
        CHECK(pieces > 1);
        stage.download({}, host, device.data());
        CHECK(used.load() == 2 * pieces);
        CHECK(unused.load() == 0);
    }
}

TEST_CASE("staging_core: one thread at a time queues a copy and records its event") {
    std::vector<std::byte>     host(2'000'000), device(2'000'000);
    staging<counting_platform> stage{
        {}, {.threads = 4, .chunk_bytes = 4096, .first_bytes = 1, .direct_bytes = 0}};
    counting_platform::inside = counting_platform::most_inside = 0;
    for (int i = 0; i != 5; ++i) {
        stage.upload({}, device.data(), host);
        stage.download({}, host, device.data());
    }
    CHECK(counting_platform::inside.load() == 0);
    CHECK(counting_platform::most_inside.load() == 1);
}

TEST_CASE("staging_core: memory that begins or ends on a device is not host memory") {
    sim_node         node;
    sim_stream const stream;
    sim_resource     mr;
    auto* const      p = static_cast<std::byte*>(mr.allocate_sync(1000));
    {
        staging    stage{stream, {.threads = 1, .chunk_bytes = 4096}};
        auto const why = [&](std::byte* host, std::size_t bytes) {
            try {
                stage.upload(stream, p, std::span{host, bytes});
            } catch (staging_error const& e) { return e.why(); }
            return staging_error::reason::failed;
        };
        CHECK(why(p, 1000) == staging_error::reason::not_host_memory);
        CHECK(why(p + 999, 100_GiB) == staging_error::reason::not_host_memory);
        CHECK(why(p - 100_GiB, 100_GiB + 1) == staging_error::reason::not_host_memory);
    }
    mr.deallocate_sync(p, 1000);
}

} // namespace staging_core_tests
