// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_program` is a random program that allocates, uses and frees memory on several streams.

#include "dice.hpp"        // dice
#include "order_model.hpp" // past, verdict, operations, access_history

#include <vram/sim/sim_range.hpp>  // sim_access
#include <vram/sim/sim_report.hpp> // sim_mistake

#include <algorithm> // count_if
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <optional>  // optional
#include <utility>   // move
#include <vector>    // vector

namespace trial {

/// One step of a program. The kinds after `free` are the waits that order other steps.
struct memory_step {
    enum class kind : unsigned char {
        allocate,
        use,
        free,
        event,       ///< `stream` waits for an event that is recorded on `other`
        host_stream, ///< the host waits for the stream `other`
        host_event,  ///< the host waits for an event that is recorded on `other`
        poll,        ///< the host queries such an event until it is complete
        device,      ///< the host waits for the device
    };

    kind        what{};
    std::size_t block  = 0;
    std::size_t stream = 0;
    std::size_t other  = 0;
    std::size_t first  = 0; ///< first of the block's eight cells that a use accesses
    std::size_t last   = 0; ///< cell after the last one
    std::size_t over   = 0; ///< bytes that a use accesses after the end of the block
    bool        write  = false;
    unsigned    time   = 0; ///< duration of a kernel, or simulated time before another step

    [[nodiscard]] vram::sim_access how() const {
        return write ? vram::sim_access::write : vram::sim_access::read;
    }
    [[nodiscard]] bool waits() const { return what > kind::free; }
};

/// The kinds of streams in a program.
enum class stream_kind : unsigned char { plain, blocking, legacy };

/// How blocks of a resource may be allocated and freed.
struct memory_rules {
    bool by_host  = false; ///< without a stream: the host must wait for all uses before a free
    bool anywhere = false; ///< any stream may use a block as soon as the call has returned
    /// Allocations and frees are calls of the host, not actions in the stream. They order nothing
    /// by the rules of the legacy stream: blocking streams follow an allocation on that stream only
    /// after later work there. A free that is unordered with the allocation, but not with
    /// a use, need not be reported.
    bool pooled = false;
};

/// The number of blocks that are not allocated from the resource under test.
inline constexpr std::size_t outside = 2;

/// The model of a program: what happens before each step, and the verdict on it.
class memory_model {
public:
    memory_model(std::vector<stream_kind> const& streams, std::size_t blocks, memory_rules rules,
                 bool strict = false)
        : kinds_{streams},
          known_(streams.size()),
          blocks_(blocks),
          rules_{rules},
          strict_{strict} {}

    /// Performs one step, and returns the verdict on it.
    verdict perform(memory_step const& s) {
        switch (s.what) {
        case memory_step::kind::allocate: {
            bool const on_host = rules_.by_host || rules_.anywhere || s.block < outside;
            past       known;
            blocks_[s.block].live = true;
            blocks_[s.block].history.allocate(on_host ? add(host()) : call(s.stream, known));
            return {};
        }
        case memory_step::kind::use: {
            std::size_t const op = add(s.stream);
            block&            b  = blocks_[s.block];
            if (!b.live) { return vram::sim_mistake::use_after_free; }
            if (s.over != 0) { return vram::sim_mistake::out_of_bounds; }
            return b.history.access(known_[s.stream], op, s.first, s.last, s.how());
        }
        case memory_step::kind::free: {
            past known;
            if (rules_.by_host) {
                add(host());
                known = known_host_;
            } else {
                call(s.stream, known);
            }
            block& b = blocks_[s.block];
            b.live   = false;
            return b.history.release(known, rules_.pooled && !strict_);
        }
        case memory_step::kind::event:
            begin(s.other);
            begin(s.stream);
            known_[s.stream] |= known_[s.other];
            return {};
        case memory_step::kind::host_stream:
            known_host_ |= known_[s.other];
            if (kinds_[s.other] == stream_kind::legacy) {
                known_host_ |= known_blocking() | allocated_on_legacy_;
            }
            return {};
        case memory_step::kind::host_event:
        case memory_step::kind::poll:
            begin(s.other);
            known_host_ |= known_[s.other];
            return {};
        case memory_step::kind::device:
            for (past const& each : known_) { known_host_ |= each; }
            known_host_ |= allocated_on_legacy_;
            return {};
        }
        return {};
    }

    /// Returns a stream with an operation that must happen before `s` and does not.
    [[nodiscard]] std::optional<std::size_t> missing(memory_step const& s) const {
        bool const   free  = s.what == memory_step::kind::free;
        memory_model after = *this;
        if (!(free && rules_.by_host)) { after.begin(s.stream); }
        past const& known = free && rules_.by_host ? known_host_ : after.known_[s.stream];
        past const  all = free ? blocks_[s.block].history.unordered(known, 0, access_history::cells,
                                                                    vram::sim_access::write)
                               : blocks_[s.block].history.unordered(known, s.first, s.last, s.how());
        for (std::size_t op = 0; op < owners_.size(); ++op) {
            if (all.test(op)) { return owners_[op]; }
        }
        return {};
    }
    [[nodiscard]] bool live(std::size_t b) const { return blocks_[b].live; }
    [[nodiscard]] bool room() const { return operations_.room_for(8); }

private:
    struct block {
        bool           live = false;
        access_history history;
    };
    [[nodiscard]] std::size_t host() const { return known_.size(); }

    /// Adds an operation of a stream, or of the host.
    std::size_t add(std::size_t stream) {
        owners_.push_back(stream);
        if (stream == host()) { return operations_.add(known_host_); }
        begin(stream);
        return operations_.add(known_[stream]);
    }
    /// Adds an allocation or a free on a stream. Sets `known` to what happens before it.
    std::size_t call(std::size_t stream, past& known) {
        past const        before = known_[stream], allocated = allocated_on_legacy_;
        std::size_t const op = add(stream);
        known                = known_[stream];
        if (!rules_.pooled) { return op; }
        known_[stream]       = before;
        allocated_on_legacy_ = allocated;
        (kinds_[stream] == stream_kind::legacy ? allocated_on_legacy_ : known_[stream]).set(op);
        return op;
    }
    void begin(std::size_t stream) {
        known_[stream] |= known_host_;
        if (kinds_[stream] == stream_kind::legacy) {
            known_[stream] |= known_blocking() | allocated_on_legacy_;
        }
        if (kinds_[stream] != stream_kind::blocking) { return; }
        for (std::size_t i = 0; i < kinds_.size(); ++i) {
            if (kinds_[i] == stream_kind::legacy) { known_[stream] |= known_[i]; }
        }
    }
    [[nodiscard]] past known_blocking() const {
        past all;
        for (std::size_t i = 0; i < kinds_.size(); ++i) {
            if (kinds_[i] == stream_kind::blocking) { all |= known_[i]; }
        }
        return all;
    }

    std::vector<stream_kind> kinds_;
    past                     known_host_;
    std::vector<past>        known_; ///< of each stream: what happens before its next operation
    /// Calls of a pool on the legacy stream, which happen before its next operation.
    past                     allocated_on_legacy_;
    std::vector<block>       blocks_;
    operations               operations_;
    std::vector<std::size_t> owners_; ///< the stream of each operation, or `host()`
    memory_rules             rules_;
    bool                     strict_; ///< true if each free must also follow the allocation
};

/// What a program is meant to be.
enum class memory_class : unsigned char {
    correct,
    early_free,     ///< the only mistake is a free before the last use
    race,           ///< a wait before a use is missing
    use_after_free, ///< one use comes after the free of its block
    out_of_bounds,  ///< one use exceeds its block
    count
};
inline constexpr char const* memory_classes[] = {"correct", "early free", "race", "use after free",
                                                 "out of bounds"};

/// A program. Its first blocks are allocated without a stream, and not from the resource under test.
struct memory_program {
    std::vector<stream_kind> streams;
    std::vector<std::size_t> sizes; ///< bytes of each block
    std::vector<memory_step> steps;
    memory_rules             rules;

    /// Makes a correct program with blocks of at most `largest` bytes.
    memory_program(dice& d, std::size_t largest, memory_rules given) : rules{given} {
        bool const legacy = d.one_in(4);
        for (std::size_t i = 0, n = 2 + d.below(3); i < n; ++i) {
            streams.push_back(i == 0 && legacy ? stream_kind::legacy
                              : d.one_in(4)    ? stream_kind::blocking
                                               : stream_kind::plain);
        }
        memory_model model{streams, 64, rules};
        for (std::size_t i = 0; i < outside; ++i) { allocate(d, model, largest); }
        for (std::size_t i = 0, n = 6 + d.below(24); i < n && model.room(); ++i) {
            switch (d.below(8)) {
            case 0:
            case 1:
                if (live(model) < 6) { allocate(d, model, largest); }
                break;
            case 2:
                if (std::size_t const b = some_block(d, model, outside); b != 0) {
                    free(d, model, b);
                }
                break;
            case 3: wait(d, model, d.below(streams.size()), d.below(streams.size())); break;
            default: use(d, model, some_block(d, model, 0));
            }
        }
        for (std::size_t b = outside; b < sizes.size(); ++b) {
            if (model.live(b)) { free(d, model, b); }
        }
    }

    /// Returns the verdict of the model on each step. If `strict`, also on frees that are unordered
    /// with the allocation.
    [[nodiscard]] std::vector<verdict> verdicts(bool strict = false) const {
        std::vector<verdict> all;
        memory_model         model{streams, sizes.size(), rules, strict};
        for (memory_step const& s : steps) { all.push_back(model.perform(s)); }
        return all;
    }

    /// Makes this correct program one of the class, if that is possible with one change.
    [[nodiscard]] bool become(memory_class wanted, dice& d) {
        switch (wanted) {
        case memory_class::correct: return true;
        case memory_class::early_free:
        case memory_class::race: return leave_out_a_wait(wanted, d);
        case memory_class::use_after_free: return use_a_freed_block(d);
        case memory_class::out_of_bounds: return exceed_a_block(d);
        case memory_class::count: break;
        }
        return false;
    }

private:
    static std::size_t live(memory_model const& model) {
        std::size_t n = 0;
        for (std::size_t b = outside; b < 64; ++b) { n += model.live(b); }
        return n;
    }
    /// Returns a live block from `first` on, or 0.
    [[nodiscard]] std::size_t some_block(dice& d, memory_model const& model, std::size_t first) {
        std::size_t const count = sizes.size() - first;
        if (count == 0) { return 0; }
        // Mostly a new block: several uses of one block are of interest.
        for (int i = 0; i < 8; ++i) {
            std::size_t const b = first + d.below(count);
            if (model.live(b)) { return b; }
        }
        return 0;
    }
    void add(memory_model& model, memory_step const& s) {
        model.perform(s);
        steps.push_back(s);
    }
    void allocate(dice& d, memory_model& model, std::size_t largest) {
        if (sizes.size() == 64) { return; }
        sizes.push_back(8 * (1 + d.below(largest / 8)));
        add(model, {.what   = memory_step::kind::allocate,
                    .block  = sizes.size() - 1,
                    .stream = d.below(streams.size()),
                    .time   = static_cast<unsigned>(d.below(4000))});
    }
    void use(dice& d, memory_model& model, std::size_t b) {
        std::size_t const first = d.one_in(2) ? 0 : d.below(access_history::cells);
        std::size_t const last =
            first == 0 ? access_history::cells : first + 1 + d.below(access_history::cells - first);
        ordered(d, model,
                {.what   = memory_step::kind::use,
                 .block  = b,
                 .stream = d.below(streams.size()),
                 .first  = first,
                 .last   = last,
                 .write  = d.one_in(2),
                 .time   = static_cast<unsigned>(100 + d.below(4000))});
    }
    void free(dice& d, memory_model& model, std::size_t b) {
        ordered(d, model,
                {.what   = memory_step::kind::free,
                 .block  = b,
                 .stream = d.below(streams.size()),
                 .time   = static_cast<unsigned>(d.below(4000))});
    }
    /// Adds the step, after all waits that it needs.
    void ordered(dice& d, memory_model& model, memory_step const& s) {
        bool const by_the_host = rules.by_host && s.what == memory_step::kind::free;
        for (;;) {
            std::optional<std::size_t> const other = model.missing(s);
            if (!other) { break; }
            wait(d, model, s.stream, *other, by_the_host);
        }
        add(model, s);
    }
    void wait(dice& d, memory_model& model, std::size_t stream, std::size_t other,
              bool by_the_host = false) {
        using kind         = memory_step::kind;
        kind const kinds[] = {kind::event,      kind::event,       kind::event, kind::event,
                              kind::host_event, kind::host_stream, kind::poll,  kind::device};
        kind const what    = kinds[by_the_host ? 4 + d.below(4) : d.below(8)];
        if (what == kind::event && stream == other) { return; }
        add(model, {.what   = what,
                    .stream = stream,
                    .other  = other,
                    .time   = static_cast<unsigned>(d.below(4000))});
    }

    bool leave_out_a_wait(memory_class wanted, dice& d) {
        std::vector<memory_step> const whole = steps;
        std::vector<std::size_t>       waits;
        for (std::size_t i = 0; i < whole.size(); ++i) {
            if (whole[i].waits()) { waits.push_back(i); }
        }
        for (std::size_t left = waits.size(); left != 0; --left) {
            std::size_t const at   = d.below(left);
            std::size_t const wait = std::exchange(waits[at], waits[left - 1]);
            steps                  = whole;
            steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(wait));
            std::size_t uses = 0, frees = 0, i = 0;
            for (verdict const& v : verdicts()) {
                bool const use = steps[i++].what == memory_step::kind::use;
                uses += !v.empty() && use;
                frees += !v.empty() && !use;
            }
            if (wanted == memory_class::race ? uses != 0 : uses == 0 && frees != 0) { return true; }
        }
        return false;
    }
    bool use_a_freed_block(dice& d) {
        std::size_t const from = d.below(steps.size());
        for (std::size_t i = 0; i < steps.size(); ++i) {
            std::size_t const at = (from + i) % steps.size();
            memory_step       s  = steps[at];
            if (s.what != memory_step::kind::free) { continue; }
            s = {.what   = memory_step::kind::use,
                 .block  = s.block,
                 .stream = d.below(streams.size()),
                 .first  = d.below(access_history::cells),
                 .last   = access_history::cells,
                 .write  = d.one_in(2),
                 .time   = 1000};
            steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at) + 1, s);
            return true;
        }
        return false;
    }
    bool exceed_a_block(dice& d) {
        std::size_t const from = d.below(steps.size());
        for (std::size_t i = 0; i < steps.size(); ++i) {
            memory_step& s = steps[(from + i) % steps.size()];
            if (s.what != memory_step::kind::use || s.block < outside) { continue; }
            s.last = access_history::cells;
            s.over = 1 + d.below(64);
            return true;
        }
        return false;
    }
};

} // namespace trial
