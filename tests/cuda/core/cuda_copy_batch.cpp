// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_copy_batch.hpp> // first: the header stands alone

#include "../machine.hpp"

#include <vram/base/bytes.hpp>
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/cuda/pinned_resource.hpp>
#include <vram/staging/copy_batch.hpp>

#include <cstring> // memset

using namespace vram;
using namespace vram::detail;
using tests::machine;

template class vram::copy_batch<cuda_platform>;

namespace {
/// Rows of pinned memory and their places on a device.
struct cuda_batch_rows {
    static constexpr std::size_t row = 512, rows = 300, all = row * rows;

    cuda_batch_rows() {
        for (std::size_t i = 0; i < all; ++i) { host[i] = static_cast<unsigned char>(i % 249); }
    }
    cuda_batch_rows(cuda_batch_rows&&) = delete;
    ~cuda_batch_rows() {
        device.deallocate_sync(far, all);
        pinned.deallocate_sync(host, all);
    }
    void up(copy_batch<cuda_platform>& batch) const {
        for (std::size_t i = 0; i < rows; ++i) {
            batch.add(far + (rows - 1 - i) * row, host + i * row, row);
        }
    }
    void down(copy_batch<cuda_platform>& batch) const {
        for (std::size_t i = 0; i < rows; ++i) {
            batch.add(host + i * row, far + (rows - 1 - i) * row, row);
        }
    }
    [[nodiscard]] bool arrived() const {
        for (std::size_t i = 0; i < all; ++i) {
            if (host[i] != static_cast<unsigned char>(i % 249)) { return false; }
        }
        return true;
    }

    cuda_resource   device{};
    pinned_resource pinned{};
    unsigned char*  host = static_cast<unsigned char*>(pinned.allocate_sync(all));
    unsigned char*  far  = static_cast<unsigned char*>(device.allocate_sync(all));
};
} // namespace

TEST_CASE("cuda_copy_batch: rows are copied both ways, in batches or one by one") {
    machine const         here;
    cuda_stream const     stream;
    cuda_batch_rows const rows;
    for (std::size_t const most : {2U, 299U, 1024U}) {
        for (bool const proper : {true, false}) {
            cuda_stream_view const    s = proper ? stream.view() : cuda_stream_view{};
            copy_batch<cuda_platform> batch{most};
            rows.up(batch);
            auto const up = batch.run(s);
            s.synchronize();
            std::memset(rows.host, 0, rows.all);
            rows.down(batch);
            auto const down = batch.run(s);
            s.synchronize();
            CHECK(rows.arrived());
            CHECK(up == down);
            CHECK(up.path == (proper ? transfer_path::batched : transfer_path::direct_small));
        }
    }
}

TEST_CASE("cuda_copy_batch: during a capture it returns false, and the capture stays valid") {
    machine const             here;
    cuda_stream const         stream;
    cuda_batch_rows const     rows;
    copy_batch<cuda_platform> batch;
    rows.up(batch);
    cuda_check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
    CHECK(batch.run(stream).path == transfer_path::direct_small);
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamEndCapture(stream.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_copy_batch: every error is thrown, except that batches are not supported") {
    machine const             here;
    cuda_stream const         stream;
    cuda_batch_rows const     rows;
    copy_batch<cuda_platform> batch;
    auto const                run = [&] {
        batch.clear();
        rows.up(batch);
        batch.run(stream);
    };
    CHECK(tests::walk_failures(run, [] {}) == 4); // whether it captures, and the batch
    for (cudaError_t const none : {cudaErrorNotSupported, cudaErrorCallRequiresNewerDriver}) {
        doubles::cudart::fail("cudaMemcpyBatchAsync", none);
        batch.clear();
        rows.up(batch);
        CHECK(batch.run(stream).path == transfer_path::direct_small);
        CHECK(cudaPeekAtLastError() == cudaSuccess);
    }
    stream.synchronize();
}
#endif
