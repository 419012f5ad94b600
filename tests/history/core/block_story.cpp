// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/block_story.hpp> // first: the header stands alone

#include "../../doubles/small_pages.hpp"
#include "../recorded.hpp"

#include <vram/layer/limiting.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/slab.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

using namespace vram;
using detail::block_story;
using detail::story_step;
using kind = memory_event_kind;

namespace {

/// Replays a story from its end to its begin, and returns the first contradiction. Each live block
/// lies in one segment, each block and segment begins once and ends once.
class backwards {
public:
    explicit backwards(block_story const& story) {
        for (auto const& s : story.segments()) {
            segments_[s.memory] = s.bytes;
            std::uint64_t end   = s.memory;
            for (auto const& b : s.blocks) {
                if (b.memory < end || b.memory + b.bytes > s.memory + s.bytes) {
                    say("a block overlaps");
                }
                end               = b.memory + b.bytes;
                blocks_[b.memory] = {b.bytes, b.pending};
            }
        }
        for (std::size_t i = story.steps().size(); i-- != 0;) { undo(story.steps()[i]); }
        for (auto const& [at, b] : blocks_) { must_lie_in_a_segment(at, b.first); }
        std::uint64_t reserved = 0;
        for (auto const& [at, bytes] : segments_) { reserved += bytes; }
        if (reserved != story.first_reserved()) { say("first_reserved"); }
    }

    std::string found;

private:
    using action = story_step::action;

    void say(char const* text) {
        if (found.empty()) { found = text; }
    }
    void must_lie_in_a_segment(std::uint64_t at, std::uint64_t bytes) {
        auto after = segments_.upper_bound(at);
        if (after == segments_.begin()) { return say("a block before all segments"); }
        --after;
        if (at + bytes > after->first + after->second) { say("a block in no segment"); }
    }
    void undo(story_step const& step) {
        auto const block = blocks_.find(step.memory);
        switch (step.what) {
        case action::allocated:
            if (block == blocks_.end() || block->second.second) { return say("allocated"); }
            if (block->second.first != step.bytes) { say("size"); }
            blocks_.erase(block);
            return;
        case action::freed:
        case action::free_completed:
            if (block != blocks_.end()) { say("freed, and live"); }
            blocks_[step.memory] = {step.bytes, step.what == action::free_completed};
            return must_lie_in_a_segment(step.memory, step.bytes);
        case action::free_requested:
            if (block == blocks_.end() || !block->second.second) { return say("requested"); }
            block->second.second = false;
            return;
        case action::segment_added:
        case action::segment_grown: {
            auto const above = segments_.upper_bound(step.memory);
            if (above == segments_.begin()) { return say("no segment"); }
            auto const          its = std::prev(above);
            std::uint64_t const end = its->first + its->second;
            if (end < step.memory + step.bytes) { return say("its end"); }
            if (end != step.memory + step.bytes) { // the growth had joined two segments
                segments_[step.memory + step.bytes] = end - step.memory - step.bytes;
            }
            its->second = step.memory - its->first;
            if ((its->second == 0) != (step.what == action::segment_added)) { say("its size"); }
            if (its->second == 0) { segments_.erase(its); }
            for (auto const& [at, b] : blocks_) { must_lie_in_a_segment(at, b.first); }
            return;
        }
        case action::segment_removed:
            if (!segments_.emplace(step.memory, step.bytes).second) { say("removed twice"); }
            return;
        default: return;
        }
    }

    std::map<std::uint64_t, std::uint64_t>                  segments_;
    std::map<std::uint64_t, std::pair<std::uint64_t, bool>> blocks_; ///< bytes, pending
};

std::size_t steps_of(block_story const& story, story_step::action what) {
    std::size_t n = 0;
    for (auto const& step : story.steps()) { n += step.what == what; }
    return n;
}

using log_ref = std::reference_wrapper<history>;
auto seen_by(log_ref to) { return observed{stream_ordered{sim_resource{}}, to}; }

/// Plays a random program and checks its story, with all of the events and with the last ones,
/// while the stack lives and after its end.
template <class Make>
void consistent(char const* name, Make const& make, std::size_t largest = 200'000,
                bool checks_frees = true) {
    for (std::size_t const kept : {std::size_t{1} << 16, std::size_t{100}}) {
        CAPTURE(std::string{name});
        CAPTURE(kept);
        sim_node const node{
            {.capacity = 64_MiB, .page = doubles::small_page, .on_report = sim_on_report::collect}};
        history log{{.events = kept}};
        {
            auto memory = make(std::ref(log));
            recorded_history::play(memory, 700, largest, !checks_frees, checks_frees);
            auto const        record = log.record();
            block_story const story{record};
            CHECK(backwards{story}.found == "");
            if (kept > 10'000) {
                std::size_t blocks = 0;
                for (auto const& s : story.segments()) { blocks += s.blocks.size(); }
                CHECK(steps_of(story, story_step::action::allocated) ==
                      steps_of(story, story_step::action::freed) +
                          steps_of(story, story_step::action::free_requested) + blocks -
                          (steps_of(story, story_step::action::free_requested) -
                           steps_of(story, story_step::action::free_completed)));
            }
        }
        auto const        record = log.record();
        block_story const story{record};
        CHECK(backwards{story}.found == "");
        CHECK(story.segments().empty());
    }
}

} // namespace

TEST_CASE("block_story: random programs on each stack have no contradiction") {
    consistent("pool", [](log_ref to) { return pool{seen_by(to)}; });
    consistent("slab", [](log_ref to) { return slab{seen_by(to), 64_KiB}; }, 64_KiB);
    consistent("binned", [](log_ref to) { return binned{seen_by(to), {.largest = 32_KiB}}; });
    consistent("monotonic", [](log_ref to) { return monotonic{seen_by(to)}; }, 20'000);
    consistent("arena", [](log_ref to) { return arena{seen_by(to)}; });
    consistent(
        "stream_ordered", [](log_ref to) { return stream_ordered{observed{sim_resource{}, to}}; },
        200'000, false);
    consistent("virtual pool", [](log_ref to) {
        return pool{observed{
            sim_virtual_resource{{.reserve = 1 << 28, .handle_size = doubles::small_page}}, to}};
    });
    consistent("arena over pool", [](log_ref to) { return arena{pool{seen_by(to)}}; });
    consistent("binned over pool", [](log_ref to) { return binned{pool{seen_by(to)}}; });
    consistent(
        "stream_ordered over pool",
        [](log_ref to) { return stream_ordered{pool{observed{sim_resource{}, to}}}; }, 200'000,
        false);
    consistent(
        "slab over pool over stream_ordered",
        [](log_ref to) {
            return slab{pool{stream_ordered{observed{sim_resource{}, to}}}, 100'000};
        },
        100'000);
}

TEST_CASE("block_story: a block of a pool that is another's chunk does not appear") {
    sim_node const node;
    sim_stream     s;
    history        log;
    {
        arena memory{pool{seen_by(std::ref(log))}};
        memory.deallocate(s, memory.allocate(s, 1000), 1000);
    }
    auto const        record = log.record();
    block_story const story{record};
    CHECK(steps_of(story, story_step::action::allocated) == 1);
    CHECK(steps_of(story, story_step::action::freed) == 1);
    CHECK(steps_of(story, story_step::action::segment_added) == 1);
    CHECK(steps_of(story, story_step::action::segment_removed) == 1);
}

TEST_CASE("block_story: of two chunks that are one block, the lower resource has the segment") {
    for (std::uint32_t const upper : {1U, 2U}) { // the order of the resources does not matter
        std::uint32_t const lower = 3 - upper;
        history_record      record;
        record.resources.resize(3);
        auto const add = [&](kind of, std::uint32_t resource) {
            history_record::event e;
            e.kind     = of;
            e.memory   = 0x1000;
            e.bytes    = 0x800;
            e.resource = resource;
            record.events.push_back(e);
        };
        add(kind::chunk_removed, upper);
        add(kind::freed, lower);
        add(kind::chunk_removed, lower);
        block_story const story{record};
        CHECK(story.first_live() == 0);
        CHECK(story.first_reserved() == 0x800);
        REQUIRE(story.steps().size() == 1);
        CHECK(story.steps()[0].what == story_step::action::segment_removed);
        CHECK(story.steps()[0].event == 2);
    }
}

TEST_CASE("block_story: the chunk of an ended pool is no block if its allocation is overwritten") {
    sim_node const node;
    sim_stream     s;
    history        log{history_options{.events = 64}};
    {
        pool        memory{stream_ordered{observed{sim_resource{}, std::ref(log)}}};
        void* const first  = memory.allocate(s, 1000); // no event of it is in the record
        void* const second = memory.allocate(s, 1000);
        memory.deallocate(s, first, 1000);
        for (int i = 0; i != 5000; ++i) { memory.deallocate(s, memory.allocate(s, 5000), 5000); }
        memory.deallocate(s, second, 1000);
    }
    auto const record = log.record();
    REQUIRE(record.overwritten != 0);
    block_story const story{record};
    CHECK(story.first_live() <= 6000); // two blocks, and not the chunk
    CHECK(story.segments().empty());
    CHECK(backwards{story}.found == "");
}

TEST_CASE("block_story: refused frees do not appear") {
    sim_node const node{{.on_report = sim_on_report::collect}};
    sim_stream     s;
    history        log;
    pool           memory{seen_by(std::ref(log))};
    void* const    p = memory.allocate(s, 1000);
    memory.deallocate(s, p, 999);
    {
        auto const        record = log.record();
        block_story const story{record};
        CHECK(steps_of(story, story_step::action::freed) == 0);
        CHECK(story.segments().at(0).blocks.size() == 1);
    }
    memory.deallocate(s, p, 1000);
    memory.deallocate(s, p, 1000);
    auto const        record = log.record();
    block_story const story{record};
    CHECK(steps_of(story, story_step::action::freed) == 1);
    CHECK(story.segments().at(0).blocks.empty());
}

TEST_CASE("block_story: a free that waits for its stream is pending") {
    sim_node const node;
    sim_stream     s;
    history        log;
    stream_ordered memory{observed{sim_resource{}, std::ref(log)}};
    void* const    p = memory.allocate(s, 1000);
    void* const    q = memory.allocate(s, 500);
    memory.deallocate(s, q, 500);
    s.synchronize();
    memory.trim();
    memory.deallocate(s, p, 1000);
    auto const        record = log.record();
    block_story const story{record};
    REQUIRE(story.segments().size() == 1);
    REQUIRE(story.segments()[0].blocks.size() == 1);
    CHECK(story.segments()[0].blocks[0].pending);
    CHECK(steps_of(story, story_step::action::free_requested) == 2);
    CHECK(steps_of(story, story_step::action::free_completed) == 1);
}

TEST_CASE("block_story: a free and the next allocation may have exchanged times") {
    history_record record;
    record.resources.push_back({"pool", 1});
    auto const add = [&](kind k, std::uint64_t memory, std::uint64_t bytes) {
        record.events.push_back({.kind     = k,
                                 .resource = 1,
                                 .time     = static_cast<std::int64_t>(record.events.size()),
                                 .memory   = memory,
                                 .bytes    = bytes});
    };
    add(kind::chunk_added, 0x1000, 0x1000);
    add(kind::allocated, 0x1000, 100);
    add(kind::allocated, 0x1000, 200); // its free is below
    add(kind::freed, 0x1000, 100);
    add(kind::freed, 0x1000, 200);
    record.chunks.push_back({0x1000, 0x1000, 1});
    block_story const story{record};
    CHECK(backwards{story}.found == "");
    CHECK(steps_of(story, story_step::action::freed) == 2);
    CHECK(story.segments().at(0).blocks.empty());
}

namespace {
/// A record with the resources "a" (1) and "b" (2), to which a test adds events.
struct written_record {
    written_record() { record.resources = {{}, {"a", 1}, {"b", 2}}; }
    void add(kind k, std::uint64_t memory, std::uint64_t bytes, std::uint32_t resource = 1) {
        record.events.push_back({.kind     = k,
                                 .resource = resource,
                                 .time     = static_cast<std::int64_t>(record.events.size()),
                                 .memory   = memory,
                                 .bytes    = bytes});
    }
    history_record record;
};
} // namespace

TEST_CASE("block_story: the first event may extend a segment that is older than the record") {
    written_record r;
    r.add(kind::chunk_added, 0x2000, 0x1000);
    r.add(kind::allocated, 0x1800, 0x1000); // a block in both chunks
    r.record.chunks.push_back({0x1000, 0x1000, 1});
    r.record.chunks.push_back({0x2000, 0x1000, 1});
    block_story const story{r.record};
    CHECK(backwards{story}.found == "");
    CHECK(steps_of(story, story_step::action::segment_grown) == 1);
    CHECK(steps_of(story, story_step::action::segment_added) == 0);
}

TEST_CASE("block_story: a segment that grows ends before the next one") {
    written_record r;
    r.add(kind::pages_mapped, 0x1000, 0x1000);
    r.add(kind::chunk_added, 0x1000, 0x1000);
    r.add(kind::chunk_added, 0x3000, 0x1000, 2);
    r.add(kind::chunk_added, 0x2000, 0x1800); // reaches into the chunk of the other resource
    r.record.chunks.push_back({0x1000, 0x2000, 1});
    r.record.chunks.push_back({0x3000, 0x1000, 2});
    block_story const story{r.record};
    CHECK(backwards{story}.found == "");
    REQUIRE(story.segments().size() == 2);
    CHECK(story.segments()[0].bytes == 0x2000);
    CHECK(story.segments()[1].bytes == 0x1000);
}

TEST_CASE("block_story: the free of another resource at the address is not moved") {
    written_record r;
    r.add(kind::chunk_added, 0x1000, 0x1000);
    r.add(kind::allocated, 0x1000, 100);
    r.add(kind::allocated, 0x1000, 200); // the free of the block of 100 bytes is missing
    r.add(kind::chunk_removed, 0x1000, 0x1000);
    r.add(kind::chunk_added, 0x1000, 0x1000, 2);
    r.add(kind::allocated, 0x1000, 300, 2);
    r.add(kind::freed, 0x1000, 300, 2);
    r.record.chunks.push_back({0x1000, 0x1000, 2});
    block_story const story{r.record};
    CHECK(backwards{story}.found == "");
    CHECK(steps_of(story, story_step::action::freed) == 3);
    CHECK(story.segments().at(0).blocks.empty());
}

TEST_CASE("block_story: any events are accepted") {
    std::minstd_rand random{3};
    for (int run = 0; run != 300; ++run) {
        history_record record;
        record.resources = {{}, {"a", 1}, {"b", 2}};
        for (int i = 0; i != 60; ++i) {
            history_record::event e;
            e.kind     = static_cast<kind>(random() % 13);
            e.resource = static_cast<std::uint32_t>(random() % 3);
            e.memory   = random() % 12 * 16;
            e.bytes    = random() % 9 == 0 ? ~std::uint64_t{0} : random() % 64;
            record.events.push_back(e);
        }
        block_story const story{record};
        for (auto const& step : story.steps()) { CHECK(step.event < 60); }
        for (std::size_t i = 1; i < story.segments().size(); ++i) {
            auto const& before = story.segments()[i - 1];
            CHECK(story.segments()[i].memory - before.memory >= before.bytes);
        }
    }
}
