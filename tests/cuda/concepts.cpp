// SPDX-License-Identifier: Apache-2.0
// Concepts of CUDA's platform and resources. They are not in the headers, because the compiler would
// check them in each file of a program.
#include <vram/cuda/cuda.hpp>

#include <vram/concepts/batched_copies.hpp>
#include <vram/concepts/completion_flags.hpp>
#include <vram/concepts/core/stream_hold.hpp>
#include <vram/concepts/memory_kind.hpp>
#include <vram/concepts/platform.hpp>
#include <vram/concepts/powers.hpp>
#include <vram/concepts/property.hpp>
#include <vram/concepts/resource.hpp>
#include <vram/concepts/virtual_memory.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {

static_assert(resource<cuda_async_resource> && fallible_resource<cuda_async_resource>);
static_assert(trimmable_resource<cuda_async_resource> && measured_resource<cuda_async_resource>);
static_assert(has_property<cuda_async_resource, device_accessible>);

static_assert(platform<cuda_platform> && batched_copies<cuda_platform> &&
              completion_flags<cuda_platform>);
static_assert(knows_memory<cuda_platform> && knows_page_tables<cuda_platform> &&
              detail::announces_ends<cuda_platform>);

static_assert(synchronous_resource<cuda_resource> && fallible_resource<cuda_resource>);
static_assert(has_property<cuda_resource, device_accessible>);
static_assert(!has_property<cuda_resource, host_accessible>);

static_assert(synchronous_resource<managed_resource> && fallible_resource<managed_resource>);
static_assert(has_property<managed_resource, device_accessible>);
static_assert(has_property<managed_resource, host_accessible>);

static_assert(synchronous_resource<pinned_resource> && fallible_resource<pinned_resource>);
static_assert(has_property<pinned_resource, host_accessible>);

static_assert(synchronous_resource<registered_resource> && fallible_resource<registered_resource>);
static_assert(has_property<registered_resource, host_accessible>);

static_assert(synchronous_resource<virtual_resource> && fallible_resource<virtual_resource>);
static_assert(owning_resource<virtual_resource> && measured_resource<virtual_resource>);
static_assert(trimmable_resource<virtual_resource> && remappable_resource<virtual_resource>);
static_assert(has_property<virtual_resource, device_accessible>);
static_assert(!has_property<virtual_resource, host_accessible> && !resource<virtual_resource>);

} // namespace

TEST_CASE("cuda: the stream view is as large as a stream's handle") {
    CHECK(sizeof(cuda_stream_view) == sizeof(cudaStream_t)); // the rest is checked by the compiler
}
