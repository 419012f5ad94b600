// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_shared_link.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

namespace {
sim_options two_engines() {
    return {.copy_latency    = sim_time{0},
            .to_device_slots = 2,
            .to_host_slots   = 2,
            .on_report       = sim_on_report::collect,
            .trace           = true};
}
/// Copies between pinned memory and one device, each on a stream of its own. They start now.
struct copied_sideways {
    explicit copied_sideways(sim_device d = {}) : memory{d}, device{d} {
        to   = static_cast<std::byte*>(memory.allocate_sync(most));
        from = static_cast<std::byte*>(pinned.allocate_sync(most));
    }
    copied_sideways(copied_sideways&&) = delete;
    ~copied_sideways() {
        device.synchronize();
        memory.deallocate_sync(to, most);
        pinned.deallocate_sync(from, most);
    }
    void up(std::size_t bytes) {
        streams.emplace_back(device);
        sim_copy(streams.back(), to + used, from + used, bytes);
        used += bytes;
    }
    void down(std::size_t bytes) {
        streams.emplace_back(device);
        sim_copy(streams.back(), from + used, to + used, bytes);
        used += bytes;
    }

    static constexpr std::size_t most = 400'000'000;
    sim_resource                 memory;
    sim_pinned_resource          pinned;
    sim_device                   device;
    std::byte *                  to = nullptr, *from = nullptr;
    std::size_t                  used = 0;
    std::vector<sim_stream>      streams;
};
/// "start-end ..." of all operations in microseconds, in the order of their ends.
std::string spans(sim_node& node) {
    std::string text;
    for (auto const& t : node.trace()) {
        text += (text.empty() ? "" : " ") + std::to_string(t.start.count() / 1000) + "-" +
                std::to_string(t.end.count() / 1000);
    }
    return text;
}
} // namespace

TEST_CASE("sim_shared_link: two copies in one direction have half of the link each") {
    auto o   = two_engines();
    o.backed = false;
    sim_node node{o};
    {
        copied_sideways copies;
        copies.up(25'000'000);
        copies.up(25'000'000);
        sim_device{}.synchronize();
        CHECK(node.now() == 2ms); // at 25 GB/s
        CHECK(spans(node) == "0-2000 0-2000");
        sim_figures const f = node.figures();
        CHECK(f.busy(sim_engine::to_device) == 2ms);
        CHECK(f.work[1] == 4ms);
        CHECK(f.bytes_to_device == 50'000'000);
    }
}

TEST_CASE("sim_shared_link: a copy that starts later slows the first one from then on") {
    auto o   = two_engines();
    o.backed = false;
    sim_node node{o};
    {
        copied_sideways copies;
        copies.up(50'000'000); // 2 ms alone
        node.work(1ms);
        copies.up(12'500'000); // 0.5 ms alone; half of the link until it has ended
        copies.up(25'000'000); // a third copy waits for an engine
        sim_device{}.synchronize();
        // Until 1: the first alone. Until 2: two share. Then the first and the third share.
        CHECK(spans(node) == "1000-2000 0-3000 2000-3500");
    }
}

TEST_CASE("sim_shared_link: directions and devices do not share, unless devices have one root") {
    for (int const devices_per_root : {1, 2}) {
        auto o             = two_engines();
        o.backed           = false;
        o.devices          = 2;
        o.devices_per_root = devices_per_root;
        sim_node node{o};
        {
            copied_sideways first{sim_device{0}}, second{sim_device{1}};
            first.up(25'000'000);
            first.down(25'000'000);
            second.up(25'000'000);
            sim_device{0}.synchronize();
            sim_device{1}.synchronize();
            bool const one = devices_per_root == 2;
            CHECK(spans(node) == (one ? "0-1000 0-2000 0-2000" : "0-1000 0-1000 0-1000"));
            CHECK(node.figures(0).overlap(sim_set(sim_engine::to_device),
                                          sim_set(sim_engine::to_host)) == 1ms);
            CHECK(node.figures(1).busy(sim_engine::to_device) == (one ? 2ms : 1ms));
        }
    }
}

TEST_CASE("sim_shared_link: one engine for each device, and one root for both") {
    sim_options o{.devices          = 2,
                  .backed           = false,
                  .copy_latency     = sim_time{0},
                  .devices_per_root = 2,
                  .on_report        = sim_on_report::collect,
                  .trace            = true};
    sim_node    node{o};
    {
        copied_sideways first{sim_device{0}}, second{sim_device{1}};
        first.up(25'000'000);
        first.up(25'000'000); // waits for the engine of its device
        second.up(25'000'000);
        sim_device{0}.synchronize();
        sim_device{1}.synchronize();
        CHECK(spans(node) == "0-2000 0-2000 2000-3000");
    }
}

TEST_CASE("sim_shared_link: a latency is not shared") {
    auto o         = two_engines();
    o.backed       = false;
    o.copy_latency = 100us;
    sim_node node{o};
    {
        copied_sideways copies;
        copies.up(25'000'000);
        node.work(500us);
        copies.up(25'000'000); // uses the link from 600 us on
        sim_device{}.synchronize();
        CHECK(spans(node) == "0-1600 500-2100");
    }
}

TEST_CASE("sim_shared_link: copies within a device share its memory; kernels do by an option") {
    for (bool const share : {false, true}) {
        sim_options o{.backed           = false,
                      .device_bandwidth = 100_GB,
                      .copy_latency     = sim_time{0},
                      .compute_slots    = 4,
                      .kernels_share    = share,
                      .on_report        = sim_on_report::collect,
                      .trace            = true};
        sim_node    node{o};
        {
            copied_sideways d;
            sim_stream      s, t, u;
            sim_copy(s, d.to, d.to + 200'000'000, 100'000'000); // 1 ms alone
            sim_fill(t, d.to + 100'000'000, {}, 100'000'000);
            sim_launch(u, {.duration = 1ms});
            sim_device{}.synchronize();
            CHECK(spans(node) == (share ? "0-3000 0-3000 0-3000" : "0-1000 0-2000 0-2000"));
        }
    }
}

TEST_CASE("sim_shared_link: k operations of random lengths end when a step by step count says") {
    sim_random random{11};
    for (int round = 0; round < 50; ++round) {
        std::vector<sim_operation> all(1 + random.below(16));
        std::vector<long long>     left; // in units of 1/720720 ns
        sim_shared_link            link;
        for (std::size_t i = 0; i < all.size(); ++i) {
            all[i].number        = i + 1;
            all[i].task.transfer = sim_time{1 + static_cast<int>(random.below(1000))};
            left.push_back(all[i].task.transfer.count() * 720720);
            link.add(all[i], sim_time{0});
        }
        long long now = 0;
        for (std::size_t running = all.size(); running != 0; --running) {
            sim_operation* const ends = link.first();
            REQUIRE(ends != nullptr);
            auto const end = link.first_end();
            for (long long t = now; t < end.count(); ++t) {
                for (long long& l : left) { l -= 720720 / static_cast<long long>(running); }
            }
            now             = end.count();
            auto const mine = static_cast<std::size_t>(ends->number - 1);
            CHECK(left[mine] <= 0);
            CHECK(left[mine] > -720720);
            left[mine] = 1LL << 60;
            link.remove(*ends, end);
        }
        CHECK(link.first() == nullptr);
    }
}

TEST_CASE("sim_shared_link: a program with shared links has the same trace in every run") {
    auto const run = [] {
        auto o          = two_engines();
        o.backed        = false;
        o.copy_latency  = 3us;
        o.compute_slots = 3;
        o.kernels_share = true;
        sim_node    node{o};
        std::string text;
        {
            copied_sideways copies;
            sim_random      random{7};
            for (int i = 0; i < 200; ++i) {
                std::size_t const n = 1 + random.below(500'000);
                i % 3 == 0 ? copies.down(n) : copies.up(n);
                if (i % 4 == 0) {
                    sim_launch(copies.streams.back(),
                               {.duration = sim_time{static_cast<int>(random.below(90'000))}});
                }
                node.work(sim_time{static_cast<int>(random.below(40'000))});
            }
            sim_device{}.synchronize();
            text = spans(node) + " " + std::to_string(node.now().count());
        }
        return text;
    };
    CHECK(run() == run());
}
