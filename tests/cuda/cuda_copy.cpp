// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_copy.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_async_resource.hpp>
#include <vram/cuda/cuda_stream.hpp>

#include <numeric> // iota
#include <vector>  // vector

using namespace vram;
using tests::machine;

namespace {

/// Device memory for a scope.
struct device_bytes {
    explicit device_bytes(std::size_t n) { cuda_check(cudaMalloc(&p, n)); }
    device_bytes(device_bytes&&) = delete;
    ~device_bytes() { cudaFree(p); }
    void* p = nullptr;
};

std::vector<unsigned char> ascending_bytes(std::size_t n) {
    std::vector<unsigned char> all(n);
    std::iota(all.begin(), all.end(), static_cast<unsigned char>(1));
    return all;
}

} // namespace

TEST_CASE("cuda_copy: bytes are copied both ways, in stream order") {
    machine const              here;
    cuda_stream const          s;
    device_bytes const         first{1000}, second{1000};
    auto const                 from = ascending_bytes(1000);
    std::vector<unsigned char> to(1000);
    cuda_copy(s, first.p, from.data(), 1000);
    cuda_copy(s, second.p, first.p, 1000);
    cuda_copy(s, to.data(), second.p, 1000);
    s.synchronize();
    CHECK(to == from);
}

TEST_CASE("cuda_copy: a copy of zero bytes does nothing, with any pointers") {
    machine const     here;
    cuda_stream const s;
    CHECK_NOTHROW(cuda_copy(s, nullptr, nullptr, 0));
    CHECK_NOTHROW(cuda_copy(s, nullptr, cuda_device{0}, nullptr, cuda_device{0}, 0));
    CHECK_NOTHROW(cuda_copy(s, pitched_copy{.width = 0}));
    CHECK_NOTHROW(cuda_copy(s, pitched_copy{.width = 5, .height = 0}));
    CHECK_NOTHROW(cuda_copy(s, pitched_copy{.width = 5, .depth = 0}));
}

TEST_CASE("cuda_copy: rows are copied from one pitch to another") {
    machine const              here;
    cuda_stream const          s;
    device_bytes const         device{512};
    auto const                 from = ascending_bytes(40);
    std::vector<unsigned char> to(3 * 8, 0);
    cuda_copy(s, {.to         = device.p,
                  .to_pitch   = 128,
                  .from       = from.data(),
                  .from_pitch = 10,
                  .width      = 6,
                  .height     = 3});
    cuda_copy(s, {.to         = to.data(),
                  .to_pitch   = 8,
                  .from       = device.p,
                  .from_pitch = 128,
                  .width      = 6,
                  .height     = 3});
    s.synchronize();
    for (std::size_t y = 0; y < 3; ++y) {
        for (std::size_t x = 0; x < 8; ++x) {
            CHECK(to[y * 8 + x] == (x < 6 ? from[y * 10 + x] : 0));
        }
    }
}

TEST_CASE("cuda_copy: slices are copied from one distance to another") {
    machine const              here;
    cuda_stream const          s;
    device_bytes const         device{4096};
    auto const                 from = ascending_bytes(2 * 48);
    std::vector<unsigned char> to(2 * 3 * 8, 0);
    pitched_copy               box{.to         = device.p,
                                   .to_pitch   = 128,
                                   .to_slice   = 1024,
                                   .from       = from.data(),
                                   .from_pitch = 12,
                                   .from_slice = 48,
                                   .width      = 8,
                                   .height     = 3,
                                   .depth      = 2};
    cuda_copy(s, box);
    cuda_copy(s, {.to         = to.data(),
                  .to_pitch   = 8,
                  .to_slice   = 24,
                  .from       = device.p,
                  .from_pitch = 128,
                  .from_slice = 1024,
                  .width      = 8,
                  .height     = 3,
                  .depth      = 2});
    s.synchronize();
    for (std::size_t z = 0; z < 2; ++z) {
        for (std::size_t y = 0; y < 3; ++y) {
            for (std::size_t x = 0; x < 8; ++x) {
                CHECK(to[(z * 3 + y) * 8 + x] == from[z * 48 + y * 12 + x]);
            }
        }
    }
}

TEST_CASE("cuda_copy: bytes are copied between devices, named or not") {
    machine const      here;
    int const          second_ordinal = tests::two_devices() ? 1 : 0;
    cuda_stream const  s;
    device_bytes const first{256};
    void*              other = nullptr;
    cuda_check(cudaSetDevice(second_ordinal));
    cuda_check(cudaMalloc(&other, 256));
    cuda_check(cudaSetDevice(0));
    auto const                 from = ascending_bytes(256);
    std::vector<unsigned char> to(256);
    cuda_copy(s, first.p, from.data(), 256);
    cuda_copy(s, other, cuda_device{second_ordinal}, first.p, cuda_device{0}, 256);
    cuda_copy(s, to.data(), other, 256);
    s.synchronize();
    CHECK(to == from);
    CHECK_THROWS_AS(cuda_copy(s, other, cuda_device{99}, first.p, cuda_device{0}, 256), cuda_error);
    cuda_check(cudaFree(other));
}

TEST_CASE("cuda_copy: memory of a pool of another device needs access, or both devices named") {
    machine const here;
    if (!tests::two_devices()) { return; }
    cuda_device const   first{0}, second{1};
    cuda_stream const   s{first}, far{second};
    cuda_async_resource memory{second};
    device_bytes const  near{1000};
    void* const         p       = memory.allocate(far, 1000);
    auto const          refused = [&](auto const& copy) {
        far.synchronize();
        try {
            copy();
        } catch (cuda_error const& e) { return e.status() == cudaErrorInvalidValue; }
        s.synchronize();
        return false;
    };
    CHECK(refused([&] { cuda_copy(s, near.p, p, 1000); }));
    CHECK(refused([&] { cuda_copy(s, p, near.p, 1000); }));
    CHECK_FALSE(refused([&] { cuda_copy(s, p, second, near.p, first, 1000); }));
    // Device 0 is current.
    CHECK_FALSE(refused([&] { cuda_copy(far, near.p, p, 1000); }));
    CHECK_FALSE(refused([&] {
        cuda_copy(far, pitched_copy{.to         = p,
                                    .to_pitch   = 100,
                                    .from       = near.p,
                                    .from_pitch = 100,
                                    .width      = 10,
                                    .height     = 10});
    }));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(cuda_device::current() == first);
    if (first.can_access(second)) {
        memory.pool().allow_access(first);
        CHECK_FALSE(refused([&] { cuda_copy(s, p, near.p, 1000); }));
    }
    memory.deallocate(far, p, 1000);
    far.synchronize();
}

TEST_CASE("cuda_copy: an impossible box is a broken contract") {
    machine const                  here;
    cuda_stream const              s;
    device_bytes const             device{4096};
    auto const                     from = ascending_bytes(4096);
    doubles::contracts_throw const throws;
    pitched_copy const             narrow{.to         = device.p,
                                          .to_pitch   = 4,
                                          .from       = from.data(),
                                          .from_pitch = 8,
                                          .width      = 8,
                                          .height     = 2};
    pitched_copy const             crooked{.to         = device.p,
                                           .to_pitch   = 8,
                                           .to_slice   = 20,
                                           .from       = from.data(),
                                           .from_pitch = 8,
                                           .from_slice = 16,
                                           .width      = 8,
                                           .height     = 2,
                                           .depth      = 2};
    CHECK_THROWS_AS(cuda_copy(s, narrow), doubles::broken_contract);
    CHECK_THROWS_AS(cuda_copy(s, crooked), doubles::broken_contract);
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_copy: every error of the runtime is thrown") {
    machine const      here;
    cuda_stream const  s;
    device_bytes const device{4096};
    auto const         from    = ascending_bytes(4096);
    auto const         nothing = [] {};
    pitched_copy       box{.to         = device.p,
                           .to_pitch   = 8,
                           .to_slice   = 16,
                           .from       = from.data(),
                           .from_pitch = 8,
                           .from_slice = 16,
                           .width      = 8,
                           .height     = 2};
    CHECK(tests::walk_failures([&] { cuda_copy(s, device.p, from.data(), 100); }, nothing) == 2);
    CHECK(tests::walk_failures([&] { cuda_copy(s, box); }, nothing) == 2);
    box.depth = 2;
    CHECK(tests::walk_failures([&] { cuda_copy(s, box); }, nothing) == 2);
    CHECK(tests::walk_failures(
              [&] {
                  auto* const to = static_cast<std::byte*>(device.p) + 8;
                  cuda_copy(s, to, cuda_device{0}, device.p, cuda_device{0}, 8);
              },
              nothing) == 2);
    s.synchronize();
}
#endif
