// SPDX-License-Identifier: Apache-2.0
// A stack of vram is the memory of RMM's containers and of code in the style of libcudf, and a
// resource of RMM is under a pool of vram.

#include <vram/cuda/cuda.hpp>
#include <vram/interop/rmm.hpp>
#include <vram/vram.hpp>

#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/resource_ref.hpp>

#include <cstdio>
#include <utility>

using namespace vram;

namespace {

// Code in the style of libcudf: it has no line about vram.
rmm::device_uvector<int>
column(std::size_t rows, ::cuda::stream_ref stream,
       rmm::device_async_resource_ref mr = rmm::mr::get_current_device_resource_ref()) {
    return rmm::device_uvector<int>{rows, stream, mr};
}

} // namespace

int main() {
    cuda_stream stream;
    bool        right = true;
    {
        // [current]
        shared memory{limiting{pool<stream_ordered<cuda_resource>>{}, 1_GiB}};
        rmm::mr::set_current_device_resource(as_rmm(memory));
        auto const values = column(1'000'000, stream.get()); // memory of the pool
        try {
            rmm::device_buffer const large{2_GiB, stream.get()};
        } catch (rmm::out_of_memory const& e) { std::puts(e.what()); } // with the numbers of vram
        // [/current]
        right = memory->used() >= 4'000'000;
        rmm::mr::reset_current_device_resource();
    }
    // [upstream]
    pool on_rmm{stream_ordered{mr{rmm::mr::cuda_memory_resource{}}}};
    auto scratch = make_array<float>(on_rmm, stream, 1000);
    // [/upstream]
    return right && on_rmm.usage().live >= 4000 ? 0 : 1;
}
