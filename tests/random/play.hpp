// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `play` runs one round on one pool, and returns the error if there is one.

#include "../doubles/interrupted_platform.hpp" // interrupted_platform
#include "../doubles/mishaps.hpp"              // mishaps
#include "player.hpp"                          // player, table, round

#include <vram/sim/sim.hpp> // sim_node, sim_thread

#include <cstddef>   // size_t
#include <deque>     // deque
#include <exception> // exception
#include <string>    // string
#include <vector>    // vector

namespace trial {

/// Requires that the pool's usage equals the live bytes of the players, and that the rest is free,
/// if the pool reuses freed memory.
template <class R>
void settle(R& pool, table& shared, std::deque<player<R>>& players) {
    std::size_t out = 0;
    for (block const& b : shared.passed) { out += b.bytes; }
    for (auto const& each : players) { out += each.out(); }
    vram::memory_usage const now = pool.usage();
    if (now.requested != out) { shared.wrong("what is out is not what was asked for"); }
    if (now.live < out || (out == 0 && now.live != 0)) { shared.wrong("live is not what is out"); }
    if constexpr (requires { pool.free_memory(); } && !requires { pool.reset_sync(); }) {
        if (now.live + pool.free_memory().bytes != now.reserved) {
            shared.wrong("what is held is neither out nor free");
        }
    }
}

/// Frees everything. After a trim nothing may be reserved, and the largest possible block must be
/// available.
template <class R>
void empty(R& pool, vram::sim_node& node, table& shared, std::deque<player<R>>& players) {
    for (auto& each : players) {
        each.forget_graphs();
        each.give_all_back();
    }
    for (block const& b : shared.passed) { players.front().adopt(b); }
    shared.passed.clear();
    players.front().give_all_back();
    settle(pool, shared, players);
    // Marks keep the chunks before them.
    if constexpr (requires { pool.reset_sync(); }) { players.front().start_again(); }
    shared.streams.synchronize();
    pool.trim();
    if (pool.usage().reserved != 0) { shared.wrong("trim leaves something that nobody has"); }
    if (node.figures().used != 0) { shared.wrong("the device is not empty after a trim"); }
    if constexpr (requires { pool.block_bytes(); }) { return; }
    void* const all = pool.try_allocate_sync(shared.plan.max_size);
    if (all == nullptr) { shared.wrong("an empty pool does not have what it may hold"); }
    pool.deallocate_sync(all, shared.plan.max_size);
    if constexpr (requires { pool.reset_sync(); }) { players.front().start_again(); }
}

/// Runs other players while a thread waits for an event, or while its pool calls the upstream: the
/// worst times for another thread. Each of them may be interrupted in turn.
template <class Go>
class meddling {
public:
    meddling(table& shared, Go& go)
        : shared_{shared}, plan_{shared.plan}, go_{go}, dice_{plan_.seed ^ 0xDEED} {
        arm();
    }
    meddling(meddling&&) = delete;
    ~meddling() { doubles::interrupted_platform::meanwhile = nullptr; }

private:
    void arm() {
        if (depth_ == plan_.extra_players) { return; }
        doubles::interrupted_platform::meanwhile = [this] { come_in(); };
    }
    void come_in() {
        std::size_t const some   = 1 + dice_.below(32);
        std::size_t const before = shared_.meddled;
        ++depth_;
        arm();
        go_(plan_.threads - 1 + depth_, some);
        --depth_;
        // Returns the operations, with those of the other players in between.
        shared_.meddled = before + some;
        arm();
    }

    table&       shared_;
    round const& plan_;
    Go&          go_;
    dice         dice_;
    unsigned     depth_ = 0;
};

/// `make(round)` creates the pool. Returns a description of the first error, or an empty string.
template <class Make>
std::string play(round const& plan, Make make) {
    using pool_type = decltype(make(plan));
    doubles::mishaps const told;
    std::string            mistake;
    vram::sim_node         node{plan.node};
    {
        table                         shared{plan};
        auto                          pool = make(plan);
        dice                          d{plan.seed ^ 0x5EED};
        std::deque<player<pool_type>> players;
        for (unsigned i = 0; i < plan.threads + plan.extra_players; ++i) {
            players.emplace_back(pool, shared, d.next(), plan.captures(i));
        }
        auto const go = [&](unsigned who, std::size_t operations) {
            try {
                players[who].play(operations);
            } catch (std::exception const& e) { shared.wrong(std::string{"thrown: "} + e.what()); }
        };
        std::size_t const phases = 1 + d.below(4);
        for (std::size_t i = 0; i < phases && !shared.stop; ++i) {
            std::size_t const each = plan.operations / phases / plan.threads;
            if (plan.threads == 1) {
                meddling const others{shared, go};
                go(0, each);
            } else {
                std::vector<vram::sim_thread> threads;
                for (unsigned who = 0; who < plan.threads; ++who) {
                    threads.emplace_back(vram::sim_device{}, [&, who] { go(who, each); });
                }
            }
            settle(pool, shared, players);
            if (i + 1 == phases || d.one_in(2)) { empty(pool, node, shared, players); }
        }
        shared.streams.synchronize();
        shared.streams.retire_from(pool);
        if (shared.stale != 0) { shared.wrong("what was written into a block is not there"); }
        mistake = shared.mistake;
    }
    node.finish();
    if (mistake.empty() && told.count() != 0) { mistake = "the error sink was told of something"; }
    if (mistake.empty() && node.figures().used != 0) { mistake = "memory is out at the end"; }
    for (auto const& report : node.reports()) {
        return mistake + (mistake.empty() ? "" : "\n") + report.text();
    }
    return mistake;
}

} // namespace trial
