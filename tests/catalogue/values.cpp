// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/sim/sim.hpp>

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

} // namespace catalogue::values
