// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/torch.hpp> // first: the header stands alone

#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/mishaps.hpp"
#include "../doubles/shy_platform.hpp"

#include <doctest/doctest.h>

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <optional>  // optional
#include <stdexcept> // runtime_error
#include <utility>   // in_place
#include <vector>    // vector

namespace torch_tests {

using namespace vram;

using stack     = pool<stream_ordered<sim_resource>>;
using allocator = torch_allocator<stack>;

stack make_stack(sim_device d) { return stack{stream_ordered{sim_resource{d}}}; }

constexpr std::size_t bytes = 4096;

/// Makes `later` wait for the work of `first`, as `torch.cuda.Stream.wait_stream` does.
void follow(sim_stream_view later, sim_stream_view first) {
    sim_event now{first.device()};
    now.record(first);
    now.wait(later);
}

/// A block of the stream `s` that the stream `other` reads for a long time. The block is freed, and
/// `s` writes the next block. Returns true if the simulated device reports no race.
bool is_safe(bool recorded) {
    sim_node         node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    sim_stream const s, other;
    {
        allocator        memory{make_stack};
        sim_device const d     = sim_device::current();
        void* const      block = memory.allocate(d, s, bytes);
        follow(other, s);
        sim_launch(other,
                   {.name = "read", .reads = {{block, bytes}}, .duration = sim_time{90'000}});
        if (recorded) { memory.record_stream(block, other); }
        memory.deallocate(d, s, block, bytes);
        void* const next = memory.allocate(d, s, bytes);

        sim_launch(s, {.name = "write", .writes = {{next, bytes}}, .duration = sim_time{100}});
        s.synchronize();
        if (recorded) { CHECK(node.now() < sim_time{90'000}); } // the free did not delay the stream
        memory.deallocate(d, s, next, bytes);
        sim_device::current().synchronize();
    }
    return node.reports().empty();
}

TEST_CASE("torch: a block that other streams use is freed after their work, and delays no stream") {
    CHECK(is_safe(true));
    CHECK_FALSE(is_safe(false));
}

TEST_CASE("torch: memory of a recorded stream is used again once its work is complete") {
    sim_node         node;
    sim_stream const s, other;
    allocator        memory{make_stack};
    sim_device const d     = sim_device::current();
    void* const      block = memory.allocate(d, s, 1_MiB);
    follow(other, s);
    sim_launch(other, {.name = "read", .reads = {{block, 1_MiB}}, .duration = sim_time{9000}});
    memory.record_stream(block, other);
    memory.record_stream(block, other);
    memory.record_stream(block, s);
    memory.record_stream(nullptr, s);
    memory.deallocate(d, s, block, 1_MiB);
    memory.deallocate(d, s, nullptr, 0);
    CHECK(memory.stack(d).usage().live == 0);
    sim_device::current().synchronize();
    CHECK(memory.trim() != 0);
    CHECK(memory.stack(d).usage().reserved == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("torch: a block that a stream of another device uses is freed after that work") {
    sim_node node{{.devices = 2, .peer_access = true, .on_report = sim_on_report::collect}};
    {
        sim_device const d{0};
        sim_stream const s{d}, other{sim_device{1}};
        allocator        memory{make_stack};
        // The memory of `d` also serves a stream of another device.
        void* const far = memory.allocate(d, other, bytes);
        CHECK(memory.stack(d).owns(far));
        memory.deallocate(d, other, far, bytes);

        void* const block = memory.allocate(d, s, bytes);
        follow(other, s);
        sim_launch(other,
                   {.name = "read", .reads = {{block, bytes}}, .duration = sim_time{90'000}});
        memory.record_stream(block, other);
        memory.deallocate(d, s, block, bytes);
        void* const next = memory.allocate(d, s, bytes);
        sim_launch(s, {.name = "write", .writes = {{next, bytes}}, .duration = sim_time{100}});
        s.synchronize();
        CHECK(node.now() < sim_time{90'000}); // the host did not wait for the other device
        memory.deallocate(d, s, next, bytes);
        other.synchronize();
        s.synchronize();
    }
    CHECK(node.reports().empty());
}

TEST_CASE("torch: each device has its own stack, and 0 bytes have no block") {
    sim_node         node{{.devices = 2}};
    std::vector<int> made;
    {
        allocator memory{[&](sim_device d) {
            made.push_back(d.index());
            return make_stack(d);
        }};
        CHECK(made.empty());
        for (int const number : {1, 0, 1}) {
            sim_device const d{number};
            sim_stream const s{d};
            void* const      p = memory.allocate(d, s, bytes);
            CHECK(memory.stack(d).owns(p));
            CHECK(memory.allocate(d, s, 0) == nullptr);
            memory.deallocate(d, s, p, bytes);
            CHECK(sim_device::current().index() == 0); // the current device is unchanged
        }
        CHECK(made == std::vector<int>{1, 0});
    }
    CHECK(node.reports().empty());
}

stack make_graph_stack(sim_device d) {
    return stack{stream_ordered{sim_resource{d}}, {.graphs = true}};
}

TEST_CASE("torch: a recorded block that a capture frees stays with the graph") {
    sim_node node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    {
        sim_stream const s, other;
        allocator        memory{make_graph_stack};
        sim_device const d = sim_device::current();
        memory.deallocate(d, s, memory.allocate(d, s, bytes), bytes); // the stack knows the stream
        sim_graph::begin(s);
        void* const block = memory.allocate(d, s, bytes);
        follow(other, s);
        sim_launch(other, {.name = "use", .writes = {{block, bytes}}, .duration = sim_time{9000}});
        memory.record_stream(block, other);
        memory.deallocate(d, s, block, bytes);
        CHECK(memory.stack(d).usage().live == 0); // freed in the capture, after the work of `other`
        void* const again = memory.allocate(d, s, bytes);
        sim_launch(s, {.name = "write", .writes = {{again, bytes}}, .duration = sim_time{100}});
        memory.deallocate(d, s, again, bytes);
        sim_graph const graph = sim_graph::end(s);

        (void)memory.trim();
        CHECK(memory.stack(d).usage().reserved != 0); // each launch of the graph uses the block
        void* const outside = memory.allocate(d, s, bytes);
        CHECK(outside != block);
        CHECK(outside != again);
        sim_launch(s, {.name = "fill", .writes = {{outside, bytes}}, .duration = sim_time{100}});
        graph.launch(s);
        graph.launch(other);
        memory.deallocate(d, s, outside, bytes);
        d.synchronize();
        memory.forget_captures();
        (void)memory.trim();
        CHECK(memory.stack(d).usage().reserved == 0);
    }
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

TEST_CASE("torch: a block whose streams are not all in one capture is kept until forget_captures") {
    sim_node         node;
    sim_stream const s, other;
    allocator        memory{make_graph_stack};
    sim_device const d = sim_device::current();
    for (int const captured : {0, 1, 2}) { // the stream of the block, the recorded one, or both
        CAPTURE(captured);
        void* const before = memory.allocate(d, s, bytes);
        memory.record_stream(before, other);
        if (captured != 1) { sim_graph::begin(s); }
        if (captured != 0) { sim_graph::begin(other); } // another capture
        memory.deallocate(d, s, before, bytes);
        CHECK(memory.stack(d).usage().live == bytes); // it still is the block's
        memory.forget_captures();                     // the captures have not ended
        CHECK(memory.stack(d).usage().live == bytes);
        if (captured != 1) { CHECK_NOTHROW((void)sim_graph::end(s)); }
        if (captured != 0) { CHECK_NOTHROW((void)sim_graph::end(other)); }
        void* const next = memory.allocate(d, s, 8 * bytes);
        CHECK(memory.stack(d).usage().live == 9 * bytes);
        memory.deallocate(d, s, next, 8 * bytes);
        (void)memory.trim();
        CHECK(memory.stack(d).usage().live == bytes);
        memory.forget_captures();
        CHECK(memory.stack(d).usage().live == 0);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("torch: forget_captures waits for the last launch, also on a stream of no block") {
    for (bool const in_one_capture : {false, true}) {
        CAPTURE(in_one_capture);
        sim_node node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
        {
            sim_stream const s, other, launches, third;
            allocator        memory{make_graph_stack};
            sim_device const d     = sim_device::current();
            void* const      block = memory.allocate(d, s, bytes);
            memory.record_stream(block, other);
            sim_graph::begin(s);
            if (in_one_capture) { follow(other, s); }
            sim_launch(s, {.name = "use", .writes = {{block, bytes}}, .duration = sim_time{9000}});
            memory.deallocate(d, s, block, bytes);
            sim_graph const graph = sim_graph::end(s);
            follow(launches, s); // the block was allocated there
            graph.launch(launches);
            // If the wait fails, the memory is kept, and the call can be repeated.
            node.faults().at(sim_call_kind::synchronize, 1);
            CHECK_THROWS_AS(memory.forget_captures(), sim_error);
            CHECK(node.now() < sim_time{9000});
            memory.forget_captures();
            CHECK(node.now() >= sim_time{9000});
            CHECK(memory.stack(d).usage().live == 0);
            memory.deallocate(d, third, memory.allocate(d, third, bytes), bytes);
            d.synchronize();
        }
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
}

/// A graph that a stream of device 1 captures reads a block of device 0, which is freed during the
/// capture. `end(memory)` ends the use of the graph while its last launch still runs. Returns the
/// reports of the simulated device. If `both` is true, device 1 has a stack too.
template <class End>
std::size_t reports_of_far_graph(bool both, End const& end) {
    sim_node node{{.devices = 2, .peer_access = true, .on_report = sim_on_report::collect}};
    {
        sim_device const         d{0}, far{1};
        sim_stream const         s{d}, other{far}, launches{far};
        std::optional<allocator> memory{std::in_place, make_graph_stack};
        void* const              block = memory->allocate(d, s, bytes);
        if (both) { memory->deallocate(far, other, memory->allocate(far, other, bytes), bytes); }
        follow(launches, s);
        memory->record_stream(block, other);
        sim_graph::begin(other);
        sim_launch(other,
                   {.name = "read", .reads = {{block, bytes}}, .duration = sim_time{90'000}});
        memory->deallocate(d, s, block, bytes);
        sim_graph const graph = sim_graph::end(other);
        graph.launch(launches);
        end(memory);
        CHECK(node.now() >= sim_time{90'000});
    }
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    return node.reports().size();
}

TEST_CASE("torch: the destructor waits for the streams of all devices before it frees a block") {
    for (bool const both : {true, false}) {
        CAPTURE(both);
        CHECK(reports_of_far_graph(both, [](auto& memory) { memory.reset(); }) == 0);
    }
}

TEST_CASE("torch: forget_captures waits for launches on other devices than that of a block") {
    for (bool const both : {true, false}) {
        CAPTURE(both);
        CHECK(reports_of_far_graph(both, [](auto& memory) {
                  memory->forget_captures();
                  (void)memory->trim();
              }) == 0);
    }
}

TEST_CASE("torch: a capture that begins during a free neither takes it in nor is broken") {
    bool reached = true;
    for (std::uint64_t nth = 1; reached && nth < 100; ++nth) {
        CAPTURE(nth);
        sim_node node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
        {
            sim_stream const s, other, third;
            allocator        memory{make_stack};
            sim_device const d     = sim_device::current();
            void* const      block = memory.allocate(d, s, bytes);
            void* const      apart = memory.allocate(d, s, bytes);
            memory.record_stream(apart, third);
            follow(other, s);
            sim_launch(other,
                       {.name = "read", .reads = {{block, bytes}}, .duration = sim_time{90'000}});
            memory.record_stream(block, other);
            sim_interrupt::before(nth, [&] { sim_graph::begin(other); });
            memory.deallocate(d, s, block, bytes);
            reached = sim_interrupt::end();
            memory.deallocate(d, s, apart, bytes); // a free that has nothing to do with the capture
            // If the free ignored the capture, the memory would be the device's before `read` ends.
            (void)memory.trim();
            if (reached) { CHECK_NOTHROW((void)sim_graph::end(other)); }
            (void)memory.trim();
            memory.forget_captures();
            CHECK(memory.stack(d).usage().live == 0);
            void* const next = memory.allocate(d, s, bytes); // not before `read` ends
            sim_launch(s, {.name = "write", .writes = {{next, bytes}}, .duration = sim_time{100}});
            memory.deallocate(d, s, next, bytes);
            d.synchronize();
        }
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
    }
    CHECK_FALSE(reached);
}

TEST_CASE("torch: a recorded default stream is that of the device that was current") {
    sim_node node{{.devices = 2, .peer_access = true, .on_report = sim_on_report::collect}};
    {
        sim_device const d{0}, far{1};
        sim_stream const s{d};
        allocator        memory{make_stack};
        void* const      block = memory.allocate(d, s, bytes);
        {
            sim_device_guard const on{far};
            follow(sim_stream_view{}, s);
            sim_launch(sim_stream_view{},
                       {.name = "read", .reads = {{block, bytes}}, .duration = sim_time{90'000}});
            memory.record_stream(block, {});
        }
        memory.deallocate(d, s, block, bytes);
        void* const next = memory.allocate(d, s, bytes);
        sim_launch(s, {.name = "write", .writes = {{next, bytes}}, .duration = sim_time{100}});
        memory.deallocate(d, s, next, bytes);
        s.synchronize();
        (void)memory.trim(); // frees the block after `read`
        far.synchronize();
        d.synchronize();
    }
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

/// Blocks of the default stream, used by two blocking streams one after the other. Returns true if
/// the simulated device reports no race.
bool blocking_streams_are_safe(bool event) {
    sim_node node{{.compute_slots = 2, .on_report = sim_on_report::collect}};
    {
        sim_stream const first{sim_device{0}, {.blocking = true}},
            second{sim_device{0}, {.blocking = true}};
        sim_device const      d  = sim_device::current();
        sim_stream_view const on = sim_stream_view::legacy(d);
        allocator             memory{make_stack};
        for (auto const* s : {&first, &second}) {
            void* const block = memory.allocate(d, on, bytes);
            if (event) { sim_event{d}.record(on); }
            sim_launch(*s,
                       {.name = "write", .writes = {{block, bytes}}, .duration = sim_time{90'000}});
            memory.deallocate(d, on, block, bytes);
        }
        d.synchronize();
    }
    return node.reports().empty();
}

TEST_CASE("torch: an event behind each allocation of the default stream orders blocking streams") {
    CHECK(blocking_streams_are_safe(true)); // what allocator.cpp does for Numba
    CHECK_FALSE(blocking_streams_are_safe(false));
}

TEST_CASE("torch: a kept block that cannot be freed is reported, and the others are freed") {
    doubles::mishaps const told;
    sim_node               node{{.on_report = sim_on_report::collect}};
    sim_stream const       s, other;
    allocator              memory{make_stack};
    sim_device const       d = sim_device::current();
    std::vector<void*>     blocks;
    for (int i = 0; i < 3; ++i) {
        blocks.push_back(memory.allocate(d, s, bytes));
        memory.record_stream(blocks.back(), other);
    }
    sim_graph::begin(s);
    for (void* const p : blocks) { memory.deallocate(d, s, p, bytes); }
    sim_graph const graph = sim_graph::end(s);
    CHECK(memory.stack(d).usage().live == 3 * bytes);
    // The first block: its event and the wait for the device fail.
    node.faults().at(sim_call_kind::record, 1);
    node.faults().at(sim_call_kind::synchronize, 2); // after the wait for the last launch
    memory.forget_captures();
    CHECK(memory.stack(d).usage().live == bytes);
    CHECK(told.count() == 2);
    memory.forget_captures(); // the block stayed kept
    CHECK(memory.stack(d).usage().live == 0);
    CHECK(told.count() == 2);
}

namespace {

/// The simulated device, on which a captured stream cannot be asked for its device.
struct platform_without_device : sim_platform {
    [[nodiscard]] static device device_of(stream s) {
        if (s.capturing()) { throw std::runtime_error{"captured"}; }
        return s.device();
    }
};
struct memory_without_device : doubles::shy_memory {
    using platform = platform_without_device;
};

} // namespace

TEST_CASE("torch: a block of a captured stream of unknown device is kept, and freed later") {
    doubles::mishaps const                                 told;
    sim_node const                                         node;
    sim_stream const                                       s, other;
    torch_allocator<stream_ordered<memory_without_device>> memory{
        [](sim_device) { return stream_ordered{memory_without_device{}}; }};
    sim_device const d = sim_device::current();
    void* const      p = memory.allocate(d, s, bytes);
    memory.record_stream(p, other);
    sim_graph::begin(other);
    memory.deallocate(d, s, p, bytes);
    sim_graph const graph = sim_graph::end(other);
    memory.forget_captures();
    (void)memory.trim();
    CHECK(memory.stack(d).usage().live == 0);
    CHECK(told.count() == 0);
}

namespace {

/// The simulated device, on which the query for a capture fails while `fails` is true, as that of a
/// default stream does in CUDA during the capture of a blocking stream.
struct platform_without_query : sim_platform {
    [[nodiscard]] static bool capturing(stream s) {
        if (fails) { throw std::runtime_error{"the query fails"}; }
        return s.capturing();
    }
    static inline bool fails = false;
};
struct memory_without_query : doubles::shy_memory {
    using platform = platform_without_query;
};

} // namespace

TEST_CASE("torch: a block is kept if the query for a capture fails, and freed later") {
    doubles::mishaps const told;
    sim_node const         node;
    sim_stream const       s, other;
    sim_device const       d = sim_device::current();

    torch_allocator<stream_ordered<memory_without_query>> memory{
        [](sim_device) { return stream_ordered{memory_without_query{}}; }};
    void* const p = memory.allocate(d, s, bytes);
    memory.record_stream(p, other);
    platform_without_query::fails = true;
    memory.deallocate(d, s, p, bytes);
    CHECK(told.count() != 0);
    memory.forget_captures(); // the query still fails
    platform_without_query::fails = false;
    CHECK(memory.stack(d).usage().live == bytes);
    std::size_t const before = told.count();
    memory.forget_captures();
    (void)memory.trim();
    CHECK(memory.stack(d).usage().live == 0);
    CHECK(told.count() == before);
}

TEST_CASE("torch: several threads allocate, record and free at the same time") {
    sim_node node{{.devices = 2, .peer_access = true, .on_report = sim_on_report::collect}};
    {
        allocator memory{make_stack};
        {
            std::vector<sim_thread> threads;
            for (int i = 0; i < 4; ++i) {
                threads.emplace_back(sim_device{i % 2}, [&memory] {
                    sim_device const d = sim_device::current();
                    sim_stream const s{d}, other{d};
                    for (int turn = 0; turn < 20; ++turn) {
                        void* const block = memory.allocate(d, s, bytes);
                        follow(other, s);
                        sim_launch(other, {.name = "write", .writes = {{block, bytes}}});
                        memory.record_stream(block, other);
                        memory.deallocate(d, s, block, bytes);
                        if (turn % 5 == 0) { (void)memory.trim(); }
                        if (turn % 7 == 0) { memory.forget_captures(); }
                    }
                });
            }
        }
        for (sim_device const d : {sim_device{0}, sim_device{1}}) {
            CHECK(memory.stack(d).usage().live == 0);
        }
    }
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

TEST_CASE("torch: a refusal is the exception of the stack") {
    sim_node         node;
    sim_stream const s;
    torch_allocator  memory{[](sim_device d) { return limiting{make_stack(d), 1000}; }};
    sim_device const d = sim_device::current();
    CHECK_THROWS_AS((void)memory.allocate(d, s, 1001), over_limit);
    CHECK(memory.stack(d).used() == 0);
}

} // namespace torch_tests

template class vram::torch_allocator<torch_tests::stack>;
