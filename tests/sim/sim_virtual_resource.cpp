// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_virtual_resource.hpp> // first: the header must stand alone

#include "../doubles/small_pages.hpp"
#include "../laws/resource.hpp"

#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

using namespace vram;
using doubles::small_page;

template class vram::limiting<sim_virtual_resource>;
template class vram::stream_ordered<sim_virtual_resource>;

namespace {
virtual_options one_page_each() { return {.reserve = 64_MiB, .handle_size = small_page}; }
} // namespace

TEST_CASE("sim_virtual_resource: it keeps the laws of a resource") {
    sim_node node{doubles::small_pages(4096)};
    laws::source([] { return sim_virtual_resource{one_page_each()}; },
                 {.room = 64_MiB, .largest_alignment = 2_MiB, .operations = 500});
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "sim_virtual_resource: a stream_ordered over it keeps the laws, and waits before it unmaps") {
    sim_node node{doubles::small_pages(4096)};
    laws::source([] { return stream_ordered{sim_virtual_resource{one_page_each()}}; },
                 {.room = 64_MiB, .operations = 500});
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_virtual_resource: a pool over a stream_ordered over it keeps the laws") {
    sim_node node{doubles::small_pages(4096)};
    laws::source(
        [] {
            return pool{stream_ordered{
                sim_virtual_resource{{.reserve = 1_GiB, .handle_size = small_page}}}};
        },
        {.operations = 500});
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_virtual_resource: a pool directly over it keeps the laws") {
    sim_node node{doubles::small_pages(4096)};
    laws::source(
        [] { return pool{sim_virtual_resource{{.reserve = 1_GiB, .handle_size = small_page}}}; },
        {.operations = 500});
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_virtual_resource: many threads use it concurrently") {
    sim_node             node{doubles::small_pages(4096)};
    sim_virtual_resource memory{one_page_each()};
    {
        std::vector<sim_thread> threads;
        for (unsigned i = 0; i < 4; ++i) {
            threads.emplace_back(sim_device{}, [&memory, i] {
                laws::model_heap<sim_virtual_resource>{
                    memory, {.operations = 100, .seed = i + 1}, false}
                    .run();
            });
        }
    }
    CHECK(memory.usage().live == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_virtual_resource: it has a device, and reserves four times the device's capacity") {
    sim_options o = doubles::small_pages();
    o.devices     = 2;
    sim_node             node{o};
    sim_virtual_resource memory{{.handle_size = small_page}, sim_device{1}};
    CHECK(memory.device() == sim_device{1});
    auto* const p = static_cast<std::byte*>(memory.allocate_sync(100));
    CHECK(node.figures(1).used == small_page);
    CHECK(node.figures(0).used == 0);
    CHECK(memory.owns(p + 4 * 64 * small_page - 1));
    CHECK_FALSE(memory.owns(p + 4 * 64 * small_page));
    memory.deallocate_sync(p, 100);
}
