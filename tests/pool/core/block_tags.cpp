// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_tags.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

using namespace vram;
using namespace vram::detail;

namespace {

constexpr auto not_yet = [](tag const&) { return false; };

/// Two adjacent blocks of 4 KiB each, and nodes for their uses.
struct two_blocks {
    two_blocks() {
        left.address  = 0x10000;
        right.address = 0x11000;
        left.bytes = right.bytes = 0x1000;
        notes.reserve(3);
    }
    [[nodiscard]] static tags all_of(block const& b, std::uint64_t epoch, std::size_t slot) {
        return tags{{b.address, b.end(), epoch, slot}};
    }
    /// Merges both blocks into `into`.
    void join(block& into) {
        into.address = left.address;
        into.bytes   = 0x2000;
    }

    block      left, right;
    block_tags notes;
};

std::size_t pieces(block const& b) {
    std::size_t n = 0;
    for ([[maybe_unused]] tag const& t : b.waits_for()) { ++n; }
    return n;
}

} // namespace

TEST_CASE("block_tags: one pending use of a whole block is in the block, and others in a node") {
    two_blocks f;
    f.notes.hold(&f.left, two_blocks::all_of(f.left, 3, 1));
    CHECK(f.left.slot == 1);
    CHECK(f.left.epoch == 3);
    f.notes.hold(&f.left, tags{});
    CHECK(f.left.slot == block::nobody);
    f.notes.hold(&f.left, tags{{0x10100, 0x10200, 3, 1}}); // a part
    CHECK(f.left.slot == block::several);
    CHECK(f.left.waits_for().begin()->begin == 0x10100);
    f.notes.hold(&f.left, tags{{0x0, 0x20000, 3, 1}}); // the use covers more than the block
    CHECK(f.left.slot == 1);
}

TEST_CASE("block_tags: a node is freed when it is no longer needed") {
    two_blocks f;
    while (!f.notes.empty()) { // uses all nodes except one
        block b;
        b.address = 0x10000;
        b.bytes   = 0x1000;
        f.notes.hold(&b, tags{{0x10000, 0x10100, 1, 1}});
        if (!f.notes.empty()) { continue; }
        f.notes.release(&b);
        break;
    }
    CHECK(f.notes.has(1));
    CHECK_FALSE(f.notes.has(2));
    for (int again = 0; again < 3; ++again) {
        f.notes.hold(&f.left, tags{{0x10000, 0x10100, 1, 1}});
        CHECK(f.notes.empty());
        f.notes.refresh(&f.left, [](tag const&) { return true; });
        CHECK(f.left.slot == block::nobody);
        CHECK(f.notes.has(1));
    }
}

TEST_CASE("block_tags: a merge of uses of one stream keeps the later epoch, without a node") {
    for (bool const later : {false, true}) {
        two_blocks f;
        f.notes.hold(&f.left, two_blocks::all_of(f.left, later ? 5 : 3, 1));
        f.notes.hold(&f.right, two_blocks::all_of(f.right, later ? 3 : 5, 1));
        CHECK(f.notes.merge_uses(&f.left, &f.right, not_yet));
        CHECK(f.left.slot == 1);
        CHECK(f.left.epoch == 5);
    }
}

TEST_CASE(
    "block_tags: a merge of uses of two streams keeps both, in a node, for either neighbour") {
    for (bool const up : {false, true}) {
        two_blocks f;
        f.notes.hold(&f.left, two_blocks::all_of(f.left, 3, 1));
        f.notes.hold(&f.right, two_blocks::all_of(f.right, 5, 2));
        block& into = up ? f.left : f.right;
        CHECK(f.notes.merge_uses(&into, up ? &f.right : &f.left, not_yet));
        f.join(into);
        CHECK(pieces(into) == 2);
        for (tag const& t : into.waits_for()) {
            CHECK(t.epoch == (t.slot == 1 ? 3 : 5));
            CHECK(t.begin == (t.slot == 1 ? 0x10000 : 0x11000));
        }
        CHECK((up ? f.right : f.left).slot == block::nobody);
    }
}

TEST_CASE("block_tags: completed uses are not merged") {
    two_blocks f;
    f.notes.hold(&f.left, two_blocks::all_of(f.left, 3, 1));
    f.notes.hold(&f.right, two_blocks::all_of(f.right, 5, 2));
    CHECK(f.notes.merge_uses(&f.left, &f.right, [](tag const& t) { return t.slot == 1; }));
    f.join(f.left);
    CHECK(pieces(f.left) == 1);
    CHECK(f.left.waits_for().begin()->slot == 2);
}

TEST_CASE("block_tags: a block with one use of its whole range again has no node") {
    for (bool const up : {false, true}) {
        two_blocks f;
        block&     noted = up ? f.left : f.right;
        block&     other = up ? f.right : f.left;
        tags       both  = two_blocks::all_of(noted, 3, 1);
        CHECK(both.merge(tags{{noted.address + 0x800, noted.end(), 5, 2}}, not_yet));
        f.notes.hold(&noted, both);
        f.notes.hold(&other, two_blocks::all_of(other, 4, 1));
        CHECK(f.notes.merge_uses(&noted, &other, [](tag const& t) { return t.slot == 2; }));
        CHECK(noted.slot == 1);
        CHECK(noted.epoch == 4);
    }
}

TEST_CASE("block_tags: the empty end of a chunk takes over the uses without another node") {
    two_blocks f;
    f.notes      = {};
    f.left.bytes = 0;
    f.notes.hold(&f.right, two_blocks::all_of(f.right, 3, 1));
    CHECK(f.notes.merge_uses(&f.left, &f.right, not_yet));
    CHECK(f.left.slot == 1);
    CHECK(f.left.epoch == 3);
    CHECK(f.right.slot == block::nobody);
    f.notes.reserve(1);
    f.left.slot = block::nobody;
    f.notes.hold(&f.right, tags{{0x11000, 0x11100, 3, 1}});
    use_node const* const note = f.right.note;
    CHECK(f.notes.merge_uses(&f.left, &f.right, not_yet));
    CHECK(f.left.slot == block::several);
    CHECK(f.left.note == note);
    CHECK(f.right.slot == block::nobody);
    f.right.bytes = 0;
    CHECK(f.notes.merge_uses(&f.left, &f.right, not_yet)); // without a pending use
    CHECK(f.left.note == note);
}

TEST_CASE("block_tags: without a node, uses of two streams are not merged, and nothing changed") {
    two_blocks f;
    f.notes = {};
    f.notes.hold(&f.left, two_blocks::all_of(f.left, 3, 1));
    f.notes.hold(&f.right, two_blocks::all_of(f.right, 5, 2));
    CHECK_FALSE(f.notes.merge_uses(&f.left, &f.right, not_yet));
    CHECK(f.left.slot == 1);
    CHECK(f.right.slot == 2);
}

TEST_CASE("block_tags: uses that exceed a node are not merged, and nothing changed") {
    for (bool const up : {false, true}) {
        two_blocks f;
        block&     full  = up ? f.left : f.right;
        block&     other = up ? f.right : f.left;
        tags       many;
        for (std::size_t slot = 1; slot <= tags::most; ++slot) {
            std::uintptr_t const from = full.address + 0x100 * slot;
            CHECK(many.merge(tags{{from, from + 0x100, 3, slot}}, not_yet));
        }
        f.notes.hold(&full, many);
        f.notes.hold(&other, two_blocks::all_of(other, 5, 99));
        CHECK_FALSE(f.notes.merge_uses(&f.left, &f.right, not_yet));
        CHECK_FALSE(f.notes.merge_uses(&f.right, &f.left, not_yet));
        CHECK(pieces(full) == tags::most);
        CHECK(other.slot == 99);
        block_tags::hold(&other, {0, 0, 5, 1});
        CHECK(f.notes.merge_uses(&other, &full, not_yet)); // takes an existing use_node
        CHECK(full.slot == block::nobody);
    }
}

TEST_CASE("block_tags: a merge of two nodes frees one of them") {
    two_blocks f;
    while (f.notes.has(3)) { // leaves at most two
        block b;
        b.address = 0x10000;
        b.bytes   = 0x1000;
        f.notes.hold(&b, tags{{0x10000, 0x10100, 1, 1}});
    }
    f.notes.hold(&f.left, tags{{0x10000, 0x10100, 3, 1}});
    f.notes.hold(&f.right, tags{{0x11000, 0x11100, 3, 2}});
    CHECK(f.notes.empty());
    CHECK(f.notes.merge_uses(&f.left, &f.right, not_yet));
    CHECK(f.notes.has(1));
    CHECK(pieces(f.left) == 2);
    CHECK(f.right.slot == block::nobody);
}

TEST_CASE("block_tags: a graph-retained use is not merged with a completed use of its stream") {
    two_blocks f;
    f.notes.hold(&f.left, two_blocks::all_of(f.left, 3, 1));
    f.notes.hold(&f.right, two_blocks::all_of(f.right, 3, 1));
    block_tags::keep_for_capture(&f.right, 2, 0); // another's
    block_tags::keep_for_capture(&f.right, 1, 4); // from before
    CHECK(f.right.epoch == 3);
    block_tags::keep_for_capture(&f.right, 1, 3);
    CHECK(f.right.epoch == tag::captured);
    CHECK(f.notes.merge_uses(&f.left, &f.right, not_yet));
    f.join(f.left);
    CHECK(pieces(f.left) == 2);
    block_tags::keep_for_capture(&f.left, 1, 4);
    CHECK(f.left.waits_for().kept().begin()->begin == f.right.address);
    block_tags::keep_for_capture(&f.left, 1, 3);
    for (tag const& t : f.left.waits_for()) { CHECK(t.epoch == tag::captured); }
}

TEST_CASE("block_tags: a block that loses its front loses the uses of the front") {
    two_blocks f;
    f.notes.hold(&f.left, two_blocks::all_of(f.left, 3, 1));
    f.notes.hold(&f.right, two_blocks::all_of(f.right, 5, 2));
    CHECK(f.notes.merge_uses(&f.right, &f.left, not_yet));
    f.join(f.right);
    f.right.address += 0x800; // half of the memory of stream 1
    f.right.bytes -= 0x800;
    f.notes.drop_front(&f.right);
    CHECK(pieces(f.right) == 2);
    f.right.address += 0x800;
    f.right.bytes -= 0x800;
    f.notes.drop_front(&f.right);
    CHECK(f.right.slot == 2); // without a note
    CHECK(f.right.epoch == 5);
    f.notes.drop_front(&f.right);
    CHECK(f.right.slot == 2);
}

TEST_CASE("block_tags: graph-retained uses are recorded while the block is live") {
    two_blocks f;
    f.notes.keep(&f.left, tags{});
    CHECK(f.left.slot == block::nobody);
    f.notes.keep(&f.left, two_blocks::all_of(f.left, tag::captured, 1));
    CHECK(f.left.slot == block::several);
}

TEST_CASE("block_tags: without host memory std::bad_alloc is thrown") {
    block_tags       notes;
    doubles::bombing armed{1};
    CHECK_THROWS_AS(notes.reserve(1), std::bad_alloc);
    armed.defuse();
    CHECK_FALSE(notes.has(1));
    notes.reserve(1);
    block_tags const moved{std::move(notes)};
    CHECK(moved.has(1));
}
