// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `subject` is one allocator of a comparison, with its workloads compiled for it, so that calls
/// are as direct as in a program.

#include "tape.hpp"   // tape
#include "timing.hpp" // nanoseconds

#include <cstddef> // size_t
#include <functional>
#include <string>
#include <vector>

namespace bench {

/// The role of a subject, which selects its bars.
enum class role {
    plain,    ///< a pool that grows through plain allocations
    fast,     ///< a pool that grows in place, and unmaps nothing
    tight,    ///< a pool that remaps
    threads,  ///< a pool for concurrent threads
    other,    ///< another stack of vram
    peer,     ///< another GPU allocator
    host,     ///< an allocator of host memory, for scale
    yardstick ///< no allocator: the cost of the loop itself
};

/// The workloads that a subject supports.
struct traits {
    bool slow    = false; ///< tens of microseconds per call: no long workloads
    bool threads = true;  ///< thread-safe
    bool any_stream =
        /// A block may be freed on a stream that is not ordered after its allocation.
        true;
    bool replay = false; ///< only its footprint is of interest: traces only
    bool pairs  = false; ///< one live block of one size at a time: hot pairs only
    bool growth = false; ///< known by another name, except for its growth: filling and traces only
};

/// The parameters for the construction of a memory.
struct set_up {
    unsigned    streams = 1;
    std::size_t ample   = 0; ///< bytes to reserve from the start, if the subject can
    std::size_t room    = 0; ///< largest number of live bytes, for subjects that never grow
    std::size_t block   = 0; ///< size of all blocks, if they have one size
};

/// One value of a turn.
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
    std::size_t least   = 0; ///< least bytes of a block; each doubling has equal weight
    std::size_t most    = 0;
    unsigned    live    = 1; ///< live blocks of each thread
    unsigned    threads = 1;
    unsigned    streams = 1;
    std::size_t ample   = 0;
    bool        handed  = false; ///< blocks are freed on the next stream, or by the next thread
    bool        apart   = false; ///< each thread has its own memory
    tape        script  = {};
};

struct subject {
    std::string name; ///< the stack as its user writes it, or the peer's name
    std::string about;
    role        is = role::other;
    traits      can{};

    std::function<figures(pool_case const&, nanoseconds turn)> pool;
    std::function<figures(tape const&)>                        replay;
};

/// Returns true if the subject supports the workload, and is fast enough for it.
inline bool suits(subject const& s, pool_case const& c) {
    using shape = pool_case::shape;
    if (s.can.slow && (c.live > 1000 || c.what == shape::tape || c.what == shape::rotate ||
                       c.what == shape::fill)) {
        return false;
    }
    if (s.can.replay || (s.can.pairs && c.what != shape::hot)) { return false; }
    if (s.can.growth && c.what != shape::fill) { return false; }
    if (c.apart && s.is != role::plain) { return false; } // reference of the others
    bool const other_stream = c.handed && c.what == shape::rotate;
    return (c.threads == 1 || s.can.threads) && (!other_stream || s.can.any_stream);
}
inline bool suits(subject const& s, tape const& t) {
    return !s.can.pairs && (!s.can.slow || t.operations.size() <= 10'000);
}

/// Returns true if a turn uses one thread, and does not compare numbers of threads.
inline bool on_one_core(pool_case const& c) { return c.what != pool_case::shape::threads; }
inline bool on_one_core(tape const&) { return true; }

} // namespace bench
