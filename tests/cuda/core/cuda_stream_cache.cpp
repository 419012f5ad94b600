// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_stream_cache.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <thread> // thread

using namespace vram::detail;

namespace {

struct first {
    int value = 7;
};
struct second {
    int value = 9;
};

cudaStream_t handle(std::uintptr_t address) { return reinterpret_cast<cudaStream_t>(address); }

} // namespace

TEST_CASE("cuda_stream_cache: a stream has one place, for each type and each thread") {
    first& mine = cuda_stream_cache<first>::place_of(handle(0x1230));
    CHECK(mine.value == 7);
    mine.value = 8;
    CHECK(&cuda_stream_cache<first>::place_of(handle(0x1230)) == &mine);
    CHECK(cuda_stream_cache<second>::place_of(handle(0x1230)).value == 9);
    std::thread{[] {
        CHECK(cuda_stream_cache<first>::place_of(handle(0x1230)).value == 7);
    }}.join();
    mine.value = 7;
}

TEST_CASE("cuda_stream_cache: neighbouring handles have different places") {
    CHECK(&cuda_stream_cache<first>::place_of(handle(0x1230)) !=
          &cuda_stream_cache<first>::place_of(handle(0x1240)));
    CHECK(&cuda_stream_cache<first>::place_of(handle(0x1230)) !=
          &cuda_stream_cache<first>::place_of(handle(0x1630)));
}
