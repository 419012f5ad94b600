// SPDX-License-Identifier: Apache-2.0
// The code of header comments that launches kernels, and of others that use CUDA, unchanged;
// cmake/snippets.py compares the two.

#include <vram/vram.hpp>

#include "kernels.hpp"

#include <span>   // span
#include <vector> // vector

using namespace vram;
using tests::machine;

namespace {

constexpr int grid = 4, block = 128;

__global__ void kernel() {}
__global__ void kernel(void*) {}
__global__ void kernel(float* p, std::size_t n) {
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) { p[i] += 1; }
}
__global__ void train(float*, std::size_t) {}
__global__ void scale(float*, std::size_t) {}
__global__ void infer(float const* from, float* to, std::size_t n) {
    for (std::size_t i = threadIdx.x; i < n; i += blockDim.x) { to[i] = from[i] + 1; }
}

/// Four batches of zeros.
struct {
    std::size_t read(std::span<std::byte> to, std::size_t i) const {
        for (auto& each : to) { each = {}; }
        return i < 4 ? to.size() : 0;
    }
    void write(std::span<std::byte const> from) {
        written += from.size();
        first = reinterpret_cast<float const*>(from.data())[0];
    }
    std::size_t written = 0;
    float       first   = 0;
} data;

auto const four = [](std::span<std::byte> to, std::size_t i) { return data.read(to, i); };

// clang-format off
void streams() { // on device 1
    cuda_stream side;                             // on the current device
    cuda_stream urgent{cuda_device{1}, {.priority = -5}};
    kernel<<<grid, block, 0, side>>>();
}
void another_device() {
    { cuda_device_guard on{cuda_device{1}};  kernel<<<grid, block>>>(); }
}
void buffers(pool<cuda_resource>& memory, cuda_stream_view stream) {
    buffer scratch{memory, stream, 64_MiB};
    kernel<<<grid, block, 0, stream>>>(scratch.data());
}
float arrays(pool<cuda_resource>& memory, cuda_stream_view stream, std::span<float const> initial) {
    auto weights = make_array<float>(memory, stream, 1'000'000); // array<float, R>
    weights.copy_from(initial); // a span of the host's
    kernel<<<grid, block, 0, stream>>>(weights.data(), weights.size());
    return weights.get(0);
}
void loaders(cuda_stream const& stream) {
    auto& file = data;
    auto fill = [&](std::span<std::byte> to, std::size_t i) { return file.read(to, i); };
    for (auto& batch : loader{fill, stream, {.batch_bytes = 64_MiB, .depth = 2}}) {
        auto const x = batch.span<float>();
        train<<<grid, block, 0, stream>>>(x.data(), x.size());
    }
}
std::size_t batches(cuda_stream const& stream) {
    batch<cuda_platform> kept;
    loader               batches{four, stream, {.batch_bytes = 4_KiB}};
    for (auto& b : batches) {
        auto const x = b.span<float>();
        scale<<<grid, block, 0, stream>>>(x.data(), x.size());
        if (b.index() == 2) { kept = std::move(b); } // the loader goes on with its other slots
    }
    return kept.index();
}
void unloaders(cuda_stream const& stream) {
    auto&  file = data;
    loader loader{four, stream};
    unloader out{[&](std::span<std::byte const> r, std::size_t) { file.write(r); }, stream};
    for (auto& batch : loader) {
        auto result = out.next();                      // device memory, at once
        auto const from = batch.span<float>(), to = result.span<float>();
        infer<<<grid, block, 0, stream>>>(from.data(), to.data(), to.size());
        result.send();                                 // goes once the stream got here
    }
    out.finish();                                      // everything is written
}
int devices_and_events(cuda_stream const& copies, cuda_stream const& stream) {
    // [cuda/cuda_device]
    int const sms = cuda_device::current().attribute(cudaDevAttrMultiProcessorCount);
    // [/cuda/cuda_device]
    // [cuda/cuda_event]
    cuda_event ready;
    ready.record(copies);
    ready.wait(stream); // later work of `stream` waits for the copies; the host does not
    // [/cuda/cuda_event]
    return sms;
}
void fixed() {
    // [pool/fixed_growth]
    pool memory{virtual_resource{}, {}, fixed_growth{.step = 1_GiB}};
    // [/pool/fixed_growth]
    CHECK(memory.usage().reserved == 0);
}
void geometric() {
    // [pool/geometric_growth]
    pool memory{virtual_resource{}, {}, geometric_growth{.share = 0.5}};
    // [/pool/geometric_growth]
    CHECK(memory.usage().reserved == 0);
}
std::size_t staged(cuda_stream const& stream, void* to, std::vector<float> const& from) {
    staging copies{stream};
    // [staging/staging_result]
    staging_result const r = copies.upload(stream, to, from); // r.path, r.reason()
    // [/staging/staging_result]
    return r.bytes;
}
// clang-format on

} // namespace

TEST_CASE("nvcc: the code of header comments that uses CUDA") {
    machine const            here;
    cuda_stream const        copies;
    cuda_stream const        stream;
    pool<cuda_resource>      memory;
    std::vector<float> const from(1000, 1.0F);
    CHECK(devices_and_events(copies, stream) > 0);
    fixed();
    geometric();
    buffer to{memory, stream, 4000};
    CHECK(staged(stream, to.data(), from) == 4000);
}

TEST_CASE("nvcc: the code of header comments that launches kernels") {
    machine const            here;
    cuda_stream const        stream;
    pool<cuda_resource>      memory;
    std::vector<float> const initial(1'000'000, 1.0F);
    int                      devices = 0;
    cuda_check(cudaGetDeviceCount(&devices));
    if (devices > 1) {
        streams();
        another_device();
    }
    buffers(memory, stream);
    CHECK(arrays(memory, stream, initial) == 2.0F);
    loaders(stream);
    CHECK(batches(stream) == 2);
    unloaders(stream);
    CHECK(data.written == 4 * (std::size_t{4} << 20));
    CHECK(data.first == 1.0F);
    stream.synchronize();
    memory.retire(stream);
}
