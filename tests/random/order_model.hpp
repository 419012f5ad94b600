// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `order_model` is a model of the happens-before order that shares no code with the simulator.

#include <vram/sim/sim_range.hpp>  // sim_access
#include <vram/sim/sim_report.hpp> // sim_mistake, name

#include <array>   // array
#include <bitset>  // bitset
#include <cstddef> // size_t
#include <cstdint> // uint32_t
#include <string>  // string

namespace trial {

/// The largest number of operations of a program.
inline constexpr std::size_t most_operations = 768;

/// A set of operations: all that happen before a point of the program.
using past = std::bitset<most_operations>;

/// A set of kinds of mistakes: the verdict on one operation.
class verdict {
public:
    verdict() = default;
    verdict(vram::sim_mistake kind) : kinds_{1U << static_cast<unsigned>(kind)} {}

    verdict& operator|=(verdict other) {
        kinds_ |= other.kinds_;
        return *this;
    }
    [[nodiscard]] bool empty() const { return kinds_ == 0; }
    [[nodiscard]] bool has(vram::sim_mistake kind) const {
        return (kinds_ & verdict{kind}.kinds_) != 0;
    }

    /// Returns true if a checker that found `found` agrees with this verdict. Of a race and a use
    /// before the allocation is complete it may report one: it compares with the last operation.
    [[nodiscard]] bool agrees(verdict found) const {
        verdict order = vram::sim_mistake::race;
        order |= vram::sim_mistake::use_before_ready;
        std::uint32_t const mine = kinds_ & order.kinds_, its = found.kinds_ & order.kinds_;
        return (kinds_ & ~order.kinds_) == (found.kinds_ & ~order.kinds_) && (its & ~mine) == 0 &&
               (its != 0) == (mine != 0);
    }

    /// Returns this verdict without races that are not expected. In a pool they may follow from an
    /// earlier mistake: two streams have the memory.
    [[nodiscard]] verdict without_consequences(verdict expected) const {
        verdict follow = vram::sim_mistake::race;
        follow |= vram::sim_mistake::use_before_ready;
        verdict rest = *this;
        if ((expected.kinds_ & follow.kinds_) == 0) { rest.kinds_ &= ~follow.kinds_; }
        return rest;
    }

    [[nodiscard]] std::string text() const {
        std::string all;
        for (unsigned i = 0; i < 32; ++i) {
            if ((kinds_ >> i & 1U) == 0) { continue; }
            all += (all.empty() ? "" : ", ");
            all += vram::name(static_cast<vram::sim_mistake>(i));
        }
        return all.empty() ? "no mistake" : all;
    }

    friend bool operator==(verdict, verdict) = default;

private:
    std::uint32_t kinds_ = 0;
};

/// Numbers the operations of a program.
class operations {
public:
    /// Adds an operation after all in `known`, which then contains it.
    std::size_t add(past& known) {
        known.set(count_);
        return count_++;
    }
    [[nodiscard]] bool room_for(std::size_t more) const { return count_ + more < most_operations; }

private:
    std::size_t count_ = 0;
};

/// The accesses to a block so far, in cells of 64 bytes. Of each cell the model keeps the last
/// write, and all reads and atomic accesses since then. If an earlier write is unordered with an access, then a write
/// after it was, or this access is.
class access_history {
public:
    static constexpr std::size_t cells = 8;

    /// Adds the allocation by the operation `op`.
    void allocate(std::size_t op) {
        for (std::size_t i = 0; i < cells; ++i) { all_[i] = {op, true, true, {}, {}}; }
    }
    /// Adds an access by `op`, after the operations in `known`, to the cells from `first` to `last`.
    verdict access(past const& known, std::size_t op, std::size_t first, std::size_t last,
                   vram::sim_access how) {
        verdict found;
        for (std::size_t i = first; i < last; ++i) {
            cell& c = all_[i];
            if (c.written && !known.test(c.write)) {
                found |= c.fresh ? vram::sim_mistake::use_before_ready : vram::sim_mistake::race;
            }
            if ((c.others_than(how) & ~known).any()) { found |= vram::sim_mistake::race; }
            switch (how) {
            case vram::sim_access::read: c.reads.set(op); break;
            case vram::sim_access::atomic: c.atomics.set(op); break;
            case vram::sim_access::write: c = {op, true, false, {}, {}}; break;
            }
        }
        return found;
    }
    /// Returns the verdict on a free of the block after the operations in `known`. If `uses_only`,
    /// it need not happen after the allocation.
    [[nodiscard]] verdict release(past const& known, bool uses_only = false) const {
        for (cell const& c : all_) {
            bool const written = c.written && !(uses_only && c.fresh) && !known.test(c.write);
            if (written || (c.others_than(vram::sim_access::write) & ~known).any()) {
                return vram::sim_mistake::free_before_last_use;
            }
        }
        return {};
    }
    /// Returns the operations outside `known` that must happen before an access.
    [[nodiscard]] past unordered(past const& known, std::size_t first, std::size_t last,
                                 vram::sim_access how) const {
        past all;
        for (std::size_t i = first; i < last; ++i) {
            if (all_[i].written) { all.set(all_[i].write); }
            all |= all_[i].others_than(how);
        }
        return all & ~known;
    }

private:
    struct cell {
        std::size_t write   = 0;     ///< the last write, or the allocation
        bool        written = false; ///< false for memory that was not allocated by the program
        bool        fresh   = false; ///< true if `write` is the allocation
        past        reads   = {};    ///< the reads since then
        past        atomics = {};    ///< the atomic accesses since then

        /// The accesses since the last write that conflict with one of the kind `how`.
        [[nodiscard]] past others_than(vram::sim_access how) const {
            return (how == vram::sim_access::read ? past{} : reads) |
                   (how == vram::sim_access::atomic ? past{} : atomics);
        }
    };
    std::array<cell, cells + 1> all_; ///< the last one is behind the block, for pageable memory
};

} // namespace trial
