// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/staging_core.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/sim/sim.hpp>
#include <vram/staging/staging.hpp>

#include <doctest/doctest.h>

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
