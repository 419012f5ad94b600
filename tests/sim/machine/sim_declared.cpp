// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_declared.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace vram;

namespace sim_declared_tests {

/// Runs one kernel with `declared` writes and reads whose body is `body`, and returns the reports.
template <class Body>
std::vector<sim_report> run(std::vector<sim_range> reads, std::vector<sim_range> writes,
                            Body body) {
    sim_stream const stream;
    sim_launch(stream, {.name = "kernel", .reads = std::move(reads), .writes = std::move(writes)},
               body);
    stream.synchronize();
    return sim_node::current().take_reports();
}

/// A node that stores its reports, and memory of 1 KiB.
struct scene {
    sim_node     node{{.on_report = sim_on_report::collect}};
    sim_resource memory;
    int* const   p = static_cast<int*>(memory.allocate_sync(1024));

    ~scene() { memory.deallocate_sync(p, 1024); }
};

} // namespace sim_declared_tests

using namespace sim_declared_tests;

TEST_CASE("sim_view: a kernel that accesses memory it does not declare is reported") {
    scene const here;
    int* const  p     = here.p;
    auto const  found = run({}, {}, [=] { sim_view(p)[0] = 1; });
    REQUIRE(found.size() == 1);
    CHECK(found[0].kind == sim_mistake::undeclared_access);
    CHECK(found[0].address == reinterpret_cast<std::uintptr_t>(p));
    CHECK(found[0].bytes == sizeof(int));
    CHECK(found[0].text().find("`kernel`") != std::string::npos);
    CHECK(found[0].text().find("declaration") != std::string::npos);
}

TEST_CASE("sim_view: declared reads and writes, also of adjacent ranges, are not reported") {
    scene const here;
    int* const  p = here.p;
    CHECK(run({{p, 1024}}, {}, [=] { (void)sim_view(std::span{p, 256}); }).empty());
    CHECK(run({}, {{p, 1024}}, [=] { sim_view(p)[0] = 1; }).empty());
    CHECK(run({{p + 128, 512}}, {{p, 512}}, [=] { (void)sim_view(std::span{p, 256}); }).empty());
}

TEST_CASE("sim_view: the report names the bytes from the first undeclared one on") {
    scene const here;
    int* const  p     = here.p;
    auto const  found = run({{p, 512}}, {}, [=] { (void)sim_view(std::span{p, 256}); });
    REQUIRE(found.size() == 1);
    CHECK(found[0].address == reinterpret_cast<std::uintptr_t>(p + 128));
    CHECK(found[0].bytes == 512);
}

TEST_CASE("sim_view: an empty span, host memory and the host itself need no declaration") {
    scene const here;
    int* const  p = here.p;
    int         on_the_host[4]{};
    int* const  q = on_the_host;
    CHECK(run({}, {}, [=] { (void)sim_view(std::span{p, 0}); }).empty());
    CHECK(run({}, {}, [=] { sim_view(q)[0] = 1; }).empty());
    sim_view(p)[0] = 1;
    CHECK(here.node.reports().empty());
}

TEST_CASE("sim_view: undeclared pinned memory is reported, and `declarations` switches it off") {
    scene               here;
    sim_pinned_resource pinned;
    int* const          p = static_cast<int*>(pinned.allocate_sync(64));
    CHECK(run({}, {}, [=] { sim_view(p)[0] = 1; }).size() == 1);
    here.node.set_checks({.declarations = false});
    CHECK(run({}, {}, [=] { sim_view(p)[0] = 1; }).empty());
    pinned.deallocate_sync(p, 64);
}

TEST_CASE("sim_view: a kernel of a graph is compared with its declaration at each launch") {
    scene const here;
    int* const  p = here.p;
    sim_stream  stream;
    sim_graph::begin(stream);
    sim_launch(stream, {.name = "kernel"}, [=] { sim_view(p)[0] = 1; });
    sim_graph const graph = sim_graph::end(stream);
    graph.launch(stream);
    stream.synchronize();
    CHECK(here.node.reports().size() == 1);
}
