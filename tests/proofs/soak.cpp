// SPDX-License-Identifier: Apache-2.0
// The soak of cuda/soak.cu in a small form on the simulated device: it finds nothing in correct
// pools, and detects injected flaws.
#include "../laws/soak.hpp"

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/page_modes.hpp"
#include "../doubles/small_pages.hpp"
#include "../laws/effort.hpp"

#include <doctest/doctest.h>

#include <atomic> // atomic

using namespace vram;
using laws::soak_flaw;

namespace {

using soak_upstream = stream_ordered<sim_resource>;

/// Writes and reads blocks of the simulated device, in kernels that declare their accesses.
class sim_painter {
public:
    void write(sim_stream_view s, void* p, std::size_t bytes, std::uint64_t number) {
        auto* const at = static_cast<std::uint64_t*>(p);
        sim_launch(s, {.name = "write", .writes = {{p, bytes}}}, [=] {
            auto* const words = sim_view(at);
            for (std::size_t i = 0; i < bytes / 8; ++i) { words[i] = laws::soak_word(number, i); }
        });
    }
    void check(sim_stream_view s, void const* p, std::size_t bytes, std::uint64_t number) {
        auto* const at = static_cast<std::uint64_t const*>(p);
        sim_launch(s, {.name = "check", .reads = {{p, bytes}}}, [=, this] {
            auto const* const words = sim_view(at);
            for (std::size_t i = 0; i < bytes / 8; ++i) {
                if (words[i] != laws::soak_word(number, i)) { ++wrong_; }
            }
        });
    }
    void dawdle(sim_stream_view s, std::size_t length) {
        sim_launch(s, {.name = "dawdle", .duration = sim_time{length * 10'000}});
    }
    [[nodiscard]] std::uint64_t wrong() const { return wrong_; }

private:
    std::atomic<std::uint64_t> wrong_ = 0;
};

struct soak_end {
    std::uint64_t      wrong;
    std::size_t        reports;
    laws::soak_figures did;
};

/// Runs a load on the memory resource that `make` creates.
template <class Make>
soak_end soak_on_sim(laws::soak_options o, Make make) {
    o.most = 64_KiB;
    o.live = 1_MiB;
    sim_node               node{{.checks    = {.uninitialised = o.flaw == soak_flaw::none},
                                 .on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    soak_end               end{};
    {
        auto        memory = make();
        sim_painter painter;
        end.did   = laws::soak{memory, painter, o}.run();
        end.wrong = painter.wrong();
        CHECK(memory.usage().live == 0);
        memory.trim();
        CHECK(memory.usage().reserved == 0);
    }
    end.reports = node.reports().size();
    CHECK(told.count() == 0);
    CHECK(end.did.blocks != 0);
    CHECK(end.did.handed != 0);
    return end;
}

template <class Make>
void soaks_well(laws::soak_options o, Make make) {
    soak_end const end = soak_on_sim(o, make);
    CHECK(end.wrong == 0);
    CHECK(end.reports == 0);
}

auto soak_in_pages(doubles::page_mode mode) {
    return pool{sim_virtual_resource{{.reserve = 1_GiB, .handle_size = doubles::small_page}},
                doubles::in_mode(mode)};
}
auto soak_in_one_chunk() {
    return pool{soak_upstream{sim_resource{}}, {.initial_size = 2_MiB, .max_size = 2_MiB}};
}

} // namespace

TEST_CASE("soak: blocks of every pool on the simulated device keep their contents") {
    laws::soak_options const o{.operations = laws::of_many(3000)};
    soaks_well(o, [] { return pool<soak_upstream>{}; });
    for (doubles::page_mode const mode : doubles::page_modes) {
        soaks_well(o, [&] { return soak_in_pages(mode); });
    }
    soaks_well(o, [] { return slab<soak_upstream>{64_KiB}; });
    soaks_well(o, [] { return binned<soak_upstream>{{.largest = 16_KiB}}; });
    soaks_well(o, [] { return binned<pool<soak_upstream>>{{.largest = 16_KiB}}; });
    soaks_well({.operations = laws::of_many(60)}, [] { return monotonic<soak_upstream>{}; });
}

TEST_CASE("soak: threads exchange blocks of every pool that accepts single frees") {
    laws::soak_options const o{.operations = 1000, .threads = 3};
    soaks_well(o, [] { return pool<soak_upstream>{}; });
    for (doubles::page_mode const mode : doubles::page_modes) {
        soaks_well(o, [&] { return soak_in_pages(mode); });
    }
    soaks_well(o, [] { return slab<soak_upstream>{64_KiB}; });
    soaks_well(o, [] { return binned<pool<soak_upstream>>{{.largest = 16_KiB}}; });
    for (arena_key const key : {arena_key::thread, arena_key::stream}) {
        soaks_well(o, [&] { return arena<pool<soak_upstream>>{{.count = 2, .key = key}}; });
    }
}

TEST_CASE("soak: memory that is reused too early is detected by its contents") {
    for (std::uint64_t const seed : {1, 2, 3}) {
        laws::soak_options const o{.operations = 3000, .seed = seed, .flaw = soak_flaw::one_stream};
        soak_end const           end = soak_on_sim(o, soak_in_one_chunk);
        CHECK(end.wrong != 0);
        CHECK(end.reports != 0);
    }
}

TEST_CASE("soak: a block that another stream uses without a wait is detected") {
    laws::soak_options const o{.operations = 3000, .flaw = soak_flaw::no_wait};
    CHECK(soak_on_sim(o, soak_in_one_chunk).wrong != 0);
    laws::soak_options const steps{.operations = 60, .flaw = soak_flaw::no_wait};
    CHECK(soak_on_sim(steps, [] { return monotonic<soak_upstream>{}; }).wrong != 0);
}
