// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/report.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"

#include <vram/handle/any_resource.hpp>
#include <vram/handle/current.hpp>
#include <vram/handle/current_resource_guard.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/pressure/calling.hpp>
#include <vram/pressure/trim_upstream.hpp>
#include <vram/probe/explain.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/source/region_resource.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>

using namespace vram;

TEST_CASE("report: the outermost layer comes first, each with its own figures") {
    limiting    memory{limiting{doubles::archetype<>{}, 1_MiB}, 64_KiB};
    void* const p = memory.allocate_sync(3_KiB);
    void* const q = memory.allocate_sync(1_KiB);
    memory.deallocate_sync(q, 1_KiB);
    // clang-format off
    CHECK(report(memory) ==
          "layer              live  peak live  reserved  peak reserved  allocations     limit\n"
          "limiting       3.00 KiB                                                   64.0 KiB\n"
          "  limiting     3.00 KiB                                                   1.00 MiB\n"
          "    archetype  3.00 KiB   4.00 KiB  3.00 KiB       4.00 KiB            2\n");
    // clang-format on
    memory.deallocate_sync(p, 3_KiB);
}

TEST_CASE("report: a resource without usage() has a blank row") {
    CHECK(report(host_resource{}) == "layer\nhost_resource\n");
}

TEST_CASE("report: the largest free block is shown if the resource has it") {
    alignas(256) std::byte buffer[1024];
    region_resource<>      memory{buffer, sizeof buffer};
    void* const            p    = memory.allocate_sync(256);
    auto const             text = report(memory);
    CHECK(text.find("largest free") != std::string::npos);
    CHECK(text.find("768 B") != std::string::npos);
    CHECK(text.find("events") == std::string::npos);
    memory.deallocate_sync(p, 256);
}

TEST_CASE("report: statistics shows allocations and refusals") {
    statistics memory{limiting{host_resource{}, 64_KiB}};
    memory.deallocate_sync(memory.allocate_sync(2_KiB), 2_KiB);
    CHECK(memory.try_allocate_sync(65_KiB) == nullptr);
    // clang-format off
    CHECK(report(memory) == "layer              live  peak live  allocations  refused     limit\n"
                            "statistics          0 B   2.00 KiB            1        1\n"
                            "  limiting          0 B                                   64.0 KiB\n"
                            "    host_resource\n");
    // clang-format on
}

TEST_CASE("report: a layer over two upstreams shows both") {
    fallback    memory{limiting{doubles::archetype<>{}, 1_KiB}, doubles::archetype<>{}};
    void* const p    = memory.allocate_sync(2_KiB);
    auto const  text = report(memory);
    // clang-format off
    CHECK(text == "layer              live  peak live  reserved  peak reserved  allocations     limit\n"
                  "fallback\n"
                  "  limiting          0 B                                                   1.00 KiB\n"
                  "    archetype       0 B        0 B       0 B            0 B            0\n"
                  "  archetype    2.00 KiB   2.00 KiB  2.00 KiB       2.00 KiB            1\n");
    // clang-format on
    memory.deallocate_sync(p, 2_KiB);
}

TEST_CASE("report: a value of 0 is printed as 0") {
    pool memory{stream_ordered{host_resource{}}};
    CHECK(report(memory) ==
          "layer              live  peak live  reserved  peak reserved  allocations\n"
          "pool                0 B        0 B       0 B            0 B            0\n"
          "  stream_ordered    0 B        0 B       0 B            0 B            0\n"
          "    host_resource\n");
}

TEST_CASE("report: every pool has its values in its own row") {
    using upstream         = stream_ordered<host_resource>;
    auto const has_own_row = [](auto memory, std::string const& name) {
        void* const       p    = memory.allocate_sync(3_KiB);
        std::string const text = report(memory);
        CHECK(text.find("\n" + name + " ") != std::string::npos);
        CHECK(text.find("peak reserved") != std::string::npos);
        memory.deallocate_sync(p, 3_KiB);
    };
    has_own_row(pool<upstream>{}, "pool");
    has_own_row(slab<upstream>{4_KiB}, "slab");
    has_own_row(binned<upstream>{}, "binned");
    has_own_row(arena<upstream>{}, "arena");
    has_own_row(monotonic<upstream>{}, "monotonic");
}

TEST_CASE("report: the layers below a shared handle are shown") {
    shared      memory{limiting{doubles::archetype<>{}, 64_KiB}};
    void* const p = memory.allocate_sync(3_KiB);
    // clang-format off
    CHECK(report(memory) ==
          "layer              live  peak live  reserved  peak reserved  allocations     limit\n"
          "shared\n"
          "  limiting     3.00 KiB                                                   64.0 KiB\n"
          "    archetype  3.00 KiB   3.00 KiB  3.00 KiB       3.00 KiB            1\n");
    // clang-format on
    memory.deallocate_sync(p, 3_KiB);
}

TEST_CASE("report: the full report has the sections of the stack, and a section for each of tags "
          "and streams") {
    auto memory = doubles::archetype<>{} | with::limiting(64_MiB) | with::pool |
                  with::retrying(trim_upstream{}) | with::statistics | with::tracking;
    void* p = nullptr;
    {
        tagged const scope{"report/model"};
        p = memory.allocate({}, 3000);
    }
    memory.deallocate({}, memory.allocate({}, 1000), 1000);
    CHECK_THROWS_AS((void)memory.allocate({}, 100_MiB), out_of_memory);
    std::string const text = report(memory, report_kind::full);
    CAPTURE(text);
    auto const has = [&](char const* part) { return text.find(part) != std::string::npos; };
    CHECK(text.starts_with("memory                              now      peak  allocated in all  "
                           "freed in all\n"
                           "allocated                      "));
    CHECK(has("\nactive (allocated or pending)  "));
    CHECK(has("\nrequested                      2.93 KiB\n"));
    CHECK(has("\nreserved                       2.00 MiB  2.00 MiB\n"));
    CHECK(has("\nnon-releasable "));
    CHECK(has("\nnumber of blocks                      1         2                 2             "
              "1\n"));
    CHECK(has("\n1 out of memory, 0 retried, "));
    CHECK(has("\nscattered: "));
    CHECK(has("\nreport/model  2.93 KiB       1 "));
    CHECK(has("\nstream "));
    CHECK(text.ends_with(report(memory)));
    memory.deallocate({}, p, 3000);
}

TEST_CASE("report: the full report of a resource without figures is that of its layers") {
    CHECK(report(host_resource{}, report_kind::full) == report(host_resource{}));
}

TEST_CASE("report: the layers behind a handle that hides the type are shown") {
    limiting                              below{doubles::archetype<>{}, 64_KiB};
    any_resource_of<doubles::archetype<>> memory{doubles::archetype<>{}};
    void* const                           p = memory.allocate_sync(3_KiB);
    // clang-format off
    CHECK(report(memory) ==
          "layer             live  peak live  reserved  peak reserved  allocations\n"
          "any_resource\n"
          "  archetype   3.00 KiB   3.00 KiB  3.00 KiB       3.00 KiB            1\n");
    // clang-format on
    CHECK(report(memory, report_kind::full).find("allocated  ") != std::string::npos);
    memory.deallocate_sync(p, 3_KiB);
    CHECK(memory.resource_name() == "archetype");
    resource_ref const ref{below};
    CHECK(report(ref).find("\n  limiting ") != std::string::npos);
    auto const current = current_resource<host_platform>();
    CHECK(report(current).find("\n  host_resource") != std::string::npos);
    any_resource_of<doubles::archetype<>> const moved{std::move(memory)};
    CHECK(report(memory) == "layer\nany_resource\n  nothing\n");
}

TEST_CASE(
    "report: a stack behind any_resource, shared, resource_ref or current has all its layers and "
    "sections") {
    using source = doubles::archetype<>;
    auto stack = source{} | with::limiting(64_MiB) | with::pool | with::retrying(trim_upstream{}) |
                 with::statistics | with::tracking;
    using stack_type = decltype(stack);
    any_resource_of<source> any{shared<stack_type>{std::move(stack)}};
    void*                   p = nullptr;
    {
        tagged const scope{"report/behind"};
        p = any.allocate(source::stream{}, 3000);
    }
    CHECK_THROWS_AS((void)any.allocate(source::stream{}, 100_MiB), out_of_memory);
    auto const complete = [&](auto const& memory) {
        std::string const text = report(memory, report_kind::full);
        CAPTURE(text);
        for (char const* part :
             {"\n1 out of memory", " retried, ", "\nscattered: ", "\nstream ",
              "\nreport/behind  2.93 KiB       1 ", "\nnumber of blocks ", " tracking ",
              " statistics ", " retrying", " pool ", " limiting ", " archetype "}) {
            CAPTURE(part);
            CHECK(text.find(part) != std::string::npos);
        }
    };
    complete(any);
    complete(resource_ref{any});
    complete(limiting{resource_ref{any}, 1_GiB});
    current_resource_guard<host_platform> const now{any};
    complete(current_resource<host_platform>());
    any.deallocate(source::stream{}, p, 3000);
}

TEST_CASE("report: the holders of memory behind handles are named in out_of_memory") {
    using source = doubles::archetype<>;
    any_resource_of<source> any{source{} | with::limiting(64_KiB) | with::tracking};
    statistics              over{resource_ref{any}};
    void*                   p = nullptr;
    {
        tagged const scope{"holders/behind"};
        p = over.allocate({}, 60_KiB);
    }
    std::string text;
    try {
        (void)over.allocate({}, 8_KiB);
    } catch (out_of_memory const& e) { text = explain(e); }
    CHECK(text.find("60.0 KiB in 1 block for \"holders/behind\"") != std::string::npos);
    over.deallocate({}, p, 60_KiB);
}

TEST_CASE("report: retries are counted") {
    int  asked  = 0;
    auto memory = doubles::archetype<>{10} |
                  with::retrying(calling{[&](failed_attempt const&) { return ++asked < 3; }});
    CHECK(memory.retries() == 0);
    CHECK(memory.try_allocate_sync(100) == nullptr);
    CHECK(memory.retries() == static_cast<std::uint64_t>(asked - 1));
    CHECK(memory.retries() > 0);
    CHECK(report(memory, report_kind::full).find(std::to_string(memory.retries()) + " retried") !=
          std::string::npos);
}

TEST_CASE(
    "report: the full report leaves out the counts that a resource with memory does not keep, "
    "and prints those of a pool") {
    sim_node const     node;
    sim_stream         stream;
    sim_async_resource bare;
    pool               counted{stream_ordered{sim_resource{}}};
    void* const        p    = bare.allocate(stream, 1_MiB);
    void* const        q    = counted.allocate(stream, 1_MiB);
    auto const         full = [](auto const& memory) { return report(memory, report_kind::full); };
    CHECK(full(bare).find("allocated ") != std::string::npos);
    CHECK(full(bare).find("number of blocks") == std::string::npos);
    CHECK(full(bare).find("calls of the upstream") == std::string::npos);
    CHECK(full(bare).find(" events") == std::string::npos);
    CHECK(full(counted).find("number of blocks") != std::string::npos);
    CHECK(full(counted).find("\n1 calls of the upstream, ") != std::string::npos);
    bare.deallocate(stream, p, 1_MiB);
    counted.deallocate(stream, q, 1_MiB);
    stream.synchronize();
    CHECK(full(bare).find("number of blocks") == std::string::npos); // the peak is not 0
}
