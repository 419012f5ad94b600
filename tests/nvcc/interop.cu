// SPDX-License-Identifier: Apache-2.0
// The headers of interop/ that meet CCCL, compiled by nvcc with the CCCL of the Toolkit.

#include <vram/interop/cub.hpp>
#include <vram/interop/dlpack.hpp>
#include <vram/interop/mr.hpp>
#include <vram/interop/thrust_allocator.hpp>
#include <vram/interop/torch.hpp>
#include <vram/vram.hpp>

#include "kernels.hpp"

#include <cub/device/device_reduce.cuh> // DeviceReduce
#include <cuda/stream_ref>              // stream_ref
#include <cuda_bf16.h>                  // __nv_bfloat16
#include <cuda_fp16.h>                  // __half
#include <cuda_fp8.h>                   // __nv_fp8_e4m3, __nv_fp8_e5m2
#include <thrust/device_vector.h>       // device_vector
#include <thrust/execution_policy.h>    // par
#include <thrust/reduce.h>              // reduce
#include <thrust/sequence.h>            // sequence

using namespace vram;
using tests::machine;
using tests::wrong_words_in;

using device_pool = pool<stream_ordered<cuda_resource>>;

#if CCCL_VERSION >= 3001000
using foreign_ref = ::cuda::mr::resource_ref<::cuda::mr::device_accessible>;
#else
using foreign_ref = ::cuda::mr::async_resource_ref<::cuda::mr::device_accessible>;
#endif

template class vram::mr<foreign_ref>;
template class vram::mr_view<device_pool>;
template class vram::thrust_allocator<float>;
template class vram::dlpack<cuda_platform>;
static_assert(detail::dlpack_type_of<__half> == detail::dlpack_type{2, 16, 1});
static_assert(detail::dlpack_type_of<__nv_bfloat16> == detail::dlpack_type{4, 16, 1});
static_assert(detail::dlpack_type_of<__nv_fp8_e4m3> == detail::dlpack_type{10, 8, 1});
static_assert(detail::dlpack_type_of<__nv_fp8_e5m2> == detail::dlpack_type{12, 8, 1});
template class vram::torch_allocator<device_pool>;

TEST_CASE("nvcc: CCCL uses a device_pool, and a device_pool uses CCCL's resource") {
    machine const here;
    device_pool   memory;
    {
        auto     lent = as_mr(memory);
        limiting bounded{from_mr(foreign_ref{lent}), 1_GiB};
        CHECK(wrong_words_in(bounded) == 0);
    }
    CHECK(memory.usage().live == 0);
    shared      held{device_pool{}};
    foreign_ref ref{held};
    mr          back{ref};
    CHECK(wrong_words_in(back) == 0);
}

TEST_CASE("nvcc: streams convert for CUDA, Thrust and CCCL") {
    machine const     here;
    cuda_stream const stream;
    device_pool       memory;
    {
        thrust_allocator<float> const                         alloc{memory, stream};
        thrust::device_vector<float, thrust_allocator<float>> numbers(1000, 1.0F, alloc);
        tests::add_to_all<<<4, 256, 0, stream>>>(thrust::raw_pointer_cast(numbers.data()), 1000,
                                                 1.0F);
        cuda_check(cudaGetLastError());
        float const sum = thrust::reduce(thrust::cuda::par(alloc).on(stream), numbers.begin(),
                                         numbers.end(), 0.0F);
        CHECK(sum == 2000.0F);
        thrust::sequence(thrust::cuda::par_nosync.on(stream.view()), numbers.begin(),
                         numbers.end());
        cuda_check(cudaStreamSynchronize(stream));
        CHECK(numbers[999] == 999.0F);
    }
    ::cuda::stream_ref const reference{stream};
    CHECK(reference.get() == stream);
    cuda_stream_view const view = reference;
    CHECK(view == stream);
    CHECK(memory.usage().live == 0);
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: both phases of an algorithm of CUB are one call") {
    machine const     here;
    cuda_stream const stream;
    device_pool       memory;
    {
        auto numbers = make_array<float>(memory, stream, 1000);
        auto sum     = make_array<float>(memory, stream, 1);
        cuda_fill(stream, numbers.data(), std::byte{0}, 4000);
        tests::add_to_all<<<4, 256, 0, stream>>>(numbers.data(), numbers.size(), 3.0F);
        std::size_t const before = memory.usage().live;
        cub_run(memory, stream, [&](void* storage, std::size_t& bytes) {
            return cub::DeviceReduce::Sum(storage, bytes, numbers.data(), sum.data(), 1000, stream);
        });
        CHECK(memory.usage().live == before);
        CHECK(sum.get(0) == 3000.0F);
#if CCCL_VERSION >= 3004000
        cub_environment const env{memory, stream};
        tests::add_to_all<<<4, 256, 0, stream>>>(numbers.data(), numbers.size(), 1.0F);
        cuda_check(cub::DeviceReduce::Sum(numbers.data(), sum.data(), 1000, env));
        CHECK(sum.get(0) == 4000.0F);
        limiting        none{device_pool{}, 1};
        cub_environment short_of{none, stream};
        CHECK(cub::DeviceReduce::Sum(numbers.data(), sum.data(), 1 << 20, short_of) ==
              cudaErrorMemoryAllocation);
#endif
        CHECK_THROWS_AS(
            cub_run(memory, stream, [](void*, std::size_t&) { return cudaErrorInvalidValue; }),
            cuda_error);
    }
    CHECK(memory.usage().live == 0);
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: CUB's temporary storage is a buffer") {
    machine const     here;
    cuda_stream const stream;
    device_pool       memory;
    {
        auto numbers = make_array<float>(memory, stream, 1000);
        auto sum     = make_array<float>(memory, stream, 1);
        cuda_fill(stream, numbers.data(), std::byte{0}, 4000);
        tests::add_to_all<<<4, 256, 0, stream>>>(numbers.data(), numbers.size(), 3.0F);
        std::size_t bytes = 0;
        cuda_check(
            cub::DeviceReduce::Sum(nullptr, bytes, numbers.data(), sum.data(), 1000, stream));
        buffer scratch{memory, stream, bytes};
        cuda_check(cub::DeviceReduce::Sum(scratch.data(), bytes, numbers.data(), sum.data(), 1000,
                                          stream));
        CHECK(sum.get(0) == 3000.0F);
    }
    CHECK(memory.usage().live == 0);
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: kernels use the memory of a DLPack tensor, in the order of its streams") {
    machine const     here;
    cuda_stream const producer, consumer;
    device_pool       memory;
    {
        auto numbers = make_array<float>(memory, producer, 1000);
        cuda_fill(producer, numbers.data(), std::byte{0}, 4000);
        tests::add_to_all<<<4, 256, 0, producer>>>(numbers.data(), numbers.size(), 3.0F);
        dlpack_versioned* const tensor = to_dlpack(std::move(numbers), consumer, {10, 100});
        CHECK(tensor->dl_tensor.device.device_type == detail::dlpack_device::cuda);
        CHECK(tensor->dl_tensor.device.device_id == cuda_device::current().ordinal());
        dlpack const input{tensor, consumer};
        CHECK_THROWS_AS((void)input.as<int>(), dlpack_error);
        auto const values = input.as<float>();
        tests::add_to_all<<<4, 256, 0, consumer>>>(values.data(), values.size(), 1.0F);
        float last = 0.0F;
        cuda_copy(consumer, &last, &values[999], sizeof last);
        consumer.synchronize();
        CHECK(last == 4.0F);
        pool<stream_ordered<pinned_resource>> of_host;
        auto                                  pinned = make_array<float>(of_host, consumer, 10);
        auto* const host = to_dlpack<dlpack_unversioned>(std::move(pinned), consumer);
        CHECK(host->dl_tensor.device.device_type == detail::dlpack_device::pinned);
        host->deleter(host);
    }
    CHECK(memory.usage().live == 0);
    for (auto const* each : {&producer, &consumer}) {
        each->synchronize();
        memory.retire(*each);
    }
}

TEST_CASE("nvcc: the free of a block waits for each stream that was recorded, and delays none") {
    machine const     here;
    cuda_stream const s, other;
    cuda_device const d = cuda_device::current();
    {
        torch_allocator memory{
            [](cuda_device of) { return device_pool{stream_ordered{cuda_resource{of}}}; }};
        for (int round = 0; round < 100; ++round) {
            auto* const block = static_cast<float*>(memory.allocate(d, s, 4000));
            cuda_fill(s, block, std::byte{0}, 4000);
            cuda_event ready;
            ready.record(s);
            ready.wait(other);
            tests::add_to_all<<<4, 256, 0, other>>>(block, 1000, 1.0F);
            memory.record_stream(block, other);
            memory.deallocate(d, s, block, 4000);
            auto* const next =
                static_cast<float*>(memory.allocate(d, s, 4000)); // while `other` runs
            tests::add_to_all<<<4, 256, 0, s>>>(next, 1000, 1.0F);
            memory.deallocate(d, s, next, 4000);
        }
        cuda_platform::synchronize(d);
        CHECK(memory.stack(d).usage().live == 0);
        CHECK(memory.trim() > 0);
    }
    cuda_check(cudaGetLastError());
}
