// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `captures_begin_anywhere` requires that no operation of a resource breaks a capture that another
/// thread begins on its own stream between any two platform calls of the operation.

#include "../doubles/mishaps.hpp" // mishaps
#include "effort.hpp"             // order_stride

#include <vram/base/bytes.hpp>      // literals
#include <vram/concepts/powers.hpp> // fallible_resource, retiring_resource, ...

#include <doctest/doctest.h>

#include <concepts>   // move_constructible
#include <cstddef>    // size_t
#include <cstdint>    // uint64_t
#include <exception>  // exception
#include <functional> // function
#include <memory>     // unique_ptr, make_unique
#include <semaphore>  // binary_semaphore
#include <string>     // string
#include <thread>     // thread
#include <utility>    // move
#include <vector>     // vector

namespace laws {

/// The thread of the owner of another stream. It is always the same one: a capture ends on the thread
/// on which it began, and to start a thread for each action takes most of the time.
class other_thread {
public:
    other_thread()               = default;
    other_thread(other_thread&&) = delete;
    ~other_thread() {
        act_ = nullptr;
        begin_.release();
        thread_.join();
    }

    /// Runs `act` on the thread, and waits for its end. `act` does not throw.
    void run(std::function<void()> act) {
        act_ = std::move(act);
        begin_.release();
        end_.acquire();
    }

private:
    void serve() {
        for (begin_.acquire(); act_; begin_.acquire()) {
            act_();
            end_.release();
        }
    }

    std::function<void()> act_;
    std::binary_semaphore begin_{0};
    std::binary_semaphore end_{0};
    std::thread           thread_{&other_thread::serve, this};
};

/// Runs `act` on another thread, as the owner of another stream would, and waits for its end.
inline void on_another_thread(std::function<void()> act) {
    static other_thread thread;
    thread.run(std::move(act));
}

/// The duration of the capture that begins before the n-th call.
enum class capture_lasts {
    on,     ///< until the operation is over
    a_call, ///< for that one call only
};

/// The operations of a resource that are tried, one at a time.
enum class operation {
    allocate,
    allocate_much,
    allocate_sync,
    try_allocate,
    deallocate,
    deallocate_theirs,
    deallocate_sync,
    trim,
    usage,
    retire,
    move,
    reset,
    destroy,
};
inline constexpr int operations = static_cast<int>(operation::destroy) + 1;

/// One thread's stream and blocks.
template <class World, class Memory>
struct capture_player {
    static constexpr std::size_t bytes = std::size_t{96} << 10;

    typename World::stream stream{};
    std::vector<void*>     blocks{};

    void take(Memory& memory, std::size_t count) {
        while (count-- != 0) {
            void* const p = memory.allocate(stream, bytes);
            World::work(stream, p, bytes);
            blocks.push_back(p);
        }
    }
    void give(Memory& memory, std::size_t count) {
        while (count-- != 0 && !blocks.empty()) {
            memory.deallocate(stream, blocks.back(), bytes);
            blocks.pop_back();
        }
    }
};

template <class World, class Memory>
void do_operation(operation what, std::unique_ptr<Memory>& memory,
                  capture_player<World, Memory>& mine, capture_player<World, Memory>& theirs) {
    using namespace vram;
    constexpr std::size_t bytes = capture_player<World, Memory>::bytes;
    Memory&               mr    = *memory;
    switch (what) {
    case operation::allocate: return mine.take(mr, 3);
    case operation::allocate_much: {
        void* const p = mr.allocate(mine.stream, World::much);
        return mr.deallocate(mine.stream, p, World::much);
    }
    case operation::allocate_sync: {
        void* some[2];
        for (void*& p : some) { p = mr.allocate_sync(bytes); }
        for (void* const p : some) { mr.deallocate_sync(p, bytes); }
        return;
    }
    case operation::try_allocate:
        if constexpr (fallible_resource<Memory>) {
            for (int i = 0; i != 2; ++i) {
                void* const p = mr.try_allocate(mine.stream, bytes);
                CHECK(p != nullptr);
                World::work(mine.stream, p, bytes);
                mine.blocks.push_back(p);
            }
        }
        return;
    case operation::deallocate: return mine.give(mr, 2);
    case operation::deallocate_theirs: // their uses were waited for
        World::wait(mine.stream, theirs.stream);
        for (void* const p : theirs.blocks) { mr.deallocate(mine.stream, p, bytes); }
        return theirs.blocks.clear();
    case operation::deallocate_sync:
        World::synchronize(mine.stream);
        if (!mine.blocks.empty()) {
            mr.deallocate_sync(mine.blocks.back(), bytes);
            mine.blocks.pop_back();
        }
        return;
    case operation::trim:
        if constexpr (trimmable_resource<Memory>) { mr.trim(); }
        return;
    case operation::usage:
        if constexpr (measured_resource<Memory>) { (void)mr.usage(); }
        return;
    case operation::retire:
        if constexpr (retiring_resource<Memory>) { mr.retire(mine.stream); }
        return;
    case operation::move:
        if constexpr (std::move_constructible<Memory>) {
            memory = std::make_unique<Memory>(std::move(mr));
        }
        return;
    case operation::reset: // of a `monotonic`; their uses were waited for
        if constexpr (requires { mr.reset(mine.stream); }) {
            World::wait(mine.stream, theirs.stream);
            mr.reset(mine.stream);
            mine.blocks.clear();
            theirs.blocks.clear();
        }
        return;
    case operation::destroy:
        mine.give(mr, mine.blocks.size());
        memory.reset();
        return;
    }
}

/// Begins the capture before the `nth` platform call of the operation. Returns false if the
/// operation makes fewer calls.
template <class World, class Make>
bool a_capture_begins_at(std::uint64_t nth, operation what, typename World::mode mode,
                         capture_lasts lasts, Make const& make) {
    using memory_type = decltype(make());
    World const            world;
    doubles::mishaps const told;
    auto                   memory = std::make_unique<memory_type>(make());
    using player                  = capture_player<World, memory_type>;
    player mine, theirs;
    mine.take(*memory, 3);
    on_another_thread([&] {
        theirs.take(*memory, 4);
        theirs.give(*memory, what == operation::destroy ? 4 : 3);
    });
    mine.give(*memory, 1);
    if (what == operation::deallocate_theirs || what == operation::reset) {
        World::record(theirs.stream);
    }

    bool            capturing = false;
    bool            well      = true;
    std::thread::id owner; // a thread's own calls can break its capture in every mode but relaxed
    auto const      end = [&] {
        on_another_thread([&] {
            CHECK(owner == std::this_thread::get_id());
            well = well && World::end(theirs.stream);
        });
        capturing = false;
    };
    World::before_call(nth, [&] {
        on_another_thread([&] {
            owner = std::this_thread::get_id();
            World::begin(theirs.stream, mode);
        });
        capturing = true;
        if (lasts == capture_lasts::a_call) { World::before_call(1, end); }
    });
    try {
        do_operation<World>(what, memory, mine, theirs);
    } catch (std::exception const& e) { FAIL_CHECK(std::string{e.what()}); }
    bool const came = !World::never_came();
    if (capturing && memory != nullptr && lasts == capture_lasts::on) {
        on_another_thread([&] { // this thread continues within its capture
            try {
                theirs.take(*memory, 1);
                theirs.give(*memory, 1);
            } catch (std::exception const& e) { FAIL_CHECK(std::string{e.what()}); }
        });
    }
    if (capturing) { end(); }
    CHECK(well);
    if (memory != nullptr) {
        on_another_thread([&] { theirs.give(*memory, theirs.blocks.size()); });
        mine.take(*memory, 3);
        mine.give(*memory, mine.blocks.size());
    }
    CHECK(told.count() == 0);
    return came;
}

/// Checks the resource that `make()` creates.
template <class World, class Make>
void captures_begin_anywhere(Make const& make) {
    for (int i = 0; i != operations; ++i) {
        auto const what = static_cast<operation>(i);
        CAPTURE(i);
        for (auto const mode : World::modes) {
            for (capture_lasts const lasts : {capture_lasts::on, capture_lasts::a_call}) {
                // A capture that lasts for one call has the same effect in every mode.
                if (lasts == capture_lasts::a_call && mode != World::modes[0]) { continue; }
                CAPTURE(static_cast<int>(mode));
                CAPTURE(static_cast<int>(lasts));
                std::uint64_t const first = 1 + static_cast<unsigned>(i) % order_stride;
                for (std::uint64_t n = first;; n += order_stride) {
                    CAPTURE(n);
                    REQUIRE(n < 1000);
                    if (!a_capture_begins_at<World>(n, what, mode, lasts, make)) { break; }
                }
            }
        }
    }
}

} // namespace laws
