// SPDX-License-Identifier: Apache-2.0
// The loader with every kind of source, compiled by nvcc; kernels read the batches.

#include <vram/vram.hpp>

#include "../data/files.hpp"
#include "kernels.hpp"

#include <array>      // array
#include <cstring>    // memcpy
#include <functional> // ref
#include <span>       // span
#include <stop_token> // stop_token
#include <vector>     // vector

using namespace vram;
using tests::machine;

namespace {

constexpr std::size_t batches     = 5;
constexpr std::size_t batch_bytes = 64_KiB;

/// Batch `index` is full of words of its own.
std::size_t fill_words(std::span<std::byte> to, std::size_t index) {
    if (index >= batches) { return 0; }
    for (std::size_t i = 0; i < batch_bytes / sizeof(unsigned); ++i) {
        unsigned const word = tests::word(i, static_cast<unsigned>(index));
        std::memcpy(to.data() + i * sizeof word, &word, sizeof word);
    }
    return batch_bytes;
}
/// All batches, one behind the other.
std::vector<unsigned> all_words() {
    std::vector<unsigned> all(batches * batch_bytes / sizeof(unsigned));
    for (std::size_t b = 0; b < batches; ++b) {
        fill_words(std::as_writable_bytes(std::span{all}).subspan(b * batch_bytes), b);
    }
    return all;
}

/// Returns the wrong bytes that kernels find in the batches of a loader; every batch must arrive.
template <class Loader>
unsigned wrong_in(Loader& batches_of, cuda_stream const& stream) {
    tests::wrong_words wrong;
    std::size_t        seen = 0;
    for (auto& batch : batches_of) {
        CHECK(batch.size() == batch_bytes);
        wrong.look(stream, batch.data(), batch.size(), static_cast<unsigned>(batch.index()));
        ++seen;
    }
    CHECK(seen == batches);
    return wrong.count();
}
template <class Source>
unsigned wrong_from(Source source, loader_options options = {.batch_bytes = batch_bytes}) {
    cuda_stream const stream;
    loader            all{std::move(source), stream, options};
    return wrong_in(all, stream);
}

struct with_stop {
    std::size_t fill(std::span<std::byte> to, std::size_t index, std::stop_token const&) {
        return fill_words(to, index);
    }
};
struct with_index {
    std::size_t size() const { return batches; }
    std::size_t batch_bytes() const { return ::batch_bytes; }
    std::size_t fill(std::span<std::byte> to, std::size_t index) { return fill_words(to, index); }
};
struct called_with_stop {
    std::size_t operator()(std::span<std::byte> to, std::size_t index, std::stop_token const&) {
        return fill_words(to, index);
    }
};
struct enqueueing {
    unsigned const* pinned;
    std::size_t     enqueue(std::span<std::byte> to, std::size_t index, cuda_stream_view copies) {
        if (index >= batches) { return 0; }
        cuda_copy(copies, to.data(), pinned + index * batch_bytes / sizeof(unsigned), batch_bytes);
        return batch_bytes;
    }
};

} // namespace

TEST_CASE("nvcc: loader with callables, with and without an index and a stop token") {
    machine const here;
    CHECK(wrong_from(fill_words) == 0);
    CHECK(wrong_from([](std::span<std::byte> to, std::size_t index) {
              return fill_words(to, index);
          }) == 0);
    CHECK(wrong_from([](std::span<std::byte> to, std::size_t index, std::stop_token const&) {
              return fill_words(to, index);
          }) == 0);
    CHECK(wrong_from([next = std::size_t{0}](std::span<std::byte> to) mutable {
              return fill_words(to, next++);
          }) == 0);
    CHECK(wrong_from([](auto to, auto index) { return fill_words(to, index); }) == 0);
    CHECK(wrong_from(called_with_stop{}) == 0);
}

TEST_CASE("nvcc: loader with classes that have a member fill or enqueue") {
    machine const     here;
    pinned_resource   memory;
    auto const        all  = all_words();
    std::size_t const size = all.size() * sizeof(unsigned);
    with_index        mine;
    auto* const       pinned = static_cast<unsigned*>(memory.allocate_sync(size));
    std::memcpy(pinned, all.data(), size);
    CHECK(wrong_from(with_stop{}) == 0);
    CHECK(wrong_from(with_index{}) == 0);
    CHECK(wrong_from(std::ref(mine)) == 0);
    CHECK(wrong_from(enqueueing{pinned}) == 0);
    CHECK(wrong_from(pinned_chunks{std::as_bytes(std::span{pinned, all.size()}), batch_bytes}) ==
          0);
    memory.deallocate_sync(pinned, size);
}

TEST_CASE("nvcc: loader with ranges, memory and files") {
    machine const       here;
    files::folder const folder;
    auto const          all   = all_words();
    auto const          bytes = std::as_bytes(std::span{all});
    auto const          path  = folder.with("all", bytes);

    std::vector<std::vector<unsigned>> parts;
    for (std::size_t b = 0; b < batches; ++b) {
        auto const part = std::span{all}.subspan(b * batch_bytes / 4, batch_bytes / 4);
        parts.emplace_back(part.begin(), part.end());
    }
    CHECK(wrong_from(parts) == 0);
    CHECK(wrong_from(memory_chunks{bytes, batch_bytes}) == 0);
    CHECK(wrong_from(file_chunks{file{path}, batch_bytes}) == 0);
    CHECK(wrong_from(file_records{file{path}, 64, batch_bytes / 64}) == 0);
    mapped_file const map{path};
    CHECK(wrong_from(memory_chunks{map.bytes(), batch_bytes}) == 0);

    std::vector<file_chunks<file>> shards;
    shards.emplace_back(file{folder.with("first", bytes.first(2 * batch_bytes))}, batch_bytes);
    shards.emplace_back(file{folder.with("second", bytes.subspan(2 * batch_bytes))}, batch_bytes);
    CHECK(wrong_from(concat{std::move(shards)}) == 0);
}

TEST_CASE("nvcc: loader with elements, and with fields") {
    machine const here;
    CHECK(wrong_from(typed<unsigned>([](std::span<unsigned> to, std::size_t index) {
              return fill_words(std::as_writable_bytes(to), index) / sizeof(unsigned);
          })) == 0);

    fields<unsigned[64], int> const layout{256};
    auto const source = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index == batches) { return 0; }
        auto const [images, labels] = layout.in(to, 256);
        fill_words(std::as_writable_bytes(images), index);
        for (auto& l : labels) { l = static_cast<int>(index); }
        return layout.bytes(256);
    };
    cuda_stream const  stream;
    tests::wrong_words wrong;
    for (auto& batch : loader{source, stream, {.batch_bytes = layout.batch_bytes()}}) {
        auto const [images, labels] = layout.of(batch);
        CHECK(labels.size() == 256);
        wrong.look(stream, images.data(), images.size_bytes(),
                   static_cast<unsigned>(batch.index()));
    }
    CHECK(wrong.count() == 0);
}

TEST_CASE("nvcc: loader with tiles of a volume, gathered by the host or by the copy engine") {
    machine const            here;
    cuda_stream const        stream;
    std::vector<float> const volume(24 * 20 * 16, 1.0F);
    tiles<3> const           cut{
                  {.extent = {24, 20, 16}, .tile = {8, 8, 8}, .halo = {1, 1, 1}, .outside = boundary::edge}};
    pinned_resource   memory;
    std::size_t const bytes  = volume.size() * sizeof(float);
    auto* const       pinned = static_cast<float*>(memory.allocate_sync(2 * bytes));
    std::span const   result{pinned + volume.size(), volume.size()};
    std::memcpy(pinned, volume.data(), bytes);

    tile_sink const sink{cut, result};
    auto const      pass = [&](auto source, float expected) {
        for (auto& batch : loader{std::move(source), stream}) {
            auto const tile = batch.template span<float>();
            tests::add_to_all<<<4, 128, 0, stream>>>(tile.data(), tile.size(), 1.0F);
            cuda_check(cudaGetLastError());
            sink.enqueue(tile, batch.index(), stream);
        }
        stream.synchronize();
        std::size_t right = 0;
        for (float const each : result) { right += each == expected; }
        CHECK(right == volume.size());
    };
    pass(tile_source{cut, volume}, 2.0F);
    pass(pinned_tile_source{cut, std::span<float const>{pinned, volume.size()}}, 2.0F);
    memory.deallocate_sync(pinned, 2 * bytes);
}

TEST_CASE("nvcc: loader with memory, streams and options of the user's") {
    machine const     here;
    cuda_stream const stream, copies;
    shared            device{pool<cuda_resource>{}};
    shared            pinned{pool<pinned_resource>{}};
    {
        loader given{with_index{}, stream, device, pinned, {.depth = 3, .producers = 2}};
        CHECK(wrong_in(given, stream) == 0);
        given.restart();
        CHECK(wrong_in(given, stream) == 0);
        CHECK(given.statistics().batches == 2 * batches);
    }
    CHECK(device.usage().live == 0);
    loader on_copies{with_index{}, stream, copies};
    CHECK(wrong_in(on_copies, stream) == 0);
    loader plain{with_index{},
                 stream,
                 {.depth = 0, .call_back = false, .completion_flags = false, .timing = true}};
    CHECK(wrong_in(plain, stream) == 0);
}
