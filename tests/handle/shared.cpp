// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/shared.hpp> // first: the header stands alone

#include "../doubles/forked.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../laws/resource.hpp"

#include <vram/layer/limiting.hpp>

#include <array>    // array
#include <optional> // optional
#include <thread>   // thread

using namespace vram;

template class vram::shared<doubles::archetype<>>;
template class vram::shared<doubles::minimal_resource<>>;

namespace {

using full = doubles::archetype<>;

static_assert(std::copyable<shared<full>> && !std::copyable<full>);
static_assert(std::is_nothrow_copy_constructible_v<shared<full>>);
static_assert(std::is_nothrow_move_constructible_v<shared<full>>);
static_assert(powers<shared<full>>::include<full>);
static_assert(!resource<shared<doubles::minimal_resource<>>>);
static_assert(!fallible_resource<shared<doubles::minimal_resource<>>>);
static_assert(has_property<shared<full>, host_accessible>);
static_assert(resource<shared<full> const>, "a const handle is a handle all the same");

/// Cannot be moved, so it must be constructed in place.
struct rooted_resource : host_resource {
    explicit rooted_resource(int n) : number{n} {}
    rooted_resource(rooted_resource&&) = delete;
    friend bool operator==(rooted_resource const& a, rooted_resource const& b) { return &a == &b; }

    int number;
};

} // namespace

TEST_CASE("shared: it keeps the laws of a resource") {
    laws::resource([](auto up) { return shared{std::move(up)}; });
    laws::resource<doubles::minimal_resource<>>([](auto up) { return shared{std::move(up)}; });
    laws::resource_of_many_threads([](auto up) { return shared{std::move(up)}; });
}

TEST_CASE("shared: a failure of the upstream, or of the host, leaves nothing behind") {
    laws::survives_every_failure([](auto up) { return shared{std::move(up)}; },
                                 [](auto& mr) {
                                     shared<std::remove_reference_t<decltype(mr)>> again{
                                         mr}; // in a block of its own
                                     laws::block const held{again, 10};
                                 },
                                 [](auto& mr) { return mr.usage().live + mr.holders(); });
}

TEST_CASE("shared: copies share one resource, which is destroyed with the last copy") {
    doubles::ledger book;
    {
        std::optional first{shared{limiting{doubles::counting_resource{full{}, book}, 100}}};
        auto const    second = *first;
        CHECK(second.holders() == 2);
        CHECK(second == *first);
        CHECK(&second.get() == &first->get());
        void* const p = (*first).allocate({}, 60);
        CHECK_THROWS_AS((void)second.allocate({}, 60), over_limit);
        first.reset();
        CHECK(second.holders() == 1);
        CHECK(second->used() == 60);
        second.deallocate({}, p, 60);
    }
    CHECK(book.blocks() == 0);
}

TEST_CASE("shared: moves, assignments to itself and swaps keep the count") {
    shared a{full{}};
    shared b{full{}};
    CHECK(a != b);
    auto const was_a = a;
    auto const was_b = b;
    std::swap(a, b);
    CHECK(a == was_b);
    CHECK(b == was_a);
    auto& same = a;
    a          = same;
    CHECK(a == was_b);
    CHECK(a.holders() == 2);
    a = std::move(same);
    CHECK(a == was_b);
    CHECK(a.holders() == 2);
    shared c = std::move(a);
    CHECK(c.holders() == 2);
    CHECK(a != c); // a holds nothing now
    shared d = a;  // and so does a copy of it
    CHECK(a == d);
    a = c;
    CHECK(a.holders() == 3);
    c = b;
    CHECK(a.holders() == 2);
    CHECK(b.holders() == 3);
}

TEST_CASE("shared: handles of equal resources are equal") {
    CHECK(shared{host_resource{}} == shared{host_resource{}});
    CHECK(shared{full{}} != shared{full{}});
}

TEST_CASE("shared: a resource that cannot be moved is constructed in place") {
    shared<rooted_resource> const mr{std::in_place, 7};
    CHECK(mr->number == 7);
    CHECK(mr != shared<rooted_resource>{std::in_place, 7});
    mr.deallocate({}, mr.allocate({}, 10), 10);
}

TEST_CASE("shared: it can be the last word of a composition") {
    auto const mr = full{} | with::limiting(100) | with::shared;
    static_assert(std::is_same_v<decltype(mr), shared<limiting<full>> const>);
    CHECK(mr->limit() == 100);
}

TEST_CASE("shared: many threads copy and destroy handles") {
    auto mr = shared{full{}};
    {
        std::array<std::thread, 4> threads;
        for (auto& each : threads) {
            each = std::thread{[mr] {
                for (int i = 0; i < 500; ++i) {
                    auto const  mine = mr;
                    void* const p    = mine.allocate({}, 32);
                    auto const  more = mine;
                    more.deallocate({}, p, 32);
                }
            }};
        }
        for (auto& each : threads) { each.join(); }
    }
    CHECK(mr.holders() == 1);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("shared: each call of a handle that was moved from is a broken contract") {
    auto const broken = [](auto call) {
        return doubles::code_of_child([&] {
                   set_contract_handler([](contract const&) { ::_exit(7); });
                   shared<doubles::minimal_resource<>> from{doubles::minimal_resource<>{}};
                   shared<doubles::minimal_resource<>> to{std::move(from)};
                   call(from); // NOLINT(bugprone-use-after-move)
                   return 0;
               }) == 7;
    };
    CHECK(broken([](auto& mr) { (void)mr.allocate_sync(10); }));
    CHECK(broken([](auto& mr) { mr.deallocate_sync(nullptr, 10); }));
    CHECK(broken([](auto& mr) { (void)mr.get(); }));
    CHECK(broken([](auto& mr) { (void)mr->allocate_sync(10); }));
    CHECK(broken([](auto& mr) { (void)mr.holders(); }));
    CHECK(!broken([](auto& mr) { (void)mr.holds_resource(); }));
}

TEST_CASE("shared: the report of a call of a handle that was moved from has the line of the call") {
    static unsigned line    = 0;
    auto const      in_line = [](auto call) {
        return doubles::code_of_child([&] {
                   set_contract_handler(
                       [](contract const& c) { ::_exit(c.where.line() == line ? 7 : 8); });
                   shared<doubles::minimal_resource<>> from{doubles::minimal_resource<>{}};
                   shared<doubles::minimal_resource<>> to{std::move(from)};
                   call(from); // NOLINT(bugprone-use-after-move)
                   return 0;
               }) == 7;
    };
    line = __LINE__ + 1;
    CHECK(in_line([](auto& mr) { (void)mr.allocate_sync(10); }));
    line = __LINE__ + 1;
    CHECK(in_line([](auto& mr) { mr.deallocate_sync(nullptr, 10); }));
    CHECK_FALSE(in_line([](auto& mr) { (void)mr.get(); })); // the line of the check
}
