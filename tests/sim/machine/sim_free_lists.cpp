// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_free_lists.hpp> // first: the header must stand alone

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

using namespace vram::detail;

TEST_CASE("sim_free_lists: ranges and keys are found within their list only") {
    using lists = sim_free_lists;
    lists all;
    CHECK(all.next_list(0) > 1000);
    all.stock(3, 3);
    all.add(1, 10, {.end = 20});
    all.add(1, 30, {.end = 35});
    all.add(7, 20, {.end = 30});
    CHECK(all.at(1, 10)->second.end == 20);
    CHECK(all.at(1, 20) == all.none());
    CHECK(all.from(1, 11)->first.second == 30);
    CHECK(all.from(1, 31) == all.none());
    CHECK(all.before(1, 30)->first.second == 10);
    CHECK(all.before(1, 10) == all.none());
    CHECK(all.before(7, 20) == all.none());
    CHECK(all.next_list(0) == 1);
    CHECK(all.next_list(2) == 7);
    CHECK(all.at(7, 20)->second.age > all.at(1, 30)->second.age);

    all.mark({lists::by_size, 1, 10, 1, 10});
    all.mark({lists::by_size, 1, 5, 2, 30});
    all.mark({lists::by_size, 7, 10, 3, 20});
    CHECK(all.first(lists::by_size, 1, 0)->begin == 30);
    CHECK(all.first(lists::by_size, 1, 6)->begin == 10);
    CHECK(all.first(lists::by_size, 1, 11) == nullptr);
    CHECK(all.first(lists::whole, 1, 0) == nullptr);
    lists::key const small = *all.find({lists::by_size, 1, 5, 2, 30});
    CHECK(all.after(small)->begin == 10);
    CHECK(all.after(*all.after(small)) == nullptr);
    CHECK(all.before(small) == nullptr);
    CHECK(all.before(*all.after(small))->begin == 30);
    all.unmark(small);
    CHECK(all.first(lists::by_size, 1, 0)->begin == 10);
}

TEST_CASE("sim_free_lists: changes allocate nothing after stock") {
    sim_free_lists all;
    all.stock(2, 2);
    auto const before = doubles::host_allocations();
    for (std::size_t i = 0; i < 100; ++i) {
        all.add(0, i, {.end = i + 1});
        all.add(1, i, {.end = i + 1});
        all.mark({0, 0, i, 0, 0});
        all.mark({0, 1, i, 0, 0});
        all.remove(all.at(0, i));
        all.remove(all.at(1, i));
        all.unmark({0, 0, i, 0, 0});
        all.unmark({0, 1, i, 0, 0});
    }
    auto const after = doubles::host_allocations();
    CHECK(after == before);
    all.stock(1000, 1000);
    all.stock(1, 1); // frees most of it
    CHECK(doubles::host_allocations() == after + 998 * 2);
}
