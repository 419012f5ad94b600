// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/guarded.hpp> // first: the header stands alone

#include "../doubles/archetype.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/resource.hpp"

#include <vram/handle/resource_ref.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/probe/memory_delta.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace vram;

template class vram::guarded<doubles::archetype<>>;

namespace {

/// A program writes the byte at `offset` of a block; returns the error that is reported.
template <class Memory>
error guarded_write(Memory& memory, std::ptrdiff_t offset, std::size_t& reports) {
    sim_stream             s;
    doubles::mishaps const errors;
    auto* const            p = static_cast<std::byte*>(memory.allocate(s, 100));
    sim_platform::fill(s, p + offset, std::byte{1}, 1);
    memory.deallocate(s, p, 100);
    memory.check_blocks();
    reports = errors.count();
    s.synchronize();
    if constexpr (retiring_resource<Memory>) { memory.retire(s); }
    if (reports != 0) {
        CHECK(errors.last().pointer == p + offset);
        CHECK(errors.last().block == p);
    }
    return errors.last();
}

/// Each write next to a block is found, and no write within it.
template <class Make>
void finds_overruns(char const* name, Make const& make) {
    CAPTURE(std::string{name});
    sim_node const node{{.on_report = sim_on_report::collect}};
    auto           memory  = make();
    std::size_t    reports = 0;
    for (std::ptrdiff_t const offset : {-64, -1, 100, 101, 163}) {
        CAPTURE(offset);
        error const e = guarded_write(memory, offset, reports);
        CHECK(reports == 1);
        CHECK(e.kind == error_kind::overrun);
        CHECK(e.block_bytes == 100);
        CHECK(e.allocated_at.known());
        CHECK(e.caller.known());
    }
    for (std::ptrdiff_t const offset : {0, 50, 99}) {
        (void)guarded_write(memory, offset, reports);
        CHECK(reports == 0);
    }
}

/// A correct program causes no report, of the layer or of the simulated device.
template <class Make>
void accepts_correct_programs(char const* name, Make const& make) {
    CAPTURE(std::string{name});
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    {
        auto                                       memory = make();
        sim_stream                                 s;
        std::minstd_rand                           random{5};
        std::vector<std::pair<void*, std::size_t>> live;
        for (int i = 0; i != 300; ++i) {
            if (live.size() < 20 && random() % 2 == 0) {
                std::size_t const n = 1 + random() % 5000;
                void* const p = random() % 4 == 0 ? memory.allocate_sync(n) : memory.allocate(s, n);
                sim_platform::fill(s, p, std::byte{7}, n);
                live.emplace_back(p, n);
            } else if (!live.empty()) {
                auto const [p, n] = live.back();
                live.pop_back();
                if (random() % 4 == 0) {
                    s.synchronize();
                    memory.deallocate_sync(p, n);
                } else {
                    memory.deallocate(s, p, n);
                }
            }
            if (i % 100 == 50) {
                s.synchronize();
                memory.check_blocks();
            }
        }
        for (auto const& [p, n] : live) { memory.deallocate(s, p, n); }
        s.synchronize();
    }
    CHECK(errors.count() == 0);
    CHECK(node.reports().empty());
}

auto device_memory() { return stream_ordered{sim_resource{}}; }

} // namespace

TEST_CASE("guarded: it keeps the laws of a resource") {
    laws::options const roomy{
        .room = 8_KiB, .largest = 1_KiB, .largest_alignment = 256, .may_refuse = true};
    laws::resource([](auto up) { return guarded{std::move(up), {.fence = 16}}; }, roomy);
    laws::resource([](auto up) { return guarded{std::move(up), {.fence = 16, .fills = false}}; },
                   roomy);
}

TEST_CASE("guarded: a write next to a block is found under every pool and over every source") {
    guarded_options const o{.fence = 64};
    finds_overruns("pool", [&] { return guarded{pool{device_memory()}, o}; });
    finds_overruns("slab", [&] { return guarded{slab{device_memory(), 4_KiB}, o}; });
    finds_overruns("binned", [&] { return guarded{binned{device_memory()}, o}; });
    finds_overruns("monotonic", [&] { return guarded{monotonic{device_memory()}, o}; });
    finds_overruns("arena", [&] { return guarded{arena{device_memory()}, o}; });
    finds_overruns("stream_ordered", [&] { return guarded{device_memory(), o}; });
    finds_overruns("async", [&] { return guarded{sim_async_resource{}, o}; });
    finds_overruns("virtual", [&] { return guarded{pool{sim_virtual_resource{}}, o}; });
    finds_overruns("under a layer",
                   [&] { return guarded{limiting{pool{device_memory()}, 1_GiB}, o}; });
    finds_overruns("quarantine", [&] {
        return guarded{pool{device_memory()}, {.fence = 64, .quarantine = 1_MiB}};
    });
}

TEST_CASE("guarded: a correct program causes no report") {
    guarded_options const late{.fence = 64, .quarantine = 20'000};
    accepts_correct_programs("pool", [&] { return guarded{pool{device_memory()}}; });
    accepts_correct_programs("quarantine", [&] { return guarded{pool{device_memory()}, late}; });
    accepts_correct_programs("arena", [&] { return guarded{arena{device_memory()}, late}; });
    accepts_correct_programs("stream_ordered", [&] { return guarded{device_memory(), late}; });
    accepts_correct_programs(
        "no fills", [&] { return guarded{pool{device_memory()}, {.fence = 16, .fills = false}}; });
}

TEST_CASE("guarded: a write to a freed block is found when it leaves the quarantine") {
    sim_node const         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    sim_stream             s;
    guarded                memory{pool{device_memory()}, {.quarantine = 10'000}};
    auto* const            p    = static_cast<std::byte*>(memory.allocate(s, 4000));
    auto const             line = static_cast<unsigned>(__LINE__) + 1;
    memory.deallocate(s, p, 4000);
    CHECK(memory.quarantined() == 4000);
    sim_platform::fill(s, p + 1234, std::byte{1}, 4);
    s.synchronize();
    memory.deallocate(s, memory.allocate(s, 5000), 5000);
    CHECK(errors.count() == 0);
    memory.deallocate(s, memory.allocate(s, 3000), 3000); // more than the quarantine has room for
    CHECK(memory.quarantined() == 8000);
    REQUIRE(errors.count(error_kind::overrun) == 1);
    CHECK(errors.last().pointer == p + 1234);
    CHECK(errors.last().block == p);
    CHECK(errors.last().caller.line() == line);
    memory.trim();
    CHECK(memory.quarantined() == 0);
    CHECK(memory.usage().live == 0);
    CHECK(errors.count() == 1);
}

TEST_CASE("guarded: check compares the fences of live blocks") {
    sim_node const         node;
    doubles::mishaps const errors;
    sim_stream             s;
    guarded                memory{pool{device_memory()}};
    auto* const            p = static_cast<std::byte*>(memory.allocate(s, 100));
    s.synchronize();
    memory.check_blocks();
    CHECK(errors.count() == 0);
    sim_platform::fill(s, p + 100, std::byte{1}, 1);
    s.synchronize();
    memory.check_blocks();
    CHECK(errors.count(error_kind::overrun) == 1);
    memory.deallocate(s, p, 100);
    memory.check_blocks();
    CHECK(errors.count(error_kind::overrun) == 2);
}

TEST_CASE("guarded: new and freed memory is filled, also without a stream") {
    host_resource const    host;
    doubles::mishaps const errors;
    guarded                memory{host, {.fence = 16, .quarantine = 1000}};
    auto* const            p = static_cast<std::byte*>(memory.allocate_sync(10));
    CHECK(p[0] == std::byte{0xCD});
    CHECK(p[9] == std::byte{0xCD});
    CHECK(p[10] == std::byte{0xFD});
    CHECK(p[-1] == std::byte{0xFD});
    p[-1] = std::byte{0};
    memory.deallocate_sync(p, 10);
    CHECK(errors.count(error_kind::overrun) == 1);
    CHECK(errors.last().pointer == p - 1);
}

TEST_CASE("guarded: invalid frees are reported and free nothing") {
    sim_node const         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    sim_stream             s;
    guarded                memory{pool{device_memory()}};
    void* const            p = memory.allocate(s, 100);
    memory.deallocate(s, p, 99);
    CHECK(errors.count(error_kind::wrong_size) == 1);
    CHECK(errors.last().block_bytes == 100);
    CHECK(memory.usage().live > 0);
    memory.deallocate(s, p, 100);
    memory.deallocate(s, p, 100);
    CHECK(errors.count(error_kind::foreign_pointer) == 1);
    CHECK(memory.usage().live == 0);
    CHECK(errors.count() == 2);
}

TEST_CASE("guarded: a layer statistics over it counts the requested bytes, its own figures the "
          "fences") {
    sim_node node;
    auto     memory = sim_resource{} | with::stream_ordered | with::pool |
                  with::guarded({.quarantine = 1_MiB}) | with::statistics;
    sim_stream         s;
    memory_delta const asked{memory};
    memory_delta const all{memory.upstream()};
    void* const        p = memory.allocate(s, 1000);
    CHECK(asked.bytes() == 1000);
    CHECK(asked.peak() == 1000);
    CHECK(all.bytes() >= 1000 + 2 * guarded_options{}.fence);
    CHECK(memory.now().bytes.value == 1000);
    memory.deallocate(s, p, 1000);
    CHECK(asked.bytes() == 0);
    CHECK(all.bytes() == 0); // the block is in the quarantine
}

TEST_CASE("guarded: a free during a capture is not checked") {
    sim_node const         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    sim_stream             s;
    guarded                memory{pool{device_memory(), {.graphs = true}}};
    void* const            p = memory.allocate(s, 100);
    sim_graph::begin(s);
    memory.deallocate(s, p, 100);
    (void)sim_graph::end(s);
    memory.check_blocks();
    CHECK(errors.count() == 0);
}

TEST_CASE("guarded: a block of a graph that was never launched causes no report") {
    sim_node const node{{.on_report = sim_on_report::collect}};
    for (std::size_t const quarantine : {std::size_t{0}, 1_MiB}) {
        CAPTURE(quarantine);
        doubles::mishaps const errors;
        {
            sim_stream s;
            guarded    memory{pool{device_memory(), {.graphs = true}}, {.quarantine = quarantine}};
            sim_graph::begin(s);
            void* const p = memory.allocate(s, 100);
            void* const q = memory.allocate(s, 100);
            (void)sim_graph::end(s);
            memory.check_blocks();
            memory.deallocate(s, p, 100);
            s.synchronize();
            memory.deallocate_sync(q, 100);
            memory.check_blocks();
        }
        CHECK(errors.count() == 0);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("guarded: a quarantine holds blocks that are freed without a stream, and is checked") {
    sim_node const         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    sim_stream             s;
    guarded                memory{pool{device_memory()}, {.quarantine = 10'000}};
    auto* const            p = static_cast<std::byte*>(memory.allocate_sync(4000));
    CHECK(memory.usage().live > 4000);
    memory.deallocate_sync(p, 4000);
    CHECK(memory.quarantined() == 4000);
    CHECK(memory.usage().live == 0); // no leak
    memory.check_blocks();
    CHECK(errors.count() == 0);
    sim_platform::fill(s, p + 10, std::byte{1}, 1);
    s.synchronize();
    memory.check_blocks();
    REQUIRE(errors.count(error_kind::overrun) == 1);
    CHECK(errors.last().pointer == p + 10);
    CHECK(memory.quarantined() == 4000);
    memory.trim();
    CHECK(memory.usage().live == 0);
}

TEST_CASE("guarded: a refused request empties the quarantine and is tried once more") {
    sim_node const         node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    sim_stream             s;
    guarded    memory{limiting{pool{device_memory()}, 8_KiB}, {.fence = 16, .quarantine = 1_MiB}};
    auto const held = [&] {
        memory.deallocate(s, memory.allocate(s, 5000), 5000);
        REQUIRE(memory.quarantined() == 5000);
    };
    held();
    memory.deallocate(s, memory.allocate(s, 5000), 5000);
    CHECK(memory.quarantined() == 5000);
    void* p = memory.try_allocate(s, 5000);
    REQUIRE(p != nullptr);
    CHECK(memory.quarantined() == 0);
    memory.deallocate(s, p, 5000);
    p = memory.allocate_sync(5000);
    CHECK(memory.quarantined() == 0);
    memory.deallocate_sync(p, 5000);
    p = memory.try_allocate_sync(5000);
    REQUIRE(p != nullptr);
    CHECK_THROWS_AS((void)memory.allocate(s, 5000), out_of_memory); // the quarantine is empty
    memory.deallocate_sync(p, 5000);
    CHECK(errors.count() == 0);
}

TEST_CASE("guarded: a refusal has the size that the caller requested") {
    sim_node const node{{.on_report = sim_on_report::collect}};
    sim_stream     s;
    guarded        memory{limiting{pool{device_memory()}, 8_KiB}, {.quarantine = 1_MiB}};
    auto const     asked = [&](auto call) {
        try {
            call();
        } catch (over_limit const& e) { return e.numbers().asked; }
        return std::size_t{0};
    };
    CHECK(asked([&] { (void)memory.allocate(s, 9000); }) == 9000);
    CHECK(asked([&] { (void)memory.allocate_sync(9000); }) == 9000);
    memory.deallocate(s, memory.allocate(s, 5000), 5000); // into the quarantine
    CHECK(asked([&] { (void)memory.allocate(s, 9000); }) == 9000);
    CHECK(memory.quarantined() == 0);
}

TEST_CASE("guarded: try_allocate reports a failed fill and returns null") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    sim_stream             s;
    guarded                memory{pool{device_memory()}};
    node.faults().at(sim_call_kind::copy, 1);
    CHECK(memory.try_allocate(s, 100) == nullptr);
    CHECK(errors.count(error_kind::platform_error) == 1);
    CHECK(memory.try_allocate(s, ~std::size_t{0}) == nullptr);
    CHECK(errors.count() == 1);
    CHECK(memory.usage().live == 0);
}

TEST_CASE("guarded: memory is freed after the fills of an allocation that fails") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    sim_stream             s;
    pool                   memory{device_memory()};
    guarded                layer{resource_ref{memory}};
    layer.deallocate_sync(layer.allocate_sync(1_MiB), 1_MiB); // makes the layer's stream
    node.faults().at(sim_call_kind::copy, 3);                 // the fill of the block
    CHECK_THROWS_AS((void)layer.allocate_sync(1_MiB), sim_error);
    void* const p = memory.allocate(s, 1_MiB);
    sim_platform::fill(s, p, std::byte{1}, 1_MiB);
    memory.deallocate(s, p, 1_MiB);
    s.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("guarded: a block leaves the quarantine after its uses, also if no stream can be made") {
    sim_node               node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    doubles::mishaps const errors;
    sim_stream             s, other;
    guarded                memory{pool{device_memory()}, {.quarantine = 1_MiB}};
    void* const            p = memory.allocate(s, 1000);
    sim_launch(s, {.name = "use", .writes = {{p, 1000}}, .duration = sim_time{90'000}});
    memory.deallocate(s, p, 1000);
    node.faults().at(sim_call_kind::create_stream, 1);
    memory.trim();
    CHECK(errors.count() == 1); // the block is not checked
    void* const next = memory.allocate(other, 1000);
    memory.deallocate(other, next, 1000);
    other.synchronize();
    s.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("guarded: a block stays in the quarantine if the wait for its uses fails") {
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        doubles::mishaps const errors;
        sim_stream const       s;
        guarded                memory{pool{device_memory()}, {.quarantine = 1_MiB}};
        void* const            p = memory.allocate(s, 1000);
        void* const            q = memory.allocate(s, 1000);
        sim_launch(s, {.writes = {{p, 1000}}, .duration = sim_time{90'000}});
        memory.deallocate(s, p, 1000);
        memory.deallocate(s, q, 1000);
        node.faults().at(sim_call_kind::synchronize, 1);
        (void)memory.trim();
        CHECK(errors.count(error_kind::platform_error) == 1);
        CHECK(memory.quarantined() == 1000); // that of `p`
        (void)memory.trim();
        CHECK(memory.quarantined() == 0);
        CHECK(memory.usage().live == 0);
        CHECK(errors.count() == 1);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("guarded: limiting over it does not count a free that the layer refuses") {
    doubles::mishaps const errors;
    sim_node const         node;
    limiting               memory{guarded{pool{device_memory()}}, 1_MiB};
    void* const            p    = memory.allocate_sync(1000);
    std::size_t const      live = memory.used();
    memory.deallocate_sync(p, 2000); // wrong size
    CHECK(memory.used() == live);
    memory.deallocate_sync(p, 1000);
    memory.deallocate_sync(p, 1000); // double free
    CHECK(errors.count() == 2);
    CHECK(memory.used() == 0);
}
