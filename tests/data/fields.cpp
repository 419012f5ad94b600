// SPDX-License-Identifier: Apache-2.0
#include <vram/data/fields.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"

#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

using namespace vram;

namespace fields_tests {

struct label {
    std::int16_t value;
};
using sample = fields<float[3][2], label, double>;

/// Memory like that of a loader's slot: aligned, and with the interface of a batch.
struct block {
    explicit block(std::size_t bytes) : all(bytes / sizeof(line) + 1), size_{bytes} {}

    [[nodiscard]] std::byte*           data() const { return const_cast<std::byte*>(all[0].bytes); }
    [[nodiscard]] std::size_t          size() const { return size_; }
    [[nodiscard]] std::span<std::byte> span() const { return {data(), size_}; }

    struct alignas(256) line {
        std::byte bytes[256];
    };
    std::vector<line> all;
    std::size_t       size_;
};

TEST_CASE("fields: each field begins at its alignment, and has room for all samples") {
    sample const layout{10};
    CHECK(layout.samples() == 10);
    CHECK(layout.offset<0>() == 0);
    CHECK(layout.offset<1>() == 256);
    CHECK(layout.offset<2>() == 512);
    CHECK(layout.batch_bytes() == 512 + 10 * sizeof(double));
    CHECK(layout.bytes(3) == 512 + 3 * sizeof(double));
    CHECK(layout.bytes(0) == 0);
    sample const close{11, 1}; // as near as the types allow
    CHECK(close.offset<1>() == 11 * 24);
    CHECK(close.offset<2>() == 288); // 11 * 24 + 11 * 2 is 286
    static_assert(std::is_same_v<sample::element<0>, float>);
    static_assert(sample::per_sample<0> == 6);
    static_assert(std::is_same_v<sample::element<1>, label>);
    static_assert(sample::per_sample<1> == 1);
    static_assert(sample::index_of<label> == 1);
    static_assert(sample::index_of<double> == 2);
    static_assert(sample::index_of<float[3][2]> == 0);
    static_assert(sample::count == 3);
}

TEST_CASE("fields: data written by sample is read by field, also in short batches") {
    sample const layout{10};
    block        memory{layout.batch_bytes()};
    for (std::size_t n = 1; n <= 10; ++n) {
        auto const [pixels, labels, weights] = layout.in(memory.span(), n);
        CHECK(pixels.size() == 6 * n);
        CHECK(labels.size() == n);
        CHECK(weights.size() == n);
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t p = 0; p < 6; ++p) { pixels[6 * i + p] = static_cast<float>(i + p); }
            labels[i]  = {static_cast<std::int16_t>(n * 100 + i)};
            weights[i] = static_cast<double>(i) / 2;
        }
        memory.size_ = layout.bytes(n); // the size of the loader's batch
        CHECK(layout.samples_in(memory.size()) == n);
        auto const [p, l, w] = layout.of(memory);
        CHECK(p.data() == pixels.data());
        CHECK(p.size() == pixels.size());
        CHECK(l.size() == n);
        CHECK(l[n - 1].value == static_cast<std::int16_t>(n * 100 + n - 1));
        CHECK(w[n - 1] == static_cast<double>(n - 1) / 2);
        CHECK(p[6 * n - 1] == static_cast<float>(n + 4));
        CHECK(layout.get<1>(memory).data() == labels.data());
        CHECK(layout.get<label>(memory).data() == labels.data());
        CHECK(layout.get<float[3][2]>(memory).size() == 6 * n);
        CHECK(layout.in<2>(memory.span(), n).data() == weights.data());
        memory.size_ = layout.batch_bytes();
    }
}

// 32
TEST_CASE("fields: one copy transfers all fields, and offsets are equal in every batch") {
    sim_node      node;
    sim_stream    stream;
    sample const  layout{4};
    constexpr int all  = 10; // samples: batches of 4, 4 and 2
    auto const    fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        std::size_t const first = index * layout.samples();
        if (first >= all) { return 0; }
        std::size_t const n                  = std::min(layout.samples(), all - first);
        auto const [pixels, labels, weights] = layout.in(to, n);
        for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t p = 0; p < 6; ++p) {
                pixels[6 * i + p] = static_cast<float>(10 * (first + i) + p);
            }
            labels[i]  = {static_cast<std::int16_t>(first + i)};
            weights[i] = 0.5;
        }
        return layout.bytes(n);
    };
    int                    seen = 0;
    std::vector<std::byte> back;
    for (auto& b : loader{fill, stream, {.batch_bytes = layout.batch_bytes()}}) {
        auto const [pixels, labels, weights] = layout.of(b);
        CHECK(reinterpret_cast<std::byte*>(labels.data()) == b.data() + 256);
        CHECK(is_aligned(weights.data(), 256));
        std::vector<float> p(pixels.size());
        std::vector<label> l(labels.size());
        sim_copy(stream, p.data(), pixels.data(), pixels.size_bytes());
        sim_copy(stream, l.data(), labels.data(), labels.size_bytes());
        stream.synchronize();
        for (std::size_t i = 0; i < l.size(); ++i, ++seen) {
            CHECK(l[i].value == seen);
            CHECK(p[6 * i + 5] == static_cast<float>(10 * seen + 5));
        }
    }
    CHECK(seen == 10);
    CHECK(node.figures().operations[static_cast<std::size_t>(sim_engine::to_device)] == 3);
    CHECK(node.reports().empty());
}

TEST_CASE("fields: a batch of another layout is refused") {
    using r = layout_error::reason;
    sample const layout{10};
    for (std::size_t const bytes :
         {std::size_t{1}, std::size_t{511}, std::size_t{512}, std::size_t{513},
          layout.batch_bytes() + sizeof(double), unsatisfiable}) {
        CAPTURE(bytes);
        try {
            (void)layout.samples_in(bytes);
            FAIL("no number of samples has so many bytes");
        } catch (layout_error const& e) {
            CHECK(e.why() == r::not_whole);
            CHECK(e.value() == bytes);
            CHECK(e.limit() == layout.batch_bytes());
        }
    }
    CHECK(layout.samples_in(0) == 0);
    block const memory{layout.bytes(5)};
    CHECK_NOTHROW((void)layout.in(memory.span(), 5));
    try {
        (void)layout.in(memory.span(), 6);
        FAIL("there is room for five");
    } catch (layout_error const& e) {
        CHECK(e.why() == r::wrong_size);
        CHECK(e.value() == layout.bytes(5));
        CHECK(e.limit() == layout.bytes(6));
    }
    CHECK_THROWS_AS((void)layout.bytes(11), layout_error);
}

TEST_CASE("fields: zero samples, or more than can be counted, are a broken layout") {
    using r        = layout_error::reason;
    auto const why = [](std::size_t n) {
        try {
            fields<double[1000], char> const layout{n};
        } catch (layout_error const& e) { return e; }
        FAIL("nothing was thrown");
        return layout_error{r::overlap};
    };
    CHECK(why(0).why() == r::empty);
    for (std::size_t const n : {unsatisfiable, unsatisfiable / 8000 + 1}) {
        CHECK(why(n).why() == r::too_large);
        CHECK(why(n).value() == n);
        CHECK(why(n).dimension() == 0);
    }
    CHECK(why(unsatisfiable / 8001 + 1).dimension() == 1); // the first has its room, and only that
    std::size_t const                fits = unsatisfiable / 8001 - 1;
    fields<double[1000], char> const largest{fits};
    CHECK(largest.samples_in(largest.bytes(fits)) == fits);
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((void)(fields<int>{1, 3}), doubles::broken_contract);
}

} // namespace fields_tests

template class vram::fields<float[3][2], fields_tests::label, double>;
template class vram::fields<char>;
