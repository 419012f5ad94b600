// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/loader_core.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include "../feeding.hpp"

#include <doctest/doctest.h>

#include <atomic>

using namespace vram;
using namespace vram::detail;
using feeding::numbered;

template class vram::detail::loader_core<sim_platform, sim_async_resource, sim_pinned_resource,
                                         numbered>;
template class vram::detail::loader_core<host_platform, host_resource, host_resource, numbered>;

TEST_CASE("loader_core: it fills ahead by itself, and ends on request") {
    sim_node   node;
    sim_stream stream;
    {
        loader_core<sim_platform, sim_async_resource, sim_pinned_resource, numbered> core{
            numbered{5},
            stream,
            sim_async_resource{},
            sim_pinned_resource{},
            {.batch_bytes = numbered::bytes, .depth = 2}};
        auto* const s = core.take(stream);
        REQUIRE(s != nullptr);
        CHECK(s->index == 0);
        core.release(*s, stream);
        core.shut_down();
        core.shut_down(); // once more changes nothing
        CHECK(core.take(stream) == nullptr);
    }
    stream.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE("loader_core: a slow source receives the stop request") {
    std::atomic<bool> heard{false}, asked{false};
    auto const fill = [&](std::span<std::byte>, std::size_t, std::stop_token stop) -> std::size_t {
        asked = true;
        while (!stop.stop_requested()) {}
        heard = true;
        return 0;
    };
    {
        loader_core<host_platform, host_resource, host_resource, decltype(fill)> core{
            fill, {}, {}, {}, {.batch_bytes = 64}};
        while (!asked) {}
    }
    CHECK(heard);
}
