// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/biased_lock.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <set>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

namespace {

/// The lock's steps in small, for every order of three threads' steps: the first, which may have it
/// for itself, and two others. Stores come out of a thread's buffer in their order and at any time,
/// as on x86; an exchange waits until it is empty, and a fence of the process empties all.
class model {
public:
    /// The step that the model omits, to show that the search finds the error.
    enum class without { nothing, second_look, fence };

    explicit model(without what) : what_{what} {}

    struct answer {
        std::size_t states    = 0;
        bool        two_in_it = false;
        bool        stuck     = false;
    };
    answer search() {
        answer             found;
        std::vector<state> todo{state{}};
        std::set<state>    seen{todo[0]};
        while (!todo.empty() && !found.two_in_it) {
            state const s = todo.back();
            todo.pop_back();
            int inside = 0;
            for (thread const& t : s.threads) { inside += t.at == step::inside ? 1 : 0; }
            found.two_in_it = found.two_in_it || inside > 1;
            next_.clear();
            for (int who = 0; who < 3; ++who) { go_on(s, who); }
            bool over = true;
            for (thread const& t : s.threads) { over = over && t.left == 0; }
            found.stuck = found.stuck || (next_.empty() && !over);
            for (state const& n : next_) {
                if (seen.insert(n).second) { todo.push_back(n); }
            }
        }
        found.states = seen.size();
        return found;
    }

private:
    enum class step : unsigned char {
        out,
        look,
        among_others,
        exchange,
        look_again,
        count,
        line,
        in_line,
        ending,
        fence,
        wait,
        shared,
        watch,
        exchange_in_line,
        look_again_in_line,
        leave_line,
        inside,
    };
    enum place : unsigned char { use, inside_flag, taken };
    enum value : unsigned char { alone = 0, ending = 1, shared = 2 }; // of `use`

    struct store {
        unsigned char where = 0, what = 0;
        auto          operator<=>(store const&) const = default;
    };
    struct thread {
        step                  at         = step::out;
        unsigned char         left       = 2; ///< times that it will take the lock
        bool                  for_itself = false;
        std::array<store, 10> buffer{};
        unsigned char         waiting                          = 0; ///< stores
        auto                  operator<=>(thread const&) const = default;
    };
    struct state {
        std::array<unsigned char, 3> memory{};
        unsigned char                line = 0; ///< thread that holds it, from 1
        std::array<thread, 3>        threads{thread{.left = 3}, thread{}, thread{.left = 1}};
        auto                         operator<=>(state const&) const = default;
    };

    static void drain(state& s, thread& t) {
        s.memory[t.buffer[0].where] = t.buffer[0].what;
        std::rotate(t.buffer.begin(), t.buffer.begin() + 1, t.buffer.end());
        t.buffer.back() = {};
        --t.waiting;
    }
    static unsigned char load(state const& s, thread const& t, place where) {
        for (int i = t.waiting; i-- > 0;) {
            store const& one = t.buffer[static_cast<std::size_t>(i)];
            if (one.where == where) { return one.what; }
        }
        return s.memory[where];
    }
    /// Adds all possible next states after a step of thread `who`.
    void go_on(state const& s, int who) {
        auto const  index = static_cast<std::size_t>(who);
        auto const& t     = s.threads[index];
        auto const  to    = [&](step at, auto... stores) {
            next_.push_back(s);
            thread& n = next_.back().threads[index];
            n.at      = at;
            ((n.buffer[n.waiting++] = stores), ...);
            return &next_.back();
        };
        auto const put = [](place where, int what) {
            return store{where, static_cast<unsigned char>(what)};
        };
        auto const exchange = [&](step got, step not_got) {
            if (t.waiting != 0) { return; }
            to(s.memory[taken] != 0 ? not_got : got)->memory[taken] = 1;
        };
        auto const look_again = [&](step still_shared, step not_any_more) {
            if (what_ == without::second_look || load(s, t, use) == shared) {
                to(still_shared);
            } else {
                to(not_any_more, put(taken, 0));
            }
        };
        if (t.waiting != 0) {
            state& n = *to(t.at);
            drain(n, n.threads[index]);
        }
        switch (t.at) {
        case step::out:
            if (t.left == 0) { break; }
            if (who == 0) {
                to(step::look, put(inside_flag, 1));
            } else {
                to(step::among_others);
            }
            break;
        case step::look:
            if (load(s, t, use) == alone) {
                to(step::inside)->threads[index].for_itself = true;
            } else {
                to(step::among_others, put(inside_flag, 0));
            }
            break;
        case step::among_others: to(load(s, t, use) == shared ? step::exchange : step::line); break;
        case step::exchange: exchange(step::look_again, step::line); break;
        case step::look_again: look_again(step::count, step::line); break;
        case step::count: // the first thread may have taken the lock often enough
            to(step::inside)->threads[index].for_itself = false;
            if (who == 0) { to(step::inside, put(use, alone))->threads[0].for_itself = false; }
            break;
        case step::line:
            if (s.line == 0 && t.waiting == 0) {
                to(step::in_line)->line = static_cast<unsigned char>(who + 1);
            }
            break;
        case step::in_line: to(load(s, t, use) == alone ? step::ending : step::watch); break;
        case step::ending: to(step::fence, put(use, ending)); break;
        case step::fence: {
            state& n = *to(step::wait);
            if (what_ == without::fence) { break; }
            for (thread& each : n.threads) {
                while (each.waiting != 0) { drain(n, each); }
            }
            break;
        }
        case step::wait:
            if (load(s, t, inside_flag) == 0) { to(step::shared); }
            break;
        case step::shared: to(step::watch, put(use, shared)); break;
        case step::watch:
            if (load(s, t, use) == alone) {
                to(step::ending);
            } else if (load(s, t, taken) == 0) {
                to(step::exchange_in_line);
            }
            break;
        case step::exchange_in_line: exchange(step::look_again_in_line, step::watch); break;
        case step::look_again_in_line: look_again(step::leave_line, step::watch); break;
        case step::leave_line:
            if (t.waiting == 0) {
                state& n                    = *to(step::inside);
                n.line                      = 0;
                n.threads[index].for_itself = false;
            }
            break;
        case step::inside:
            --to(step::out, put(t.for_itself ? inside_flag : taken, 0))->threads[index].left;
            break;
        }
    }

    without            what_;
    std::vector<state> next_;
};

} // namespace

TEST_CASE("biased_lock: in every order of three threads' steps, one at a time holds it and none "
          "waits for ever") {
    model::answer const found = model{model::without::nothing}.search();
    CHECK(found.states > 10'000);
    CHECK_FALSE(found.two_in_it);
    CHECK_FALSE(found.stuck);
    // The search finds the injected error.
    CHECK(model{model::without::second_look}.search().two_in_it);
    CHECK(model{model::without::fence}.search().two_in_it);
}

TEST_CASE("biased_lock: one thread at a time holds it, with many threads") {
    biased_lock one;
    long        sum  = 0;
    auto const  some = [&] {
        for (int i = 0; i < 10'000; ++i) {
            auto held = one.hold();
            ++sum;
            held.unlock();
            held.lock();
            ++sum;
        }
    };
    { worker const a{0, some}, b{1, some}, c{2, some}, d{3, some}; }
    CHECK(sum == 80'000);
}

TEST_CASE("biased_lock: a moved lock is unlocked") {
    static_assert(std::is_nothrow_move_constructible_v<biased_lock> &&
                  std::is_nothrow_move_assignable_v<biased_lock>);
    static_assert(!std::is_copy_constructible_v<biased_lock>);
    biased_lock first;
    auto const  held   = first.hold();
    biased_lock second = std::move(first);
    CHECK(second.hold().owns_lock());
}

TEST_CASE("biased_lock: the first thread loses its bias when another thread comes") {
    for (int round = 0; round < 300; ++round) {
        biased_lock one;
        long        sum  = 0;
        auto const  some = [&] {
            for (int i = 0; i < 200; ++i) {
                auto const held   = one.hold();
                long const before = sum;
                sum               = before + 1;
            }
        };
        {
            worker const first{0, some};
            if (round % 2 == 0) { some(); }
            worker const second{1, some};
        }
        CHECK(sum == (round % 2 == 0 ? 600 : 400));
    }
}

TEST_CASE("biased_lock: the first thread gets its bias back each time the others have gone") {
    for (int round = 0; round < 40; ++round) {
        biased_lock       one;
        long              sum = 0;
        std::atomic<long> of_others{0};
        std::atomic<int>  here{0};
        std::atomic<bool> over{false};
        auto const        take = [&] {
            auto const held   = one.hold();
            long const before = sum;
            sum               = before + 1;
        };
        auto const visit = [&] {
            ++here;
            for (; !over; ++of_others) {
                if (round % 4 != 0) { std::this_thread::sleep_for(20us * (round % 4)); }
                take();
            }
        };
        take(); // so that the lock is biased to this thread
        {
            worker const a{0, visit}, b{1, visit};
            while (here != 2) { std::this_thread::yield(); }
            for (int i = 0; i < 100'000; ++i) { take(); }
            over = true;
        }
        CHECK(sum == 100'001 + of_others);
    }
}

TEST_CASE("biased_lock: a moved guard admits the next thread, even if the first one sleeps") {
    biased_lock lock;
    {
        auto first = lock.hold();
        auto moved = std::move(first);
        CHECK(moved.owns_lock());
        CHECK_FALSE(first.owns_lock());
    }
    std::atomic<bool> in = false;
    std::thread       next{[&] {
        auto const held = lock.hold();
        in              = true;
    }};
    for (int i = 0; i < 5000 && !in; ++i) { std::this_thread::sleep_for(1ms); }
    CHECK(in);
    { auto const again = lock.hold(); } // lets the other thread in if it waits still
    next.join();
}
