// SPDX-License-Identifier: Apache-2.0
// The reports of mistakes in the use of vram's parts name the program's lines, and advise in terms
// of the part's functions.
#include <vram/handle/any_resource.hpp>
#include <vram/handle/array.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/guarded.hpp>
#include <vram/sim/sim.hpp>
#include <vram/staging/copy_batch.hpp>
#include <vram/staging/staging.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/unloader.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

constexpr sim_options part_options{.on_report = sim_on_report::collect};

/// Returns the first report. Fails the test if the lines of a report are not in this file, or if
/// `has` is not a part of the text of the first one.
sim_report first_report(sim_node& node, std::string_view has) {
    auto const all = node.take_reports();
    REQUIRE(!all.empty());
    for (sim_report const& r : all) {
        INFO(r.text());
        std::string_view const here = std::source_location::current().file_name();
        CHECK(r.second.where.file_name() == here);
        CHECK(r.first.where.file_name() == here);
    }
    INFO(all[0].text());
    CHECK(all[0].text().find(has) != std::string::npos);
    return all[0];
}

unsigned part_line(std::source_location where = std::source_location::current()) {
    return static_cast<unsigned>(where.line());
}

} // namespace

TEST_CASE("reports of parts: a buffer that is copied by reserve names the line of reserve") {
    sim_node           node{part_options};
    sim_async_resource memory;
    sim_stream         s, t;
    buffer             b{memory, s, 64};
    sim_event          ready;
    ready.record(s);
    ready.wait(t);
    sim_launch(t, {.name = "write", .writes = {{b.data(), 64}}});
    b.resize(128); // not ordered after the kernel
    auto const line = part_line() - 1;
    t.synchronize();
    auto const all = node.take_reports();
    REQUIRE(all.size() == 2); // the copy, and the free of the old block
    for (auto const& r : all) {
        CHECK(r.second.where.line() == line);
        CHECK(std::string_view{r.second.where.file_name()} ==
              std::source_location::current().file_name());
    }
    CHECK(all[0].second.part == sim_part::handle);
    CHECK(all[0].text().find("`copy on the device`") != std::string::npos);
    CHECK(all[1].missing.starts_with("free the block on stream"));
}

TEST_CASE("reports of parts: copies of an array name their lines, a destructor that of the array") {
    sim_node           node{part_options};
    sim_async_resource memory;
    sim_stream         s, t;
    std::vector<int>   host(16);
    sim_event          ready;
    unsigned           line = 0;
    {
        line        = part_line() + 1;
        auto values = make_array<int>(memory, s, 16);
        ready.record(s);
        ready.wait(t);
        sim_launch(t, {.name = "write", .writes = {{values.data(), 64}}});
        values.copy_to(host);
        CHECK(first_report(node, "`copy device to host`").second.where.line() == part_line() - 1);
        t.synchronize();
        sim_launch(t, {.name = "late", .writes = {{values.data(), 64}}});
    }
    CHECK(first_report(node, "free that does not follow the last use").second.where.line() == line);
    t.synchronize();
}

TEST_CASE("reports of parts: a batch on another stream needs record_stream" *
          doctest::skip(!sim_ordered_threads) *
          doctest::description("threads run freely under ThreadSanitizer")) {
    for (bool const waits : {false, true}) {
        CAPTURE(waits);
        sim_node   node{part_options};
        sim_stream s, t{sim_device{}, {.name = "side"}};
        auto const fill = [](std::span<std::byte> to, std::size_t index) {
            return index < 6 ? to.size() : 0;
        };
        sim_event copied;
        {
            loader batches{fill, s, {.batch_bytes = 64, .depth = 2}};
            for (auto& b : batches) {
                if (waits) {
                    copied.record(s);
                    copied.wait(t);
                }
                sim_launch(t, {.name = "use", .reads = {{b.data(), 64}}, .duration = 1ms});
            }
        }
        t.synchronize();
        auto const r = first_report(node, "`loader copy of batch ");
        if (waits) {
            CHECK(r.missing == "`record_stream(t)` is missing for batch 0; t is stream \"side\"");
            CHECK(r.second_by == "stream \"loader copies\"");
        } else {
            CHECK(r.missing == "`record_stream(t)` is missing for batch 0; t is stream \"side\"; "
                               "or a batch is used after its release");
        }
        CHECK(r.count > 1);
    }
}

TEST_CASE("reports of parts: a batch that is used after its release") {
    sim_node   node{part_options};
    sim_stream s;
    auto const fill = [](std::span<std::byte> to, std::size_t index) {
        return index < 4 ? to.size() : 0;
    };
    loader batches{fill, s, {.batch_bytes = 64, .depth = 1}};
    auto   at = batches.begin();
    for (int i = 0; i < 2; ++i) {
        std::byte* const p = at->data();
        at->release();
        sim_launch(s, {.name = "late", .reads = {{p, 64}}, .duration = 1ms});
        ++at;
    }
    batches.stop();
    s.synchronize();
    auto const r = first_report(node, "batch");
    CHECK(r.missing.find("after its release") != std::string::npos);
}

TEST_CASE("reports of parts: a source's own calls have their own lines") {
    sim_node            node{part_options};
    sim_stream          s, t;
    sim_pinned_resource host;
    void* const         p    = host.allocate_sync(64);
    unsigned            line = 0;
    auto const          fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index > 0) { return 0; }
        line = part_line() + 1;
        sim_touch({p, 64}, sim_access::write);
        return to.size();
    };
    sim_launch(t, {.name = "reads", .reads = {{p, 64}}});
    for (std::size_t const depth : {0, 2}) {
        loader batches{fill, s, {.batch_bytes = 64, .depth = depth}};
        for (auto& b : batches) { CHECK(b.size() == 64); }
        auto const r = first_report(node, "`host`");
        CHECK(r.second.where.line() == line);
        sim_launch(t, {.name = "reads", .reads = {{p, 64}}});
    }
    t.synchronize();
    host.deallocate_sync(p, 64);
    (void)node.take_reports();
}

TEST_CASE("reports of parts: a result that another stream writes needs record_stream") {
    sim_node   node{part_options};
    sim_stream s, t{sim_device{}, {.name = "side"}};
    {
        unloader out{[](std::span<std::byte const>, std::size_t) {}, s, {.batch_bytes = 64}};
        auto     result = out.next();
        sim_launch(t, {.name = "infer", .writes = {{result.data(), 64}}, .duration = 1ms});
        result.send();
        out.finish();
    }
    t.synchronize();
    auto const r = first_report(node, "`unloader copy of result 0`");
    CHECK(r.missing == "`record_stream(t)` is missing for result 0; t is stream \"side\"");
    CHECK(r.second_by == "stream \"unloader copies\"");
}

TEST_CASE("reports of parts: an upload that overwrites memory of another stream") {
    sim_node               node{part_options};
    sim_resource           memory;
    sim_stream             s, t{sim_device{}, {.name = "side"}};
    std::vector<std::byte> weights(1 << 20);
    void* const            p = memory.allocate_sync(weights.size());
    {
        staging stage{s, {.threads = 2}};
        sim_launch(t, {.name = "use", .reads = {{p, weights.size()}}, .duration = 1ms});
        stage.upload(s, p, weights);
        auto const r = first_report(node, "`staging copy`");
        CHECK(r.second.where.line() == part_line() - 2);
        CHECK(r.missing.starts_with("the stream that is passed to staging must wait for an event "
                                    "recorded on stream \"side\" after `use` #"));
    }
    t.synchronize();
    memory.deallocate_sync(p, weights.size());
}

namespace {

/// Frees a block of `memory` before its last use, and returns the line of the free.
template <class R>
unsigned free_early(R& memory) {
    sim_stream  s, t;
    sim_event   ready;
    void* const p = memory.allocate(s, 64);
    ready.record(s);
    ready.wait(t);
    sim_launch(t, {.name = "late", .writes = {{p, 64}}});
    memory.deallocate(s, p, 64);
    auto const line = part_line() - 1;
    t.synchronize();
    return line;
}

} // namespace

TEST_CASE("reports of parts: a free through handles and layers names the program's line") {
    sim_node   node{part_options};
    auto const frees = [&](auto memory) {
        unsigned const   line = free_early(memory);
        sim_report const r    = first_report(node, "free that does not follow the last use");
        CHECK(r.second.where.line() == line);
    };
    sim_async_resource upstream;
    frees(upstream);
    frees(resource_ref<sim_platform>{upstream});
    frees(any_resource<sim_platform>{upstream});
    frees(shared{upstream});
    frees(limiting{statistics{upstream}, 1_MiB});
    frees(shared{limiting{any_resource<sim_platform>{upstream}, 1_MiB}});
}

TEST_CASE("reports of parts: the fills of an array and of `guarded` name the program's lines") {
    sim_node           node{part_options};
    sim_async_resource memory;
    sim_stream         s, t;
    auto               values = make_array<int>(memory, s, 16);
    s.synchronize();
    sim_launch(t, {.name = "read", .reads = {{values.data(), 64}}});
    values.fill(std::byte{1});
    CHECK(first_report(node, "`fill`").second.where.line() == part_line() - 1);
    t.synchronize();

    guarded     fenced{pool{stream_ordered{sim_resource{}}}};
    void* const p = fenced.allocate(s, 1000);
    sim_launch(t, {.name = "write", .writes = {{p, 1000}}}); // not ordered after the fill
    CHECK(first_report(node, "`fill`").first.where.line() == part_line() - 2);
    fenced.deallocate(s, p, 1000); // not ordered after the kernel
    CHECK(first_report(node, "`fill`").second.where.line() == part_line() - 1);
    sim_device{}.synchronize();
}

TEST_CASE("reports of parts: the memory of a loader was allocated at the line of the loader" *
          doctest::skip(!sim_ordered_threads)) {
    sim_node   node{part_options};
    sim_stream s, t;
    auto const fill = [](std::span<std::byte> to, std::size_t i) { return i < 3 ? to.size() : 0; };
    unsigned   line = 0;
    {
        line = part_line() + 1;
        loader batches{fill, s, {.batch_bytes = 4096}};
        for (auto& b : batches) {
            sim_launch(t, {.reads = {{b.data(), b.size()}}}); // `record_stream` is missing
            break;
        }
        t.synchronize();
    }
    sim_report const r = first_report(node, "race");
    CHECK(r.block.allocated.where.line() == line);
}

TEST_CASE("reports of parts: the copies of a copy_batch have the line of run") {
    sim_node            node{part_options};
    sim_resource        memory;
    sim_pinned_resource pinned;
    sim_stream          s;
    auto* const         p = static_cast<std::byte*>(memory.allocate_sync(128));
    auto* const         h = static_cast<std::byte*>(pinned.allocate_sync(128));
    for (std::size_t const most : {1, 2}) { // one by one, and together
        copy_batch<sim_platform> rows{most};
        rows.add(p, h, 64);
        rows.add(p + 64, h + 64, 64);
        rows.run(s);
        auto const line = part_line() - 1;
        sim_touch({h, 128}, sim_access::write);
        CHECK(first_report(node, "`copy host to device`").first.where.line() == line);
        s.synchronize();
    }
    memory.deallocate_sync(p, 128);
    pinned.deallocate_sync(h, 128);
}

TEST_CASE("reports of parts: a push of a batch on another stream needs record_stream" *
          doctest::skip(!sim_ordered_threads)) {
    sim_node   node{part_options};
    sim_stream s, t{sim_device{}, {.name = "results"}};
    auto const fill = [](std::span<std::byte> to, std::size_t i) { return i < 3 ? to.size() : 0; };
    {
        unloader out{[](std::span<std::byte const>, std::size_t) {}, t, {.batch_bytes = 64}};
        for (auto& b : loader{fill, s, {.batch_bytes = 64, .depth = 1}}) {
            out.push({b.data(), b.size()});
        }
        out.finish();
    }
    for (sim_report const& r : node.take_reports()) {
        INFO(r.text());
        CHECK(r.missing.starts_with("`record_stream(t)` is missing for "));
        CHECK(r.missing.find("; t is stream \"results\"; or ") != std::string::npos);
    }
}

TEST_CASE("reports of parts: a loader returns its memory to a pool at the line of the loader" *
          doctest::skip(!sim_ordered_threads)) {
    sim_node   node{part_options};
    sim_stream s, t{sim_device{}, {.name = "side"}};
    pool       memory{stream_ordered{sim_resource{}}};
    pool       pinned{sim_pinned_resource{}};
    sim_event  copied;
    auto const fill = [](std::span<std::byte> to, std::size_t i) { return i < 1 ? to.size() : 0; };
    unsigned   line = 0;
    {
        line = part_line() + 1;
        loader batches{fill, s, resource_ref{memory}, resource_ref{pinned}, {.batch_bytes = 64}};
        for (auto& b : batches) {
            copied.record(s);
            copied.wait(t);
            sim_launch(t, {.reads = {{b.data(), b.size()}}}); // `record_stream` is missing
        }
    }
    t.synchronize();
    sim_report const r = first_report(node, "free that does not follow the last use");
    CHECK(r.second.where.line() == line);
    CHECK(r.missing.starts_with("`record_stream(t)` is missing for "));
}

TEST_CASE("reports of parts: a monotonic that frees too early names the line of reset or unwind") {
    sim_node   node{part_options};
    sim_stream s, t;
    monotonic  memory{stream_ordered{sim_resource{}}};
    auto const use = [&] {
        void* const p = memory.allocate(s, 64);
        sim_event   ready;
        ready.record(s);
        ready.wait(t);
        sim_launch(t, {.name = "read", .reads = {{p, 64}}});
    };
    auto const has_line = [&](unsigned line) {
        CHECK(first_report(node, "`free all`").second.where.line() == line);
        t.synchronize();
    };
    auto const mark = memory.mark();
    use();
    memory.unwind(mark, s);
    has_line(part_line() - 1);
    use();
    memory.unwind_sync(mark);
    has_line(part_line() - 1);
    use();
    memory.reset(s);
    has_line(part_line() - 1);
    use();
    memory.reset_sync();
    has_line(part_line() - 1);
    use();
    memory.release();
    has_line(part_line() - 1);
}
