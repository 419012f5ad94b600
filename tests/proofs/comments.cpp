// SPDX-License-Identifier: Apache-2.0
// Code of header comments, unchanged; cmake/snippets.py compares the two. tests/nvcc/snippets.cu
// has the code that uses CUDA.
#include <vram/base/bytes.hpp>
#include <vram/base/over_limit.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/sim/sim_figures.hpp>
#include <vram/sim/sim_node.hpp>
#include <vram/sim/sim_report.hpp>
#include <vram/sim/sim_resource.hpp>

#include <doctest/doctest.h>

#include <cstddef> // size_t
#include <cstdio>  // puts

using namespace vram;

TEST_CASE("comments: over_limit") {
    sim_node const node;
    limiting       memory{sim_resource{}, 1_MiB};
    std::size_t    size = 2_MiB;
    // clang-format off
    try {
        memory.deallocate_sync(memory.allocate_sync(size), size);
    }
    // [base/over_limit]
    catch (over_limit const& e) { size = e.room(); } // the bytes that are left below the limit
    // [/base/over_limit]
    // clang-format on
    CHECK(size == 1_MiB);
}

TEST_CASE("comments: the figures and the reports of a node") {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    void* const  p = memory.allocate_sync(4_KiB);
    // [sim/sim_figures]
    sim_figures const f = node.figures(); // f.overlap(): the time of copies during kernels
    // [/sim/sim_figures]
    CHECK(f.allocations == 1);
    CHECK(f.overlap() == sim_time{});
    memory.deallocate_sync(p, 8_KiB);
    std::size_t reports = 0;
    // [sim/sim_report]
    for (sim_report const& r : node.reports()) { std::puts(r.text().c_str()); }
    // [/sim/sim_report]
    for (sim_report const& r : node.reports()) {
        CHECK(r.kind == sim_mistake::wrong_size);
        ++reports;
    }
    CHECK(reports == 1);
}
