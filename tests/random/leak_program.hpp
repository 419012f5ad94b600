// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random programs that leak in every way, or in none, and the reports that the layer `tracking`
// must make of them.

#include "dice.hpp" // dice

#include <vram/base/call_site.hpp>
#include <vram/base/error.hpp>
#include <vram/base/error_text.hpp>
#include <vram/base/tag.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/sim/sim.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace trial {

/// Bytes by tag and line.
using bytes_of_sites = std::map<std::string, std::size_t>;

/// Collects the leaks that layers `tracking` report, as long as the object exists. One at a time.
class leak_sink {
public:
    leak_sink() : before_{vram::set_error_sink(&receive)} {
        leaks().clear();
        other().clear();
    }
    leak_sink(leak_sink&&) = delete;
    ~leak_sink() { vram::set_error_sink(before_); }

    static bytes_of_sites& leaks() {
        static bytes_of_sites all;
        return all;
    }
    /// The first report that is not a leak of a layer `tracking`.
    static std::string& other() {
        static std::string text;
        return text;
    }

private:
    static void receive(vram::error const& e) noexcept {
        std::string const resource = e.resource != nullptr ? e.resource : "";
        if (e.kind == vram::error_kind::leak && resource == "tracking") {
            std::string const tag = e.tag != nullptr ? e.tag : "";
            leaks()[tag + ":" + std::to_string(e.allocated_at.line())] += e.bytes;
        } else if (other().empty()) {
            other() = vram::error_text{e}.c_str();
        }
    }

    vram::error_sink before_;
};

/// A program of 30 steps. Each step allocates in one way: with an early return, an exception, a
/// moved object, a free on another stream, a cycle of handles, a buffer, or a block that a later
/// step frees. A planted step does not free its block, except that on another stream.
class leak_program {
public:
    /// Runs the program of a seed. Returns the first difference between its leaks and the reports,
    /// or an empty text.
    [[nodiscard]] static std::string run(std::uint64_t seed) {
        vram::sim_node node;
        std::string    what;
        {
            source       below;
            leak_sink    sink;
            leak_program program{seed, below};
            what = program.differences();
            if (what.empty()) { what = leak_sink::other(); }
            if (what.empty() && below.usage().live != 0) { what = "the pool has live blocks"; }
        }
        for (auto const& each : node.reports()) {
            if (what.empty()) { what = each.text(); }
        }
        return what;
    }

private:
    using source = vram::pool<vram::stream_ordered<vram::sim_resource>>;
    using ref    = vram::resource_ref_of<source>;
    using stack  = vram::shared<vram::tracking<ref>>;

    struct block {
        void*           p      = nullptr;
        std::size_t     bytes  = 0;
        std::size_t     stream = 0; ///< 2: allocated without a stream
        vram::call_site at{};
    };
    /// Holds the resource that has its block, and in a cycle itself.
    struct holder {
        stack                   memory;
        block                   held;
        std::shared_ptr<holder> self{};
    };

    leak_program(std::uint64_t seed, source& below)
        : draw_{seed},
          leaks_{seed % 4 != 0},
          below_{&below},
          memory_{vram::tracking<ref>{ref{below}}} {
        for (int i = 0; i != 30; ++i) {
            try {
                step();
            } catch (std::runtime_error const&) {}
        }
        while (!kept_.empty()) { free_kept(); }
    }

    /// Ends the program, and compares the reports with the planted leaks.
    [[nodiscard]] std::string differences() {
        std::uint64_t crossed = 0;
        for (vram::tracked_owner const& each : memory_->by_tag()) { crossed += each.crossed; }
        std::size_t const live = memory_->blocks().size();
        if (cycles_.empty()) {
            memory_ = stack{vram::tracking<ref>{ref{*below_}}}; // the layer ends, and reports
        } else {
            memory_->report_leaks(); // the layer never ends
            memory_->forget_blocks();
            for (auto const& each : cycles_) { each->self = nullptr; }
        }
        for (block const& each : leaked_) { free_in(*below_, each); }
        if (crossed != crossed_) {
            return std::to_string(crossed) + " frees on another stream are counted, not " +
                   std::to_string(crossed_);
        }
        if (live != leaked_.size()) {
            return std::to_string(live) + " blocks are live, not " + std::to_string(leaked_.size());
        }
        for (auto const& [site, bytes] : expected_) {
            std::size_t const seen = leak_sink::leaks()[site];
            if (seen != bytes) {
                return "the leak at " + site + " has " + std::to_string(seen) +
                       " reported bytes, not " + std::to_string(bytes);
            }
        }
        for (auto const& each : leak_sink::leaks()) {
            if (!expected_.contains(each.first)) { return "reported, but no leak: " + each.first; }
        }
        return {};
    }

    void step() {
        vram::tagged const scope{draw_.one_in(2) ? "even" : "odd"};
        bool const         planted = leaks_ && draw_.one_in(8);
        switch (draw_.below(7)) {
        case 0: return early_return(planted);
        case 1: return exception(planted);
        case 2: return moved_from(planted);
        case 3: return other_stream(planted);
        case 4: return cycle(planted);
        case 5: return buffers();
        default: return kept_.empty() || draw_.one_in(2) ? keep(planted) : free_kept();
        }
    }

    void early_return(bool planted) {
        vram::tagged const scope{"early return"};
        block const        b = allocate();
        if (planted) { return leak(b); }
        free_in(memory_, b);
    }
    void exception(bool planted) {
        vram::tagged const scope{"exception"};
        block const        b = allocate();
        if (planted) {
            leak(b);
            throw std::runtime_error{"planted"};
        }
        free_in(memory_, b);
        if (draw_.one_in(2)) { throw std::runtime_error{"no leak"}; }
    }
    /// The pointer of an object is overwritten when another object is moved to it.
    void moved_from(bool planted) {
        vram::tagged const scope{"moved-from"};
        auto               one = std::make_unique<block>(allocate());
        auto               two = std::make_unique<block>(allocate());
        planted ? leak(*one) : free_in(memory_, *one);
        one = std::move(two);
        free_in(memory_, *one);
    }
    /// A block is freed on another stream than that of its allocation: that is counted, no leak.
    void other_stream(bool planted) {
        vram::tagged const scope{"other stream"};
        block              b = allocate();
        if (planted && b.stream != 2) {
            streams_[b.stream].synchronize(); // the free follows the allocation
            b.stream = 1 - b.stream;
            ++crossed_;
        }
        free_in(memory_, b);
    }
    void cycle(bool planted) {
        vram::tagged const scope{"cycle"};
        auto const         made = std::make_shared<holder>(holder{memory_, allocate()});
        made->self              = planted ? made : nullptr;
        if (!planted) { return free_in(made->memory, made->held); }
        leak(made->held);
        cycles_.push_back(made);
    }
    /// Objects that free their blocks, moved and left by an exception: no leak.
    void buffers() {
        vram::tagged const        scope{"buffers"};
        vram::buffer              one{memory_, streams_[0], draw_.size(5000)};
        vram::buffer              two{memory_, streams_[1], draw_.size(5000)};
        vram::buffer<stack> const three{std::move(one)};
        two = vram::buffer{memory_, streams_[1], draw_.size(5000)};
        if (draw_.one_in(4)) { throw std::runtime_error{"no leak"}; }
    }
    void keep(bool planted) {
        vram::tagged const scope{"kept"};
        block const        b = allocate();
        planted ? leak(b) : kept_.push_back(b);
    }
    void free_kept() {
        std::swap(kept_.back(), kept_[draw_.below(kept_.size())]);
        block const b = kept_.back();
        kept_.pop_back();
        free_in(memory_, b);
    }

    [[nodiscard]] block allocate(vram::call_site at = vram::call_site::current()) {
        block b{nullptr, draw_.size(5000), draw_.below(3), at};
        b.p = b.stream == 2
                  ? memory_.allocate_sync(b.bytes, vram::default_alignment, at)
                  : memory_.allocate(streams_[b.stream], b.bytes, vram::default_alignment, at);
        return b;
    }
    template <class Memory>
    void free_in(Memory& memory, block const& b) {
        if (b.stream == 2) { return memory.deallocate_sync(b.p, b.bytes); }
        memory.deallocate(streams_[b.stream], b.p, b.bytes);
    }
    /// Remembers a block that the program does not free.
    void leak(block const& b) {
        std::string const tag = vram::current_tag().path();
        expected_[tag + ":" + std::to_string(b.at.line())] += b.bytes;
        leaked_.push_back(b);
    }

    dice                                 draw_;
    bool                                 leaks_;
    source*                              below_;
    vram::sim_stream                     streams_[2];
    stack                                memory_;
    std::vector<block>                   kept_;
    std::vector<block>                   leaked_;
    std::vector<std::shared_ptr<holder>> cycles_;
    bytes_of_sites                       expected_;
    std::uint64_t                        crossed_ = 0; ///< frees on another stream
};

} // namespace trial
