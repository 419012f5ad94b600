// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `balance_facts` compares the live blocks at the start and the end of a scope.

#include <vram/probe/core/owner_lists.hpp> // owner_lists, owner_source, may_have_owners
#include <vram/probe/core/site_marks.hpp>
#include <vram/probe/core/text_of_site.hpp> // text_of_size, text_of_owner, text_of_site
#include <vram/probe/tracked_block.hpp>     // tracked_block, tracked_order

#include <algorithm> // sort, set_difference
#include <cstddef>
#include <cstdint>
#include <functional> // less
#include <iterator>   // back_inserter
#include <string>     // string, to_string
#include <vector>     // vector

namespace vram {
namespace detail {

/// Stores the blocks of a stack that are live at the start of a scope, for all threads. At the end,
/// `VRAM_CHECK_BALANCED` compares them with the live blocks. The stack must outlive the object.
template <class R>
class balance_facts {
    static_assert(may_have_owners<R>(),
                  "VRAM_CHECK_BALANCED needs the layer tracking in the stack, which knows the "
                  "stream of each block: write tracking<pool<...>>");

public:
    explicit balance_facts(R const& memory) : owners_{memory}, before_{sorted()}, sites_{memory} {}
    explicit balance_facts(R const&&) = delete;

    /// Returns an empty text if the same blocks are live as when this object was made, and each
    /// free was on the stream of the allocation. Otherwise returns a message.
    [[nodiscard]] std::string unbalanced() const {
        if (owners_.lists() == nullptr) { return "the checked resource has no layer tracking"; }
        list const now = sorted();
        if (list const kept = without(now, before_); !kept.empty()) {
            return "the checked code does not free " + text_of(kept, "it allocates");
        }
        if (list const gone = without(before_, now); !gone.empty()) {
            return "the checked code frees " + text_of(gone, "it does not allocate");
        }
        std::uint64_t const found = sites_.crossed();
        if (found == 0) { return {}; }
        return "the checked code frees " + std::to_string(found) +
               (found == 1 ? " block" : " blocks") +
               " on another stream than that of the allocation:" +
               sites_.risen(site_figure::crossed);
    }

private:
    using list = std::vector<tracked_block>;

    /// The order of the sorted lists: true if `a` comes before `b`, by address and, for equal
    /// addresses, by time of allocation.
    struct earlier {
        bool operator()(tracked_block const& a, tracked_block const& b) const noexcept {
            if (a.memory != b.memory) { return std::less<>{}(a.memory, b.memory); }
            return a.ticks < b.ticks;
        }
    };
    [[nodiscard]] list sorted() const {
        list                     blocks;
        owner_lists const* const lists = owners_.lists();
        if (lists != nullptr) { blocks = lists->blocks(tracked_order::oldest_first); }
        std::sort(blocks.begin(), blocks.end(), earlier{});
        return blocks;
    }
    /// Returns the blocks of `all` that are not in `others`.
    [[nodiscard]] static list without(list const& all, list const& others) {
        list rest;
        std::set_difference(all.begin(), all.end(), others.begin(), others.end(),
                            std::back_inserter(rest), earlier{});
        return rest;
    }
    /// Returns the number and size of the blocks as text, and a line for each of the first five.
    [[nodiscard]] static std::string text_of(list const& blocks, char const* which) {
        std::size_t sum = 0;
        for (tracked_block const& each : blocks) { sum += each.bytes; }
        std::string out = std::to_string(blocks.size()) +
                          (blocks.size() == 1 ? " block that " : " blocks that ") + which + ", " +
                          text_of_size(sum) + ":";
        unsigned lines = 0;
        for (tracked_block const& each : blocks) {
            if (++lines > 5) { return out + "\n  ..."; }
            out += "\n  " + text_of_size(each.bytes) + text_of_owner(each.owner) +
                   text_of_site(" allocated at ", each.at);
        }
        return out;
    }

    owner_source owners_;
    list         before_;
    site_marks<> sites_;
};

} // namespace detail
} // namespace vram
