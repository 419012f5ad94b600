// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `subject` is one allocator among those that a benchmark compares, with its workloads compiled
/// for it: inside them, what is called is called as its users call it.

#include "tape.hpp"   // tape
#include "timing.hpp" // nanoseconds

#include <cstddef> // size_t
#include <functional>
#include <string>
#include <vector>

namespace bench {

/// What a subject is in the comparison, and so which bars are meant for it.
enum class role {
    plain,    ///< a pool that grows through plain allocations
    fast,     ///< a pool that grows in place, and unmaps nothing
    tight,    ///< a pool that remaps
    threads,  ///< one that many threads use at once
    other,    ///< another stack of vram
    peer,     ///< another GPU allocator
    host,     ///< an allocator of host memory, for scale
    yardstick ///< nothing at all: what the loop itself costs
};

/// What a subject can take part in.
struct traits {
    bool slow    = false; ///< tens of microseconds a call: the long workloads are left out
    bool threads = true;  ///< may be used from several at once
    bool any_stream =
        true;            ///< a block may be freed on a stream that knows nothing of its allocation
    bool replay = false; ///< only its footprint says anything: traces alone
    bool pairs  = false; ///< one block at a time, always of one size: the hot pairs alone
    bool growth = false; ///< is known by another name but for how it grows: filling, and traces
};

/// What a memory is made for.
struct set_up {
    unsigned    streams = 1;
    std::size_t ample   = 0; ///< bytes to hold from the start, where the subject can be told
    std::size_t room    = 0; ///< bytes that will be out at most, for those that never grow
    std::size_t block   = 0; ///< the size of every block, where they are of one size
};

/// One number that a turn gave.
struct figure {
    std::string metric;
    double      value;
    std::string unit;
};
using figures = std::vector<figure>;

/// One workload of the pool benchmark.
struct pool_case {
    enum class shape { hot, churn, threads, tape, rotate, fill };

    std::string name;
    std::string about;
    shape       what    = shape::hot;
    std::size_t least   = 0; ///< bytes of a block, drawn with equal weight on every doubling
    std::size_t most    = 0;
    unsigned    live    = 1; ///< blocks out at a time, for each thread
    unsigned    threads = 1;
    unsigned    streams = 1;
    std::size_t ample   = 0;
    bool        handed  = false; ///< a block, used by nobody, is freed on the stream after its own,
                                 ///< or by the thread after
    bool apart  = false;         ///< each thread has a memory of its own
    tape script = {};
};

struct subject {
    std::string name; ///< the stack as its user writes it, or the peer's name
    std::string about;
    role        is = role::other;
    traits      can{};

    std::function<figures(pool_case const&, nanoseconds turn)> pool;
    std::function<figures(tape const&)>                        replay;
};

/// Whether the subject can do the workload, and is not kept from it by its price.
inline bool suits(subject const& s, pool_case const& c) {
    using shape = pool_case::shape;
    if (s.can.slow && (c.live > 1000 || c.what == shape::tape || c.what == shape::rotate ||
                       c.what == shape::fill)) {
        return false;
    }
    if (s.can.replay || (s.can.pairs && c.what != shape::hot)) { return false; }
    if (s.can.growth && c.what != shape::fill) { return false; }
    if (c.apart && s.is != role::plain) { return false; } // what others are held against
    bool const other_stream = c.handed && c.what == shape::rotate;
    return (c.threads == 1 || s.can.threads) && (!other_stream || s.can.any_stream);
}
inline bool suits(subject const& s, tape const& t) {
    return !s.can.pairs && (!s.can.slow || t.operations.size() <= 10'000);
}

/// Whether a turn is one thread's, and says nothing of how threads add up.
inline bool on_one_core(pool_case const& c) { return c.what != pool_case::shape::threads; }
inline bool on_one_core(tape const&) { return true; }

} // namespace bench
