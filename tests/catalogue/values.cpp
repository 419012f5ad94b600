// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/sim.hpp>

#include <cstddef>
#include <cstdint>

namespace catalogue::values {

GROUP("values in memory")

/// A word in pinned memory, first 0.
struct word {
    word() { *value() = 0; }
    [[nodiscard]] std::uint32_t* value() const {
        return static_cast<std::uint32_t*>(memory.data());
    }
    block memory{kind::pinned};
};

PAIR(wait_for_an_older_value, race,
     "cuStreamWaitValue32 orders after the write of the value that it waits for") {
    block const      p;
    word const       w;
    sim_stream const s, t;
    sim_write_value(s, w.value(), 1);
    writes(s, p);
    sim_write_value(s, w.value(), 2);
    sim_wait_value(t, w.value(), right ? 2 : 1);
    MISTAKE(reads(t, p));
}

PAIR(value_written_before_the_work, race,
     "cuStreamWriteValue32 covers only earlier work of its stream") {
    block const      p;
    word const       w;
    sim_stream const s, t;
    if (!right) { sim_write_value(s, w.value(), 1); }
    writes(s, p);
    if (right) { sim_write_value(s, w.value(), 1); }
    sim_wait_value(t, w.value(), 1);
    MISTAKE(reads(t, p));
}

PAIR(wait_for_another_word, race, "cuStreamWaitValue32 waits for one word") {
    block const      p;
    word const       w, other;
    sim_stream const s, t, u;
    writes(s, p);
    sim_write_value(s, w.value(), 1);
    sim_write_value(u, other.value(), 1);
    sim_wait_value(t, (right ? w : other).value(), 1);
    MISTAKE(reads(t, p));
}

PAIR(work_queued_before_the_wait, race, "cuStreamWaitValue32 orders only later work") {
    block const      p;
    word const       w;
    sim_stream const s, t;
    writes(s, p);
    sim_write_value(s, w.value(), 1);
    if (right) { sim_wait_value(t, w.value(), 1); }
    MISTAKE(reads(t, p));
    sim_wait_value(t, w.value(), 1);
}

PAIR(host_polls_once, race, "A poll orders only if it returns the value") {
    block const      p{kind::pinned};
    word const       w;
    sim_stream const s;
    writes(s, p);
    sim_write_value(s, w.value(), 1);
    while (sim_read_value(w.value()) != 1 && right) {}
    MISTAKE(host_reads(p));
}

PAIR(host_sets_the_value_too_early, race,
     "The host's write of a value covers only what the host did before") {
    block const      p{kind::pinned};
    word const       w;
    sim_stream const s;
    if (!right) { sim_set_value(w.value(), 1); }
    sim_wait_value(s, w.value(), 1);
    reads(s, p.part(0, 0));
    if (right) {
        host_writes(p);
        sim_set_value(w.value(), 1);
    }
    reads(s, p);
    if (!right) { MISTAKE(host_writes(p)); }
}

PAIR(value_that_nothing_writes, deadlock, "A wait needs a write that ends it") {
    word const       w;
    sim_stream const s;
    mark_any_line();
    sim_wait_value(s, w.value(), 1);
    sim_write_value(s, w.value(), 1); // behind the wait
    if (right) { sim_set_value(w.value(), 1); }
}

PAIR(value_in_pageable_memory, refused(sim_status::invalid_value),
     "cuStreamWriteValue32 needs memory that the device can access") {
    word const       w;
    std::uint32_t    pageable = 0;
    sim_stream const s;
    MISTAKE(sim_write_value(s, right ? w.value() : &pageable, 1));
}

PAIR(value_of_a_misaligned_word, refused(sim_status::invalid_value),
     "The word of cuStreamWaitValue32 has 4 bytes and is aligned to 4 bytes") {
    word const  w;
    auto* const odd =
        reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(w.memory.data()) + 2);
    MISTAKE(sim_set_value(right ? w.value() : odd, 1));
}

PAIR(plain_write_of_the_word, race,
     "The word is accessed atomically; a plain write needs an order") {
    word const       w;
    sim_stream const s, t;
    sim_write_value(s, w.value(), 1);
    if (right) { follows(t, s); }
    MISTAKE(writes(t, {w.value(), 4}));
}

PAIR(word_freed_before_its_write, free_before_last_use,
     "The word must be live until every write and wait is complete") {
    block            p{kind::pinned};
    sim_stream const s;
    sim_write_value(s, static_cast<std::uint32_t*>(p.data()), 1);
    if (right) { s.synchronize(); }
    MISTAKE(p.free());
}

PAIR(written_before_a_wait_for_a_later_value, race,
     "Work before cuStreamWaitValue32 is not ordered by it, whatever the stream writes later") {
    block const      p;
    word const       w;
    sim_stream const s, t;
    writes(t, p);
    if (right) { follows(s, t); }
    sim_wait_value(t, w.value(), 1);
    writes(t, p);
    MISTAKE(writes(s, p));
    sim_write_value(s, w.value(), 1);
}

PAIR(read_before_a_wait_for_a_later_value, race,
     "Work before cuStreamWaitValue32 is not ordered by it, whatever the stream writes later") {
    block const      p;
    word const       w;
    sim_stream const s, t, u;
    reads(u, p);
    follows(t, u);
    if (right) { follows(s, u); }
    sim_wait_value(t, w.value(), 1);
    writes(t, p);
    MISTAKE(writes(s, p));
    sim_write_value(s, w.value(), 1);
}

PAIR(freed_before_a_later_value, free_before_last_use,
     "cudaFreeAsync must happen after all work with the memory") {
    sim_async_resource memory;
    word const         w;
    sim_stream const   s, t;
    sim_range const    p{memory.allocate_sync(4096), 4096};
    sim_wait_value(t, w.value(), 1);
    writes(t, p);
    MISTAKE(memory.deallocate(right ? t : s, const_cast<void*>(p.data), p.bytes));
    sim_write_value(s, w.value(), 1);
}

PAIR(allocated_after_a_wait_for_a_later_value, use_before_ready,
     "cudaMallocAsync is work of its stream: other streams use the memory after it") {
    sim_async_resource memory;
    word const         w;
    sim_stream const   s, t;
    if (!right) { sim_wait_value(t, w.value(), 1); }
    sim_range const p{memory.allocate(t, 4096), 4096};
    if (right) {
        follows(s, t);
        sim_wait_value(t, w.value(), 1);
    }
    MISTAKE(writes(s, p));
    sim_write_value(s, w.value(), 1);
    memory.deallocate(t, const_cast<void*>(p.data), p.bytes);
}

PAIR(two_streams_write_the_value, race,
     "cuStreamWaitValue32 ends at the first value that suits, of any stream") {
    block const      p;
    word const       w, other;
    sim_stream const s, t, u;
    writes(s, p);
    sim_write_value(s, w.value(), 1);
    sim_write_value(u, (right ? other : w).value(), 1);
    sim_wait_value(t, w.value(), 1);
    MISTAKE(reads(t, p));
}

PAIR(another_stream_writes_the_value_later, not_checked(race),
     "cuStreamWaitValue32 ends at the first value that suits, in whichever sequence writes are "
     "queued") {
    block const      p;
    word const       w, other;
    sim_stream const s, t, u;
    writes(s, p);
    sim_write_value(s, w.value(), 1);
    sim_wait_value(t, w.value(), 1);
    MISTAKE(reads(t, p));
    sim_write_value(u, (right ? other : w).value(), 1);
}

PAIR(the_value_was_there_before, race,
     "cuStreamWaitValue32 does not wait if the word has the value already") {
    block const      p;
    word const       w;
    sim_stream const s, t;
    *w.value() = right ? 0 : 1;
    writes(s, p);
    sim_write_value(s, w.value(), 1);
    sim_wait_value(t, w.value(), 1);
    MISTAKE(reads(t, p));
}

PAIR(host_polls_a_value_of_two_streams, race,
     "A poll orders only the work that precedes every write of the value") {
    block const      p{kind::pinned}, q;
    word const       w;
    sim_stream const s, u;
    writes(s, p);
    sim_write_value(s, w.value(), 1);
    sim_launch(u, {.writes = {q}, .duration = sim_time{100'000}});
    sim_write_value(u, w.value(), right ? 2 : 1);
    while (sim_read_value(w.value()) != 1) {}
    MISTAKE(host_reads(p));
}

} // namespace catalogue::values
