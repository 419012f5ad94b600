// SPDX-License-Identifier: Apache-2.0
// Every pool and every growth policy, compiled by nvcc and used by kernels.

#include <vram/vram.hpp>

#include "kernels.hpp"

using namespace vram;
using tests::machine;
using tests::wrong_words_in;

using direct = cuda_resource;
using later  = stream_ordered<cuda_resource>;

template class vram::pool<direct>;
template class vram::pool<later>; // with geometric_growth
template class vram::pool<later, device_share_growth>;
template class vram::pool<later, exact_growth>;
template class vram::pool<later, fixed_growth>;
template class vram::pool<virtual_resource>;
template class vram::pool<cuda_async_resource>;
template class vram::slab<later>;
template class vram::binned<later>;
template class vram::monotonic<later>;

TEST_CASE("nvcc: pool over memory that grows by chunks") {
    machine const             here;
    pool<direct>              over_direct;
    pool<later>               over_later{{.initial_size = 1_MiB}};
    pool                      one_chunk{cuda_resource{}, {.initial_size = 64_MiB}};
    stream_ordered            ordered{pool<cuda_resource>{}};
    pool<later>               eager{{.events = event_policy::eager}};
    pool<cuda_async_resource> over_async;
    CHECK(wrong_words_in(over_direct) == 0);
    CHECK(wrong_words_in(over_later) == 0);
    CHECK(wrong_words_in(one_chunk) == 0);
    CHECK(wrong_words_in(ordered) == 0);
    CHECK(wrong_words_in(eager) == 0);
    CHECK(wrong_words_in(over_async) == 0);
    CHECK(over_later.usage().live == 0);
    over_later.trim(0);
    fragmentation const f{over_later.usage(), over_later.free_memory()};
    CHECK(f.stranded == 0);
}

TEST_CASE("nvcc: pool over virtual memory") {
    machine const          here;
    pool<virtual_resource> in_place;
    pool<virtual_resource> moving{{.remap = true}};
    pool<virtual_resource> slack{{.slack = 0.07}};
    CHECK(wrong_words_in(in_place) == 0);
    CHECK(wrong_words_in(moving) == 0);
    CHECK(wrong_words_in(slack) == 0);
}

TEST_CASE("nvcc: pool with each growth policy") {
    machine const                    here;
    pool<later, device_share_growth> share{later{}, {}, {.percent = 2}};
    pool<later, exact_growth>        exact;
    pool<later, fixed_growth>        fixed{later{}, {}, {.step = 8_MiB}};
    pool<later, geometric_growth>    geometric;
    CHECK(wrong_words_in(share) == 0);
    CHECK(wrong_words_in(exact) == 0);
    CHECK(wrong_words_in(fixed) == 0);
    CHECK(wrong_words_in(geometric) == 0);
}

TEST_CASE("nvcc: slab, binned and monotonic") {
    machine const    here;
    slab<later>      blocks{64_KiB};
    binned<later>    classes;
    monotonic<later> step;
    CHECK(wrong_words_in(blocks, 64_KiB) == 0);
    CHECK(wrong_words_in(classes) == 0);
    CHECK(wrong_words_in(step) == 0);
    cuda_stream const stream;
    auto const        mark = step.mark();
    tests::write(stream, step.allocate(stream, 1_MiB), 1_MiB, 1);
    step.unwind(mark, stream);
    step.unwind_sync(mark);
    step.reset(stream);
    step.reset_sync();
    CHECK(step.usage().live == 0);
    stream.synchronize();
}

TEST_CASE("nvcc: a pool has the peak of a scope") {
    machine const     here;
    pool<later>       memory;
    cuda_stream const stream;
    peak_scope const  scope{memory};
    memory.deallocate(stream, memory.allocate(stream, 1_MiB), 1_MiB);
    CHECK(scope.live() == 1_MiB);
    stream.synchronize();
    memory.retire(stream);
}
