// SPDX-License-Identifier: Apache-2.0
#include <vram/base/tag.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

using namespace vram;

static_assert(sizeof(memory_tag) == sizeof(void*), "an event stores it in one word");
static_assert(!std::is_copy_constructible_v<tagged> && !std::is_move_constructible_v<tagged>);

TEST_CASE("tagged: scopes nest, and the tag is the path of their names") {
    CHECK_FALSE(current_tag().known());
    CHECK(std::string{current_tag().path()}.empty());
    {
        tagged const train{"train"};
        CHECK(std::string{current_tag().path()} == "train");
        {
            tagged const inner{"optimizer"};
            CHECK(std::string{current_tag().path()} == "train/optimizer");
            CHECK(std::string{current_tag().name()} == "optimizer");
            CHECK(std::string{current_tag().outer().path()} == "train");
            CHECK_FALSE(current_tag().outer().outer().known());
        }
        CHECK(std::string{current_tag().name()} == "train");
    }
    CHECK_FALSE(current_tag().known());
}

TEST_CASE("tagged: a tag is looked up correctly if only an inner scope was asked for") {
    tagged const a{"lazy outer"};
    tagged const b{"lazy inner"};
    CHECK(std::string{current_tag().path()} == "lazy outer/lazy inner");
}

TEST_CASE("tagged: equal paths are one tag, however they are written") {
    memory_tag        first{};
    std::string const both = "tag_test/of/levels";
    {
        tagged const a{"tag_test"};
        tagged const b{"of"};
        tagged const c{"levels"};
        first = current_tag();
    }
    char       local[] = "tag_test/of/levels";
    auto const seen    = [](auto const& text) {
        tagged const scope{text};
        return current_tag();
    };
    CHECK(seen("tag_test/of/levels") == first);
    CHECK(seen(both) == first);
    CHECK(seen(std::string_view{both}) == first);
    CHECK(seen(both.c_str()) == first);
    CHECK(seen(static_cast<char*>(local)) == first);
    {
        tagged const a{"tag_test"};
        tagged const b{"of/levels"};
        CHECK(current_tag() == first);
    }
    char         changed[] = "tag_test";
    tagged const scope{changed};
    changed[0] = 'X';
    CHECK(current_tag() == first.outer().outer());
    CHECK(first.within(current_tag()));
    CHECK(first.within(first));
    CHECK(first.within({}));
    CHECK_FALSE(current_tag().within(first));
}

TEST_CASE("tagged: a scope in itself and an empty name add no level") {
    tagged const a{"again"};
    auto const   once = current_tag();
    tagged const b{"again"};
    tagged const c{""};
    tagged const d{std::string{"//"}};
    CHECK(current_tag() == once);
}

TEST_CASE("tagged: an id finds its tag") {
    tagged const a{"tag with an id"};
    auto const   it = current_tag();
    CHECK(it.id() != 0);
    CHECK(memory_tag::of_id(it.id()) == it);
    CHECK(memory_tag{}.id() == 0);
    CHECK_FALSE(memory_tag::of_id(0).known());
    CHECK_FALSE(memory_tag::of_id(60'000).known());
    CHECK_FALSE(memory_tag::of_id(~0U).known());
}

TEST_CASE("tagged: a path that is too long keeps the tag of the outer scope") {
    std::string const name(200, 'x');
    tagged const      a{name};
    auto const        first = current_tag();
    CHECK(std::string{first.path()} == name);
    std::string const other(100, 'y');
    tagged const      b{other};
    CHECK(current_tag() == first);
    std::string const endless(100'000, 'z');
    tagged const      c{endless};
    CHECK(current_tag() == first);
}

TEST_CASE("tagged: a whole tag replaces that of the outer scope") {
    memory_tag whole;
    {
        tagged const a{"whole"};
        whole = current_tag();
    }
    tagged const b{"outside"};
    {
        tagged const c{whole};
        CHECK(current_tag() == whole);
        tagged const d{"within"};
        CHECK(std::string{current_tag().path()} == "whole/within");
    }
    {
        tagged const c{memory_tag{}};
        CHECK_FALSE(current_tag().known());
    }
    CHECK(std::string{current_tag().path()} == "outside");
}

TEST_CASE("tagged: each thread has scopes of its own; a worker begins with its creator's tag") {
    tagged const a{"creator"};
    memory_tag   ordinary = current_tag(), inherited, of_both[4];
    std::thread{[&] { ordinary = current_tag(); }}.join();
    CHECK_FALSE(ordinary.known());
    detail::worker{0, [&] { inherited = current_tag(); }};
    CHECK(inherited == current_tag());
    std::thread threads[4];
    for (int i = 0; i != 4; ++i) { // the four threads make the same new tag
        threads[i] = std::thread{[&, i] {
            tagged const scope{"made by four threads"};
            of_both[i] = current_tag();
        }};
    }
    for (auto& each : threads) { each.join(); }
    for (auto& each : of_both) { CHECK((each.known() && each == of_both[0])); }
}

TEST_CASE("tagged: an array of characters without a null character is read to its end") {
    struct {
        char const fixed[3] = {'a', 'b', 'c'};
        char const after[6] = "after";
    } const constant;
    struct {
        char fixed[3] = {'a', 'b', 'c'};
        char after[6] = "after";
    } variable;
    char const   shorter[4] = {'d', '\0', 'e', 'f'};
    tagged const outer{"tag_test"};
    {
        tagged const scope{constant.fixed};
        CHECK(std::string{current_tag().path()} == "tag_test/abc");
    }
    {
        tagged const scope{variable.fixed};
        CHECK(std::string{current_tag().path()} == "tag_test/abc");
    }
    {
        tagged const scope{shorter};
        CHECK(std::string{current_tag().path()} == "tag_test/d");
    }
}
