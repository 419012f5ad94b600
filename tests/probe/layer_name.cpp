// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/layer_name.hpp> // first: the header must stand alone

#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

struct global_resource {};
namespace outer::inner {
struct nested {};
template <class, int>
struct generic {};
} // namespace outer::inner
namespace {
struct hidden {};
} // namespace

static_assert(layer_name<host_resource>() == "host_resource");
static_assert(layer_name<limiting<host_resource>>() == "limiting");
static_assert(layer_name<limiting<limiting<host_resource>>>() == "limiting");
static_assert(layer_name<limiting<host_resource> const>() == "limiting");
static_assert(layer_name<global_resource>() == "global_resource");
static_assert(layer_name<outer::inner::nested>() == "nested");
static_assert(layer_name<outer::inner::generic<outer::inner::nested, 3>>() == "generic");
static_assert(layer_name<hidden>() == "hidden");

TEST_CASE("layer_name: a layer has the name of its template, without namespaces and arguments") {
    CHECK(layer_name<null_resource<>>() == "null_resource");
    CHECK(layer_name<int>() == "int");
}
