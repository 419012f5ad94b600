// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The workloads, each written once over a *memory*: an allocator with its streams.
///
///     Memory memory{set_up};                      // new for every turn
///     Memory::stream s = memory.stream_at(i);
///     void* p = memory.allocate(s, bytes);        memory.deallocate(s, p, bytes);
///
/// `usage()` and `trim()` are optional. So are `occupy(time)`, which keeps the streams busy for
/// that time, and `release()`, which ends that.

#include "quiet_core.hpp"
#include "subject.hpp"
#include "timing.hpp"

#include <vram/base/memory_usage.hpp> // memory_usage

#include <atomic>
#include <barrier>
#include <cmath> // exp, log
#include <concepts>
#include <cstddef> // ptrdiff_t, size_t
#include <cstdint> // uint32_t
#include <deque>
#include <exception>
#include <numeric> // reduce
#include <random>
#include <thread>
#include <utility> // move
#include <vector>

namespace bench {

/// `ns_per_operation` on a quiet core.
template <class Batch>
double quiet_ns_per_operation(nanoseconds turn, std::size_t operations, Batch const& each) {
    return quiet_core::here().quietly([&] { return ns_per_operation(turn, operations, each); });
}

/// The number of operations between two reads of the clock.
inline constexpr std::size_t batch = 512;

/// The replacement of one block: its slot and its new size.
struct replacement {
    std::uint32_t slot;
    std::uint32_t bytes;
};

/// Generated beforehand, so that no random number is computed while the clock runs.
inline std::vector<replacement> draw(pool_case const& c, unsigned seed) {
    static constexpr std::size_t           length = 1 << 16;
    std::mt19937_64                        random{seed};
    double const                           low  = std::log(static_cast<double>(c.least));
    double const                           high = std::log(static_cast<double>(c.most));
    std::uniform_real_distribution<double> size{low, high};
    std::vector<replacement>               out(length);
    for (replacement& r : out) {
        r = {static_cast<std::uint32_t>(random() % c.live),
             static_cast<std::uint32_t>(std::exp(size(random)))};
    }
    return out;
}

/// Blocks of a memory, one of which is replaced at a time. With several streams each replacement
/// uses the next stream.
template <class Memory>
class churner {
public:
    churner(Memory& memory, pool_case const& c, unsigned seed, unsigned first_stream = 0)
        : memory_{memory}, draws_{draw(c, seed)}, live_(c.live), handed_{c.handed} {
        for (unsigned i = 0; i < c.streams; ++i) {
            streams_.push_back(memory.stream_at(first_stream + i));
        }
    }
    churner(churner&&) = delete;
    ~churner() {
        for (block const& b : live_) {
            if (b.p != nullptr) { memory_.deallocate(streams_[b.stream], b.p, b.bytes); }
        }
    }

    void fill() {
        for (std::uint32_t slot = 0; slot < live_.size(); ++slot) {
            put(slot, draws_[slot % draws_.size()].bytes);
        }
    }
    /// Runs one batch.
    void run() {
        for (std::size_t i = 0; i < batch; ++i) {
            replacement const   r    = draws_[at_++ % length];
            block&              b    = live_[r.slot];
            std::uint32_t const on   = handed_ ? after(b.stream) : b.stream;
            void* const         gone = std::exchange(b.p, nullptr);
            memory_.deallocate(streams_[on], gone, b.bytes);
            put(r.slot, r.bytes);
        }
    }

private:
    // Size of the result of draw(), as a constant for the compiler.
    static constexpr std::size_t length = 1 << 16;

    struct block {
        void*         p      = nullptr;
        std::uint32_t bytes  = 0;
        std::uint32_t stream = 0;
    };

    [[nodiscard]] std::uint32_t after(std::uint32_t stream) const {
        return stream + 1 < streams_.size() ? stream + 1 : 0;
    }
    void put(std::uint32_t slot, std::uint32_t bytes) {
        void* const p = memory_.allocate(streams_[stream_], bytes);
        keep(p);
        live_[slot] = {p, bytes, stream_};
        stream_     = after(stream_);
    }

    Memory&                              memory_;
    std::vector<replacement>             draws_;
    std::vector<block>                   live_;
    std::vector<typename Memory::stream> streams_;
    std::size_t                          at_     = 0;
    std::uint32_t                        stream_ = 0;
    bool                                 handed_;
};

template <class Memory>
concept measured = requires(Memory& m) {
    { m.usage() } -> std::same_as<vram::memory_usage>;
};

/// A memory that also counts waits, events and calls of its upstream.
template <class Memory>
concept counting = measured<Memory> && Memory::counts_events;

/// Repeats an allocation and its free.
template <class Memory>
figures hot(pool_case const& c, nanoseconds turn) {
    Memory            memory{{.block = c.most}};
    auto const        stream = memory.stream_at(0);
    std::size_t const bytes  = c.most;
    auto const        pairs  = [&] {
        for (std::size_t i = 0; i < batch; ++i) {
            void* const p = memory.allocate(stream, bytes);
            keep(p);
            memory.deallocate(stream, p, bytes);
        }
    };
    (void)ns_per_operation(turn / 8, batch, pairs);
    return {{"ns_per_op", quiet_ns_per_operation(turn, batch, pairs), "ns"}};
}

/// Replaces one of many blocks.
template <class Memory>
figures churn(pool_case const& c, nanoseconds turn) {
    Memory          memory{{}};
    churner<Memory> blocks{memory, c, 1};
    blocks.fill();
    auto const replace = [&] { blocks.run(); };
    (void)ns_per_operation(turn, batch, replace);
    return {{"ns_per_op", quiet_ns_per_operation(turn, batch, replace), "ns"}};
}

/// A queue of blocks from one thread to another, with one writer and one reader.
template <class Block>
class mailbox {
public:
    explicit mailbox(std::size_t room) : all_(room) {}

    /// Returns false if the queue is full.
    [[nodiscard]] bool put(Block const& b) {
        std::size_t const at = in_.load(std::memory_order_relaxed);
        if (at - out_.load(std::memory_order_acquire) == all_.size()) { return false; }
        all_[at % all_.size()] = b;
        in_.store(at + 1, std::memory_order_release);
        return true;
    }
    /// Returns false if the queue is empty.
    [[nodiscard]] bool take(Block& b) {
        std::size_t const at = out_.load(std::memory_order_relaxed);
        if (at == in_.load(std::memory_order_acquire)) { return false; }
        b = all_[at % all_.size()];
        out_.store(at + 1, std::memory_order_release);
        return true;
    }

private:
    std::vector<Block> all_;
    alignas(64) std::atomic<std::size_t> in_{0};
    alignas(64) std::atomic<std::size_t> out_{0};
};

/// Each thread frees the blocks that the previous thread allocated, on the stream of their
/// allocation.
template <class Memory>
class hander {
public:
    struct block {
        void*         p     = nullptr;
        std::uint32_t bytes = 0;
        std::uint32_t taker = 0;
    };
    using box = mailbox<block>;

    hander(Memory& memory, pool_case const& c, unsigned me, box& from, box& to)
        : memory_{memory},
          draws_{draw(c, me + 1)},
          me_{me},
          patience_{std::thread::hardware_concurrency() < c.threads ? 0U : 4096U},
          from_{from},
          to_{to} {
        for (unsigned i = 0; i < c.threads; ++i) { streams_.push_back(memory.stream_at(i)); }
    }
    hander(hander&&) = delete;
    ~hander() {
        while (empty_one()) {}
    }

    void fill() {}
    void run() {
        for (std::size_t i = 0; i < batch; ++i) {
            std::uint32_t const bytes = draws_[at_++ % draws_.size()].bytes;
            block const         made{memory_.allocate(streams_[me_], bytes), bytes, me_};
            keep(made.p);
            for (unsigned tries = 0; !to_.put(made); ++tries) {
                // The receiving thread has done enough.
                if (!empty_one() && tries >= patience_) {
                    give(made);
                    break;
                }
            }
            (void)empty_one();
        }
    }

private:
    bool empty_one() {
        block b;
        if (!from_.take(b)) { return false; }
        give(b);
        return true;
    }
    void give(block const& b) { memory_.deallocate(streams_[b.taker], b.p, b.bytes); }

    Memory&                              memory_;
    std::vector<replacement>             draws_;
    std::vector<typename Memory::stream> streams_;
    unsigned                             me_;
    unsigned                             patience_; ///< 0 if threads have no core each
    box&                                 from_;
    box&                                 to_;
    std::size_t                          at_ = 0;
};

/// Runs several threads concurrently, each with the result of `make(thread)` and on its own core if
/// there are enough. Returns the time of one thread per pair. If the threads are independent and
/// have a core each, also returns their combined speed relative to one thread alone on the same
/// core, measured alternately while the others sleep, because cores differ in speed by up to a
/// factor of two, and over time.
template <class Make>
figures in_threads(pool_case const& c, nanoseconds turn, Make const& make) {
    unsigned const                  n     = c.threads;
    std::vector<int> const          cores = quiet_core::here().quietest(n);
    std::barrier<>                  gate{static_cast<std::ptrdiff_t>(n)};
    std::vector<double>             together(n); // pairs per ns
    std::vector<double>             alone(n);
    std::vector<std::exception_ptr> trouble(n);
    bool const                      compare = n > 1 && !c.handed && !cores.empty();
    // Each between two measurements one by one.
    int const  rounds = compare ? 4 : 1;
    auto const work   = [&](unsigned me) {
        try {
            if (!cores.empty()) { (void)quiet_core::stay_on(cores[me]); }
            auto blocks = make(me);
            blocks.fill();
            auto const rate = [&](nanoseconds time) {
                return 1 / ns_per_operation(time, batch, [&] { blocks.run(); });
            };
            auto const one_by_one = [&] {
                for (unsigned who = 0; compare && who != n; ++who) {
                    gate.arrive_and_wait();
                    if (who == me) { alone[me] += rate(turn / (4 * rounds)) / (rounds + 1); }
                }
                gate.arrive_and_wait();
            };
            (void)rate(turn);
            for (int i = 0; i != rounds; ++i) {
                one_by_one();
                together[me] += rate(turn / rounds) / rounds;
            }
            // So that no thread frees everything while another is measured.
            one_by_one();
        } catch (...) {
            trouble[me] = std::current_exception();
            gate.arrive_and_drop(); // releases the other threads
        }
    };
    {
        std::vector<std::jthread> threads;
        for (unsigned i = 0; i < n; ++i) { threads.emplace_back(work, i); }
    }
    for (std::exception_ptr const& t : trouble) {
        if (t) { std::rethrow_exception(t); }
    }
    double const sum = std::reduce(together.begin(), together.end());
    figures      out{{"ns_per_op", n / sum, "ns"}};
    if (compare) {
        double const one = std::reduce(alone.begin(), alone.end()) / n;
        out.push_back({"times_one_thread", sum / one, "ratio"});
    }
    return out;
}
/// Each thread replaces its own blocks on its own stream, from one memory or, with `apart`, from
/// its own memory; with `handed`, each frees the blocks of another.
template <class Memory>
figures churn_in_threads(pool_case const& c, nanoseconds turn) {
    std::deque<Memory> memories;
    for (unsigned i = 0; i < (c.apart ? c.threads : 1); ++i) {
        memories.emplace_back(set_up{.streams = c.threads});
    }
    if (!c.handed) {
        return in_threads(c, turn, [&](unsigned me) {
            return churner<Memory>{memories[c.apart ? me : 0], c, me + 1, me};
        });
    }
    std::deque<typename hander<Memory>::box> boxes;
    for (unsigned i = 0; i < c.threads; ++i) { boxes.emplace_back(c.live); }
    return in_threads(c, turn, [&](unsigned me) {
        return hander<Memory>{memories[0], c, me, boxes[me], boxes[(me + 1) % c.threads]};
    });
}

/// Repeats a tape of `count` operations that was played before, for the given nanoseconds on a
/// quiet core; returns nanoseconds per operation. `already` is the time per operation of the last
/// play, which counts as well if it is not 0.
template <class Memory>
double ns_of_plays(player<Memory>& tape, double count, double long_enough, double already = 0) {
    return quiet_core::here().quietly([&] {
        double sum   = already;
        double plays = already > 0 ? 1 : 0;
        do {
            tape.give_back();
            sum += tape.play();
            ++plays;
        } while (sum * count < long_enough);
        return sum / plays;
    });
}

/// Plays a tape until the turn is over.
template <class Memory>
figures play(pool_case const& c, nanoseconds turn) {
    Memory memory{{.streams = c.script.streams}};
    player tape{c.script, memory};
    tape.play(); // warm-up, not counted
    auto const   count = static_cast<double>(c.script.operations.size());
    double const ns    = ns_of_plays(tape, count, static_cast<double>(turn.count()));
    return {{"ns_per_op", ns, "ns"}, {"us_per_run", ns * count / 1000, "us"}};
}

/// Replaces blocks on several streams in turn, while the streams are kept busy if possible. A wait
/// is then caused by the allocator.
template <class Memory>
figures rotate(pool_case const& c, nanoseconds turn) {
    Memory          memory{{.streams = c.streams, .ample = c.ample}};
    churner<Memory> blocks{memory, c, 1};
    blocks.fill();
    std::size_t count   = 0;
    auto const  replace = [&] {
        blocks.run();
        count += batch;
    };
    (void)ns_per_operation(turn, batch, replace);
    count = 0;
    if constexpr (requires { memory.occupy(turn); }) { memory.occupy(turn * 4); }
    vram::memory_usage before{};
    if constexpr (measured<Memory>) { before = memory.usage(); }
    figures out{{"ns_per_op", ns_per_operation(turn, batch, replace), "ns"}};
    if constexpr (requires { memory.release(); }) { memory.release(); }
    if constexpr (counting<Memory>) {
        vram::memory_usage const after = memory.usage();
        double const             frees = static_cast<double>(count);
        auto const               per   = [&](char const* metric, std::uint64_t n) {
            out.push_back({metric, static_cast<double>(n) / frees, "ratio"});
        };
        per("waits_per_free", after.waits - before.waits);
        per("events_per_free", after.events - before.events);
    }
    return out;
}

/// Allocates as many blocks as there are from an empty memory: growth.
template <class Memory>
figures fill(pool_case const& c, nanoseconds turn) {
    double spent = 0;
    double runs  = 0;
    do {
        Memory          memory{{.streams = 1, .room = c.live * c.most}};
        churner<Memory> blocks{memory, c, 1};
        auto const      start = clock::now();
        blocks.fill();
        spent += ns_since(start);
        ++runs;
    } while (spent < static_cast<double>(turn.count()));
    return {{"ns_per_op", spent / runs / c.live, "ns"}};
}

/// Runs the workload of the case. `Busy` is the memory with streams that are never done.
template <class Memory, class Busy = Memory>
figures run(pool_case const& c, nanoseconds turn) {
    using shape = pool_case::shape;
    switch (c.what) {
    case shape::hot: return hot<Memory>(c, turn);
    case shape::churn: return churn<Memory>(c, turn);
    case shape::threads: return churn_in_threads<Memory>(c, turn);
    case shape::tape: return play<Memory>(c, turn);
    case shape::rotate: return rotate<Busy>(c, turn);
    case shape::fill: return fill<Memory>(c, turn);
    }
    return {};
}

/// Replays a trace on an empty memory (cold), and on the memory after that (warm) repeatedly for 50
/// ms, because programs repeat themselves, and a short trace ends before the processor has warmed
/// up. The reserved bytes are those of the first two replays.
template <class Memory, bool Span>
figures replay(tape const& t) {
    static constexpr double long_enough = 50e6; // ns
    Memory                  memory{{.streams = t.streams, .room = t.peak_live}};
    player                  tape{t, memory};
    double const            cold = tape.play();
    tape.give_back();
    double const second = tape.play();
    figures      out{{"ns_per_op_cold", cold, "ns"}, {"ns_per_op_second", second, "ns"}};
    auto const   live = static_cast<double>(t.peak_live);
    out.push_back({"peak_live", live, "bytes"});
    if constexpr (measured<Memory>) {
        vram::memory_usage const now  = memory.usage();
        auto const               held = static_cast<double>(now.peak_reserved);
        out.push_back({"peak_reserved", held, "bytes"});
        if (live > 0) { out.push_back({"reserved_over_live", held / live, "ratio"}); }
        if constexpr (counting<Memory>) {
            out.push_back({"waits", static_cast<double>(now.waits), "count"});
            out.push_back({"events", static_cast<double>(now.events), "count"});
            out.push_back({"upstream_calls", static_cast<double>(now.upstream), "count"});
        }
    }
    auto const   operations = static_cast<double>(t.operations.size());
    bool const   is_long    = second * operations >= long_enough;
    double const warm       = is_long ? second : ns_of_plays(tape, operations, long_enough, second);
    out.push_back({"ns_per_op", warm, "ns"});
    if constexpr (measured<Memory> && requires { memory.trim(); }) {
        auto const left = [&] { return static_cast<double>(memory.usage().reserved); };
        memory.trim();
        if constexpr (requires { memory.releasable(); }) {
            auto const idle = static_cast<double>(memory.releasable());
            out.push_back({"releasable_after_trim", idle, "bytes"});
        }
        double const held       = left();
        double const out_at_end = static_cast<double>(tape.give_back());
        if (out_at_end > 0) { out.push_back({"trimmed_over_live", held / out_at_end, "ratio"}); }
        memory.trim();
        out.push_back({"left_after_trim", left(), "bytes"});
    }
    tape.give_back();
    if constexpr (Span) {
        auto const span = static_cast<double>(tape.span());
        out.push_back({"peak_reserved", span, "bytes"});
        if (live > 0) { out.push_back({"reserved_over_live", span / live, "ratio"}); }
    }
    return out;
}

/// Creates a subject with its workloads.
template <class Memory, class Busy = Memory, bool Span = false>
subject make_subject(std::string name, std::string about, role is, traits can = {}) {
    return {std::move(name), std::move(about), is, can, run<Memory, Busy>, replay<Memory, Span>};
}

} // namespace bench
