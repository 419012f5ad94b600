// SPDX-License-Identifier: Apache-2.0
// Retry policies, split_on_oom, the probes and their assertions, compiled by nvcc.

#include <vram/vram.hpp>

#include "kernels.hpp"

#include <vram/history/chrome_trace.hpp>
#include <vram/history/history_columns.hpp>
#include <vram/history/history_trigger.hpp>
#include <vram/history/logging.hpp>
#include <vram/history/perfetto_trace.hpp>
#include <vram/history/read_history.hpp>
#include <vram/history/rmm_csv.hpp>
#include <vram/history/viewer_json.hpp>
#include <vram/history/viewer_pickle.hpp>
#include <vram/probe/doctest.hpp>
#if __has_include(<nvtx3/nvToolsExtCounters.h>) // CUDA 13.0 and later
#include <vram/interop/nvtx_counters.hpp>
#include <vram/interop/nvtx_memory.hpp>
#include <vram/interop/nvtx_tagged.hpp>
template class vram::pool<
    vram::observed<vram::stream_ordered<vram::cuda_resource>, vram::nvtx_counters>>;
template class vram::pool<
    vram::observed<vram::stream_ordered<vram::cuda_resource>, vram::nvtx_memory>>;
TEST_CASE("nvcc: a range of NVTX names the memory that its scope allocates") {
    vram::nvtx_tagged const scope{"nvcc"};
    CHECK(vram::current_tag().name() == std::string{"nvcc"});
}
#endif

#include <filesystem> // temp_directory_path, remove
#include <functional> // ref
#include <string>     // string
#include <vector>     // vector

using namespace vram;
using tests::machine;

using later = stream_ordered<cuda_resource>;
using stack = pool<statistics<limiting<later>>>;

template class vram::tracking<stack>;
template class vram::memory_delta<stack>;
template class vram::memory_delta<statistics<later>>;
template class vram::leak_check<stack>;
template class vram::peak_scope<stack>;
template class vram::device_delta<cuda_platform>;
template class vram::wait_backoff<>;
template class vram::logging<stack>;
template class vram::guarded<stack>;
template class vram::refusing<later>;
template class vram::growth_watch<stack>;
template class vram::profile<cuda_platform>;
template class vram::timed<cuda_platform, stack>;

namespace {
stack budgeted(std::size_t limit) { return stack{statistics{limiting{later{}, limit}}}; }
} // namespace

TEST_CASE("nvcc: split_on_oom runs a kernel on pieces that fit") {
    machine const     here;
    stack             memory = budgeted(4_MiB);
    cuda_stream const stream;
    split_on_oom      split{{.granule = 256}};
    std::size_t       items = 0;
    split(16_MiB, [&](std::size_t, std::size_t count) {
        buffer scratch{memory, stream, count};
        tests::write(stream, scratch.data(), count, 1);
        items += count;
    });
    CHECK(items == 16_MiB);
    CHECK(split.splits() > 0);
    CHECK(memory.usage().live == 0);
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: each retry policy") {
    machine const     here;
    cuda_stream const stream;
    void*             cache = nullptr;
    locked            upstream{budgeted(2_MiB)};
    unsigned          asked = 0;
    retrying          memory{std::move(upstream), trim_upstream{}, drain{}, wait_backoff{},
                    calling{[&](failed_attempt const&) {
                        ++asked;
                        return false;
                    }}};
    cache = memory.allocate(stream, 1_MiB);
    CHECK_THROWS_AS((void)memory.allocate(stream, 4_MiB), out_of_memory);
    CHECK(asked == 1);
    tests::write(stream, cache, 1_MiB, 1);
    memory.deallocate(stream, cache, 1_MiB);
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: probes of a scope, and their reports") {
    machine const     here;
    stack             memory = budgeted(64_MiB);
    cuda_stream const stream;
    {
        leak_check const watch{memory};
        memory_delta     probe{memory};
        device_delta     device{memory};
        void* const      p = memory.allocate(stream, 1_MiB);
        tests::write(stream, p, 1_MiB, 1);
        CHECK(probe.bytes() == 1_MiB);
        CHECK(probe.allocations() == 1);
        CHECK(watch.bytes() == 1_MiB);
        std::size_t const used = device.bytes();
        CHECK(device.peak() >= used);
        CHECK(report(memory).find("pool") != std::string::npos);
        memory.deallocate(stream, p, 1_MiB);
        CHECK(probe.bytes() == 0);
        CHECK(probe.peak() == 1_MiB);
    }
    try {
        (void)memory.allocate(stream, 1_GiB);
        FAIL("a gigabyte fits into 64 MiB");
    } catch (out_of_memory const& e) { CHECK(explain(e).find("1.00 GiB") != std::string::npos); }
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: survives_oom refuses each allocation of a function") {
    machine const     here;
    stack             memory = budgeted(64_MiB);
    cuda_stream const stream;
    auto const        work = [&](auto& mr) {
        buffer one{mr, stream, 1_MiB}, two{mr, stream, 2_MiB};
        tests::write(stream, one.data(), one.size(), 1);
        return one.size() + two.size();
    };
    oom_survival const result = survives_oom(memory, work, survives_oom_options{});
    CHECK_MESSAGE(result, result.text());
    CHECK(result.requests == 2);
    auto const leaks = survives_oom(memory, [&](auto& mr) {
        void* const one = mr.allocate(stream, 1_MiB);
        mr.deallocate(stream, mr.allocate(stream, 2_MiB), 2_MiB);
        mr.deallocate(stream, one, 1_MiB);
    });
    CHECK(leaks.fault == oom_fault::leak);
    stream.synchronize();
    auto chunks = cuda_resource{} | with::stream_ordered | with::refusing | with::pool;
    CHECK(survives_oom(chunks, [&] { return work(chunks); }));
    stream.synchronize();
    chunks.retire(stream);
    memory.retire(stream);
}

TEST_CASE("nvcc: timed measures kernels by events") {
    machine const     here;
    stack             memory = budgeted(64_MiB);
    cuda_stream const stream;
    profile           times{memory};
    for (int i = 0; i < 3; ++i) {
        timed const whole{times, stream};
        timed const part{times, stream, "write", memory};
        buffer      scratch{memory, stream, 1_MiB};
        tests::write(stream, scratch.data(), scratch.size(), 1);
    }
    std::vector<profile_row> const rows = times.rows();
    CHECK(rows.size() == 2);
    CHECK(rows[1].device.count == 3);
    CHECK(rows[1].peak == 1_MiB);
    CHECK(rows[0].device.total >= rows[1].device.total);
    CHECK(times.text().find("write") != std::string::npos);
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: growth_watch finds the growth of a loop") {
    machine const      here;
    stack              memory = budgeted(64_MiB);
    cuda_stream const  stream;
    std::vector<void*> kept;
    growth_watch       live{memory, growth_options{.steps = 16}};
    growth_watch       device{memory, growth_options{.of = growth_of::device}};
    for (int i = 0; i < 20; ++i) {
        kept.push_back(memory.allocate(stream, 1_MiB));
        live.step();
        device.step();
    }
    memory_growth const found = live.growth();
    CHECK(found.per_step() == 1_MiB);
    CHECK(device.steps() == 20);
    for (void* p : kept) { memory.deallocate(stream, p, 1_MiB); }
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: the memory assertions for doctest") {
    machine const     here;
    stack             memory = budgeted(64_MiB);
    cuda_stream const stream;
    void*             kept = nullptr;
    VRAM_CHECK_NO_LEAK(memory) {
        buffer scratch{memory, stream, 1_MiB};
        tests::write(stream, scratch.data(), scratch.size(), 1);
    }
    VRAM_CHECK_DELTA(memory, 1_MiB) { kept = memory.allocate(stream, 1_MiB); }
    VRAM_CHECK_PEAK_AT_MOST(memory, 2_MiB) { buffer scratch{memory, stream, 1_MiB}; }
    VRAM_CHECK_ALLOCATIONS(memory, 0) { tests::write(stream, kept, 1_MiB, 2); }
    VRAM_CHECK_NO_ALLOCATION(memory) { tests::write(stream, kept, 1_MiB, 2); }
    VRAM_CHECK_DELTA_AT_MOST(memory, 0) { buffer scratch{memory, stream, 1_MiB}; }
    VRAM_CHECK_NO_ERRORS { tests::write(stream, kept, 1_MiB, 3); }
    VRAM_CHECK_SURVIVES_OOM(memory, [&](auto& mr) { buffer scratch{mr, stream, 1_MiB}; });
    memory.deallocate(stream, kept, 1_MiB);
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: tags of scopes") {
    tagged const     outer{"nvcc"};
    tagged const     inner{std::string{"inner"}};
    memory_tag const now = current_tag();
    CHECK(std::string{now.path()} == "nvcc/inner");
    CHECK(memory_tag::of_id(now.id()) == now);
}

TEST_CASE("nvcc: call stacks") {
    call_stack const here = call_stack::current(2);
    CHECK(here.size() <= 2);
    if (!here.empty()) { CHECK(frame_text{here[0]}.c_str()[0] != '\0'); }
}

TEST_CASE("nvcc: tracking") {
    machine const     here;
    tracking          memory{budgeted(64_MiB), tracking_options{.frames = 4}};
    cuda_stream const stream;
    void*             p = nullptr;
    {
        tagged const scope{"nvcc tracking"};
        p = memory.allocate(stream, 1_MiB);
    }
    tests::write(stream, p, 1_MiB, 1);
    for (tracked_block const& each : memory.blocks(tracked_order::largest_first)) {
        CHECK(each.bytes == 1_MiB);
    }
    for (tracked_owner const& each : memory.by_tag()) { CHECK(each.live == 1_MiB); }
    CHECK(memory.text().find("nvcc tracking") != std::string::npos);
    memory.deallocate(stream, p, 1_MiB);
    auto const composed = cuda_resource{} | with::tracking({.frames = 2});
    CHECK(composed.blocks().empty());
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: a history of kernels' memory, in each format") {
    machine const     here;
    cuda_stream const stream;
    history           log{{.frames = 4}};
    std::string const folder = std::filesystem::temp_directory_path().string();
    std::string const file   = folder + "/vram-nvcc-history";
    {
        pool        memory{observed{later{}, std::ref(log)}};
        void* const p = memory.allocate(stream, 1_MiB);
        tests::write(stream, p, 1_MiB, 1);
        memory.deallocate(stream, p, 1_MiB);
        stream.synchronize();
        memory.retire(stream);
    }
    for (history_format const format :
         {viewer_pickle, viewer_json, perfetto_trace, chrome_trace, rmm_csv, history_columns}) {
        log.write(file, format);
    }
    history_record const record = read_history(file);
    CHECK(record.events.size() == log.events());
    CHECK(record.events.at(1).bytes == 1_MiB);
    history_trigger{log, file, history_columns}.on_refusal();
    {
        auto memory = later{} | with::pool | with::logging(file, {.most_bytes = 1_MiB});
        memory.deallocate(stream, memory.allocate(stream, 1_KiB), 1_KiB);
        CHECK(memory.lost() == 0);
        stream.synchronize();
        memory.retire(stream);
    }
    std::filesystem::remove(file);
}

TEST_CASE("nvcc: a kernel that writes after the end of a block is found when the block is freed") {
    machine const     here;
    cuda_stream const stream;
    guarded           memory{budgeted(64_MiB), guarded_options{.fence = 64}};
    for (std::size_t const beyond : {std::size_t{0}, sizeof(unsigned)}) {
        error_count const errors;
        void* const       p = memory.allocate(stream, 1000);
        tests::write(stream, p, 1000 + beyond, 1); // whole words
        memory.deallocate(stream, p, 1000);
        memory.check_blocks();
        CHECK(errors.count() == (beyond != 0 ? 1 : 0));
        if (beyond != 0) {
            CHECK(std::string{errors.first()}.find("overrun") != std::string::npos);
        }
    }
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: histograms of sizes and lifetimes") {
    machine const     here;
    cuda_stream const stream;
    auto              memory = later{} | with::pool | with::histograms;
    memory.deallocate(stream, memory.allocate(stream, 1000), 1000);
    histograms const seen = memory.histograms();
    CHECK(seen.sizes.counts[histogram::entry_of(1000)] == 1);
    CHECK(seen.lifetimes.total() == 1);
    stream.synchronize();
    memory.retire(stream);
}
