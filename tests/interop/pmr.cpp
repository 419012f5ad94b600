// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/pmr.hpp> // first: the header stands alone

#include "../doubles/archetype.hpp"
#include "../doubles/counting_resource.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/resource.hpp"

#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

#include <map>       // map
#include <stdexcept> // runtime_error
#include <string>    // string
#include <utility>   // exchange
#include <vector>    // vector

using namespace vram;

namespace {

using full = doubles::archetype<>;

struct not_for_the_host : null_resource<> {
    using properties = property_set<device_accessible>;
};
template <class R>
concept serves_pmr = requires { typename vram::pmr<R>; };

static_assert(serves_pmr<full&> && serves_pmr<doubles::minimal_resource<>>);
static_assert(!serves_pmr<not_for_the_host>, "the host may not touch it");
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

namespace pmr_tests {

/// A memory resource with a given fault.
class faulty final : public std::pmr::memory_resource {
public:
    enum class fault { none, bad_alloc, other, free };

    fault       next = fault::none;
    std::size_t out  = 0; ///< live blocks

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        CHECK(bytes != 0);
        fault const now = std::exchange(next, fault::none);
        if (now == fault::bad_alloc) { throw std::bad_alloc{}; }
        if (now == fault::other) { throw std::runtime_error{"the disk is gone"}; }
        ++out;
        return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
        --out;
        std::pmr::new_delete_resource()->deallocate(p, bytes, alignment);
        if (next == fault::free) { throw std::runtime_error{"the disk is gone"}; }
    }
    bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        return this == &other;
    }
};

TEST_CASE("pmr_source: it keeps the laws of a resource") {
    faulty memory;
    laws::source([&] { return pmr_source<>{memory}; });
    CHECK(memory.out == 0);
}

TEST_CASE("pmr_source: a refusal is an out_of_memory, another exception passes through") {
    faulty     memory;
    pmr_source mr{memory};
    memory.next = faulty::fault::bad_alloc;
    try {
        (void)mr.allocate_sync(100, 64);
        FAIL("it was refused");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 100);
        CHECK(e.numbers().alignment == 64);
    }
    memory.next = faulty::fault::other;
    CHECK_THROWS_AS((void)mr.allocate_sync(100), std::runtime_error);
    CHECK(memory.out == 0);
    limiting  bounded{full{}, 1000};
    vram::pmr lent{bounded}; // and back: the exception of the stack keeps its type
    CHECK_THROWS_AS((void)pmr_source{lent}.allocate_sync(1001), over_limit);
    CHECK(pmr_source{lent} == pmr_source{lent});
    CHECK(pmr_source{lent} != mr);
    CHECK(&mr.upstream() == &memory);
}

TEST_CASE("pmr_source: an exception of a free is reported to the error sink") {
    faulty                 memory;
    pmr_source             mr{memory};
    doubles::mishaps const told;
    void* const            p = mr.allocate_sync(100);
    memory.next              = faulty::fault::free;
    mr.deallocate_sync(p, 100);
    CHECK(told.count() == 1);
    CHECK(memory.out == 0);
}

TEST_CASE("pmr_source: layers and pools work over a standard memory resource") {
    std::pmr::monotonic_buffer_resource frame;
    limiting                            budget{pool{pmr_source{frame}}, 1_MiB};
    vram::pmr                           again{budget};
    std::pmr::vector<int>               numbers(1000, 3, &again);
    CHECK(budget.used() >= 4000);
}

} // namespace pmr_tests

template class vram::pmr_source<>;
