// SPDX-License-Identifier: Apache-2.0
// The simulated platform in a file that nvcc compiles: it needs no device.

#include <vram/probe/doctest.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <doctest/doctest.h>

#include <cstring> // memset
#include <span>    // span
#include <vector>  // vector

using namespace vram;

using direct = sim_resource;
using later  = stream_ordered<sim_resource>;
using stack  = pool<statistics<limiting<later>>>;

template class vram::aligned<later>;
template class vram::fallback<later, later>;
template class vram::segregated<later, later>;
template class vram::locked<later>;
template class vram::retrying<later, trim_upstream>;
template class vram::pool<later>;
template class vram::pool<sim_virtual_resource>;
template class vram::slab<later>;
template class vram::binned<later>;
template class vram::monotonic<later>;
template class vram::arena<pool<later>>;
template class vram::shared<stack>;
template class vram::current<sim_platform>;
template class vram::copy_batch<sim_platform>;
template class vram::staging<sim_platform>;

namespace {

/// Blocks are allocated and freed on two streams, each written by a kernel.
template <class R>
void exercise(R&& memory) {
    sim_stream const first, second;
    for (int i = 0; i < 20; ++i) {
        std::size_t const bytes = 1000 + 5000 * static_cast<std::size_t>(i % 3);
        auto const&       s     = i % 2 == 0 ? first : second;
        auto* const       p     = static_cast<std::byte*>(memory.allocate(s, bytes));
        sim_launch(s, {.name = "fill", .writes = {std::span{p, bytes}}},
                   [=] { std::memset(sim_view(p), i, bytes); });
        memory.deallocate(s, p, bytes);
    }
    first.synchronize();
    second.synchronize();
    if constexpr (retiring_resource<std::remove_cvref_t<R>>) {
        memory.retire(first);
        memory.retire(second);
    }
    CHECK(sim_node::current().reports().empty());
}

} // namespace

TEST_CASE("nvcc: layers, pools and handles on the simulated device") {
    sim_node const node;
    exercise(later{});
    exercise(sim_async_resource{});
    exercise(aligned{later{}, 4_KiB});
    exercise(fallback{limiting{later{}, 4_KiB}, later{}});
    exercise(segregated{later{}, later{}, 4_KiB});
    exercise(retrying{later{}, trim_upstream{}});
    exercise(stack{statistics{limiting{later{}, 64_MiB}}});
    exercise(pool<sim_virtual_resource>{});
    exercise(slab<later>{64_KiB});
    exercise(binned<later>{});
    exercise(monotonic<later>{});
    exercise(arena<pool<later>>{});
    exercise(shared{pool<later>{}});
    exercise(any_resource<sim_platform, device_accessible>{pool<later>{}});
    current_resource_guard<sim_platform> const scope{shared{pool<later>{}}};
    exercise(current_resource<sim_platform>());
}

TEST_CASE("nvcc: loader and unloader on the simulated device") {
    sim_node const   node;
    sim_stream const stream;
    std::size_t      right = 0, results = 0;
    auto const       source = [](std::span<std::byte> to, std::size_t index) -> std::size_t {
        std::memset(to.data(), static_cast<int>(index), to.size());
        return index == 6 ? 0 : to.size();
    };
    unloader out{[&](std::span<std::byte const> bytes, std::size_t index) {
                     right += bytes[0] == static_cast<std::byte>(index + 1);
                     ++results;
                 },
                 stream,
                 {.batch_bytes = 4_KiB}};
    for (auto& batch : loader{source, stream, {.batch_bytes = 4_KiB}}) {
        auto       result = out.next();
        auto const from   = std::span{batch.data(), batch.size()};
        auto const to     = std::span{result.data(), result.size()};
        sim_launch(stream, {.name = "add", .reads = {from}, .writes = {to}}, [=] {
            auto const in = sim_view(from);
            for (std::size_t i = 0; i < in.size(); ++i) {
                sim_view(to)[i] = static_cast<std::byte>(static_cast<int>(in[i]) + 1);
            }
        });
        result.send();
    }
    out.finish();
    CHECK(results == 6);
    CHECK(right == 6);
    CHECK(sim_node::current().reports().empty());
}

TEST_CASE("nvcc: staging and probes on the simulated device") {
    sim_node const   node;
    sim_stream const stream;
    stack            memory{statistics{limiting{later{}, 64_MiB}}};
    VRAM_CHECK_NO_LEAK(memory) {
        staging                stage{stream};
        std::vector<int> const sent(100'000, 5);
        std::vector<int>       back(100'000, 0);
        auto                   there = make_array<int>(memory, stream, sent.size());
        stage.upload(stream, there.data(), sent);
        stage.download(stream, back, there.data());
        CHECK(back == sent);
    }
    CHECK(report(memory).size() > 0);
    stream.synchronize();
    memory.retire(stream);
}
