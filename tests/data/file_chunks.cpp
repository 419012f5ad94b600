// SPDX-License-Identifier: Apache-2.0
#include <vram/data/file_chunks.hpp> // first: the header stands alone

#include "../transfer/feeding.hpp"
#include "files.hpp"

#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#include <doctest/doctest.h>

#include <new>
#include <thread>
#include <vector>

using namespace vram;

template class vram::file_chunks<file>;

namespace file_chunks_tests {

using files::content;
using files::same;

/// Collects all batches of a source on the device, with their offsets.
template <class Source>
std::vector<std::vector<std::byte>> through_a_loader(Source const& source, std::size_t room) {
    sim_node                            node;
    sim_stream                          stream;
    std::vector<std::vector<std::byte>> all;
    auto const fill = [&](std::span<std::byte> to, std::size_t index, std::stop_token const& stop) {
        return source.fill(to, index, stop);
    };
    for (auto& b : loader{fill, stream, {.batch_bytes = room}}) {
        std::vector<std::byte> back(b.size());
        sim_copy(stream, back.data(), b.data(), b.size());
        stream.synchronize();
        all.push_back(std::move(back));
    }
    CHECK(node.reports().empty());
    return all;
}

TEST_CASE("file_chunks: a loader reads the file chunk by chunk, the last one short") {
    files::folder const here;
    auto const          all = content(10'500);
    file_chunks const   source{file{here.with("a", all)}, 1000};
    CHECK(source.size() == 11);
    CHECK(source.batch_bytes() == 1000);
    auto const got = through_a_loader(source, 1000);
    REQUIRE(got.size() == 11);
    for (std::size_t i = 0; i < 11; ++i) {
        CHECK(same(got[i], std::span{all}.subspan(i * 1000, i < 10 ? 1000 : 500)));
        CHECK(source[i].offset == i * 1000);
    }
}

TEST_CASE("file_chunks: chunks may overlap, begin after a header, and omit a short last one") {
    files::folder const here;
    auto const          all = content(1000);
    auto const          got = through_a_loader(
        file_chunks{
            file{here.with("a", all)}, 300, {.first = 10, .overlap = 50, .drop_partial = true}},
        300);
    REQUIRE(got.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(same(got[i], std::span{all}.subspan(10 + i * 250, 300)));
    }
}

TEST_CASE("file_chunks: an empty file has no batches") {
    files::folder const here;
    file_chunks const   source{file{here.with("a", {})}, 1000};
    CHECK(source.size() == 0);
    CHECK(source.batch_bytes() == 1);
    CHECK(through_a_loader(source, 1).empty());
}

TEST_CASE("file_chunks: a chunk that does not fit is not read, and a loader reports it") {
    files::folder const    here;
    file_chunks const      source{file{here.with("a", content(1000))}, 600};
    std::vector<std::byte> small(599);
    CHECK(source.fill(small, 0) == 600);
    CHECK(same(small, std::vector<std::byte>(599)));
    CHECK(source.fill(small, 1) == 400);
    CHECK(source.fill(small, 2) == 0);
    try {
        (void)through_a_loader(source, 599);
        FAIL("a slot holds no such batch");
    } catch (loader_error const& e) {
        CHECK(e.why() == loader_error::reason::too_large);
        CHECK(e.bytes() == 600);
        CHECK(e.limit() == 599);
    }
}

TEST_CASE(
    "file_chunks: a file that is truncated during the loop is an error at exactly that batch") {
    files::folder const here;
    file_chunks const   source{file{here.with("a", content(1000))}, 300};
    std::filesystem::resize_file(here / "a", 700);
    sim_node    node;
    sim_stream  stream;
    std::size_t seen = 0;
    auto const  fill = [&](std::span<std::byte> to, std::size_t index) {
        return source.fill(to, index);
    };
    try {
        for (auto& b : loader{fill, stream, {.batch_bytes = 300}}) { seen += b.index() == seen; }
        FAIL("batch 2 ends beyond the file");
    } catch (loader_error const& at) {
        CHECK(at.index() == 2);
        auto const e = feeding::cause_of<file_error>(at);
        CHECK(e.ends_early());
        CHECK(e.path() == here / "a");
        CHECK(e.offset() == 600);
        CHECK(e.wanted() == 300);
        CHECK(e.got() == 100);
    }
    CHECK(seen == 2);
}

TEST_CASE("file_chunks: chunks beyond 4 GiB have the right offsets") {
    files::folder const   here;
    constexpr std::size_t chunk = std::size_t{1} << 30;
    constexpr std::size_t total = 5 * chunk + 1000;
    auto const            end   = content(1000);
    file                  f{here.sparse("a", total), {.use = file_options::mode::update}};
    f.write(end, total - 1000);
    file_chunks const source{std::move(f), chunk};
    REQUIRE(source.size() == 6);
    CHECK(source[5] == chunking::piece{5 * chunk, 1000});
    std::vector<std::byte> back(1000);
    CHECK(source.fill(back, 5) == 1000);
    CHECK(same(back, end));
}

TEST_CASE("file_chunks: after a stop request it does not continue to read") {
    files::folder const    here;
    constexpr std::size_t  bytes = std::size_t{17} << 20; // two looks at the token
    file_chunks const      source{file{here.sparse("a", bytes)}, bytes};
    std::vector<std::byte> to(bytes, std::byte{1});
    CHECK(source.fill(to, 0) == bytes);
    CHECK(to.front() == std::byte{0});
    CHECK(to.back() == std::byte{0});
    std::stop_source stop;
    stop.request_stop();
    to.front() = std::byte{1};
    CHECK(source.fill(to, 0, stop.get_token()) == 0);
    CHECK(to.front() == std::byte{1});
}

TEST_CASE("file_chunks: many threads fill concurrently, also with direct I/O") {
    files::folder const   here;
    constexpr std::size_t chunk = 8192, batches = 40;
    auto const            all = content(chunk * batches - 100);
    file_chunks const     source{file{here.with("a", all), {.direct = true}}, chunk};
    REQUIRE(source.size() == batches);
    std::vector<int> right(batches);
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                auto* const p = static_cast<std::byte*>(
                    ::operator new(chunk, std::align_val_t{file::direct_alignment}));
                for (std::size_t i = t; i < batches; i += 4) {
                    std::size_t const n = source.fill({p, chunk}, i);
                    right[i] = same({p, n}, std::span{all}.subspan(i * chunk, n)) ? 1 : 0;
                }
                ::operator delete(p, std::align_val_t{file::direct_alignment});
            });
        }
    }
    for (int r : right) { CHECK(r == 1); }
}

} // namespace file_chunks_tests
