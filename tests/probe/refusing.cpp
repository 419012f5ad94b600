// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/refusing.hpp> // first: the header must stand alone

#include "../doubles/everything.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../laws/resource.hpp"

#include <vram/base/bytes.hpp>

#include <type_traits>
#include <utility>

using namespace vram;

template class vram::refusing<doubles::archetype<>>;
template class vram::refusing<doubles::minimal_resource<>>;

TEST_CASE("refusing: it keeps the laws of a resource") {
    laws::resource([](auto up) { return refusing{std::move(up)}; });
    laws::resource<doubles::minimal_resource<>>([](auto up) { return refusing{std::move(up)}; });
    laws::resource_of_many_threads([](auto up) { return refusing{std::move(up)}; });
}

TEST_CASE("refusing: it keeps the laws of a resource after a trial too") {
    laws::resource([](auto up) {
        refusing mr{std::move(up)};
        mr.plan().begin_trial();
        mr.plan().end_trial();
        return mr;
    });
}

TEST_CASE("refusing: each function refuses before the upstream is called") {
    refusing                  mr{doubles::everything{}};
    detail::trial_scope const in{mr.plan().begin_trial()};
    auto const                refuse = [&] { mr.plan().begin_run(1, 1); };
    refuse();
    try {
        (void)mr.allocate({}, 65, 8);
        FAIL("the request is refused");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 65);
        CHECK(e.numbers().rounded == 128);
        CHECK(e.numbers().alignment == 8);
    }
    refuse();
    CHECK_THROWS_AS((void)mr.allocate_sync(65, 8), out_of_memory);
    refuse();
    CHECK(mr.try_allocate({}, 65, 8) == nullptr);
    refuse();
    CHECK(mr.try_allocate_sync(65, 8) == nullptr);
    CHECK(mr.usage().allocations == 0);
    refuse();
    void* const ready = mr.try_allocate_ready({}, 65, 8); // not a request
    CHECK(ready != nullptr);
    CHECK(mr.plan().live_bytes() == 65);
    CHECK(mr.allocate_sync(0) == nullptr); // nothing is allocated
    CHECK(mr.plan().refusals() == 0);
    mr.deallocate({}, ready, 65, 8);
    CHECK(mr.plan().live_bytes() == 0);
    mr.plan().end_trial();
}

TEST_CASE("refusing: in a trial, invalid frees do not reach the upstream") {
    refusing                  mr{doubles::archetype<>{}};
    detail::trial_scope const in{mr.plan().begin_trial()};
    mr.plan().begin_run(0, 0);
    void* const p = mr.allocate_sync(1_KiB);
    mr.deallocate_sync(p, 1_KiB);
    mr.deallocate_sync(p, 1_KiB);
    CHECK(mr.plan().wrong_free().what == detail::tried_free::mistake::twice);
    CHECK(mr.usage().live == 0);
    void* const q = mr.allocate({}, 2_KiB);
    mr.deallocate({}, q, 1_KiB);
    CHECK(mr.usage().live == 0);
    mr.plan().end_trial();
}

TEST_CASE("refusing: the word adds the layer, also over another one") {
    auto mr = doubles::archetype<>{} | with::refusing | with::refusing;
    static_assert(std::is_same_v<decltype(mr), refusing<refusing<doubles::archetype<>>>>);
    mr.deallocate_sync(mr.allocate_sync(10), 10);
}
