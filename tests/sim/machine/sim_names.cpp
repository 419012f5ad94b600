// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_names.hpp> // first: the header stands alone

#include <vram/sim/sim_copy.hpp>
#include <vram/sim/sim_launch.hpp>
#include <vram/sim/sim_node.hpp>
#include <vram/sim/sim_pinned_resource.hpp>
#include <vram/sim/sim_resource.hpp>
#include <vram/sim/sim_stream.hpp>
#include <vram/sim/sim_thread.hpp>
#include <vram/sim/sim_touch.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <thread>

using namespace vram;

namespace {

bool names_have(std::string const& text, std::string const& part) {
    if (text.find(part) != std::string::npos) { return true; }
    MESSAGE(text);
    return false;
}

} // namespace

TEST_CASE("sim_names: a report names streams, memory, and the direction of a copy") {
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_resource        memory;
    sim_pinned_resource host;
    sim_stream          copies{sim_device{}, {.name = "copies"}}, work;
    auto* const         d = static_cast<std::byte*>(memory.allocate_sync(1024));
    void* const         h = host.allocate_sync(1024);
    sim_name({d, 1024}, "weights");
    sim_copy(copies, d, h, 1024);
    sim_launch(work, {.name = "train", .reads = {{d + 256, 256}}});
    sim_name(work, "work"); // also applies to the operation above
    sim_launch(sim_stream_view{}, {.name = "sum", .reads = {{d, 4}}});
    sim_device{}.synchronize();
    memory.deallocate_sync(d, 1024);
    host.deallocate_sync(h, 1024);
    auto const all = node.take_reports();
    REQUIRE(all.size() == 2);
    CHECK(names_have(all[0].text(), ", in \"weights\", from byte 256\n"));
    CHECK(names_have(all[0].text(), "`copy host to device` #3 on stream \"copies\" of device 0"));
    CHECK(all[0].missing == "stream " + std::to_string(all[0].second.actor) +
                                " must wait for an event recorded on stream \"copies\" after "
                                "`copy host to device` #3");
    CHECK(names_have(all[1].text(), "`sum` #5 on the default stream of device 0"));
    CHECK(all[1].memory == "in \"weights\"");
}

TEST_CASE("sim_names: copies are named by their direction") {
    sim_node            node{{.devices = 2, .on_report = sim_on_report::collect, .trace = true}};
    sim_resource        near{sim_device{0}}, far{sim_device{1}};
    sim_pinned_resource host;
    sim_stream          s;
    void* const         a = near.allocate_sync(64);
    void* const         b = near.allocate_sync(64);
    void* const         c = far.allocate_sync(64);
    void* const         h = host.allocate_sync(64);
    void* const         i = host.allocate_sync(64);
    for (auto [to, from] : {std::pair{a, h}, {h, a}, {b, a}, {c, a}, {i, h}}) {
        sim_copy(s, to, from, 64);
    }
    s.synchronize();
    auto const done = node.trace();
    REQUIRE(done.size() == 5);
    CHECK(std::string{done[0].name} == "copy host to device");
    CHECK(std::string{done[1].name} == "copy device to host");
    CHECK(std::string{done[2].name} == "copy on the device");
    CHECK(std::string{done[3].name} == "peer copy");
    CHECK(std::string{done[4].name} == "copy host to host");
    for (void* const p : {a, b}) { near.deallocate_sync(p, 64); }
    far.deallocate_sync(c, 64);
    for (void* const p : {h, i}) { host.deallocate_sync(p, 64); }
}

TEST_CASE("sim_names: threads have names") {
    if (!sim_ordered_threads) { return; }
    sim_node            node{{.on_report = sim_on_report::collect}};
    sim_pinned_resource host;
    void* const         q      = host.allocate_sync(512);
    auto const          writes = [&](char const* name) {
        return [=] {
            sim_name(name);
            sim_touch({q, 512}, sim_access::write);
        };
    };
    {
        sim_thread one{sim_device{}, writes("filler")}, two{sim_device{}, writes("reader")};
        sim_thread::join_together(one, two);
    }
    auto const all = node.take_reports();
    REQUIRE(all.size() == 1);
    CHECK(all[0].missing == "host thread \"reader\" must wait for host thread \"filler\" (a gate, "
                            "a join) after `host` #" +
                                std::to_string(all[0].first.number));
    host.deallocate_sync(q, 512);
}

TEST_CASE("sim_names: each thread has its own name if the order of all threads is checked") {
    sim_node node{{.on_report = sim_on_report::collect, .host_threads = sim_host_order::checked}};
    sim_pinned_resource host;
    void* const         q = host.allocate_sync(512);
    sim_name("main");
    int const created = 0, ended = 0;
    sim_happens_before(&created);
    std::thread{[&] {
        sim_name("filler"); // the first call of the thread; it is no order
        sim_happens_after(&created);
        sim_touch({q, 512}, sim_access::write);
        sim_name("writer");
        sim_happens_before(&ended);
    }}.join();
    std::thread{[&] {
        sim_name("reader");
        sim_touch({q, 512}, sim_access::read);
    }}.join();
    sim_happens_after(&ended);
    sim_touch({q, 512}, sim_access::write);
    auto const all = node.take_reports();
    REQUIRE(all.size() == 2); // the reader is ordered with nothing
    CHECK(all[0].second_by == "host thread \"reader\"");
    CHECK(all[0].first_by == "host thread \"writer\"");
    CHECK(all[1].second_by == "host thread \"main\"");
    CHECK(all[1].first_by == "host thread \"reader\"");
    host.deallocate_sync(q, 512);
}

TEST_CASE("sim_names: old names of streams are forgotten, and that of the default stream is not") {
    detail::sim_names names;
    names.set_default(1, "the default stream");
    for (std::uint64_t i = 2; i < 3 + detail::sim_names::most; ++i) { names.set(false, i, "x"); }
    CHECK(names.of(sim_event_of{.actor = 1}) == "the default stream");
    CHECK(names.of(sim_event_of{.actor = 2}) == "stream 2");
    CHECK(names.of(sim_event_of{.actor = 3}) == "x");
    CHECK(names.of(sim_event_of{.host = true, .actor = 3}) == "host thread 3");
}

TEST_CASE("sim_names: memory has its name until the addresses are allocated again") {
    detail::sim_names names;
    auto const        at = [](std::uintptr_t a) { return reinterpret_cast<void const*>(a); };
    names.set(sim_range{at(64), 64}, "a");
    names.set(sim_range{at(256), 64}, "b");
    CHECK(names.of(64) == "in \"a\"");
    CHECK(names.of(127) == "in \"a\", from byte 63");
    CHECK(names.of(128).empty());
    CHECK(names.of(63).empty());
    names.forget({at(120), 130});
    CHECK(names.of(64).empty());
    CHECK(names.of(256) == "in \"b\"");
    names.forget({at(0), 257});
    CHECK(names.of(256).empty());
}
