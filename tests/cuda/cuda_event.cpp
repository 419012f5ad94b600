// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_event.hpp> // first: the header stands alone

#include "machine.hpp"
#include "slow_work.hpp"

#include <vram/cuda/cuda_stream.hpp>

#include <optional> // optional

using namespace vram;

static_assert(std::is_convertible_v<cuda_event const&, cudaEvent_t>);
// It would be destroyed before its use.
static_assert(!std::is_convertible_v<cuda_event, cudaEvent_t>);
using tests::machine;

static_assert(std::is_nothrow_move_constructible_v<cuda_event>);
static_assert(std::is_nothrow_move_assignable_v<cuda_event>);
static_assert(!std::is_copy_constructible_v<cuda_event>);

TEST_CASE("cuda_event: an event that was never recorded is done, and a wait for it has no effect") {
    machine const     here;
    cuda_event const  e;
    cuda_stream const s;
    CHECK(e.done());
    CHECK_NOTHROW(e.synchronize());
    CHECK_NOTHROW(e.wait(s));
    CHECK(s.view().done());
}

TEST_CASE("cuda_event: it covers the work before the record, and not the work after it") {
    machine const    here;
    tests::slow_work work;
    cuda_stream      s;
    cuda_event       e;
    work.enqueue(s);
    e.record(s);
    CHECK_FALSE(e.done());
    work.enqueue(s);
    e.synchronize();
    CHECK(e.done());
    CHECK_FALSE(s.view().done());
    s.synchronize();
}

TEST_CASE("cuda_event: a stream that waits continues after the event") {
    machine const    here;
    tests::slow_work work;
    cuda_stream      first, second;
    cuda_event       before, after;
    work.enqueue(first);
    before.record(first);
    before.wait(second); // as with sim_event
    after.record(second);
    CHECK_FALSE(after.done());
    after.synchronize();
    CHECK(before.done());
}

TEST_CASE("cuda_event: the time between two events can be measured") {
    machine const            here;
    tests::slow_work         work;
    cuda_stream              s;
    cuda_event_options const timed{.timing = true, .blocking = true};
    cuda_event start{cuda_device::current(), timed}, end{cuda_device::current(), timed};
    start.record(s);
    work.enqueue(s);
    end.record(s);
    end.synchronize();
    CHECK(end.milliseconds_since(start) > 0.0F);
    cuda_event const silent;
    CHECK_THROWS_AS((void)silent.milliseconds_since(start), cuda_error);
}

TEST_CASE("cuda_event: a moved-from event is empty") {
    machine const here;
    cuda_event    first;
    auto const    raw = first.get();
    cuda_event    second{std::move(first)};
    CHECK(second.get() == raw);
    CHECK(first.get() == nullptr);
    cuda_event third;
    third = std::move(second);
    CHECK(third.get() == raw);
    auto& same = third;
    third      = std::move(same);
    CHECK(third.get() == raw);
}

TEST_CASE("cuda_event: a query breaks no capture of the same thread") {
    machine const     here;
    cuda_stream const other, captured;
    cuda_event        e;
    e.record(other);
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal));
    CHECK_NOTHROW((void)e.done());
    CHECK_NOTHROW(e.synchronize());
    cuda_check(cudaStreamEndCapture(captured.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

TEST_CASE("cuda_event: an event that is recorded in a capture orders only the graph") {
    machine const     here;
    cuda_stream const s;
    cuda_event        e;
    cudaGraph_t       graph = nullptr;
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeRelaxed));
    CHECK_NOTHROW(e.record(s));
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
    CHECK_THROWS_AS((void)e.done(), cuda_error); // the event marks no place in a stream
    cuda_check(cudaPeekAtLastError());
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_event: it belongs to its device, and is recorded only on streams of that device") {
    machine const     here;
    cuda_event        e{cuda_device{1}};
    cuda_stream const theirs{cuda_device{1}}, mine;
    CHECK_NOTHROW(e.record(theirs));
    CHECK_THROWS_AS(e.record(mine), cuda_error);
    CHECK_NOTHROW(e.wait(mine)); // a wait across devices is possible
}

TEST_CASE("cuda_event: a failure of any call leaves nothing behind") {
    machine const     here;
    cuda_stream const s;
    cuda_event        e{cuda_device::current(), {.timing = true}};
    e.record(s);
    e.synchronize();
    auto const                nothing = [] {};
    std::optional<cuda_event> made;
    CHECK(tests::walk_failures([&] { made.emplace(cuda_device{1}); }, [&] { made.reset(); }) == 6);
    CHECK(tests::walk_failures([&] { e.record(s); }, nothing) == 2);
    CHECK(tests::walk_failures([&] { e.wait(s); }, nothing) == 2);
    CHECK(tests::walk_failures([&] { (void)e.done(); }, nothing) == 2);
    CHECK(tests::walk_failures([&] { e.synchronize(); }, nothing) == 2);
    CHECK(tests::walk_failures([&] { (void)e.milliseconds_since(e); }, nothing) == 2);
}

TEST_CASE("cuda_event: a failure in its destructor is reported") {
    machine const          here;
    doubles::mishaps const told;
    {
        cuda_event const e;
        doubles::cudart::fail("cudaEventDestroy", cudaErrorUnknown);
    }
    CHECK(doubles::cudart::forgive());
    CHECK(told.count(error_kind::platform_error) == 1);
}
#endif
