// SPDX-License-Identifier: Apache-2.0
// Algorithms of Thrust with RMM's execution policy, on a stack of vram. RMM is optional.
#if __has_include(<rmm/exec_policy.hpp>)

#include <vram/interop/rmm.hpp> // first: the header stands alone

#include <vram/cuda/cuda.hpp>
#include <vram/vram.hpp>

#include <doctest/doctest.h>
#include <rmm/device_uvector.hpp>
#include <rmm/exec_policy.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <thrust/sequence.h>
#include <thrust/sort.h>

using namespace vram;

template class vram::rmm_resource<shared<pool<stream_ordered<cuda_resource>>>>;

TEST_CASE("rmm: exec_policy takes temporary storage from the stack that is current") {
    cuda_stream              owner;
    ::cuda::stream_ref const stream{owner.view().get()};
    shared                   memory{limiting{pool<stream_ordered<cuda_resource>>{}, 64_MiB}};
    auto                     before = rmm::mr::set_current_device_resource(as_rmm(memory));
    {
        rmm::device_uvector<int> v{100'000, stream};
        std::size_t const        live = memory->used();
        CHECK(live >= 400'000);
        thrust::sequence(rmm::exec_policy(stream), v.begin(), v.end());
        thrust::sort(rmm::exec_policy_nosync(stream), v.begin(), v.end(), thrust::greater<int>{});
        CHECK(v.element(0, stream) == 99'999);
        CHECK(memory->used() == live);
        CHECK_THROWS_AS((rmm::device_uvector<int>{1 << 26, stream}), rmm::out_of_memory);
    }
    CHECK(memory->used() == 0);
    (void)rmm::mr::set_current_device_resource(std::move(before));
}

#endif
