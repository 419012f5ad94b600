// SPDX-License-Identifier: Apache-2.0
// The unloader, staging and batches of copies, compiled by nvcc; kernels write the data.

#include <vram/interop/cufile.hpp>
#include <vram/vram.hpp>

#include "../data/files.hpp"
#include "kernels.hpp"

#include <cstring> // memcmp
#include <span>    // span
#include <vector>  // vector

using namespace vram;
using tests::machine;

namespace {

constexpr std::size_t result_bytes = 64_KiB;

std::vector<unsigned> words(std::size_t bytes, unsigned seed) {
    std::vector<unsigned> all(bytes / sizeof(unsigned));
    for (std::size_t i = 0; i < all.size(); ++i) { all[i] = tests::word(i, seed); }
    return all;
}
bool is(std::span<std::byte const> bytes, unsigned seed) {
    auto const expected = words(bytes.size(), seed);
    return std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0;
}

struct counting_sink {
    std::size_t* right;
    void         operator()(std::span<std::byte const> bytes, std::size_t index) const {
        *right += is(bytes, static_cast<unsigned>(index));
    }
};

} // namespace

template class vram::copy_batch<cuda_platform>;
template class vram::staging<cuda_platform>;
template class vram::staging<cuda_platform, registered_resource>;

TEST_CASE("nvcc: unloader with a lambda, a class and a file as its sink") {
    machine const       here;
    cuda_stream const   stream;
    files::folder const folder;
    std::size_t         right = 0;
    auto const          send  = [&](auto& out) {
        for (unsigned i = 0; i < 6; ++i) {
            auto result = out.next();
            tests::write(stream, result.data(), result.size(), i);
            result.send();
        }
        out.finish();
    };
    unloader by_lambda{[&](std::span<std::byte const> bytes, std::size_t index) {
                           right += is(bytes, static_cast<unsigned>(index));
                       },
                       stream,
                       {.batch_bytes = result_bytes}};
    send(by_lambda);
    CHECK(right == 6);

    unloader by_class{counting_sink{&right}, stream, {.batch_bytes = result_bytes}};
    send(by_class);
    CHECK(right == 12);

    shared   device{pool<cuda_resource>{}};
    shared   pinned{pool<pinned_resource>{}};
    file     results{folder / "results", {.use = file_options::mode::create}};
    unloader to_file{[&](std::span<std::byte const> bytes, std::size_t index) {
                         results.write(bytes, index * result_bytes);
                     },
                     stream,
                     device,
                     pinned,
                     {.batch_bytes = result_bytes}};
    send(to_file);
    mapped_file const map{folder / "results"};
    REQUIRE(map.size() == 6 * result_bytes);
    CHECK(is(map.bytes().subspan(5 * result_bytes), 5));
}

TEST_CASE("nvcc: a loop from a loader through a kernel to an unloader") {
    machine const     here;
    cuda_stream const stream;
    std::size_t       right  = 0;
    auto const        source = [](std::span<std::byte> to, std::size_t index) -> std::size_t {
        std::vector<float> const batch(1000, static_cast<float>(index));
        if (index == 8) { return 0; }
        std::memcpy(to.data(), batch.data(), 4000);
        return 4000;
    };
    unloader out{[&](std::span<std::byte const> bytes, std::size_t index) {
                     float first = 0;
                     std::memcpy(&first, bytes.data(), sizeof first);
                     right += bytes.size() == 4000 && first == static_cast<float>(index) + 0.5F;
                 },
                 stream,
                 {.batch_bytes = 4000}};
    for (auto& batch : loader{source, stream, {.batch_bytes = 4000}}) {
        auto result = out.next();
        cuda_copy(stream, result.data(), batch.data(), batch.size());
        auto const numbers = result.span<float>();
        tests::add_to_all<<<4, 256, 0, stream>>>(numbers.data(), numbers.size(), 0.5F);
        cuda_check(cudaGetLastError());
        result.send(batch.size());
    }
    out.finish();
    CHECK(right == 8);
}

TEST_CASE("nvcc: staging moves host memory and files to kernels and back") {
    machine const       here;
    cuda_stream const   stream;
    files::folder const folder;
    constexpr auto      bytes = std::size_t{40} << 20;
    cuda_resource       memory;
    void* const         p    = memory.allocate_sync(bytes);
    auto const          sent = words(bytes, 3);
    tests::wrong_words  wrong;
    auto const          pass = [&](auto& stage) {
        stage.upload(stream, p, sent);
        wrong.look(stream, p, bytes, 3);
        tests::write(stream, p, bytes, 4);
        std::vector<unsigned> back(sent.size());
        stage.download(stream, back, p);
        CHECK(is(std::as_bytes(std::span{back}), 4));

        file kept{folder / "kept", {.use = file_options::mode::create}};
        stage.download(stream, kept, 0, p, bytes);
        tests::write(stream, p, bytes, 5);
        stage.upload(stream, p, file{folder / "kept"}, 0, bytes);
        wrong.look(stream, p, bytes, 4);
        cufile const direct{folder / "kept"};
        stage.upload(stream, p, direct, 0, bytes);
        wrong.look(stream, p, bytes, 4);
    };
    staging usual{stream};
    staging registered{stream, registered_resource{}, {.threads = 2}};
    pass(usual);
    pass(registered);
    CHECK(wrong.count() == 0);
    memory.deallocate_sync(p, bytes);
}

TEST_CASE("nvcc: a batch of copies between blocks") {
    machine const             here;
    cuda_stream const         stream;
    cuda_resource             memory;
    auto* const               all = static_cast<std::byte*>(memory.allocate_sync(2_MiB));
    tests::wrong_words        wrong;
    copy_batch<cuda_platform> rows;
    for (std::size_t i = 0; i < 16; ++i) {
        tests::write(stream, all + i * 64_KiB, 64_KiB, static_cast<unsigned>(i));
        rows.add(all + 1_MiB + i * 64_KiB, all + i * 64_KiB, 64_KiB);
    }
    rows.run(stream);
    for (std::size_t i = 0; i < 16; ++i) {
        wrong.look(stream, all + 1_MiB + i * 64_KiB, 64_KiB, static_cast<unsigned>(i));
    }
    CHECK(wrong.count() == 0);
    memory.deallocate_sync(all, 2_MiB);
}
