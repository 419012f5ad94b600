// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// All pools of vram that the benchmarks compare, for every platform.

#include "../support/workloads.hpp" // make_subject
#include "stack_memory.hpp"         // stack_memory

#include <vram/layer/locked.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>

#include <cstddef> // size_t
#include <tuple>   // tuple
#include <utility> // index_sequence
#include <vector>

namespace bench {

/// A stack, its role in the bars, and the workloads that it supports. Any type with these members
/// is an entry; two stacks of one type with different options are two structs with their own names.
template <class Stack, role Role = role::other, traits Can = traits{}>
struct entry {
    using memory                = stack_memory<Stack>;
    static constexpr role   is  = Role;
    static constexpr traits can = Can;
    static std::string      name() { return type_name<Stack>(); }
};

/// The ways in which a pool over virtual memory may use free pages.
enum class free_pages {
    /// They get second addresses before reserved bytes exceed the peak of live bytes by 7 %.
    shared,
    moved, ///< they are remapped for a request before the pool grows
};

/// A pool over virtual memory with that mode.
template <class Virtual, free_pages Pages>
struct paged {
    static constexpr bool moves = Pages == free_pages::moved;

    struct pool : vram::pool<Virtual> {
        explicit pool(vram::pool_options o) : vram::pool<Virtual>{with_pages(o)} {}
        pool() : pool{vram::pool_options{}} {}

        static vram::pool_options with_pages(vram::pool_options o) {
            if (moves) {
                o.remap = true;
            } else {
                o.slack = 0.07;
            }
            return o;
        }
    };
    using memory                = stack_memory<pool>;
    static constexpr role   is  = moves ? role::tight : role::fast;
    static constexpr traits can = {};
    static std::string      name() {
        return "pool<" + type_name<Virtual>() + (moves ? ">(remap)" : ">(slack)");
    }
};

/// For resources with blocks of one size, or that free all blocks together.
inline constexpr traits in_pairs{.pairs = true};

/// A `monotonic` that is reset after each pair. Otherwise it would need new memory for every block.
template <class Upstream>
struct steps_of_one_block : vram::monotonic<Upstream> {
    using vram::monotonic<Upstream>::monotonic;

    void deallocate(typename vram::monotonic<Upstream>::stream s, void* p, std::size_t bytes) {
        vram::monotonic<Upstream>::deallocate(s, p, bytes);
        this->reset(s);
    }
};
template <class Upstream>
struct monotonic_in_pairs {
    using memory                = stack_memory<steps_of_one_block<Upstream>>;
    static constexpr role   is  = role::other;
    static constexpr traits can = in_pairs;
    static std::string      name() { return type_name<vram::monotonic<Upstream>>(); }
};

/// The pools over a source of memory, and over one of virtual memory. Add a new pool here.
template <class Source, class Virtual>
using stacks = std::tuple< //
    entry<vram::pool<vram::stream_ordered<Source>>, role::plain>, entry<vram::pool<Virtual>>,
    paged<Virtual, free_pages::shared>, paged<Virtual, free_pages::moved>,
    entry<vram::arena<vram::pool<vram::stream_ordered<Source>>>, role::threads>,
    entry<vram::locked<vram::pool<vram::stream_ordered<Source>>>>,
    entry<vram::binned<vram::pool<vram::stream_ordered<Source>>>>,
    entry<vram::slab<vram::stream_ordered<Source>>, role::other, in_pairs>,
    monotonic_in_pairs<vram::stream_ordered<Source>>>;

/// Adds every entry of `List`. `Busy` has the same entries over streams that are always busy.
template <class List, class Busy = List>
void add_stacks(std::vector<subject>& to, std::string const& about) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        auto const add = [&]<class Entry, class Same>(Entry, Same) {
            std::string const what =
                Entry::can.pairs ? "; the hot pairs alone, block by block" : "";
            using memory = typename Entry::memory;
            // An entry with few workloads is compiled for these only.
            if constexpr (Entry::can.pairs) {
                to.push_back({Entry::name(), about + what, Entry::is, Entry::can, hot<memory>,
                              [](tape const&) { return figures{}; }});
            } else if constexpr (Entry::can.growth) {
                to.push_back({Entry::name(), about + what, Entry::is, Entry::can, fill<memory>,
                              replay<memory, false>});
            } else {
                to.push_back(make_subject<memory, typename Same::memory>(
                    Entry::name(), about + what, Entry::is, Entry::can));
            }
        };
        (add(std::tuple_element_t<I, List>{}, std::tuple_element_t<I, Busy>{}), ...);
    }(std::make_index_sequence<std::tuple_size_v<List>>{});
}

} // namespace bench
