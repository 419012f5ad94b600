// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/retrying.hpp> // first: the header stands alone

#include "../doubles/minimal_resource.hpp"
#include "../laws/resource.hpp"

#include <functional> // function
#include <string>     // string

using namespace vram;

namespace {

/// Retries a request `times` times, and records that it was called.
struct again {
    static constexpr unsigned max_tries = 3;

    char         name;
    unsigned     times;
    std::string* story;

    template <class R>
    bool operator()(R&, failed_attempt const& failed) {
        *story += name;
        *story += static_cast<char>('0' + failed.tries);
        return failed.tries <= times;
    }
};

/// Always retries; for the laws.
struct always_once {
    static constexpr unsigned max_tries = 1;

    template <class R>
    bool operator()(R&, failed_attempt const&) const {
        return true;
    }
};

struct look {
    static constexpr unsigned max_tries = 1;

    failed_attempt* seen;

    bool operator()(doubles::archetype<>& upstream, failed_attempt const& failed) const {
        *seen = failed;
        CHECK(upstream.usage().live == 60);
        return false;
    }
};

/// Allocates memory itself, through a layer that is set later.
struct allocating {
    static constexpr unsigned max_tries = 2;

    std::function<void()>* request;

    template <class R>
    bool operator()(R&, failed_attempt const&) const {
        (*request)();
        return true;
    }
};

struct broken_policy {
    static constexpr unsigned max_tries = 1;

    template <class R>
    bool operator()(R&, failed_attempt const&) const {
        throw doubles::machine_failure{};
    }
};

} // namespace

template class vram::retrying<doubles::archetype<>, always_once, again>;
template class vram::retrying<doubles::minimal_resource<>, always_once>;
template class vram::retrying<doubles::archetype<>>;

TEST_CASE("retrying: it keeps the laws of a resource") {
    laws::resource([](auto up) { return retrying{std::move(up), always_once{}}; });
    laws::resource([](auto up) { return retrying{std::move(up)}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::retrying(always_once{}, always_once{}); });
    laws::resource_of_many_threads([](auto up) { return retrying{std::move(up), always_once{}}; });
}

TEST_CASE("retrying: no failure loses memory") {
    laws::survives_every_failure([](auto up) { return retrying{std::move(up), always_once{}}; },
                                 [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
                                 [](auto& mr) { return mr.usage().live; });
}

TEST_CASE("retrying: policies are used in order, each until it returns false or reaches its number "
          "of tries") {
    doubles::faults plan;
    std::string     story;
    retrying mr{doubles::failing_resource{doubles::archetype<>{}, plan}, again{'a', 1, &story},
                again{'b', 9, &story}, again{'c', 0, &story}};
    plan.fail_nth(1, true);
    CHECK_THROWS_AS((void)mr.allocate_sync(10), out_of_memory);
    CHECK(story == "a1a2b1b2b3c1");
    CHECK(plan.struck() == 5); // at the beginning, after a1, and after b1, b2 and b3
    story.clear();
    CHECK(mr.try_allocate({}, 10) == nullptr);
    CHECK(story == "a1a2b1b2b3c1");
    CHECK(mr.policy<1>().name == 'b');
}

TEST_CASE("retrying: it stops as soon as the request succeeds") {
    doubles::faults plan;
    std::string     story;
    retrying mr{doubles::failing_resource{doubles::archetype<>{}, plan}, again{'a', 3, &story},
                again{'b', 3, &story}};
    plan.fail_nth(1);
    void* const p = mr.allocate({}, 10);
    CHECK(p != nullptr);
    CHECK(story == "a1");
    plan.fail_nth(1);
    void* const q = mr.try_allocate_sync(10);
    CHECK(q != nullptr);
    CHECK(story == "a1a1"); // the count begins anew with each request
    mr.deallocate({}, p, 10);
    mr.deallocate_sync(q, 10);
}

TEST_CASE("retrying: an error other than out_of_memory is passed on unchanged") {
    doubles::faults plan;
    std::string     story;
    retrying mr{doubles::failing_resource{doubles::archetype<>{}, plan}, again{'a', 3, &story}};
    plan.as_machine_failure();
    plan.fail_nth(1);
    CHECK_THROWS_AS((void)mr.allocate_sync(10), doubles::machine_failure);
    CHECK(story.empty());
}

TEST_CASE("retrying: a policy that throws ends the request, and try_allocate returns null") {
    doubles::faults plan;
    retrying        mr{doubles::failing_resource{doubles::archetype<>{}, plan}, broken_policy{}};
    plan.fail_nth(1, true);
    CHECK_THROWS_AS((void)mr.allocate_sync(10), doubles::machine_failure);
    CHECK(mr.try_allocate_sync(10) == nullptr);
}

TEST_CASE("retrying: a request that a policy makes does not use the policies") {
    doubles::faults       plan;
    std::function<void()> request;
    unsigned              asked = 0, refused = 0;
    retrying inner{doubles::failing_resource{doubles::archetype<>{}, plan}, allocating{&request}};
    retrying mr{std::move(inner), allocating{&request}}; // mutual requests end, too
    request = [&] {
        REQUIRE(++asked < 100);
        refused += mr.try_allocate({}, 10) == nullptr;
        try {
            (void)mr.allocate_sync(10);
        } catch (out_of_memory const&) { ++refused; }
    };
    plan.fail_nth(1, true);
    CHECK_THROWS_AS((void)mr.allocate_sync(20), out_of_memory);
    CHECK(refused == 2 * asked);
    unsigned const first = std::exchange(asked, 0);
    CHECK(mr.try_allocate_sync(20) == nullptr);
    CHECK(asked == first); // after a refusal, policies are asked again

    request = [] { throw doubles::machine_failure{}; };
    CHECK_THROWS_AS((void)mr.allocate_sync(20), doubles::machine_failure);
    request = [&] { ++asked; };
    asked   = 0;
    CHECK_THROWS_AS((void)mr.allocate_sync(20), out_of_memory);
    CHECK(asked != 0); // and after an exception
}

TEST_CASE("retrying: a policy receives the upstream's refusal") {
    failed_attempt seen;
    retrying       mr{doubles::archetype<>{100}, look{&seen}};
    void* const    p = mr.allocate_sync(60);
    CHECK_THROWS_AS((void)mr.allocate_sync(50, 64), out_of_memory);
    CHECK(seen.bytes == 50);
    CHECK(seen.alignment == 64);
    CHECK(seen.tries == 1);
    CHECK(seen.numbers.live == 60);
    mr.deallocate_sync(p, 60);
}

TEST_CASE("retrying: both spellings are one type") {
    auto mr = doubles::archetype<>{} | with::retrying(always_once{});
    static_assert(std::is_same_v<decltype(mr), retrying<doubles::archetype<>, always_once>>);
    static_assert(std::is_same_v<decltype(doubles::archetype<>{} | with::retrying()),
                                 retrying<doubles::archetype<>>>);
    CHECK(mr.upstream().trims() == 0);
}
