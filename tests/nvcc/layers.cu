// SPDX-License-Identifier: Apache-2.0
// Every resource of CUDA and every layer, compiled by nvcc and used by kernels.

#include <vram/vram.hpp>

#include "kernels.hpp"

#include <functional>

using namespace vram;
using tests::machine;

namespace tests {
/// Counts live blocks, chunks and events.
struct event_counts {
    int blocks = 0, chunks = 0, events = 0;

    template <class Stream>
    void observe(memory_event<Stream> const& e) noexcept {
        blocks += (e.kind == memory_event_kind::allocated) - (e.kind == memory_event_kind::freed);
        chunks += (e.kind == memory_event_kind::chunk_added) -
                  (e.kind == memory_event_kind::chunk_removed);
        ++events;
    }
};
} // namespace tests
using tests::wrong_words_in;
using tests::wrong_words_in_sync;

using direct = cuda_resource;
using later  = stream_ordered<cuda_resource>;

template class vram::aligned<later>;
template class vram::fallback<later, later>;
template class vram::limiting<later>;
template class vram::limiting<direct>;
template class vram::locked<later>;
static_assert(observer<tests::event_counts, later::platform::stream>);
template class vram::observed<later, tests::event_counts>;
template class vram::pool<observed<later, tests::event_counts>>;
template class vram::segregated<later, later>;
template class vram::statistics<later>;
template class vram::stream_ordered<direct>;
template class vram::retrying<later, trim_upstream, wait_backoff<>, drain>;
template class vram::virtual_source<vram::detail::cuda_virtual_memory>;

TEST_CASE("nvcc: each CUDA resource without an upstream") {
    machine const       here;
    cuda_resource       device;
    cuda_async_resource async;
    pinned_resource     pinned;
    managed_resource    managed;
    registered_resource registered;
    virtual_resource    pages;
    CHECK(wrong_words_in_sync(device) == 0);
    CHECK(wrong_words_in_sync(async) == 0);
    CHECK(wrong_words_in(async) == 0);
    CHECK(wrong_words_in_sync(pinned) == 0);
    CHECK(wrong_words_in_sync(managed) == 0);
    CHECK(wrong_words_in_sync(registered) == 0);
    CHECK(wrong_words_in_sync(pages) == 0);
    void* const     block = device.allocate_sync(1_MiB);
    region_resource region{block, 1_MiB};
    CHECK(wrong_words_in_sync(region) == 0);
    device.deallocate_sync(block, 1_MiB);
    null_resource none;
    CHECK(none.try_allocate_sync(1) == nullptr);
    host_resource host;
    host.deallocate_sync(host.allocate_sync(100), 100);
}

TEST_CASE("nvcc: each layer over stream-ordered memory") {
    machine const here;
    aligned       whole{later{}, 4_KiB, aligned_size::rounded_up};
    fallback      either{limiting{later{}, 2_MiB}, later{}};
    limiting      bounded{later{}, 1_GiB};
    locked        one_by_one{later{}};
    segregated    by_size{later{}, later{}, 4_KiB};
    statistics    counted{later{}};
    retrying      insisting{later{}, trim_upstream{}, wait_backoff{}, drain{}};
    CHECK(wrong_words_in(whole) == 0);
    CHECK(wrong_words_in(either) == 0);
    CHECK(either.fallen_back() == 0);
    CHECK(wrong_words_in(bounded) == 0);
    CHECK(wrong_words_in(one_by_one) == 0);
    CHECK(wrong_words_in(by_size) == 0);
    CHECK(wrong_words_in(counted) == 0);
    CHECK(counted.overall().blocks.total == 300);
    CHECK(wrong_words_in(insisting) == 0);
}

TEST_CASE("nvcc: pools over an observed layer notify it") {
    machine const       here;
    tests::event_counts seen;
    {
        auto memory =
            cuda_resource{} | with::stream_ordered | with::observed(std::ref(seen)) | with::pool;
        CHECK(wrong_words_in(memory) == 0);
    }
    CHECK(seen.blocks == 0);
    CHECK(seen.chunks == 0);
    CHECK(seen.events > 4);
}

TEST_CASE("nvcc: a stack in reading order, and a layer found in it") {
    machine const here;
    auto          memory = cuda_resource{} |
                  with::stream_ordered(stream_ordered_options{.frees_per_event = 1}) |
                  with::limiting(1_GiB) | with::aligned(512) | with::statistics | with::locked;
    CHECK(wrong_words_in(memory) == 0);
    CHECK(ancestor<limiting>(memory).limit() == 1_GiB);
    CHECK(ancestor<statistics>(memory).overall().blocks.total == 300);
}

TEST_CASE("nvcc: a refusal of a limit is an exception with numbers") {
    machine const     here;
    limiting          bounded{later{}, 1_MiB};
    cuda_stream const stream;
    try {
        (void)bounded.allocate(stream, 2_MiB);
        FAIL("the limit did not hold");
    } catch (over_limit const& e) { CHECK(e.numbers().limit == 1_MiB); }
    CHECK(bounded.try_allocate(stream, 2_MiB) == nullptr);
}
