// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/unloader_core.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace unloading_core {
struct counted_sink {
    std::vector<std::size_t>* seen;
    void                      operator()(std::span<std::byte const> from, std::size_t index) const {
        seen->push_back(from.size() * 10 + index);
    }
};
template <class Platform, class Device, class Pinned>
using core = unloader_core<Platform, Device, Pinned, counted_sink>;
} // namespace unloading_core

template class vram::detail::unloader_core<sim_platform, sim_resource, sim_pinned_resource,
                                           unloading_core::counted_sink>;
template class vram::detail::unloader_core<host_platform, host_resource, host_resource,
                                           unloading_core::counted_sink>;

TEST_CASE("unloader_core: slots are acquired, sent, and given to the sink; shutdown waits") {
    sim_node                 node;
    sim_stream               stream;
    std::vector<std::size_t> seen;
    {
        auto const core =
            std::make_shared<unloading_core::core<sim_platform, sim_resource, sim_pinned_resource>>(
                unloading_core::counted_sink{&seen}, stream.view(), sim_resource{},
                sim_pinned_resource{}, unloader_options{.batch_bytes = 100});
        for (std::size_t i = 0; i < 3; ++i) {
            auto* s = &core->take(stream);
            sim_launch(stream, {.writes = {{s->memory, 100}}});
            core->send(s, 100 - i, stream);
            CHECK(s == nullptr);
        }
        auto& unused = core->take(stream);
        core->drop(unused, stream);
        core->shut_down();
        core->shut_down(); // once more changes nothing
        CHECK(seen == std::vector<std::size_t>{1000, 991, 982});
    }
    stream.synchronize();
    node.finish();
    CHECK(node.reports().empty());
}
