// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/host_end.hpp> // first: the header stands alone

#include <vram/data/file.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {
/// A file in memory.
struct host_end_file {
    std::vector<std::byte> bytes{200};

    void read(std::span<std::byte> to, std::size_t at) const {
        std::memcpy(to.data(), bytes.data() + at, to.size());
    }
    void write(std::span<std::byte const> from, std::size_t at) {
        std::memcpy(bytes.data() + at, from.data(), from.size());
    }
};
using host_ends = host_end<host_platform>;
} // namespace

static_assert(readable_at<file> && writable_at<file>);
static_assert(readable_at<host_end_file> && writable_at<host_end_file>);
static_assert(!readable_at<int> && !writable_at<host_end_file const>);

TEST_CASE("host_end: memory is copied to chunks and back, with and without the cache") {
    std::vector<std::byte> from(10'000), chunk(10'000), to(10'000);
    for (std::size_t i = 0; i < from.size(); ++i) { from[i] = static_cast<std::byte>(i % 251); }
    for (bool const streaming : {false, true}) {
        std::fill(to.begin(), to.end(), std::byte{});
        std::fill(chunk.begin(), chunk.end(), std::byte{});
        host_ends::source_memory const source{from.data(), streaming};
        source.fill(chunk.data(), 100, 9'900);
        CHECK(chunk[0] == from[100]);
        host_ends::target_memory const target{to.data(), streaming};
        target.empty(chunk.data(), 100, 9'900);
        CHECK(std::equal(to.begin() + 100, to.end(), from.begin() + 100));
        CHECK(to[99] == std::byte{});
    }
}

TEST_CASE("host_end: a file is read and written at the offset of the transfer") {
    host_end_file f;
    std::iota(reinterpret_cast<unsigned char*>(f.bytes.data()),
              reinterpret_cast<unsigned char*>(f.bytes.data()) + 200,
              static_cast<unsigned char>(0));
    std::byte                                   chunk[10]{};
    host_ends::source_file<host_end_file> const source{f, 50};
    source.fill(chunk, 20, 10);
    CHECK(chunk[0] == std::byte{70});
    CHECK(chunk[9] == std::byte{79});
    host_ends::target_file<host_end_file> const target{f, 100};
    target.empty(chunk, 5, 10);
    CHECK(f.bytes[105] == std::byte{70});
    CHECK(f.bytes[114] == std::byte{79});
    CHECK(f.bytes[115] == std::byte{115});
}
