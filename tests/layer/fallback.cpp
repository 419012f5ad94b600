// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/fallback.hpp> // first: the header stands alone

#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/source/null_resource.hpp>
#include <vram/source/region_resource.hpp>

#include "../doubles/minimal_resource.hpp"
#include "../doubles/mishaps.hpp"
#include "../laws/resource.hpp"

using namespace vram;

template class vram::fallback<doubles::archetype<>, doubles::archetype<>>;
template class vram::fallback<doubles::minimal_resource<>, doubles::archetype<>>;
template class vram::fallback<doubles::archetype<>, doubles::minimal_resource<>>;

namespace {

/// Refuses by an exception only and has no power: the minimal primary.
class small_and_dumb : public limiting<doubles::minimal_resource<>> {
public:
    explicit small_and_dumb(std::size_t limit) : limiting{doubles::minimal_resource<>{}, limit} {}
};

} // namespace

TEST_CASE("fallback: it keeps the laws of a resource, with either upstream in use") {
    laws::resource([](auto up) { return fallback{std::move(up), doubles::archetype<>{}}; });
    laws::resource(
        [](auto up) { return fallback{limiting{doubles::archetype<>{}, 16_KiB}, std::move(up)}; });
    laws::resource(
        [](auto up) { return fallback{limiting{std::move(up), 16_KiB}, doubles::archetype<>{}}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return fallback{small_and_dumb{16_KiB}, std::move(up)}; });
    laws::resource_of_many_threads(
        [](auto up) { return fallback{limiting{doubles::archetype<>{}, 8_KiB}, std::move(up)}; });
}

TEST_CASE("fallback: no failure loses memory") {
    auto const two   = [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; };
    auto const known = [](auto& mr) { return std::pair{mr.usage().live, mr.fallen_back()}; };
    laws::survives_every_failure(
        [](auto up) { return fallback{limiting{doubles::archetype<>{}, 5}, std::move(up)}; }, two,
        known);
    laws::survives_every_failure(
        [](auto up) { return fallback{std::move(up), doubles::archetype<>{}}; }, two, known);
    laws::survives_every_failure<doubles::minimal_resource<>>(
        [](auto up) { return fallback{small_and_dumb{5}, std::move(up)}; }, two,
        [](auto& mr) { return mr.fallen_back(); });
}

TEST_CASE("fallback: the secondary is used only if the primary refuses") {
    doubles::ledger first, second;
    {
        fallback    mr{limiting{doubles::counting_resource{host_resource{}, first}, 100},
                    doubles::counting_resource{host_resource{}, second}};
        void* const p = mr.allocate_sync(60);
        void* const q = mr.allocate({}, 60);
        void* const r = mr.try_allocate_sync(40);
        CHECK(first.out() == 100);
        CHECK(second.out() == 60);
        CHECK(mr.fallen_back() == 1);
        mr.deallocate_sync(p, 60);
        mr.deallocate({}, q, 60);
        CHECK(first.out() == 40);
        CHECK(second.out() == 0);
        CHECK(mr.fallen_back() == 0);
        mr.deallocate({}, r, 40);
    }
    CHECK(*first.broken() == '\0');
    CHECK(*second.broken() == '\0');
}

TEST_CASE(
    "fallback: a block is freed to its own upstream, even if the primary claims every address") {
    alignas(256) static std::byte buffer[8_KiB];
    region_resource               whole{buffer, sizeof buffer}; // owns everything in the buffer
    fallback mr{region_resource{buffer, 1_KiB}, region_resource{buffer + 1_KiB, 4_KiB}};
    CHECK(whole.owns(buffer + 2_KiB));
    void* const p = mr.allocate_sync(1_KiB);
    void* const q = mr.allocate_sync(1_KiB);
    CHECK(mr.owns(p));
    CHECK(mr.owns(q));
    CHECK_FALSE(mr.primary().owns(q));
    mr.deallocate_sync(q, 1_KiB);
    mr.deallocate_sync(p, 1_KiB);
    CHECK(mr.primary().usage().live == 0);
    CHECK(mr.secondary().usage().live == 0);
}

TEST_CASE("fallback: if both refuse, the secondary's refusal is thrown") {
    fallback mr{limiting{doubles::archetype<>{}, 10}, limiting{doubles::archetype<>{}, 20}};
    try {
        (void)mr.allocate_sync(30);
        FAIL("neither has 30 bytes");
    } catch (over_limit const& e) { CHECK(e.numbers().limit == 20); }
    CHECK(mr.try_allocate_sync(30) == nullptr);
    CHECK(mr.try_allocate({}, 30) == nullptr);
    CHECK(mr.fallen_back() == 0);
}

TEST_CASE("fallback: an error of the device is not a refusal") {
    doubles::faults plan;
    plan.as_machine_failure();
    // A primary without try_allocate reports its errors.
    fallback mr{doubles::failing_resource{doubles::minimal_resource<>{}, plan},
                doubles::minimal_resource<>{}};
    plan.fail_nth(1);
    CHECK_THROWS_AS((void)mr.allocate_sync(10), doubles::machine_failure);
}

TEST_CASE("fallback: both spellings are one type, and it has the properties of both upstreams") {
    auto mr = doubles::archetype<>{} | with::fallback(null_resource<>{});
    static_assert(std::is_same_v<decltype(mr), fallback<doubles::archetype<>, null_resource<>>>);
    static_assert(has_property<decltype(mr), host_accessible>);
    static_assert(!has_property<decltype(mr), device_accessible>); // host_resource's is not
    static_assert(has_property<fallback<null_resource<>, null_resource<>>, device_accessible>);
    CHECK_THROWS_AS((void)mr.allocate_sync(unsatisfiable), out_of_memory);
}

TEST_CASE("fallback: trim reaches both, and the secondary keeps the rest of the allowance") {
    fallback mr{doubles::archetype<>{}, doubles::archetype<>{}};
    mr.trim(0);
    mr.retire({});
    CHECK(mr.primary().trims() == 1);
    CHECK(mr.secondary().trims() == 1);
    CHECK(mr.primary().retired() == 1);
    CHECK(mr.secondary().retired() == 1);
}

TEST_CASE("fallback: a free of null changes nothing while the secondary has a live block") {
    fallback    mr{limiting{doubles::archetype<>{}, 10}, doubles::archetype<>{}};
    void* const p = mr.allocate_sync(100);
    CHECK(mr.fallen_back() == 1);
    mr.deallocate_sync(nullptr, 0);
    mr.deallocate({}, nullptr, 0);
    CHECK(mr.fallen_back() == 1);
    mr.deallocate_sync(p, 100);
    CHECK(mr.fallen_back() == 0);
}

TEST_CASE("fallback: a block of the secondary can be freed after a refused free of it") {
    doubles::mishaps told;
    fallback         mr{null_resource<>{}, pool{host_resource{}}};
    void* const      p = mr.allocate({}, 1_KiB);
    void* const      q = mr.allocate({}, 1_KiB);
    mr.deallocate({}, p, 2_KiB); // wrong size
    mr.deallocate_sync(q, 1_KiB, 512);
    CHECK(told.count(error_kind::wrong_size) == 1);
    CHECK(told.count(error_kind::wrong_alignment) == 1);
    CHECK(mr.fallen_back() == 2);
    mr.deallocate({}, p, 1_KiB);
    mr.deallocate_sync(q, 1_KiB);
    CHECK(told.count() == 2);
    CHECK(mr.fallen_back() == 0);
    CHECK(mr.secondary().usage().live == 0);
}
