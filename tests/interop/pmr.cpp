// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/pmr.hpp> // first: the header stands alone

#include "../doubles/archetype.hpp"
#include "../doubles/counting_resource.hpp"
#include "../doubles/minimal_resource.hpp"

#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

#include <map>    // map
#include <string> // string
#include <vector> // vector

using namespace vram;

namespace {

using full = doubles::archetype<>;

struct device_memory : null_resource<> {
    using properties = property_set<device_accessible>;
};
template <class R>
concept serves_pmr = requires { typename vram::pmr<R>; };

static_assert(serves_pmr<full&> && serves_pmr<doubles::minimal_resource<>>);
static_assert(!serves_pmr<device_memory>, "the host may not touch it");
static_assert(!std::movable<vram::pmr<full>>);

} // namespace

template class vram::pmr<doubles::minimal_resource<>>;
template class vram::pmr<full&>;
template class vram::pmr<shared<full>>;

TEST_CASE("pmr: polymorphic containers use the memory of the resource") {
    doubles::ledger            book;
    doubles::counting_resource memory{full{}, book};
    {
        vram::pmr             host{memory};
        std::pmr::vector<int> numbers{&host};
        for (int i = 0; i < 1000; ++i) { numbers.push_back(i); }
        CHECK(book.has(numbers.data()));
        std::pmr::map<int, std::pmr::string> names{&host};
        names[3] = "a name that is too long to be kept in place";
        CHECK(book.has(names[3].data()));
        CHECK(&host.upstream() == &memory);
    }
    CHECK(book.blocks() == 0);
    CHECK(*book.broken() == '\0');
}

TEST_CASE("pmr: zero bytes are an allocation here, and are freed as one") {
    doubles::ledger            book;
    doubles::counting_resource memory{full{}, book};
    vram::pmr                  host{memory};
    void* const                p = host.allocate(0, 64);
    CHECK(p != nullptr);
    host.deallocate(p, 0, 64);
    CHECK(book.blocks() == 0);
    CHECK(*book.broken() == '\0');
}

TEST_CASE("pmr: two are equal if each can free blocks of the other") {
    full      memory, other;
    shared    handle{full{}};
    vram::pmr a{memory};
    vram::pmr b{memory};
    vram::pmr c{other};
    vram::pmr d{handle};
    vram::pmr e{handle};
    CHECK(a == b);
    CHECK(a != c);
    CHECK(a != d);
    CHECK(d == e);
    CHECK(handle.holders() == 3);
}

TEST_CASE("pmr: a refusal is a bad_alloc, and the container is unchanged") {
    limiting               memory{full{}, 100};
    vram::pmr              host{memory};
    std::pmr::vector<char> text(60, 'x', &host);
    CHECK_THROWS_AS(text.reserve(61), std::bad_alloc);
    CHECK(text.size() == 60);
    CHECK(memory.used() == 60);
}
