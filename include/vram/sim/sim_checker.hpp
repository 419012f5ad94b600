// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_checker` sees two accesses that only luck kept apart.

#include <vram/sim/sim_memory.hpp>   // sim_memory, sim_block
#include <vram/sim/sim_range.hpp>    // sim_range, sim_access
#include <vram/sim/sim_report.hpp>   // sim_report
#include <vram/sim/vector_clock.hpp> // vector_clock

#include <algorithm> // find_if, max, min
#include <cstddef>   // size_t
#include <cstdint>   // uintptr_t, uint64_t
#include <cstdio>    // fprintf
#include <cstdlib>   // abort
#include <optional>  // optional
#include <string>    // string
#include <utility>   // move
#include <vector>    // vector

namespace vram {

/// Happens-before over ranges: every operation comes with what its actor knew (a vector clock), and
/// is held against the last write and the reads since of every byte it touches. Edges come from
/// what the program asked for, never from how the times fell. (The shadow is that of FastTrack,
/// Flanagan and Freund 2009, kept by range.)
///
/// Threads   one at a time: the machine's lock
/// Cost      O(log pieces) for each declared range; nothing for work that declares none
class sim_checker {
public:
    sim_checker(sim_memory& memory, sim_options const& options)
        : memory_{memory},
          on_{options.checks},
          mode_{options.on_report},
          page_tables_{options.host_page_tables} {
        pageable_.kind = sim_kind::pageable;
        if (page_tables_ && on_.races) {
            pageable_.bytes   = unsatisfiable;
            pageable_.history = {pageable_.bytes, {}};
        }
    }

    [[nodiscard]] sim_checks const& on() const noexcept { return on_; }
    void                            set(sim_checks const& checks) noexcept { on_ = checks; }

    /// A fresh actor of the vector clocks. One that is over, and that `creator` knows all of, is
    /// used again.
    std::size_t actor(vector_clock& creator) {
        for (auto it = over_.begin(); it != over_.end(); ++it) {
            if (!creator.knows(it->slot, it->count)) { continue; }
            std::size_t const slot = it->slot;
            over_.erase(it);
            return slot;
        }
        over_.reserve(actors_ + 1); // so that `retire` cannot fail
        return actors_++;
    }
    /// Nothing more will be done by `slot`, which came to `count`.
    void retire(std::size_t slot, std::uint64_t count) noexcept { over_.push_back({slot, count}); }

    /// `who` (knowing `clock`) touches `range`. `copy` marks the machine's own copies, which may
    /// use pageable memory and any device.
    void touch(sim_event_of who, vector_clock const& clock, sim_range range, sim_access access,
               bool copy, bool peers) {
        if (range.bytes == 0 || !(on_.races || on_.bounds || on_.residency)) { return; }
        who.what =
            access == sim_access::read ? sim_event_of::kind::read : sim_event_of::kind::write;
        if (sim_reservation* const pages = memory_.reservation_of(range.begin())) {
            return touch(*pages, who, clock, range, access, copy);
        }
        sim_block* const block = place(who, range, copy, peers);
        // A copy has read its pageable source when its call returns, so only its writes are
        // recorded.
        if (block == &pageable_ && copy && access == sim_access::read) { return; }
        if (block != nullptr) { touch(*block, who, clock, range, access); }
    }

    /// A block comes to life by `who`.
    void allocated(sim_block& block, sim_event_of who) {
        who.what        = sim_event_of::kind::allocation;
        block.allocated = who;
        if (on_.races || on_.uninitialised) { block.history = {block.bytes, {who, {}}}; }
    }

    /// Physical memory, which nobody has touched.
    void made(sim_physical& memory) {
        if (on_.races) { memory.history = {memory.bytes, {}}; }
    }

    /// A block ends by `who`, who should know of every access.
    void released(sim_block& block, sim_event_of who, vector_clock const& clock) {
        who.what       = sim_event_of::kind::release;
        block.released = who;
        if (!on_.frees || !on_.races || block.history.size() == 0) { return; }
        bool told = false;
        block.history.change(0, block.bytes, [&](std::size_t from, std::size_t to, sim_history& h) {
            if (!told) { told = conflict(who, clock, block, from, to, h); }
        });
    }

    /// Takes note of a mistake, and does what the options say about it.
    void tell(sim_report report) {
        if (mode_ == sim_on_report::print || mode_ == sim_on_report::abort_here) {
            std::fprintf(stderr, "%s\n", report.text().c_str());
        }
        if (mode_ == sim_on_report::abort_here) { std::abort(); }
        reports_.push_back(std::move(report));
        if (mode_ == sim_on_report::throw_it && !thrown_) { thrown_ = reports_.back(); }
    }
    /// The first report that is still to be thrown, taken out.
    [[nodiscard]] std::optional<sim_report> take_thrown() { return std::exchange(thrown_, {}); }

    [[nodiscard]] std::vector<sim_report>&       reports() noexcept { return reports_; }
    [[nodiscard]] std::vector<sim_report> const& reports() const noexcept { return reports_; }

private:
    /// Touches a part of one block, up to its end. Says whether all was well.
    bool touch(sim_block& block, sim_event_of const& who, vector_clock const& clock,
               sim_range range, sim_access access) {
        return touch(block, block.history, who, clock, range, access);
    }
    /// `history` is that of the block, or of the memory that is mapped there.
    bool touch(sim_block const& block, interval_map<sim_history>& history, sim_event_of const& who,
               vector_clock const& clock, sim_range range, sim_access access) {
        if (history.size() == 0) { return true; }
        std::size_t const first = range.begin() - block.begin;
        std::size_t const last  = std::min(range.end(), block.end()) - block.begin;
        bool              told  = false;
        history.change(first, last, [&](std::size_t from, std::size_t to, sim_history& h) {
            if (!told && on_.races) { told = conflict(who, clock, block, from, to, h); }
            bool const fresh = h.write.what == sim_event_of::kind::allocation;
            if (on_.uninitialised && access == sim_access::read && fresh && !told) {
                told = true;
                tell({sim_mistake::uninitialised_read, who, h.write, block.begin + from, to - from,
                      "no write was declared before it"});
            }
            if (access == sim_access::read) { note_read(h, who); }
        });
        if (access == sim_access::write) { history.assign(first, last, {who, {}}); }
        return !told;
    }

    /// Touches reserved addresses: what is mapped there, piece by piece.
    void touch(sim_reservation& pages, sim_event_of const& who, vector_clock const& clock,
               sim_range range, sim_access access, bool copy) {
        bool well = true;
        for (std::uintptr_t at = range.begin(); well && at < range.end();) {
            sim_block* const page = pages.mapping(at);
            if (page == nullptr || !page->granted) {
                if (on_.bounds) {
                    tell({sim_mistake::unmapped_access, who,
                          page != nullptr ? page->allocated : sim_event_of{}, at, range.end() - at,
                          page != nullptr ? "no device was given access to what is mapped there"
                                          : "nothing is mapped there"});
                }
                return;
            }
            sim_range const rest{reinterpret_cast<void const*>(at), range.end() - at};
            well = reaches(who, *page, range, copy, false) &&
                   touch(*page, who, clock, rest, access) &&
                   touch(*page, memory_.physical.at(page->physical).history, who, clock, rest,
                         access); // it may be mapped elsewhere as well
            at = page->end();
        }
    }

    /// The block of an access; null, and told, where there is none or it may not be used so.
    sim_block* place(sim_event_of const& who, sim_range range, bool copy, bool peers) {
        sim_space* const space = memory_.space_of(range.begin());
        if (space == nullptr) {
            if (page_tables_) { return &pageable_; }
            if (on_.residency && !who.host && !copy) {
                tell({sim_mistake::pageable_access,
                      who,
                      {},
                      range.begin(),
                      range.bytes,
                      "a device reaches pinned, managed and device memory only"});
            }
            return nullptr;
        }
        sim_block* const block = space->before(range.begin());
        if (block == nullptr || range.end() > block->end() || block->freed) {
            if (on_.bounds) {
                bool const freed = block != nullptr && block->freed && range.begin() < block->end();
                tell({freed ? sim_mistake::use_after_free : sim_mistake::out_of_bounds, who,
                      freed ? block->released : sim_event_of{}, range.begin(), range.bytes,
                      freed ? "the memory was given back before" : ""});
            }
            return nullptr;
        }
        return reaches(who, *block, range, copy, peers) ? block : nullptr;
    }

    /// Whether who asks gets to where the block is; told, where not.
    bool reaches(sim_event_of const& who, sim_block const& block, sim_range range, bool copy,
                 bool peers) {
        bool const on_device =
            block.kind == sim_kind::device || block.kind == sim_kind::device_async;
        if (!on_.residency || !on_device || copy) { return true; }
        if (who.host) {
            tell({sim_mistake::host_access, who, block.allocated, range.begin(), range.bytes,
                  "copy it to host memory first"});
            return false;
        }
        if (block.device != who.device && !peers) {
            tell({sim_mistake::peer_access, who, block.allocated, range.begin(), range.bytes,
                  "enable peer access from device " + std::to_string(who.device) + " to device " +
                      std::to_string(block.device)});
            return false;
        }
        return true;
    }

    /// Whether `who` conflicts with what is in `h`, which is told.
    bool conflict(sim_event_of const& who, vector_clock const& clock, sim_block const& block,
                  std::size_t from, std::size_t to, sim_history const& h) {
        if (unordered(h.write, clock)) {
            return tell_pair(who, h.write, block.begin + from, to - from);
        }
        if (who.what == sim_event_of::kind::read) { return false; }
        for (sim_event_of const& read : h.reads) {
            if (unordered(read, clock)) {
                return tell_pair(who, read, block.begin + from, to - from);
            }
        }
        return false;
    }

    static bool unordered(sim_event_of const& earlier, vector_clock const& clock) noexcept {
        return earlier.what != sim_event_of::kind::none &&
               !clock.knows(earlier.slot, earlier.count);
    }

    bool tell_pair(sim_event_of const& second, sim_event_of const& first, std::uintptr_t at,
                   std::size_t bytes) {
        sim_mistake kind = sim_mistake::race;
        if (first.what == sim_event_of::kind::allocation) { kind = sim_mistake::use_before_ready; }
        if (second.what == sim_event_of::kind::release) {
            kind = sim_mistake::free_before_last_use;
        }
        tell({kind, second, first, at, bytes, missing(second, first)});
        return true;
    }

    /// The edge that would have ordered the two.
    static std::string missing(sim_event_of const& second, sim_event_of const& first) {
        std::string const after =
            "after `" + std::string{first.name} + "` #" + std::to_string(first.number);
        if (first.host && second.host) {
            return "host thread " + std::to_string(second.actor) +
                   " must hear of it from host thread " + std::to_string(first.actor) +
                   " (a gate, a join) " + after;
        }
        if (first.host) {
            return "the stream's work must be enqueued by a thread that heard of it from host "
                   "thread " +
                   std::to_string(first.actor) + " " + after;
        }
        std::string const stream = "stream " + std::to_string(first.actor);
        if (second.host) {
            return "the host must wait for " + stream + ", or for an event recorded on it, " +
                   after;
        }
        return "stream " + std::to_string(second.actor) + " must wait for an event recorded on " +
               stream + " " + after;
    }

    /// Keeps the last read of each actor.
    static void note_read(sim_history& h, sim_event_of const& who) {
        auto const same = std::find_if(h.reads.begin(), h.reads.end(),
                                       [&](sim_event_of const& r) { return r.slot == who.slot; });
        if (same == h.reads.end()) {
            h.reads.push_back(who);
        } else {
            *same = who;
        }
    }

    struct ended {
        std::size_t   slot;
        std::uint64_t count;
    };

    sim_memory&               memory_;
    sim_block                 pageable_; ///< all host memory, if devices use the host's page tables
    sim_checks                on_;
    sim_on_report             mode_;
    bool                      page_tables_;
    std::size_t               actors_ = 0;
    std::vector<ended>        over_;
    std::vector<sim_report>   reports_;
    std::optional<sim_report> thrown_;
};

} // namespace vram
