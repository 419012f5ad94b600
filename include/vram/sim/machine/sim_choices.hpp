// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_choices` selects the thread that runs next, and records the selections.

#include <vram/sim/sim_options.hpp> // sim_order

#include <cstddef>
#include <cstdint>
#include <vector> // vector

namespace vram {
namespace detail {

/// A random number generator, splitmix64 (Steele, Lea, Flood 2014). Its numbers are the same on all
/// machines.
class sim_random {
public:
    explicit sim_random(std::uint64_t seed) noexcept : state_{seed} {}

    std::uint64_t operator()() noexcept {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z               = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z               = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31U);
    }
    /// Returns a random number less than `n`, which must not be 0.
    std::uint64_t below(std::uint64_t n) noexcept { return (*this)() % n; }

private:
    std::uint64_t state_;
};

/// The decisions of one simulated run about which of several threads runs next. The first decisions
/// follow `script`, a list of indices. With `sim_order::by_seed`, later decisions are random. With
/// other orders, later decisions select the first thread. An index that is too large is taken
/// modulo the number of threads; `sim_explore` refuses a replay in which that happened.
class sim_choices {
public:
    /// One decision: the index of the selected candidate, and the number of candidates.
    struct choice {
        unsigned taken;
        unsigned among;
    };

    sim_choices(sim_order order, std::uint64_t seed, std::vector<unsigned> script)
        : random_{seed}, script_{static_cast<std::vector<unsigned>&&>(script)}, order_{order} {}

    /// Selects one of `among` candidates (at least 1) and returns its index. A decision with one
    /// candidate is not recorded.
    unsigned choose(unsigned among) {
        if (among < 2) { return 0; }
        unsigned taken = 0;
        if (taken_.size() < script_.size()) {
            taken = script_[taken_.size()] % among;
        } else if (order_ == sim_order::by_seed) {
            taken = static_cast<unsigned>(random_.below(among));
        }
        taken_.push_back({taken, among});
        return taken;
    }

    [[nodiscard]] std::vector<choice> const& taken() const noexcept { return taken_; }

private:
    sim_random            random_;
    std::vector<unsigned> script_;
    std::vector<choice>   taken_;
    sim_order             order_;
};

} // namespace detail
} // namespace vram
