// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/copy_batch.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include "../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace vram;

template class vram::copy_batch<sim_platform>;
template class vram::copy_batch<host_platform>;

namespace {
/// Rows of pinned memory and their places on a device, in reverse order.
struct copied_rows {
    static constexpr std::size_t row = 64;

    explicit copied_rows(std::size_t n)
        : rows{n},
          host{static_cast<unsigned char*>(pinned.allocate_sync(n * row))},
          far{static_cast<unsigned char*>(device.allocate_sync(n * row))} {
        for (std::size_t i = 0; i < n * row; ++i) { host[i] = static_cast<unsigned char>(i % 249); }
    }
    copied_rows(copied_rows&&) = delete;
    ~copied_rows() {
        device.deallocate_sync(far, rows * row);
        pinned.deallocate_sync(host, rows * row);
    }
    void ask(copy_batch<sim_platform>& batch) const {
        for (std::size_t i = 0; i < rows; ++i) {
            batch.add(far + (rows - 1 - i) * row, host + i * row, row);
        }
    }
    [[nodiscard]] bool arrived() const {
        auto const there = sim_view(std::span{far, rows * row});
        bool       same  = true;
        for (std::size_t i = 0; i < rows * row; ++i) {
            same = same && there[(rows - 1 - i / row) * row + i % row] == host[i];
        }
        return same;
    }

    sim_pinned_resource pinned{};
    sim_resource        device{};
    std::size_t         rows;
    unsigned char*      host;
    unsigned char*      far;
};
} // namespace

TEST_CASE("copy_batch: all copies are made, several with one call") {
    for (std::size_t const most : {0U, 1U, 2U, 7U, 100U, 1000U}) {
        sim_node                 node{{.call_cost = sim_time{1000}}};
        sim_stream const         stream;
        copied_rows const        rows{100};
        auto const               before = node.faults().calls(sim_call_kind::copy);
        copy_batch<sim_platform> batch{most};
        rows.ask(batch);
        CHECK(batch.size() == 100);
        CHECK(batch.bytes() == 6400);
        auto const did = batch.run(stream);
        CHECK(batch.empty());
        CHECK(batch.bytes() == 0);
        CHECK(did.bytes == 6400);
        CHECK(did.path == (most < 2 ? transfer_path::direct_small : transfer_path::batched));
        std::size_t const calls = most < 2 ? 100 : (100 + most - 1) / most;
        CHECK(did.pieces == calls);
        CHECK(node.faults().calls(sim_call_kind::copy) - before == calls);
        stream.synchronize();
        CHECK(rows.arrived());
        CHECK(node.reports().empty());
    }
}

TEST_CASE("copy_batch: on a platform without batches, copies are queued one by one") {
    sim_node                 node;
    copied_rows const        rows{10};
    copy_batch<sim_platform> batch;
    rows.ask(batch);
    CHECK(batch.run(sim_stream_view{}).path == transfer_path::direct_small);
    sim_stream_view{}.synchronize();
    CHECK(rows.arrived());
    char                      from[3] = {1, 2, 3}, to[3] = {};
    copy_batch<host_platform> plain;
    for (int i = 0; i < 3; ++i) { plain.add(to + i, from + i, 1); }
    CHECK(plain.run({}).pieces == 3);
    CHECK(to[2] == 3);
}

TEST_CASE("copy_batch: an empty batch, and copies of zero bytes, make no call") {
    sim_node                 node;
    sim_stream const         stream;
    copy_batch<sim_platform> batch;
    batch.add(nullptr, nullptr, 0);
    CHECK(batch.empty());
    CHECK(batch.run(stream) == staging_result{0, transfer_path::nothing, 0, 1});
    CHECK(node.faults().calls(sim_call_kind::copy) == 0);
}

TEST_CASE("copy_batch: after a call that fails the list is unchanged and can be used; its memory "
          "is kept") {
    sim_node                 node;
    sim_stream const         stream;
    copied_rows const        rows{100};
    copy_batch<sim_platform> batch{50};
    rows.ask(batch);
    node.faults().at(sim_call_kind::copy, 2);
    CHECK_THROWS_AS(batch.run(stream), sim_error);
    CHECK(batch.size() == 100);
    stream.synchronize();
    batch.run(stream);
    stream.synchronize();
    CHECK(rows.arrived());
    auto const before = doubles::host_allocations();
    rows.ask(batch);
    CHECK(doubles::host_allocations() == before);
    batch.clear();
    CHECK(batch.empty());
    CHECK(node.reports().empty());
}

TEST_CASE("copy_batch: if there is no host memory for another copy, the list is unchanged") {
    for (std::uint64_t n = 1; n <= 3; ++n) {
        copy_batch<host_platform> batch;
        char                      c     = 0;
        bool                      threw = false;
        {
            doubles::bombing armed{n};
            try {
                batch.add(&c, &c, 1);
            } catch (std::bad_alloc const&) { threw = true; }
        }
        CHECK(threw);
        CHECK(batch.empty());
        batch.add(&c, &c, 1);
        CHECK(batch.size() == 1);
        CHECK(batch.bytes() == 1);
    }
}
