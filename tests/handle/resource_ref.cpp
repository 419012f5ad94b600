// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/resource_ref.hpp> // first: the header stands alone

#include "../laws/resource.hpp"

#include <vram/handle/any_resource.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/source/null_resource.hpp>

#include <memory>

using namespace vram;

template class vram::resource_ref<host_platform>;
template class vram::resource_ref<host_platform, host_accessible>;
template class vram::resource_ref<host_platform, device_accessible, host_accessible>;

namespace {

using full = doubles::archetype<>;
using ref  = resource_ref<host_platform, host_accessible>;

// It takes lvalues of resources of its platform that promise enough; it is a pointer, so
// temporaries are refused.
static_assert(std::is_convertible_v<full&, ref>);
static_assert(!std::is_constructible_v<ref, full>);
static_assert(!std::is_constructible_v<ref, any_resource<host_platform, host_accessible>>);
static_assert(std::is_convertible_v<any_resource<host_platform, host_accessible> const&, ref>);
static_assert(!std::is_constructible_v<resource_ref<host_platform, device_accessible>, full&>);

// The target may have fewer properties, not more.
static_assert(std::is_convertible_v<ref, resource_ref<host_platform>>);
static_assert(!std::is_constructible_v<ref, resource_ref<host_platform>>);
static_assert(!std::is_constructible_v<ref, resource_ref<host_platform>&>);

// It has exactly the properties in its type.
static_assert(has_property<ref, host_accessible> && !has_property<ref, device_accessible>);
static_assert(trimmable_resource<ref> && retiring_resource<ref> && fallible_resource<ref>);
static_assert(!owning_resource<ref> && !measured_resource<ref>, "it may not know");
static_assert(std::is_trivially_copyable_v<ref> && !std::is_default_constructible_v<ref>);

/// Stores the line of the program that called `try_allocate_ready`.
struct lined : full {
    [[nodiscard]] static void* try_allocate_ready(stream, std::size_t, std::size_t,
                                                  call_site at) noexcept {
        line = at.line();
        return nullptr;
    }
    [[nodiscard]] static void* try_allocate_ready(stream, std::size_t, std::size_t) noexcept {
        return nullptr;
    }
    static inline unsigned line = 0;
};

void* take(resource_ref<host_platform> mr) { return mr.allocate({}, 64); }

} // namespace

TEST_CASE("resource_ref: it keeps the laws of the resource that it refers to") {
    doubles::ledger            book;
    doubles::counting_resource mr{full{}, book};
    ref                        borrowed{mr};
    laws::obeyed_by(borrowed);
    CHECK(book.allocations() != 0);
    CHECK(book.blocks() == 0);
    CHECK(*book.broken() == '\0');
}

TEST_CASE("resource_ref: a layer over it keeps the laws") {
    full mr;
    auto stack = limiting{ref{mr}, 64_KiB};
    laws::obeyed_by(stack);
    CHECK(stack.used() == 0);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("resource_ref: class template arguments are those of the resource") {
    full            mr;
    null_resource<> both;
    static_assert(std::is_same_v<decltype(resource_ref{mr}), ref>);
    static_assert(std::is_same_v<decltype(resource_ref{both}),
                                 resource_ref<host_platform, device_accessible, host_accessible>>);
    static_assert(std::is_same_v<resource_ref_of<full>, ref>);
    CHECK(resource_ref{mr} == resource_ref{mr});
}

TEST_CASE(
    "resource_ref: two are equal if they refer to one resource, or to equal ones of one type") {
    full          a, b;
    host_resource c, d;
    CHECK(ref{a} == ref{a});
    CHECK(ref{a} != ref{b});
    CHECK(ref{c} == ref{d});
    CHECK(ref{a} != ref{c});
    CHECK(resource_ref<host_platform>{a} == ref{a}); // with any properties
    ref r{a};
    r = b;
    CHECK(r == ref{b});
    r = ref{a};
    CHECK(r == ref{a});
}

TEST_CASE("resource_ref: made from a handle it refers to the handle's resource, and outlives the "
          "handle") {
    shared const mr{full{}};
    auto         second = std::make_unique<shared<full>>(mr);
    ref const    borrowed{*second};
    second.reset();
    CHECK(borrowed == ref{mr.get()});
    any_resource<host_platform, host_accessible> const any{mr};
    CHECK(ref{any} == borrowed);
    void* const p = take(borrowed);
    CHECK(mr.usage().live == 64);
    ref{any}.deallocate({}, p, 64);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("resource_ref: exceptions pass through unchanged") {
    doubles::faults plan;
    auto            mr = doubles::failing_resource{full{}, plan};
    ref const       borrowed{mr};
    plan.fail_nth(1);
    CHECK_THROWS_AS((void)borrowed.allocate({}, 10), out_of_memory);
    plan.fail_nth(1);
    CHECK(borrowed.try_allocate({}, 10) == nullptr);
    plan.fail_nth(1);
    CHECK(borrowed.try_allocate_sync(10) == nullptr);
    plan.as_machine_failure();
    plan.fail_nth(1);
    CHECK_THROWS_AS((void)borrowed.allocate_sync(10), doubles::machine_failure);
}

TEST_CASE("resource_ref: try_allocate_ready passes the line of the caller to the resource") {
    lined          mr;
    ref const      borrowed{mr};
    unsigned const here = __LINE__ + 1;
    CHECK(borrowed.try_allocate_ready({}, 10) == nullptr);
    CHECK(lined::line == here);
}
