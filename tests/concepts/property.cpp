// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/property.hpp> // first: the header stands alone

#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace another::library::v4 { // as libcu++ has them, in an inline namespace of its own
struct device_accessible {};
struct host_accessible {};
struct device_accessible_too {};
struct not_device_accessible {};
template <class T>
struct of {};
} // namespace another::library::v4
struct W_in_no_namespace {};

namespace {
struct pinned {
    using properties = property_set<device_accessible, host_accessible>;
};
struct device_only {
    using properties = property_set<device_accessible>;
};

template <class R, class P>
concept answers = requires(R const& r, P p) { get_property(r, p); };
} // namespace

TEST_CASE("property: another library's property with the same name is the same property") {
    namespace lib = another::library::v4;
    static_assert(property<lib::device_accessible> && property<lib::host_accessible>);
    static_assert(same_property<lib::device_accessible, device_accessible>);
    static_assert(!same_property<lib::device_accessible, host_accessible>);
    static_assert(has_property<pinned, lib::host_accessible>);
    static_assert(!has_property<device_only, lib::host_accessible>);
}

TEST_CASE("property: a type that is not in a namespace is found by its name") {
    static_assert(detail::is_named<W_in_no_namespace>("W_in_no_namespace"));
    static_assert(!detail::is_named<W_in_no_namespace>("_in_no_namespace"));
    static_assert(!detail::is_named<W_in_no_namespace>("W_in_no_namespace_too"));
    static_assert(detail::is_named<int>("int"));
}

TEST_CASE("property: names that are only similar are different properties") {
    namespace lib = another::library::v4;
    static_assert(!property<lib::device_accessible_too>);
    static_assert(!property<lib::not_device_accessible>);
    static_assert(!property<lib::of<lib::device_accessible>>);
    static_assert(!property<int>);
}

TEST_CASE("property: get_property compiles for the properties of a resource only") {
    namespace lib = another::library::v4;
    static_assert(answers<null_resource<>, lib::device_accessible>);
    static_assert(answers<null_resource<>, host_accessible>);
    static_assert(!answers<null_resource<>, lib::device_accessible_too>);
    static_assert(!answers<null_resource<>, int>);
}
