// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tape` is a sequence of allocations and frees with precomputed parameters.

#include "timing.hpp"

#include <algorithm> // max, min
#include <cstddef>   // size_t
#include <cstdint>   // uint32_t, uint64_t, uintptr_t
#include <random>    // mt19937_64
#include <string>
#include <utility> // move, swap
#include <vector>

namespace bench {

/// One operation in 16 bytes: a cache line has four of them.
struct operation {
    std::uint64_t bytes;
    std::uint32_t slot;
    std::uint32_t where; ///< twice the stream, plus one for a free

    [[nodiscard]] bool          frees() const { return (where & 1U) != 0; }
    [[nodiscard]] std::uint32_t stream() const { return where >> 1U; }
};

struct tape {
    std::string            name;
    std::vector<operation> operations;
    std::uint32_t          slots     = 0; ///< largest number of live blocks
    unsigned               streams   = 1;
    std::size_t            peak_live = 0; ///< largest number of live bytes, as requested
};

/// Returns a tape like RMM's benchmark random_allocations: `count` allocations of 1 byte to
/// `largest`. Each step is an allocation (73 in 100, while the live bytes are below `room`) or the
/// free of a random block.
inline tape random_tape(std::string name, std::size_t count, std::size_t largest,
                        std::size_t room) {
    struct block {
        std::uint64_t bytes;
        std::uint32_t slot;
    };
    tape                       out{std::move(name), {}, 0, 1, 0};
    std::mt19937_64            random{1};
    std::vector<block>         live;
    std::vector<std::uint32_t> idle;
    std::size_t                made = 0;
    std::size_t                held = 0;
    for (std::size_t step = 0; step < 2 * count; ++step) {
        std::uint64_t const bytes = random() % largest + 1;
        bool const          takes =
            live.empty() || (random() % 100 < 73 && made < count && held + bytes < room);
        if (takes) {
            if (made == count) { break; }
            if (idle.empty()) { idle.push_back(out.slots++); }
            live.push_back({bytes, idle.back()});
            idle.pop_back();
            out.operations.push_back({bytes, live.back().slot, 0});
            ++made;
            held += bytes;
            out.peak_live = std::max(out.peak_live, held);
        } else {
            std::swap(live[random() % live.size()], live.back());
            out.operations.push_back({live.back().bytes, live.back().slot, 1});
            idle.push_back(live.back().slot);
            held -= live.back().bytes;
            live.pop_back();
        }
    }
    return out;
}

/// Plays a tape on a memory. Call `give_back` before playing again; the destructor frees the rest.
template <class Memory>
class player {
public:
    player(tape const& t, Memory& memory) : tape_{t}, memory_{memory}, blocks_(t.slots) {
        for (unsigned i = 0; i < t.streams; ++i) { streams_.push_back(memory.stream_at(i)); }
    }
    player(player&&) = delete;
    ~player() { give_back(); }

    /// Plays every operation once; returns nanoseconds per operation.
    double play() {
        auto const start = clock::now();
        for_each([](void* p, std::size_t) { keep(p); });
        return ns_since(start) / static_cast<double>(tape_.operations.size());
    }

    /// Plays every operation once without timing. Returns the distance from the lowest address to
    /// the end of the highest block.
    std::size_t span() {
        std::uintptr_t low  = ~std::uintptr_t{0};
        std::uintptr_t high = 0;
        for_each([&](void* p, std::size_t bytes) {
            auto const at = reinterpret_cast<std::uintptr_t>(p);
            low           = std::min(low, at);
            high          = std::max(high, at + bytes);
        });
        return high - low;
    }

    /// Frees the live blocks, and returns their number of bytes.
    std::size_t give_back() noexcept {
        std::vector<operation const*> last(tape_.slots); // last operation of each slot
        for (operation const* o = begin(); o != reached_; ++o) { last[o->slot] = o; }
        std::size_t bytes = 0;
        for (operation const* o : last) {
            if (o == nullptr || o->frees()) { continue; }
            memory_.deallocate(streams_[o->stream()], blocks_[o->slot], o->bytes);
            bytes += o->bytes;
        }
        reached_ = begin();
        return bytes;
    }

private:
    [[nodiscard]] operation const* begin() const { return tape_.operations.data(); }

    template <class Look>
    void for_each(Look look) {
        operation const*       o   = begin();
        operation const* const end = o + tape_.operations.size();
        try {
            for (; o != end; ++o) {
                if (o->frees()) {
                    memory_.deallocate(streams_[o->stream()], blocks_[o->slot], o->bytes);
                } else {
                    void* const p = memory_.allocate(streams_[o->stream()], o->bytes);
                    look(p, o->bytes);
                    blocks_[o->slot] = p;
                }
            }
        } catch (...) {
            reached_ = o;
            throw;
        }
        reached_ = o;
    }

    tape const&                          tape_;
    Memory&                              memory_;
    std::vector<typename Memory::stream> streams_;
    std::vector<void*>                   blocks_;
    operation const*                     reached_ = begin();
};

} // namespace bench
