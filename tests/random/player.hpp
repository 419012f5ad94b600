// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `player` is one thread's random operations on a pool.

#include "../doubles/interrupted_platform.hpp" // interrupted_platform
#include "table.hpp"                           // table, block, round, dice

#include <vram/base/align.hpp>          // is_aligned, align
#include <vram/concepts/powers.hpp>     // the powers that decide what is done
#include <vram/pool/monotonic_mark.hpp> // monotonic_mark
#include <vram/sim/sim.hpp>             // sim_graph, sim_work

#include <cstddef>  // size_t
#include <cstdint>  // uint64_t, uintptr_t
#include <iterator> // size
#include <memory>   // unique_ptr
#include <new>      // bad_alloc
#include <utility>  // pair, swap
#include <vector>   // vector

namespace trial {

/// Allocates, uses, hands over and frees blocks. If `plan.watched` says so, a block is written on
/// its stream after its allocation and read before its free: the device's checker sees every pair
/// of accesses without an order, and the written number must still be there.
template <class R>
class player {
public:
    /// \param captures  if true, graphs are captured now and then; other players do not use that
    ///                  stream, and only know the memory that captures retain
    player(R& pool, table& shared, std::uint64_t seed, bool captures = true)
        : pool_{pool}, shared_{shared}, plan_{shared.plan}, dice_{seed}, captures_{captures} {
        blocks_.reserve(plan_.blocks);
    }

    /// Runs `operations` random steps, or stops at the first error. Steps of other players in
    /// between are counted.
    void play(std::size_t operations) {
        std::size_t const before  = shared_.meddled;
        unsigned const    players = plan_.threads + plan_.extra_players;
        std::size_t const room    = plan_.room / players;
        std::size_t const blocks  = plan_.blocks / players + 1;
        for (std::size_t i = 0; i + (shared_.meddled - before) < operations &&
                                !shared_.stop.load(std::memory_order_relaxed);
             ++i) {
            // The target number of live blocks changes.
            if (i % 256 == 0) { aim_ = dice_.below(blocks + 1); }
            bool const wants = blocks_.size() < aim_;
            auto const side  = dice_.below(64);
            if (side == 0 && !shared_.capturing) {
                aside();
            } else if ((wants ? side < 48 : side < 16) || blocks_.empty()) {
                take(room, blocks);
            } else {
                give(dice_.below(blocks_.size()));
            }
        }
    }
    void give_all_back() {
        while (!blocks_.empty()) { give(blocks_.size() - 1); }
    }
    /// Resets a `monotonic` if no player has a block. No player has marks if there are several.
    void start_again() {
        auto const held = shared_.door.hold();
        if (shared_.live != 0) { return; }
        if (dice_.one_in(4)) {
            pool_.reset_sync();
        } else {
            pool_.reset(shared_.streams[any_stream()]);
        }
        marks_.clear();
    }
    /// No captured graph is launched after this. Its stream continues with other memory.
    void forget_graphs() {
        if (!shared_.kept || !captures_) { return; }
        platform::synchronize(captured());
        graphs_.clear();
        for (int i = 0; i < 4; ++i) { give_one_of_captured(); }
        for (block& b : blocks_) { b.captured = false; }
        shared_.kept.reset();
        pool_.forget_captures();
    }
    /// Adds a block that another player has passed on.
    void adopt(block const& b) {
        blocks_.push_back(b);
        out_ += b.bytes;
    }
    [[nodiscard]] std::size_t out() const noexcept { return out_; }
    [[nodiscard]] std::size_t refused() const noexcept { return refused_; }

private:
    using platform = vram::sim_platform;

    static constexpr bool unwinds = requires(R& r) { r.reset_sync(); };

    /// Returns true if the captured stream belongs to another player.
    unsigned any_stream() noexcept {
        unsigned const first = !captures_ && plan_.streams > 1 ? 1 : 0;
        return first + static_cast<unsigned>(dice_.below(plan_.streams - first));
    }

    void take(std::size_t room, std::size_t most) {
        block b{.bytes = plan_.size(dice_), .alignment = 256, .user = any_stream()};
        if (dice_.one_in(8)) { b.alignment = std::size_t{1} << dice_.below(17); }
        if (plan_.coarse && dice_.one_in(2)) { b.alignment = plan_.node.page << dice_.below(4); }
        if constexpr (unwinds) { // only such pools allocate without gaps otherwise
            if (b.alignment < laws::claims::granule) { b.alignment = laws::claims::granule; }
        }
        if (out_ + b.bytes > room || blocks_.size() >= most) {
            if (!blocks_.empty()) { give(dice_.below(blocks_.size())); }
            return;
        }
        count_block();
        void* const p = ask(b);
        if (p == nullptr) {
            ++refused_;
            forget_block();
            if constexpr (unwinds) { // only a reset can make room
                adopt_passed();
                give_all_back();
            }
            return;
        }
        b.at = reinterpret_cast<std::uintptr_t>(p);
        if (!vram::is_aligned(p, b.alignment)) { shared_.wrong("a block is not aligned"); }
        if (!shared_.taken.take(b.at, b.bytes)) { shared_.wrong("a byte was handed out twice"); }
        if (shared_.kept && !shared_.kept->free(b.at, b.bytes)) {
            shared_.wrong("a graph's memory is another's");
        }
        out_ += b.bytes;
        b.number = dice_.next();
        b.born   = taken_++;
        if (watched(b)) { write(b); }
        blocks_.push_back(b);
    }
    void* ask(block const& b) {
        auto const how = dice_.below(16);
        if (how == 0) { return pool_.try_allocate_sync(b.bytes, b.alignment); }
        if (how < 8) { return pool_.try_allocate(shared_.streams[b.user], b.bytes, b.alignment); }
        try {
            return how == 8 ? pool_.allocate_sync(b.bytes, b.alignment)
                            : pool_.allocate(shared_.streams[b.user], b.bytes, b.alignment);
        } catch (std::bad_alloc const&) { return nullptr; }
    }

    /// Counts a block before its allocation, so that another player does not unwind it.
    void count_block() {
        if constexpr (unwinds) {
            auto const held = shared_.door.hold();
            ++shared_.live;
        }
    }
    void forget_block(std::size_t blocks = 1) {
        if constexpr (unwinds) {
            {
                auto const held = shared_.door.hold();
                shared_.live -= blocks;
            }
            start_again();
        }
    }
    /// Takes the blocks that no player has.
    void adopt_passed() {
        auto const held = shared_.door.hold();
        for (block const& b : shared_.passed) { adopt(b); }
        shared_.passed.clear();
    }

    void give(std::size_t which) {
        free_block(which);
        forget_block();
    }
    void free_block(std::size_t which) {
        block b        = blocks_[which];
        blocks_[which] = blocks_.back();
        blocks_.pop_back();
        out_ -= b.bytes;
        if (watched(b)) { read(b); }
        if (!shared_.taken.give(b.at, b.bytes)) {
            shared_.wrong("a block's bytes are not its own");
        }
        if (dice_.one_in(64) && !shared_.capturing) {
            platform::synchronize(shared_.streams[b.user]);
            return pool_.deallocate_sync(b.pointer(), b.bytes, b.alignment);
        }
        if (dice_.one_in(8)) { hand_over(b, any_stream()); }
        pool_.deallocate(shared_.streams[b.user], b.pointer(), b.bytes, b.alignment);
        if (b.captured) { hand_over(b, 0); } // before other graphs use the memory
    }

    /// Runs rare operations.
    void aside() {
        switch (dice_.below(8)) {
        case 0:
            if constexpr (unwinds) { // unwind requires that all live blocks are known
                if (alone_) { return mark_or_unwind(); }
            }
            if (!plan_.graphs || plan_.extra_players == 0) { pass(); }
            return;
        case 1:
            if (plan_.graphs && plan_.threads == 1 && captures_ && (alone_ || plan_.streams > 1)) {
                capture();
            }
            return;
        case 2: vram::sim_work(vram::sim_time{static_cast<int>(dice_.below(20'000))}); return;
        case 3:
            if (dice_.one_in(8)) { platform::synchronize(shared_.streams[any_stream()]); }
            return;
        case 4:
            if (dice_.one_in(8)) { (void)pool_.trim(dice_.below(plan_.max_size)); }
            return;
        case 5: return look();
        default:
            if (blocks_.empty()) { return; }
            block& b = blocks_[dice_.below(blocks_.size())];
            if (watched(b)) { read(b); }
            hand_over(b, any_stream());
            if (watched(b)) { write(b); }
        }
    }
    /// Hands a block to another thread, or takes one from it. Blocks of a capture are excluded,
    /// because the player that launches graphs must know all of them.
    void pass() {
        auto const held = shared_.door.hold();
        bool const some = !blocks_.empty() && !blocks_.back().captured;
        if (shared_.passed.size() < 8 && dice_.one_in(2) && some) {
            shared_.passed.push_back(blocks_.back());
            out_ -= blocks_.back().bytes;
            blocks_.pop_back();
        } else if (!shared_.passed.empty()) {
            adopt(shared_.passed.back());
            shared_.passed.pop_back();
        }
    }
    /// Returns the stream that is captured in this round.
    [[nodiscard]] vram::sim_stream_view captured() const { return shared_.streams[0]; }

    /// Allocates and frees blocks during a capture: their memory belongs to the graph until
    /// captures are forgotten. The graph runs now and later. Some blocks of a graph that runs once
    /// stay live, and are freed outside of the capture; while one is live, no graph that may use
    /// its memory runs.
    void capture() {
        if (shared_.kept && dice_.one_in(4)) { return forget_graphs(); }
        if (!graphs_.empty() && dice_.one_in(2)) {
            for (block const& b : blocks_) {
                if (b.captured) { return; }
            }
            return graphs_[dice_.below(graphs_.size())].launch(captured());
        }
        if (!shared_.kept) { shared_.kept = std::make_unique<laws::claims>(); }
        std::vector<block> own;
        bool const         once = dice_.one_in(4);
        vram::sim_graph::begin(captured(), mode_of_capture());
        shared_.capturing = true;
        // Runs other players at the beginning and at the end of the capture.
        doubles::interrupted_platform::interrupt();
        for (int left = static_cast<int>(dice_.below(24)); left > 0 || !own.empty(); --left) {
            if (left > 0 && dice_.one_in(2)) {
                take_captured(own);
            } else if (!own.empty()) {
                std::swap(own[dice_.below(own.size())], own.back());
                if (once && out_ + own.back().bytes <= plan_.room && dice_.one_in(2)) {
                    out_ += own.back().bytes;
                    blocks_.push_back(own.back());
                } else {
                    give_captured(own.back());
                }
                own.pop_back();
            } else {
                give_any_to_graph();
            }
        }
        doubles::interrupted_platform::interrupt();
        shared_.capturing = false;
        graphs_.push_back(vram::sim_graph::end(captured()));
        graphs_.back().launch(captured());
        if (once) { graphs_.pop_back(); }
    }
    [[nodiscard]] vram::sim_capture_mode mode_of_capture() noexcept {
        using enum vram::sim_capture_mode;
        constexpr vram::sim_capture_mode all[] = {global, thread_local_only, relaxed};
        return all[dice_.below(std::size(all))];
    }
    /// Returns the index of a block that the captured stream used last, or the number of blocks.
    [[nodiscard]] std::size_t one_of_captured() noexcept {
        std::size_t const first = blocks_.empty() ? 0 : dice_.below(blocks_.size());
        for (std::size_t i = first; i < blocks_.size(); ++i) {
            if (blocks_[i].user == 0) { return i; }
        }
        return blocks_.size();
    }
    void give_one_of_captured() {
        if (auto const i = one_of_captured(); i != blocks_.size()) { give(i); }
    }
    /// Frees an ordinary block in the capture.
    void give_any_to_graph() {
        auto const i = one_of_captured();
        if (i == blocks_.size()) { return; }
        std::swap(blocks_[i], blocks_.back());
        out_ -= blocks_.back().bytes;
        give_to_graph(blocks_.back());
        blocks_.pop_back();
    }
    void take_captured(std::vector<block>& own) {
        block b{.bytes = plan_.size(dice_), .alignment = 256, .number = dice_.next()};
        b.captured = true;
        count_block();
        void* const p = pool_.try_allocate(captured(), b.bytes);
        if (p == nullptr) { return forget_block(); }
        b.at   = reinterpret_cast<std::uintptr_t>(p);
        b.born = taken_++;
        if (!shared_.taken.take(b.at, b.bytes)) { shared_.wrong("a byte was handed out twice"); }
        if (watched(b)) { write(b); }
        own.push_back(b);
    }
    void give_captured(block const& b) {
        if (watched(b)) { read(b); }
        give_to_graph(b);
    }
    void give_to_graph(block const& b) {
        if (!shared_.taken.give(b.at, b.bytes)) {
            shared_.wrong("a block's bytes are not its own");
        }
        shared_.kept->take(b.at, b.bytes);
        pool_.deallocate(captured(), b.pointer(), b.bytes, b.alignment);
        forget_block();
    }
    /// Orders the stream of an unwind, or the host, behind all uses of the blocks above a mark, and
    /// unwinds them.
    void mark_or_unwind() {
        if (marks_.empty() || dice_.one_in(2)) { return marks_.push_back({pool_.mark(), taken_}); }
        auto const     to     = dice_.below(marks_.size());
        bool const     sync   = dice_.one_in(4);
        unsigned const by     = any_stream();
        std::size_t    blocks = 0;
        for (std::size_t i = blocks_.size(); i-- > 0;) {
            block b = blocks_[i];
            if (b.born < marks_[to].second) { continue; }
            if (watched(b)) { read(b); }
            if (sync) {
                platform::synchronize(shared_.streams[b.user]);
            } else {
                hand_over(b, by);
            }
            if (b.captured) { hand_over(b, 0); } // before other graphs use the memory
            ++blocks;
            if (!shared_.taken.give(b.at, b.bytes)) {
                shared_.wrong("a block's bytes are not its own");
            }
            out_ -= b.bytes;
            blocks_[i] = blocks_.back();
            blocks_.pop_back();
        }
        if (sync) {
            pool_.unwind_sync(marks_[to].first);
        } else {
            pool_.unwind(marks_[to].first, shared_.streams[by]);
        }
        marks_.resize(to + 1, marks_[to]);
        forget_block(blocks);
    }
    /// Reads the pool's usage.
    void look() {
        for (block const& b : blocks_) {
            if constexpr (vram::owning_resource<R>) {
                if (!pool_.owns(b.pointer())) { shared_.wrong("a block that is out is not owned"); }
            }
            if (dice_.one_in(4)) { break; }
        }
        vram::memory_usage const now = pool_.usage();
        if (now.requested < out_ || now.live < now.requested) {
            shared_.wrong("less is out than there is");
        }
        if (now.peak_live < now.live || now.peak_reserved < now.reserved) {
            shared_.wrong("a peak is below what it is the peak of");
        }
        if (now.reserved > plan_.max_size) { shared_.wrong("more is held than may be"); }
    }

    /// The stream `to` may use the block from here on.
    void hand_over(block& b, unsigned to) {
        shared_.streams.order(shared_.streams[b.user], shared_.streams[to]);
        b.user = to;
    }

    [[nodiscard]] bool watched(block const& b) const noexcept {
        return vram::align(b.at, plan_.watched) < b.at + b.bytes;
    }
    vram::sim_time a_while() noexcept {
        return vram::sim_time{static_cast<int>(dice_.below(4'000))};
    }

    void write(block const& b) { b.write(shared_.streams[b.user], a_while()); }
    void read(block const& b) { b.read(shared_.streams[b.user], a_while(), shared_.stale); }

    R&                 pool_;
    table&             shared_;
    round const&       plan_;
    bool               alone_ = plan_.threads + plan_.extra_players == 1; ///< on the pool
    dice               dice_;
    bool               captures_;
    std::vector<block> blocks_;
    std::vector<std::pair<vram::monotonic_mark, std::uint64_t>>
                                 marks_; ///< and the blocks allocated before
    std::vector<vram::sim_graph> graphs_;
    std::uint64_t                taken_   = 0;
    std::size_t                  out_     = 0;
    std::size_t                  aim_     = 0;
    std::size_t                  refused_ = 0;
};

} // namespace trial
