// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Every pool of vram that the benchmarks compare, once for all platforms.

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

/// A stack, which bars it must reach, and what it can take part in. Whatever has these members is
/// an entry as well: two stacks of one type that differ in an option have a struct each, with a
/// name of its own.
template <class Stack, role Role = role::other, traits Can = traits{}>
struct entry {
    using memory                = stack_memory<Stack>;
    static constexpr role   is  = Role;
    static constexpr traits can = Can;
    static std::string      name() { return type_name<Stack>(); }
};

/// What a pool over virtual memory may do with free pages.
enum class free_pages {
    shared, ///< they get second addresses before more than 7 % above the peak is held
    moved,  ///< they are moved under a request before more is taken
};

/// A pool over virtual memory that does so.
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

/// For what is made for blocks of one size, or for blocks that all come back before the next is
/// taken: `monotonic` starts again then, and else would take new memory for every block.
inline constexpr traits in_pairs{.pairs = true};

/// The pools over a source of memory, and over one of virtual memory. A new one is a line here.
template <class Source, class Virtual>
using stacks = std::tuple< //
    entry<vram::pool<vram::stream_ordered<Source>>, role::plain>, entry<vram::pool<Virtual>>,
    paged<Virtual, free_pages::shared>, paged<Virtual, free_pages::moved>,
    entry<vram::arena<vram::pool<vram::stream_ordered<Source>>>, role::threads>,
    entry<vram::locked<vram::pool<vram::stream_ordered<Source>>>>,
    entry<vram::binned<vram::pool<vram::stream_ordered<Source>>>>,
    entry<vram::slab<vram::stream_ordered<Source>>, role::other, in_pairs>,
    entry<vram::monotonic<vram::stream_ordered<Source>>, role::other, in_pairs>>;

/// Adds every entry of `List`. `Busy` lists the same over streams that are never done.
template <class List, class Busy = List>
void add_stacks(std::vector<subject>& to, std::string const& about) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
        auto const add = [&]<class Entry, class Same>(Entry, Same) {
            std::string const what =
                Entry::can.pairs ? "; the hot pairs alone, block by block" : "";
            using memory = typename Entry::memory;
            // What takes part in little is compiled for no more.
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
