// SPDX-License-Identifier: Apache-2.0
// Properties of layers, pools, handles and retry policies over a resource without memory. They are
// not in the headers, because each file of a program would instantiate all these classes.
#include <vram/handle/any_resource.hpp>
#include <vram/handle/array.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/handle/std_allocator.hpp>
#include <vram/layer/aligned.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/segregated.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/core/shard_source.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>
#include <vram/pressure/calling.hpp>
#include <vram/pressure/drain.hpp>
#include <vram/pressure/trim_upstream.hpp>
#include <vram/pressure/wait_backoff.hpp>
#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

#include <concepts>
#include <cstddef>
#include <type_traits>

using namespace vram;
using namespace vram::detail;

namespace {

static_assert(powers<aligned<null_resource<>>>::include<null_resource<>>);

static_assert(powers<fallback<null_resource<>, null_resource<>>>::include<null_resource<>>);

static_assert(powers<limiting<null_resource<>>>::include<null_resource<>>);
static_assert(sizeof(limiting<null_resource<>>) == sizeof(gauge));

static_assert(powers<locked<null_resource<>>>::include<null_resource<>>);

static_assert(powers<retrying<null_resource<>>>::include<null_resource<>>);

static_assert(powers<segregated<null_resource<>, null_resource<>>>::include<null_resource<>>);

static_assert(powers<statistics<null_resource<>>>::include<null_resource<>>);
static_assert(measured_resource<statistics<null_resource<>>>);

static_assert(powers<stream_ordered<null_resource<>>>::include<null_resource<>>);
static_assert(resource<stream_ordered<null_resource<>>>);
static_assert(forgetting_resource<stream_ordered<null_resource<>>>);

static_assert(powers<arena<null_resource<>>>::include<null_resource<>>);
static_assert(resource<arena<null_resource<>>> && retiring_resource<arena<null_resource<>>>);

static_assert(powers<binned<null_resource<>>>::include<null_resource<>>);
static_assert(resource<binned<null_resource<>>> && retiring_resource<binned<null_resource<>>>);

static_assert(powers<monotonic<null_resource<>>>::include<null_resource<>>);
static_assert(resource<monotonic<null_resource<>>> &&
              retiring_resource<monotonic<null_resource<>>>);

static_assert(powers<pool<null_resource<>>>::include<null_resource<>>);
static_assert(resource<pool<null_resource<>>> && retiring_resource<pool<null_resource<>>>);

static_assert(resource<shard_source<null_resource<>>>);
static_assert(fallible_resource<shard_source<null_resource<>>>);

static_assert(powers<slab<null_resource<>>>::include<null_resource<>>);
static_assert(resource<slab<null_resource<>>> && retiring_resource<slab<null_resource<>>>);

static_assert(resource<any_resource_of<null_resource<>>>);
static_assert(fallible_resource<any_resource_of<null_resource<>>>);
static_assert(sizeof(any_resource_of<null_resource<>>) == 3 * sizeof(void*));

static_assert(std::is_nothrow_move_constructible_v<array<int, null_resource<>>>);

static_assert(!std::copy_constructible<buffer<null_resource<>>>);
static_assert(std::is_nothrow_move_constructible_v<buffer<null_resource<>>>);

static_assert(resource<resource_ref_of<null_resource<>>>);
static_assert(fallible_resource<resource_ref_of<null_resource<>>>);
static_assert(std::is_trivially_copyable_v<resource_ref_of<null_resource<>>>);
static_assert(sizeof(resource_ref_of<null_resource<>>) == 2 * sizeof(void*));

static_assert(powers<shared<null_resource<>>>::include<null_resource<>>);
static_assert(sizeof(shared<null_resource<>>) == sizeof(void*));

static_assert(sizeof(std_allocator<int, null_resource<>>) == 1);

static_assert(retry<calling<bool (*)(failed_attempt const&)>, null_resource<>>);

static_assert(retry<drain, null_resource<>>);

static_assert(retry<trim_upstream, null_resource<>>);

static_assert(retry<wait_backoff<>, null_resource<>>);

} // namespace

TEST_CASE("proofs: a layer over a resource without memory has its powers and its size") {
    CHECK(sizeof(shared<null_resource<>>) == sizeof(void*)); // the rest is checked by the compiler
}
