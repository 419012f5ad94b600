// SPDX-License-Identifier: Apache-2.0
#include <vram/data/pinned_chunks.hpp> // first: the header stands alone

#include "files.hpp"

#include <vram/sim/machine/sim_register.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace pinned_chunks_tests {

using files::content;
using files::same;

TEST_CASE("pinned_chunks: chunks are copied from pinned memory to the device, and the host does "
          "not wait") {
    sim_node      node;
    sim_stream    stream;
    sim_resource  memory;
    auto          all = content(1000);
    sim_register  pinned{{all.data(), all.size()}};
    auto* const   device = static_cast<std::byte*>(memory.allocate_sync(300));
    pinned_chunks source{all, 300};
    CHECK(source.size() == 4);
    CHECK(source.batch_bytes() == 300);
    std::vector<std::byte> back(300);
    for (std::size_t i = 0; i < 4; ++i) {
        auto const        waits = node.figures().host_waits;
        std::size_t const n     = source.enqueue({device, 300}, i, stream.view());
        CHECK(node.figures().host_waits == waits);
        CHECK(n == (i < 3 ? 300 : 100));
        CHECK(source[i].data() == all.data() + i * 300);
        sim_copy(stream, back.data(), device, n);
        stream.synchronize();
        CHECK(same(std::span{back}.first(n), std::span{all}.subspan(i * 300, n)));
    }
    CHECK(source.enqueue({device, 300}, 4, stream.view()) == 0);
    CHECK(node.figures().bytes_to_device == 1000);
    CHECK(source.enqueue({device, 299}, 0, stream.view()) == 300); // no room: nothing is copied
    CHECK(node.figures().bytes_to_device == 1000);
    stream.synchronize();
    memory.deallocate_sync(device, 300);
    CHECK(node.reports().empty());
}

TEST_CASE("pinned_chunks: a copy that is refused is thrown, and the next one works") {
    sim_node      node;
    sim_stream    stream;
    sim_resource  memory;
    auto          all = content(100);
    sim_register  pinned{{all.data(), all.size()}};
    auto* const   device = static_cast<std::byte*>(memory.allocate_sync(100));
    pinned_chunks source{all, 50};
    node.faults().at(sim_call_kind::copy, 1);
    CHECK_THROWS_AS((void)source.enqueue({device, 50}, 0, stream.view()), sim_error);
    CHECK(source.enqueue({device, 50}, 0, stream.view()) == 50);
    stream.synchronize();
    memory.deallocate_sync(device, 100);
    CHECK(node.reports().empty());
}

TEST_CASE("pinned_chunks: without a device the copy is a memcpy") {
    auto const             all = content(100);
    std::vector<std::byte> to(60);
    CHECK(pinned_chunks{all, 60}.enqueue(to, 1, host_platform::stream{}) == 40);
    CHECK(same(std::span{to}.first(40), std::span{all}.last(40)));
}

} // namespace pinned_chunks_tests
