// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/copy_channel.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

template class vram::detail::copy_channel<sim_platform>;
template class vram::detail::copy_channel<host_platform>;

namespace copying_both_ways {
/// One pinned block, one on the device, and what the channel says about them.
template <class Platform>
struct both_ends final : copy_owner<Platform> {
    using channel = copy_channel<Platform>;

    explicit both_ends(typename channel::settings const& how) {
        blocks.emplace_back(where, false);
        copies.emplace(*this, threads, blocks, where, std::nullopt, how);
    }
    void copy_ended(pinned_slot<Platform>&) noexcept override { ++ended; }
    void device_failed(std::exception_ptr why) noexcept override { problem = why; }

    /// Begins a copy and records that it is enqueued, unless that failed.
    std::exception_ptr copy(bool up) {
        {
            auto const held = threads.hold();
            copies->begin(pinned());
        }
        auto why = up ? copies->upload(pinned(), device) : copies->download(device, pinned());
        if (why == nullptr) {
            auto const held = threads.hold();
            (void)copies->enqueued(pinned());
        }
        return why;
    }
    pinned_slot<Platform>& pinned() { return blocks[0]; }

    typename Platform::device          where = Platform::current_device();
    staged_wait<Platform>              threads;
    std::vector<pinned_slot<Platform>> blocks;
    slot<Platform>                     device{where};
    std::optional<channel>             copies;
    int                                ended = 0;
    std::exception_ptr                 problem;
};

/// Both ends with memory of the simulated device.
struct simulated_ends {
    explicit simulated_ends(bool downloads, bool call_back = true)
        : ends{{.downloads = downloads, .call_back = call_back}} {
        ends.pinned().memory = static_cast<std::byte*>(host.allocate_sync(1000));
        ends.device.memory   = static_cast<std::byte*>(memory.allocate_sync(1000));
        ends.pinned().size = ends.device.size = 1000;
    }
    ~simulated_ends() {
        CHECK(ends.copies->drain(true));
        host.deallocate_sync(ends.pinned().memory, 1000);
        memory.deallocate_sync(ends.device.memory, 1000);
    }

    sim_resource            memory;
    sim_pinned_resource     host;
    both_ends<sim_platform> ends;
};
} // namespace copying_both_ways
using copying_both_ways::both_ends;
using copying_both_ways::simulated_ends;

TEST_CASE("copy_channel: a copy in either direction waits for the users of the device block, and "
          "its callback ends it") {
    for (bool const up : {true, false}) {
        sim_node   node{{.host_bandwidth = 1_GB, .copy_latency = sim_time{0}}};
        sim_stream user;
        {
            simulated_ends all{!up};
            auto&          ends = all.ends;
            if (up) {
                sim_touch({ends.pinned().memory, 1000}, sim_access::write);
                sim_launch(user, {.reads = {{ends.device.memory, 0}}, .duration = 10us});
            } else {
                sim_launch(user, {.writes = {{ends.device.memory, 1000}}, .duration = 10us});
            }
            ends.device.record_users(user);
            ends.device.index = 7;
            CHECK(ends.copy(up) == nullptr);
            CHECK(ends.copies->in_progress() == 1);
            CHECK(ends.ended == 0);
            sim_platform::synchronize(sim_device{});
            CHECK(node.now() == 11us);
            CHECK(ends.ended == 1);
            CHECK(ends.copies->in_progress() == 0);
            CHECK((up || ends.pinned().index == 7));
            ends.copies->check_copies(); // finds no copy
            CHECK(ends.ended == 1);
        }
        CHECK(node.reports().empty());
    }
}

TEST_CASE("copy_channel: without a callback, the next user of the pinned block waits") {
    for (bool const up : {true, false}) {
        sim_node       node;
        simulated_ends all{!up, false};
        CHECK(all.ends.copy(up) == nullptr);
        CHECK(all.ends.ended == 1);
        CHECK(all.ends.pinned().in_flight);
        sim_platform::synchronize(all.ends.pinned().copied);
    }
}

TEST_CASE("copy_channel: a callback that cannot be enqueued is reported with its owner") {
    for (bool const up : {true, false}) {
        sim_node               node;
        simulated_ends         all{!up};
        doubles::mishaps const errors;
        node.faults().at(sim_call_kind::launch, 1, {.status = sim_status::refused});
        CHECK(all.ends.copy(up) == nullptr);
        CHECK(errors.count() == 1);
        CHECK(std::string_view{errors.last().resource} == (up ? "loader" : "unloader"));
        CHECK(all.ends.ended == 1);
        CHECK(all.ends.pinned().in_flight);
        sim_platform::synchronize(sim_device{});
        CHECK(all.ends.ended == 1);
    }
}

TEST_CASE("copy_channel: the exception of a copy names the batch, and the copy does not end") {
    for (bool const up : {true, false}) {
        sim_node       node;
        simulated_ends all{!up};
        auto&          ends = all.ends;
        ends.pinned().index = ends.device.index = 3;
        ends.pinned().asked                     = 8;
        node.faults().at(sim_call_kind::copy, 1, {.status = sim_status::refused});
        std::exception_ptr const why = ends.copy(up);
        REQUIRE(why != nullptr);
        try {
            std::rethrow_exception(why);
        } catch (sim_error const& e) {
            std::string const text = e.what();
            CHECK(text.find(up ? "copy of batch 3 (source index 8)" : "copy of batch 3:") !=
                  std::string::npos);
        }
        CHECK(ends.ended == 0);
        CHECK_FALSE(ends.device.end_unknown);
        auto const held = ends.threads.hold();
        ends.copies->end_all();
        CHECK(ends.copies->in_progress() == 0);
    }
}

namespace copying_both_ways {
/// A platform whose events complete on demand, with completion flags.
struct platform_by_hand : host_platform {
    struct event {
        explicit event(device = {}) noexcept {}
        int  recorded = 0;
        bool happened = true; ///< an event that was never recorded is complete
        bool broken   = false;
    };

    static void record(event& e, stream) noexcept {
        ++e.recorded;
        e.happened = false;
    }
    [[nodiscard]] static bool done(event const& e) noexcept { return e.happened; }
    static void               wait(stream, event const&) noexcept {}
    static void               synchronize(event const& e) {
        if (e.broken) { throw 7; }
    }
    static void synchronize(stream) noexcept {}
    static void synchronize(device) noexcept {}
    static bool mark(stream, std::uint32_t*, std::uint32_t) noexcept { return true; }
    static bool ending() noexcept { return is_over; }

    static inline bool is_over = false;
};
static_assert(completion_flags<platform_by_hand>);
} // namespace copying_both_ways
using copying_both_ways::platform_by_hand;

TEST_CASE("copy_channel: a completion flag ends a copy, and an event only if the flag is late") {
    for (bool const up : {true, false}) {
        std::uint32_t               flag = 0;
        both_ends<platform_by_hand> ends{{.downloads = !up}};
        ends.pinned().flag = &flag;
        CHECK(ends.copy(up) == nullptr);
        CHECK(ends.pinned().copied.recorded == 0);
        CHECK(ends.device.copied.recorded == 1);
        ends.copies->check_copies();
        ends.copies->complete_flagged();
        CHECK(ends.ended == 0);
        flag = 1;
        ends.copies->complete_flagged();
        CHECK(ends.ended == 1);
        CHECK(ends.copy(up) == nullptr);
        ends.device.copied.happened = true; // but the flag is not written: the device has failed
        ends.copies->check_copies();
        CHECK(ends.ended == 2);
        flag = 2; // late
        ends.copies->complete_flagged();
        CHECK(ends.ended == 2);
    }
}

TEST_CASE("copy_channel: the error of a failed device reaches the owner") {
    for (bool const up : {true, false}) {
        std::uint32_t               flag = 0;
        both_ends<platform_by_hand> ends{{.downloads = !up}};
        ends.pinned().flag = &flag;
        CHECK(ends.copy(up) == nullptr);
        ends.device.copied.happened = ends.device.copied.broken = true;
        ends.copies->check_copies();
        REQUIRE(ends.problem != nullptr);
        CHECK_THROWS_AS(std::rethrow_exception(ends.problem), int);
        CHECK(ends.ended == 0);
    }
}

TEST_CASE("copy_channel: an unloader's copy fails while the process is ending") {
    both_ends<platform_by_hand> ends{{.downloads = true}};
    platform_by_hand::is_over    = true;
    std::exception_ptr const why = ends.copy(false);
    ends.copies->check_copies();
    platform_by_hand::is_over = false;
    REQUIRE(why != nullptr);
    CHECK_THROWS_AS(std::rethrow_exception(why), loader_error);
    CHECK(ends.device.copied.recorded == 0);
    REQUIRE(ends.problem != nullptr);
    CHECK_THROWS_AS(std::rethrow_exception(ends.problem), loader_error);
}
