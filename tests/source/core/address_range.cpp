// SPDX-License-Identifier: Apache-2.0
#include <vram/source/core/address_range.hpp> // first: the header stands alone

#include "../../doubles/small_pages.hpp"

#include <vram/sim/machine/sim_virtual_memory.hpp>

using namespace vram;
using namespace vram::detail;
using doubles::small_page;

template class vram::detail::address_range<sim_virtual_memory>;

TEST_CASE("address_range: it reserves, finds addresses, moves, and releases") {
    sim_node node{doubles::small_pages()};
    {
        address_range first{sim_virtual_memory{}, 4 * small_page, 4 * small_page};
        auto* const   base = static_cast<std::byte*>(first.base());
        CHECK(is_aligned(base, 4 * small_page));
        CHECK(first.bytes() == 4 * small_page);
        CHECK(first.holds(base));
        CHECK(first.holds(base + 4 * small_page - 1));
        CHECK_FALSE(first.holds(base + 4 * small_page));
        CHECK_FALSE(first.holds(nullptr));
        address_range second{std::move(first)};
        CHECK(second.base() == base);
        CHECK(first.bytes() == 0);
        address_range third{sim_virtual_memory{}, small_page, small_page};
        third = std::move(second);
        CHECK(third.base() == base);
        CHECK(third.memory() == sim_virtual_memory{});
    }
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE("address_range: a refusal is thrown") {
    sim_node node{doubles::small_pages()};
    node.faults().at(sim_call_kind::reserve, 1);
    CHECK_THROWS_AS((address_range{sim_virtual_memory{}, small_page, small_page}), sim_error);
}
