// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/core/resource_calls.hpp> // first: the header stands alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/everything.hpp"
#include "../../doubles/failing_resource.hpp"
#include "../../doubles/minimal_resource.hpp"
#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <stdexcept> // runtime_error

using namespace vram;
using namespace vram::detail;

template struct vram::detail::resource_calls<host_platform>;
template struct vram::detail::calls_to<doubles::everything>;

namespace {

/// A stream-ordered resource without any power; it records its arguments.
struct plain_resource : doubles::minimal_resource<> {
    using stream = platform::stream;

    void* allocate(stream, std::size_t n, std::size_t a = default_alignment) {
        return allocate_sync(n, a);
    }
    void deallocate(stream, void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        deallocate_sync(p, n, a);
    }
};

/// A resource with a failing platform.
struct broken_resource : plain_resource {
    void* allocate(stream, std::size_t n, std::size_t a = default_alignment) {
        return allocate_sync(n, a);
    }
    void* allocate_sync(std::size_t, std::size_t = default_alignment) {
        throw std::runtime_error{"the platform failed"};
    }
};

} // namespace

TEST_CASE("resource_calls: a power that the type lacks is a null pointer, and others are not") {
    constexpr auto const& all  = calls_of<doubles::archetype<>>;
    constexpr auto const& none = calls_of<plain_resource>;
    CHECK((all.owns != nullptr));
    CHECK((all.usage != nullptr));
    CHECK((all.trim != nullptr));
    CHECK((all.retire != nullptr));
    CHECK((none.owns == nullptr));
    CHECK((none.usage == nullptr));
    CHECK((none.trim == nullptr));
    CHECK((none.retire == nullptr));
}

TEST_CASE(
    "resource_calls: a resource without try_allocate is called, and its exception becomes null") {
    plain_resource   mr;
    auto const&      calls = calls_of<plain_resource>;
    doubles::mishaps told;
    CHECK(calls.try_allocate(&mr, {}, unsatisfiable, 256, {}) == nullptr);
    CHECK(calls.try_allocate_sync(&mr, unsatisfiable, 256, {}) == nullptr);
    CHECK(told.count() == 0); // a refusal is not reported as an error
    void* const p = calls.try_allocate(&mr, {}, 100, 256, {});
    REQUIRE(p != nullptr);
    calls.deallocate(&mr, {}, p, 100, 256, {});
    void* const q = calls.try_allocate_sync(&mr, 100, 256, {});
    REQUIRE(q != nullptr);
    calls.deallocate_sync(&mr, q, 100, 256, {});
}

TEST_CASE("resource_calls: an exception that is not about memory is reported, and not taken for a "
          "refusal") {
    broken_resource  mr;
    auto const&      calls = calls_of<broken_resource>;
    doubles::mishaps told;
    CHECK(calls.try_allocate(&mr, {}, 100, 256, {}) == nullptr);
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(calls.try_allocate_sync(&mr, 100, 256, {}) == nullptr);
    CHECK(told.count(error_kind::platform_error) == 2);
    CHECK(told.count() == 2);
}

TEST_CASE("resource_calls: try_allocate is called if the resource has it") {
    doubles::faults plan;
    using failing = doubles::failing_resource<doubles::archetype<>>;
    failing     mr{doubles::archetype<>{}, plan};
    auto const& calls = calls_of<failing>;
    plan.as_machine_failure(); // a thrown error must be of another type
    plan.fail_nth(1);
    CHECK(calls.try_allocate(&mr, {}, 100, 256, {}) == nullptr);
    plan.fail_nth(1);
    CHECK_THROWS_AS((void)calls.allocate(&mr, {}, 100, 256, {}), doubles::machine_failure);
    plan.fail_nth(1);
    CHECK_THROWS_AS((void)calls.allocate_sync(&mr, 100, 256, {}), doubles::machine_failure);
}
