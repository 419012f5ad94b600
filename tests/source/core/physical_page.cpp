// SPDX-License-Identifier: Apache-2.0
#include <vram/source/core/physical_page.hpp> // first: the header stands alone

#include "../../doubles/small_pages.hpp"

#include <vram/base/out_of_memory.hpp>
#include <vram/sim/machine/sim_virtual_memory.hpp>

using namespace vram;
using namespace vram::detail;
using doubles::small_page;

template class vram::detail::physical_page<sim_virtual_memory>;

TEST_CASE("physical_page: it owns memory, moves, and frees it") {
    sim_node                 node{doubles::small_pages()};
    sim_virtual_memory const memory;
    {
        physical_page first{memory, 2 * small_page};
        CHECK(first.bytes() == 2 * small_page);
        CHECK(node.figures().used == 2 * small_page);
        auto const    h = first.get();
        physical_page second{std::move(first)};
        CHECK(second.get() == h);
        physical_page third{memory, small_page};
        third = std::move(second);
        CHECK(third.get() == h);
        CHECK(node.figures().used == 3 * small_page); // until the other object is destroyed
        CHECK(third.release() == h);
        physical_page const again{memory, h, 2 * small_page};
    }
    CHECK(node.figures().used == 0);
    node.faults().at(sim_call_kind::create, 1);
    CHECK_THROWS_AS((physical_page{memory, small_page}), out_of_memory);
}
