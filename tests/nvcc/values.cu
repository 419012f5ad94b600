// SPDX-License-Identifier: Apache-2.0
// The small public types, compiled by nvcc: options, numbers, errors, and the parts of CUDA that no
// resource hides.

#include <vram/vram.hpp>

#include "../cuda/machine.hpp"

#include <vram/cuda/cuda.hpp>

#include <span>        // span
#include <string>      // string
#include <type_traits> // is_same_v
#include <vector>      // vector

using namespace vram;
using tests::machine;

static_assert(VRAM_VERSION > 0);
static_assert(platform<cuda_platform> && knows_memory<cuda_platform>);
static_assert(powers<pool<cuda_resource>>::include<cuda_resource>);
static_assert(property<device_accessible> && growth<default_growth<cuda_resource>>);
static_assert(retry<drain, cuda_resource>);
static_assert(batched_copies<cuda_platform> && completion_flags<cuda_platform>);
static_assert(expandable_resource<virtual_resource> && !expandable_resource<cuda_resource>);
static_assert(virtual_memory<detail::cuda_virtual_memory>);
static_assert(std::is_same_v<platform_of<cuda_stream>, cuda_platform>);
static_assert(std::is_same_v<host_resource::platform, host_platform>);

namespace {

/// A layer of the user's.
class passing : public layer_base<cuda_resource> {
public:
    passing() : layer_base<cuda_resource>{cuda_resource{}} {}
    void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                        call_site at = {}) {
        return sited{upstream_, at}.allocate_sync(bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) noexcept {
        upstream_.deallocate_sync(p, bytes, alignment);
    }
};
static_assert(synchronous_resource<passing>);

template <class Error, class Call>
std::string what_is_thrown(Call call) {
    try {
        call();
    } catch (Error const& e) { return e.what(); }
    return {};
}

unsigned told = 0;
void     count(error const&) noexcept { ++told; }

} // namespace

TEST_CASE("nvcc: options are aggregates, and stacks take them") {
    machine const          here;
    pool_options const     sizes{.initial_size = 1_MiB, .max_size = 1_GiB};
    arena_options const    arena_shards{.count = 2, .key = arena_key::stream};
    binned_options const   classes{.largest = 1_MiB};
    virtual_options const  pages{};
    unloader_options const results{.batch_bytes = 1_MiB};
    staging_options const  threads{.threads = 1};
    cuda_stream const      stream;
    pool<cuda_resource>    memory{sizes};
    CHECK(memory.options().max_size == 1_GiB);
    CHECK(memory.usage().reserved == 1_MiB);
    free_pieces const free = memory.free_memory();
    CHECK(free.bytes == 1_MiB);
    arena<stream_ordered<cuda_resource>> many{arena_shards};
    CHECK(many.options().count == 2);
    binned<stream_ordered<cuda_resource>> bins{classes};
    CHECK(bins.largest() == 1_MiB);
    virtual_resource in_place{pages};
    in_place.deallocate_sync(in_place.allocate_sync(1_MiB), 1_MiB);
    staging              stage{stream, threads};
    int                  sent = 7, back = 0;
    auto*                there = memory.allocate_sync(sizeof sent);
    auto const           one   = stage.upload(stream, there, std::span{&sent, 1});
    staging_result const two   = stage.download(stream, std::span{&back, 1}, there);
    CHECK(back == 7);
    CHECK(one.path != transfer_path::nothing);
    CHECK(two.path != transfer_path::nothing);
    memory.deallocate_sync(there, sizeof sent);
    unloader out{[](std::span<std::byte const>, std::size_t) {}, stream, results};
    out.finish();
    monotonic<cuda_resource> step;
    monotonic_mark const     mark = step.mark();
    step.unwind_sync(mark);
    detail::ring<cuda_platform> const chunks{cuda_device::current(), pinned_resource{}, threads};
    CHECK(chunks.pinned_bytes() > 0);
}

TEST_CASE("nvcc: errors have texts with the details") {
    machine const                       here;
    slab<stream_ordered<cuda_resource>> small{64_KiB};
    cuda_stream const                   stream;
    CHECK(!what_is_thrown<over_size>([&] { (void)small.allocate(stream, 1_MiB); }).empty());
    CHECK(!what_is_thrown<file_error>([] { file const none{"/nowhere/at/all"}; }).empty());
    CHECK(!what_is_thrown<layout_error>([] { chunking const none{1, 0}; }).empty());
    CHECK(!what_is_thrown<cuda_error>([] { cuda_check(cudaErrorInvalidValue); }).empty());
    CHECK(!what_is_thrown<loader_error>([&] {
               loader twice{[](std::span<std::byte>) { return std::size_t{0}; }, stream};
               (void)twice.begin();
               (void)twice.begin();
           }).empty());
    CHECK(!what_is_thrown<staging_error>([&] {
               staging{stream}.upload(stream, nullptr, std::vector<int>(100));
           }).empty());
    error_sink const before = set_error_sink(count);
    {
        error_count const errors;
        report_error(error{.kind = error_kind::leak, .bytes = 1});
        CHECK(std::string{error_text{error{.kind = error_kind::leak}}.c_str()}.find("leak") !=
              std::string::npos);
        CHECK(errors.count() == 1);
    }
    set_error_sink(before);
    CHECK(told == 1);
}

TEST_CASE("nvcc: devices, pools of the driver, and copies") {
    machine const           here;
    cuda_device_guard const on{cuda_device::current()};
    memory_info const       info = cuda_memory_info(cuda_device::current());
    CHECK(info.free <= info.total);
    cuda_pool const   pool{cuda_device::current()};
    cuda_stream const stream;
    pinned_resource   pinned;
    cuda_resource     device;
    auto* const       from = static_cast<int*>(pinned.allocate_sync(8));
    void* const       to   = device.allocate_sync(8);
    CHECK(pool.usage().live == 0);
    CHECK(cuda_platform::memory_kind_of(to) == memory_kind::device);
    from[0] = 5;
    cuda_copy(stream, to, from, 4);
    cuda_copy(stream, from + 1, to, 4);
    stream.synchronize();
    CHECK(from[1] == 5);
    cuda_copy(
        stream,
        pitched_copy{.to = from + 1, .to_pitch = 4, .from = from, .from_pitch = 4, .width = 4});
    stream.synchronize();
    CHECK(from[1] == 5);
    pinned.deallocate_sync(from, 8);
    device.deallocate_sync(to, 8);
    passing mine;
    mine.deallocate_sync(mine.allocate_sync(100), 100);
    CHECK(layer_name<limiting<cuda_resource>>() == "limiting");
    loader batches{[](std::span<std::byte>, std::size_t) { return std::size_t{0}; }, stream};
    slot_states const states = batches.states();
    CHECK(states.held == 0);
    CHECK(platform_clock<cuda_platform>::now() > 0);
}
