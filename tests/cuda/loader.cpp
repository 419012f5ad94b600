// SPDX-License-Identifier: Apache-2.0
// The loader on CUDA: its data, its CUDA calls, and its failures.
#include <vram/transfer/loader.hpp> // first: the header stands alone

#include <vram/cuda/cuda.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

#include "machine.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::mishaps;
using tests::machine;

static_assert(has_timing<cuda_platform> && has_near_device<cuda_platform>);

namespace cuda_loader {

/// Batch `i` is full of `i`.
struct numbered_batches {
    static constexpr std::size_t bytes = std::size_t{1} << 16;

    std::size_t batches = 0;

    std::size_t operator()(std::span<std::byte> to, std::size_t index) const {
        if (index >= batches) { return 0; }
        std::memset(to.data(), static_cast<int>(index), bytes);
        return bytes;
    }
};

/// The destination of the device's results.
class answers {
public:
    explicit answers(std::size_t batches)
        : bytes_{batches * numbered_batches::bytes},
          all_{static_cast<std::byte*>(pinned_resource{}.allocate_sync(bytes_))} {}
    answers(answers&&) = delete;
    ~answers() { pinned_resource{}.deallocate_sync(all_, bytes_); }

    void fetch(cuda_stream_view stream, auto& batch) {
        cuda_copy(stream, all_ + batch.index() * numbered_batches::bytes, batch.data(),
                  batch.size());
        ++fetched_;
    }
    /// Returns the number of correct bytes, after the stream is done.
    [[nodiscard]] std::size_t right() const {
        std::size_t n = 0;
        for (std::size_t i = 0; i < fetched_ * numbered_batches::bytes; ++i) {
            n += all_[i] == std::byte(static_cast<unsigned char>(i / numbered_batches::bytes));
        }
        return n;
    }

private:
    std::size_t bytes_;
    std::byte*  all_;
    std::size_t fetched_ = 0;
};

loader_options batched(loader_options o) {
    o.batch_bytes = numbered_batches::bytes;
    return o;
}

} // namespace cuda_loader
using namespace cuda_loader;

TEST_CASE("loader on CUDA: the device receives the filled data in order, for every option") {
    machine const         here;
    constexpr std::size_t batches = 40;
    cuda_stream const     stream;
    loader_options const  shapes[] = {batched({.depth = 0}),
                                      batched({.depth = 1}),
                                      batched({.depth = 2}),
                                      batched({.depth = 3, .producers = 4}),
                                      batched({.pinned_depth = 4, .device_depth = 1}),
                                      batched({.pinned_depth = 1, .device_depth = 3}),
                                      batched({.numa_local = true, .checker = true}),
                                      batched({.call_back = false}),
                                      batched({.timing = true})};
    for (loader_options const& o : shapes) {
        answers got{batches};
        {
            loader      load{numbered_batches{batches}, stream, o};
            std::size_t seen = 0;
            for (auto& b : load) {
                CHECK(b.index() == seen++);
                got.fetch(stream.view(), b);
            }
            CHECK(seen == batches);
            stream.synchronize();
            auto const f = load.statistics();
            CHECK(f.bytes == batches * numbered_batches::bytes);
            CHECK((f.host_waits == 0) == o.call_back);
            CHECK((f.copy_ns > 0) == o.timing);
        }
        CHECK(got.right() == batches * numbered_batches::bytes);
    }
}

TEST_CASE("loader on CUDA: the last copies are timed too, with flags, callbacks and events") {
    machine const     here;
    cuda_stream const stream;
    for (bool const marks : {true, false}) {
        loader load{numbered_batches{1}, stream,
                    batched({.completion_flags = marks, .timing = true})};
        for (auto& b : load) { CHECK(b.index() == 0); }
        stream.synchronize();
        for (int i = 0; load.statistics().copy_ns == 0 && i < 1000; ++i) { // the call-back comes
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
        CHECK(load.statistics().copy_ns > 0);
    }
}

// 1
TEST_CASE("loader on CUDA: its events are not timed, unless requested") {
    machine const     here;
    cuda_stream const stream;
    auto const        timed = [&](bool asked) {
        pinned_slot<cuda_platform> p{cuda_platform::current_device(), asked};
        for (auto* e : {&p.begun, &p.copied}) { cuda_platform::record(*e, stream.view()); }
        stream.synchronize();
        try {
            (void)cuda_platform::elapsed(p.begun, p.copied);
            return true;
        } catch (cuda_error const&) { return false; }
    };
    CHECK(timed(true));
    CHECK_FALSE(timed(false));
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE(
    "loader on CUDA: the end of a copy sets a completion flag if possible, or else calls back") {
    std::size_t const all = 4 * numbered_batches::bytes; // two blocks on each side
    for (bool const machine_marks : {true, false}) {
        for (bool const marks : {true, false}) {
            for (std::size_t const budget : {all, all + 128}) {
                machine const     here{{.marks = machine_marks}};
                cuda_stream const stream;
                {
                    loader load{numbered_batches{9}, stream,
                                batched({.budget = budget, .completion_flags = marks})};
                    for (auto& b : load) { CHECK(b.size() == numbered_batches::bytes); }
                    bool const taken = marks && budget != all; // within the budget
                    CHECK(load.statistics().allocations == (taken ? 5U : 4U));
                    CHECK(doubles::cudart::calls("cuStreamWriteValue32") == (taken ? 9U : 0U));
                    bool const called = !taken || !machine_marks;
                    CHECK(doubles::cudart::calls("cudaLaunchHostFunc") == (called ? 9U : 0U));
                    // One for each release and each copy, and one more without completion flags.
                    CHECK(doubles::cudart::calls("cudaEventRecord") == (called ? 27U : 18U));
                }
            }
        }
    }
}
#endif

TEST_CASE("loader on CUDA: if only its slots can be pinned, it works without completion flags") {
    machine const     here;
    cuda_stream const stream;
    std::size_t const blocks = 2 * numbered_batches::bytes;
    loader load{numbered_batches{9}, stream, cuda_resource{}, limiting{pinned_resource{}, blocks},
                batched({})};
    std::size_t seen = 0;
    for (auto& b : load) { CHECK(b.index() == seen++); }
    CHECK(seen == 9);
    CHECK(load.statistics().allocations == 4);
}

TEST_CASE("loader on CUDA: batches arrive unordered, shuffled, and again after a restart") {
    machine const     here;
    cuda_stream const stream;
    struct sized : numbered_batches {
        [[nodiscard]] std::size_t size() const { return batches; }
    };
    loader load{sized{numbered_batches{30}}, stream,
                batched({.producers = 3, .ordered = false, .shuffle = true, .seed = 5})};
    for (int epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::size_t> seen;
        for (auto& b : load) { seen.push_back(b.source_index()); }
        std::sort(seen.begin(), seen.end());
        REQUIRE(seen.size() == 30);
        for (std::size_t i = 0; i < 30; ++i) { CHECK(seen[i] == i); }
        load.restart();
    }
}

TEST_CASE("loader on CUDA: a source may enqueue its own copies") {
    machine const     here;
    cuda_stream const stream;
    struct enqueueing {
        std::byte*  from;
        std::size_t enqueue(std::span<std::byte> to, std::size_t index, cuda_stream_view copies) {
            if (index >= 20) { return 0; }
            auto const* const at = from + index * numbered_batches::bytes;
            cuda_copy(copies, to.data(), at, numbered_batches::bytes / 2);
            cuda_copy(copies, to.data() + numbered_batches::bytes / 2,
                      at + numbered_batches::bytes / 2, numbered_batches::bytes / 2);
            return numbered_batches::bytes;
        }
    };
    pinned_resource   memory;
    std::size_t const all  = 20 * numbered_batches::bytes;
    auto* const       from = static_cast<std::byte*>(memory.allocate_sync(all));
    for (std::size_t i = 0; i < all; ++i) {
        from[i] = std::byte(static_cast<unsigned char>(i / numbered_batches::bytes));
    }
    {
        answers got{20};
        {
            loader load{enqueueing{from}, stream, batched({})};
            for (auto& b : load) { got.fetch(stream.view(), b); }
            stream.synchronize();
        }
        CHECK(got.right() == all);
    }
    memory.deallocate_sync(from, all);
}

TEST_CASE(
    "loader on CUDA: further streams, early releases and a batch that outlives the loader work") {
    machine const     here;
    cuda_stream const stream, other;
    {
        answers              got{12};
        batch<cuda_platform> kept;
        {
            loader load{numbered_batches{12}, stream, batched({.depth = 3, .producers = 2})};
            for (auto& b : load) {
                b.record_stream(other);
                got.fetch(other.view(), b);
                if (b.index() == 5) { kept = std::move(b); }
                if (b.index() % 4 == 1) { b.release(); }
            }
        }
        CHECK(kept.index() == 5);
        other.synchronize();
        CHECK(got.right() == 12 * numbered_batches::bytes);
    }
    stream.synchronize();
}

TEST_CASE("loader on CUDA: its copy stream has the requested priority") {
    machine const     here;
    cuda_stream const stream;
    int               least = 0, greatest = 0;
    cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    struct listening {
        std::vector<int>* heard;
        std::size_t       enqueue(std::span<std::byte>, std::size_t, cuda_stream_view copies) {
            int priority = 0;
            cuda_check(cudaStreamGetPriority(copies.get(), &priority));
            heard->push_back(priority);
            return 0;
        }
    };
    for (int const asked : {0, greatest}) {
        std::vector<int> heard;
        loader           load{listening{&heard}, stream, batched({.priority = asked})};
        CHECK(load.begin() == load.end());
        CHECK(heard == std::vector<int>{asked});
    }
}

TEST_CASE("loader on CUDA: memory may come from pools, and copies use a stream of the caller") {
    machine const     here;
    cuda_stream const stream, side;
    {
        pool<stream_ordered<cuda_resource>> on_device;
        shared                              on_host{pool<pinned_resource>{}};
        for (int again = 0; again < 2; ++again) {
            answers got{10};
            {
                loader load{numbered_batches{10}, stream, resource_ref{on_device}, on_host,
                            batched({})};
                for (auto& b : load) { got.fetch(stream.view(), b); }
                stream.synchronize();
            }
            CHECK(got.right() == 10 * numbered_batches::bytes);
        }
    }
    answers got{10};
    {
        loader load{numbered_batches{10}, stream, side, batched({})};
        for (auto& b : load) { got.fetch(stream.view(), b); }
        stream.synchronize();
    }
    CHECK(got.right() == 10 * numbered_batches::bytes);
}

TEST_CASE("loader on CUDA: default streams work like other streams") {
    machine const here;
    for (cudaStream_t const each : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
        cuda_stream_view const stream{each};
        answers                got{10};
        {
            loader load{numbered_batches{10}, stream, batched({})};
            for (auto& b : load) { got.fetch(stream, b); }
            stream.synchronize();
        }
        CHECK(got.right() == 10 * numbered_batches::bytes);
    }
}

TEST_CASE("loader on CUDA: it breaks no capture of another thread, and refuses a capture of the "
          "loop's stream") {
    machine const     here;
    cuda_stream const stream;
    loader            load{numbered_batches{50}, stream, batched({.producers = 2})};
    std::atomic<bool> capturing = false, done = false; // the loader was made before: that allocates
    std::thread       other{[&] {
        cuda_stream const mine;
        cuda_check(cudaStreamBeginCapture(mine.get(), cudaStreamCaptureModeGlobal));
        capturing = true;
        while (!done) { std::this_thread::yield(); }
        cudaGraph_t graph = nullptr;
        CHECK(cudaStreamEndCapture(mine.get(), &graph) == cudaSuccess);
        cudaGraphDestroy(graph);
    }};
    while (!capturing) { std::this_thread::yield(); }
    std::size_t seen = 0;
    for (auto& b : load) { seen += b.index() == seen; }
    done = true;
    other.join();
    CHECK(seen == 50);

    load.restart();
    cuda_check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed));
    auto at = load.begin();
    try {
        (void)*at;
        FAIL("the stream is being captured");
    } catch (loader_error const& e) { CHECK(e.why() == loader_error::reason::capturing); }
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamEndCapture(stream.get(), &graph));
    cudaGraphDestroy(graph);
    CHECK(at->index() == 0); // the batch was not lost
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE(
    "loader on CUDA: after the start it allocates nothing, waits for nothing and queries nothing") {
    machine const     here;
    cuda_stream const stream;
    loader            load{numbered_batches{100}, stream, batched({.producers = 2})};
    char const* const never[] = {"cudaEventSynchronize",  "cudaStreamSynchronize",
                                 "cudaEventQuery",        "cudaStreamQuery",
                                 "cudaDeviceSynchronize", "cudaMalloc",
                                 "cudaHostAlloc",         "cudaEventCreateWithFlags"};
    std::uint64_t     before[std::size(never)];
    for (std::size_t i = 0; i < std::size(never); ++i) {
        before[i] = doubles::cudart::calls(never[i]);
    }
    std::size_t seen = 0;
    for (auto& b : load) { seen += b.index() == seen; }
    CHECK(seen == 100);
    for (std::size_t i = 0; i < std::size(never); ++i) {
        CAPTURE(std::string{never[i]});
        CHECK(doubles::cudart::calls(never[i]) == before[i]);
    }
}

TEST_CASE("loader on CUDA: if no more memory can be pinned, pageable memory is used on request") {
    machine const     here;
    cuda_stream const stream;
    doubles::cudart::fail("cudaHostAlloc", cudaErrorMemoryAllocation, 2);
    CHECK_THROWS_AS((loader{numbered_batches{3}, stream, batched({})}), out_of_memory);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    doubles::cudart::fail("cudaHostAlloc", cudaErrorMemoryAllocation, 2);
    loader load{numbered_batches{9}, stream, batched({.pageable_fallback = true})};
    CHECK(load.statistics().pageable == 1);
    std::size_t seen = 0;
    for (auto& b : load) { seen += b.index() == seen; }
    CHECK(seen == 9);
}

TEST_CASE("loader on CUDA: a broken context ends the loop, and is not waited for") {
    for (std::size_t when : {0U, 1U, 5U}) {
        mishaps const     told;
        machine const     here;
        cuda_stream const stream;
        bool              failed = false;
        {
            loader load{numbered_batches{100}, stream, batched({.producers = 2})};
            try {
                for (auto& b : load) {
                    if (b.index() == when) {
                        doubles::cudart::break_context(cudaErrorIllegalAddress);
                    }
                }
            } catch (cuda_error const& e) {
                failed = true;
                CHECK(e.status() == cudaErrorIllegalAddress);
            }
        }
        CHECK(failed);
        doubles::cudart::reset();
    }
}

TEST_CASE("loader on CUDA: no failure of any call at any time loses memory") {
    // Half of the calls are made by other threads, in varying order, so the live objects are
    // compared.
    machine const     here;
    cuda_stream const stream;
    for (bool const call_back : {true, false}) {
        bool struck = true;
        for (std::uint64_t n = 1; struck; ++n) {
            REQUIRE(n < 1000);
            CAPTURE(n);
            mishaps const told;
            auto const    before = doubles::cudart::out();
            std::size_t   seen   = 0;
            bool          threw  = false;
            doubles::cudart::fail_nth(n, cudaErrorUnknown);
            try {
                for (auto& b :
                     loader{numbered_batches{6}, stream, batched({.call_back = call_back})}) {
                    seen += b.index() == seen;
                }
            } catch (cuda_error const&) { threw = true; } catch (out_of_memory const&) {
                threw = true;
            }
            struck = doubles::cudart::forgive();
            CHECK((threw || seen == 6));
            CHECK((struck || !threw));
            cudaSetDevice(0);
            (void)cudaGetLastError();
            CHECK(doubles::cudart::out() == before);
        }
    }
}
#endif
