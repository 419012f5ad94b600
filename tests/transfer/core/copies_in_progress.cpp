// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/copies_in_progress.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>
#include <vram/transfer/core/pinned_slot.hpp>

#include <doctest/doctest.h>

#include <vector>

using namespace vram;
using namespace vram::detail;

namespace copies_under_way {
using pinned = pinned_slot<host_platform>;

struct three_blocks {
    std::vector<pinned>        blocks;
    copies_in_progress<pinned> copies{blocks};

    three_blocks() {
        for (int i = 0; i < 3; ++i) { blocks.emplace_back(host_platform::device{}, false); }
    }
};
} // namespace copies_under_way
using copies_under_way::three_blocks;

template class vram::detail::copies_in_progress<copies_under_way::pinned>;

TEST_CASE("copies_in_progress: a copy is counted from its begin to its end") {
    three_blocks all;
    auto&        p = all.blocks[0];
    CHECK(all.copies.count() == 0);
    all.copies.begin(p);
    CHECK(all.copies.count() == 1);
    CHECK(all.copies.copy_of(p).which == 0); // its event cannot be queried before it is enqueued
    p.over = &p.copied;
    all.copies.enqueued(p);
    CHECK(all.copies.copy_of(p).which == 1);
    CHECK(all.copies.copy_of(p).over == &p.copied);
    all.copies.end(p);
    CHECK(all.copies.count() == 0);
    CHECK(all.copies.copy_of(p).which == 0);
    CHECK(p.now == copies_under_way::pinned::state::empty);
}

TEST_CASE("copies_in_progress: a copy that ended before it was recorded as enqueued stays ended") {
    three_blocks all;
    auto&        p = all.blocks[0];
    all.copies.begin(p);
    CHECK(all.copies.end_by_callback(p));
    all.copies.enqueued(p);
    CHECK(all.copies.copy_of(p).which == 0);
}

TEST_CASE("copies_in_progress: a copy that a query ended is not ended again by its callback") {
    three_blocks all;
    auto&        p = all.blocks[0];
    all.copies.begin(p);
    all.copies.enqueued(p);
    CHECK_FALSE(all.copies.end_before_callback(p, 2)); // another copy
    CHECK(all.copies.count() == 1);
    CHECK(all.copies.end_before_callback(p, 1));
    CHECK_FALSE(all.copies.end_before_callback(p, 1));
    CHECK(all.copies.count() == 0);
    all.copies.begin(p); // the block's next copy, before the callback of the first
    CHECK_FALSE(all.copies.end_by_callback(p));
    CHECK(all.copies.count() == 1);
    CHECK(all.copies.end_by_callback(p));
    CHECK(all.copies.count() == 0);
}

TEST_CASE("copies_in_progress: a copy with a flag has no callback that could come late") {
    three_blocks all;
    auto&        p = all.blocks[0];
    all.copies.begin(p);
    p.flagged = true;
    all.copies.enqueued(p);
    CHECK(all.copies.end_before_callback(p, 1));
    CHECK(p.completed_early == 0);
}

TEST_CASE("copies_in_progress: the oldest copy with a flag is the one that began first") {
    three_blocks all;
    CHECK(all.copies.oldest_flagged() == nullptr);
    for (std::size_t i : {2U, 0U, 1U}) {
        all.copies.begin(all.blocks[i]);
        all.blocks[i].flagged = i != 2; // the oldest copy calls back
        all.copies.enqueued(all.blocks[i]);
    }
    CHECK(all.copies.oldest_flagged() == &all.blocks[0]);
    all.copies.end(all.blocks[0]);
    CHECK(all.copies.oldest_flagged() == &all.blocks[1]);
    all.copies.end_all();
    CHECK(all.copies.oldest_flagged() == nullptr);
    CHECK(all.copies.count() == 0);
}
