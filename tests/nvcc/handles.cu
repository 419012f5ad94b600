// SPDX-License-Identifier: Apache-2.0
// Every handle, compiled by nvcc and used by kernels.

#include <vram/interop/pmr.hpp>
#include <vram/vram.hpp>

#include "kernels.hpp"

#include <memory_resource> // pmr::vector
#include <vector>          // vector

using namespace vram;
using tests::machine;
using tests::wrong_words_in;

using stack      = pool<stream_ordered<cuda_resource>>;
using ref        = resource_ref<cuda_platform, device_accessible>;
using any_memory = any_resource<cuda_platform, device_accessible>;
using pinned     = pool<pinned_resource>;

template class vram::shared<stack>;
template class vram::resource_ref<cuda_platform, device_accessible>;
template class vram::any_resource<cuda_platform, device_accessible>;
template class vram::buffer<ref>;
template class vram::buffer<stack&>;
template class vram::buffer<shared<stack>>;
template class vram::array<float, ref>;
template class vram::array<int, stack&>;
template class vram::current<cuda_platform>;
template class vram::current_resource_guard<cuda_platform>;
template class vram::std_allocator<float, shared<pinned>>;
template class vram::pmr<pinned>;
template class vram::pmr_source<cuda_platform, property_set<host_accessible>>;

TEST_CASE("nvcc: handles refer to the stack that they own or reference") {
    machine const here;
    shared        held{stack{}};
    any_memory    owner = held;
    ref           borrowed{held};
    CHECK(wrong_words_in(held) == 0);
    CHECK(wrong_words_in(owner) == 0);
    CHECK(wrong_words_in(borrowed) == 0);
    CHECK(held.usage().live == 0);
    CHECK(held.holders() == 2);
}

TEST_CASE("nvcc: kernels use memory of buffer and array") {
    machine const     here;
    stack             memory;
    cuda_stream const stream;
    {
        buffer             scratch{memory, stream, 1_MiB};
        tests::wrong_words wrong;
        tests::write(stream, scratch.data(), scratch.size(), 7);
        scratch.resize(2_MiB);
        wrong.look(stream, scratch.data(), 1_MiB, 7);
        CHECK(wrong.count() == 0);

        auto weights = make_array<float>(memory, stream, 1000);
        weights.copy_from(std::vector<float>(1000, 0.0F));
        tests::add_to_all<<<4, 256, 0, stream>>>(weights.data(), weights.size(), 2.5F);
        CHECK(weights.get(999) == 2.5F);
        std::vector<float> const initial(1000, 1.0F);
        weights.copy_from(initial);
        CHECK(weights.get(0) == 1.0F);
    }
    CHECK(memory.usage().live == 0);
    stream.synchronize();
    memory.retire(stream);
}

TEST_CASE("nvcc: the current resource of a device, for a scope") {
    machine const here;
    shared        memory{stack{}};
    {
        current_resource_guard<cuda_platform> const scope{memory};
        cuda_stream const                           stream;
        buffer scratch{current<cuda_platform>::get(), stream, 1_MiB};
        tests::write(stream, scratch.data(), scratch.size(), 7);
        CHECK(memory.usage().live == 1_MiB);
        scratch.destroy();
        stream.synchronize();
        memory.retire(stream);
    }
    auto by_default = current_resource<cuda_platform>();
    CHECK(wrong_words_in(by_default) == 0);
    (void)by_default.trim(); // completes the last frees, which a leak checker would list at exit
}

TEST_CASE("nvcc: standard containers in pinned memory, which kernels access") {
    machine const     here;
    shared            memory{pinned{}};
    cuda_stream const stream;
    {
        std::vector<float, std_allocator<float, decltype(memory)>> samples{memory};
        samples.resize(1000);
        tests::add_to_all<<<4, 256, 0, stream>>>(samples.data(), samples.size(), 3.0F);
        cuda_check(cudaGetLastError());
        stream.synchronize();
        CHECK(samples[999] == 3.0F);
    }
    vram::pmr host{pinned{}};
    {
        std::pmr::vector<float> samples{1000, 0.0F, &host};
        tests::add_to_all<<<4, 256, 0, stream>>>(samples.data(), samples.size(), 4.0F);
        cuda_check(cudaGetLastError());
        stream.synchronize();
        CHECK(samples[0] == 4.0F);
    }
    CHECK(memory.usage().live == 0);
}
