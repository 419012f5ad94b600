// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/std_allocator.hpp> // first: the header stands alone

#include "../doubles/archetype.hpp"
#include "../doubles/counting_resource.hpp"
#include "../doubles/minimal_resource.hpp"

#include <vram/handle/any_resource.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

#include <deque> // deque
#include <functional>
#include <map> // map
#include <memory>
#include <string>        // basic_string
#include <type_traits>   // is_nothrow_move_constructible_v
#include <unordered_map> // unordered_map
#include <utility>       // move
#include <vector>        // vector

using namespace vram;

namespace {

using full = doubles::archetype<>;
template <class Element>
using shared_allocator = std_allocator<Element, shared<full>>;

struct only_for_devices : null_resource<> {
    using properties = property_set<device_accessible>;
};
template <class R>
concept allocates_for_std = requires { typename std_allocator<int, R>; };

static_assert(allocates_for_std<full&> && allocates_for_std<doubles::minimal_resource<>&>);
static_assert(!allocates_for_std<only_for_devices>, "the host may not touch it");
static_assert(std::allocator_traits<std_allocator<int, host_resource>>::is_always_equal::value);
static_assert(!std::allocator_traits<shared_allocator<int>>::is_always_equal::value);

} // namespace

template class vram::std_allocator<int, shared<full>>;
template class vram::std_allocator<int, full&>;
template class vram::std_allocator<int, doubles::minimal_resource<>&>;

TEST_CASE("std_allocator: containers use the memory of the resource") {
    doubles::ledger            book;
    doubles::counting_resource mr{full{}, book};
    using element = std_allocator<int, decltype(mr)&>;
    {
        std::vector<int, element> numbers{mr};
        for (int i = 0; i < 1000; ++i) { numbers.push_back(i); }
        CHECK(book.has(numbers.data()));
        CHECK(numbers[999] == 999);

        using node = std_allocator<std::pair<int const, int>, decltype(mr)&>;
        std::map<int, int, std::less<>, node> squares{node{mr}};
        for (int i = 0; i < 100; ++i) { squares[i] = i * i; }
        CHECK(squares[99] == 9801);
        CHECK(book.has(&squares[50]));
    }
    CHECK(book.blocks() == 0);
    CHECK(*book.broken() == '\0');
}

TEST_CASE("std_allocator: the memory moves with the elements") {
    shared one{full{}};
    shared two{full{}};
    using vector = std::vector<int, shared_allocator<int>>;
    vector a{{1, 2, 3}, one};
    vector b{{4, 5}, two};
    CHECK(a.get_allocator() != b.get_allocator());
    swap(a, b);
    CHECK(a == vector{{4, 5}, one});
    CHECK(a.get_allocator() == shared_allocator<char>{two});
    a = b;
    CHECK(a.get_allocator() == b.get_allocator());
    b = std::move(a);
    CHECK(b.size() == 3);
    CHECK(b.get_allocator().upstream() == one);
}

TEST_CASE("std_allocator: a refusal is a bad_alloc, and the container is unchanged") {
    limiting                                              mr{full{}, 100};
    std::vector<char, std_allocator<char, decltype(mr)&>> text(60, 'x', mr);
    CHECK_THROWS_AS(text.reserve(61), std::bad_alloc);
    CHECK(text.size() == 60);
    std_allocator<double, decltype(mr)&> doubles_of{mr};
    CHECK_THROWS_AS((void)doubles_of.allocate(unsatisfiable / 8 + 1), out_of_memory);
    CHECK(doubles_of.allocate(0) == nullptr);
    CHECK(mr.used() == 60);
}

TEST_CASE("std_allocator: an allocator of an empty resource is empty") {
    std::vector<int, std_allocator<int, host_resource>> numbers{1, 2, 3};
    CHECK(numbers.size() == 3);
    std::basic_string<char, std::char_traits<char>, std_allocator<char, host_resource>> text{
        "text"};
    CHECK(text.size() == 4);
}

TEST_CASE("std_allocator: it accepts an any_resource") {
    full                                                        mr;
    std::vector<int, std_allocator<int, resource_ref_of<full>>> numbers{resource_ref{mr}};
    numbers.resize(10);
    CHECK(mr.usage().live == 10 * sizeof(int));
}

namespace {

template <class Container, class Fill>
void can_be_used_after_a_move(typename Container::allocator_type const& alloc, Fill fill) {
    Container first(alloc);
    fill(first);
    auto const size   = first.size();
    Container  second = std::move(first);
    CHECK(first.get_allocator() == second.get_allocator());
    first.clear();
    fill(first);
    CHECK(first.size() == size);
    CHECK(second.size() == size);
    Container third(alloc);
    third = std::move(second); // `second` is destroyed in the moved-from state
    CHECK(third.size() == size);
}

template <class R>
void containers_can_be_used_after_a_move(R const& mr) {
    using alloc = std_allocator<int, R>;
    static_assert(std::is_nothrow_move_constructible_v<alloc>);
    auto const push = [](auto& all) {
        for (int i = 0; i < 40; ++i) { all.push_back(static_cast<char>('a' + i % 20)); }
    };
    can_be_used_after_a_move<std::vector<int, alloc>>(mr, push);
    can_be_used_after_a_move<std::deque<int, alloc>>(mr, push);
    using letters = std_allocator<char, R>;
    can_be_used_after_a_move<std::basic_string<char, std::char_traits<char>, letters>>(mr, push);
    using pairs = std_allocator<std::pair<int const, int>, R>;
    using map   = std::unordered_map<int, int, std::hash<int>, std::equal_to<>, pairs>;
    can_be_used_after_a_move<map>(mr, [](map& all) {
        for (int i = 0; i < 40; ++i) { all[i] = i; }
    });

    alloc first{mr};
    alloc second{std::move(first)};
    CHECK(first == second);
    alloc third{mr};
    third = std::move(second);
    CHECK(second == third);
}

} // namespace

TEST_CASE("std_allocator: a moved-from container can be used again") {
    shared const handle{full{}};
    containers_can_be_used_after_a_move(handle);
    containers_can_be_used_after_a_move(any_resource_of<full>{handle});
    CHECK(handle.holders() == 1);
    CHECK(handle.usage().live == 0);
}
