// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/layer_base.hpp> // first: the header stands alone

#include <vram/source/null_resource.hpp>

#include "../doubles/archetype.hpp"
#include "../doubles/minimal_resource.hpp"

#include <doctest/doctest.h>

#include <type_traits>
#include <utility>

using namespace vram;

namespace {

/// A layer that does nothing at all.
template <synchronous_resource Upstream>
struct bare : layer_base<Upstream> {
    explicit bare(Upstream upstream) : layer_base<Upstream>{std::move(upstream)} {}
};

} // namespace

TEST_CASE("layer_base: it forwards the powers of the upstream, and no others") {
    static_assert(owning_resource<bare<doubles::archetype<>>>);
    static_assert(measured_resource<bare<doubles::archetype<>>>);
    static_assert(trimmable_resource<bare<doubles::archetype<>>>);
    static_assert(retiring_resource<bare<doubles::archetype<>>>);
    static_assert(forgetting_resource<bare<doubles::archetype<>>>);
    static_assert(!owning_resource<bare<doubles::minimal_resource<>>>);
    static_assert(!measured_resource<bare<doubles::minimal_resource<>>>);
    static_assert(!trimmable_resource<bare<doubles::minimal_resource<>>>);
    static_assert(!retiring_resource<bare<doubles::minimal_resource<>>>);
    static_assert(!forgetting_resource<bare<doubles::minimal_resource<>>>);

    bare        layer{doubles::archetype<>{}};
    void* const p = layer.upstream().allocate_sync(10);
    CHECK(layer.owns(p));
    CHECK(layer.usage().live == 10);
    layer.trim();
    layer.retire({});
    CHECK(layer.upstream().trims() == 1);
    CHECK(layer.upstream().retired() == 1);
    layer.forget_captures();
    CHECK(layer.upstream().forgotten() == 1);
    layer.upstream().deallocate_sync(p, 10);
}

TEST_CASE("layer_base: a layer without allocate and deallocate is not a resource") {
    static_assert(!synchronous_resource<bare<doubles::archetype<>>>);
    static_assert(sizeof(bare<null_resource<>>) == 1);
    static_assert(!std::is_copy_constructible_v<bare<doubles::archetype<>>>);
    CHECK(true);
}

TEST_CASE("layer_base: a layer is equal to itself only") {
    bare one{null_resource<>{}}, two{null_resource<>{}};
    CHECK(one == one);
    CHECK(one != two);
}
