// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `order_program` is a random program of streams, events, host threads, graphs and memory.

#include "dice.hpp" // dice

#include <vram/sim/sim_thread.hpp> // sim_ordered_threads

#include <array>   // array
#include <cstddef> // size_t
#include <cstdint> // uint64_t, uint16_t
#include <vector>  // vector

namespace trial {

/// The kinds of actions of a program.
enum class action : unsigned char {
    kernel,
    copy,
    copy_sync,
    fill,
    host_function,
    touch,
    record,
    wait,
    wait_host,
    query,
    wait_stream,
    query_stream,
    wait_device,
    allocate_async,
    free_async,
    allocate,
    free,
    create_stream,
    destroy_stream,
    create_event,
    destroy_event,
    capture,
    launch,
    destroy_graph,
    before_token,
    after_token,
    spawn,
    join,
    count
};

/// One action. It means the same in each run: its numbers select among the objects that exist then.
struct order_step {
    action        what{};
    std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

/// A program: the steps of the main thread and of two more, which the main thread may start.
struct order_program {
    static constexpr std::size_t threads = 3;

    std::uint64_t                                seed;
    int                                          devices;
    bool                                         per_thread;
    std::array<std::vector<order_step>, threads> steps;

    explicit order_program(std::uint64_t number) : seed{number} {
        dice d{number};
        devices    = d.one_in(3) ? 2 : 1;
        per_thread = d.one_in(4);
        std::array<std::size_t, static_cast<std::size_t>(action::count)> weights{
            24, 8, 2, 5, 3, 8, 10, 10, 3, 4, 3, 3, 1, 5, 5, 2, 2, 3, 2, 2, 1, 2, 5, 1, 2, 2, 0, 0};
        // Each program prefers some kinds of actions.
        for (int i = 0; i < 4; ++i) {
            std::size_t& some = weights[d.below(weights.size() - 2)];
            some              = d.one_in(2) ? some * 4 : 0;
        }
        // Threads that run concurrently would change the model at the same time.
        std::size_t const all  = vram::sim_ordered_threads ? 1 + d.below(threads) : 1;
        auto const        fill = [&](std::vector<order_step>& into, std::size_t length) {
            while (into.size() < length) { into.push_back(step(d, pick(d, weights))); }
        };
        fill(steps[0], 4 + d.below(32));
        for (std::size_t i = 1; i < all; ++i) {
            fill(steps[i], 4 + d.below(24));
            insert(d, action::spawn, static_cast<std::uint32_t>(i));
            if (d.one_in(2)) { insert(d, action::join, static_cast<std::uint32_t>(i)); }
        }
    }

private:
    static action pick(dice& d, auto const& weights) {
        std::size_t sum = 0;
        for (std::size_t const w : weights) { sum += w; }
        std::size_t at = d.below(sum), i = 0;
        while (at >= weights[i]) { at -= weights[i++]; }
        return static_cast<action>(i);
    }
    static order_step step(dice& d, action what) {
        auto const number = [&] { return static_cast<std::uint32_t>(d.next()); };
        return {what, number(), number(), number(), number()};
    }
    void insert(dice& d, action what, std::uint32_t thread) {
        std::vector<order_step>& main = steps[0];
        std::size_t const        at   = d.below(main.size() + 1);
        main.insert(main.begin() + static_cast<std::ptrdiff_t>(at), {what, thread, 0, 0, 0});
    }
};

} // namespace trial
