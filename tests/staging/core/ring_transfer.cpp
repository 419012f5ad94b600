// SPDX-License-Identifier: Apache-2.0
#include <vram/staging/core/ring_transfer.hpp> // first: the header stands alone

#include <vram/base/bytes.hpp>
#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>

#include "../../laws/effort.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <stdexcept>
#include <vector>

using namespace vram;
using namespace vram::detail;

namespace {

using transfer_ring = ring<host_platform, host_resource>;

/// Counts its calls; fails at a given position.
struct counting_end {
    void fill(std::byte* chunk, std::size_t offset, std::size_t bytes) {
        note(offset, bytes);
        for (std::size_t i = 0; i < bytes; ++i) { chunk[i] = of(offset + i); }
    }
    void note(std::size_t offset, std::size_t bytes) {
        std::scoped_lock const held{mutex};
        if (offset <= fails_at && fails_at < offset + bytes) { throw std::runtime_error{"here"}; }
        ++asked;
        moved += bytes;
    }
    static std::byte of(std::size_t place) noexcept {
        return static_cast<std::byte>(place % 251 + place / 251 % 3);
    }

    std::mutex  mutex;
    std::size_t fails_at = unsatisfiable;
    std::size_t asked    = 0;
    std::size_t moved    = 0;
};
struct counting_target : counting_end {
    void fill(std::byte*, std::size_t, std::size_t) = delete;
    void empty(std::byte const* chunk, std::size_t offset, std::size_t bytes) {
        note(offset, bytes);
        for (std::size_t i = 0; i < bytes; ++i) { wrong += chunk[i] != of(offset + i) ? 1 : 0; }
    }
    std::atomic<std::size_t> wrong = 0;
};

template <class End>
auto move_all(transfer_ring& r, piece_plan const& plan, std::vector<std::byte>& device, End& end) {
    struct outcome {
        bool               failed;
        std::size_t        whole;
        std::exception_ptr cause;
    };
    ring_transfer<transfer_ring, host_platform, End> all{r, plan, device.data(), end};
    r.threads().run([&](unsigned thread) noexcept { all.run(thread); });
    return outcome{all.failed(), all.whole(), all.cause()};
}

} // namespace

TEST_CASE("ring_transfer: each piece is moved once, by any thread, and all arrive") {
    for (unsigned threads = 1; threads <= 4; ++threads) {
        transfer_ring r{{}, {}, {.threads = threads, .chunk_bytes = 8_KiB}};
        for (std::size_t const bytes : {0U, 1U, 4096U, 100'000U, 1'000'001U}) {
            piece_plan const       plan{bytes, r.chunk_bytes(), 4_KiB};
            std::vector<std::byte> device(bytes + 1);
            counting_end           up;
            auto const             did = move_all(r, plan, device, up);
            CHECK_FALSE(did.failed);
            CHECK(did.whole == bytes);
            CHECK(did.cause == nullptr);
            CHECK(up.asked == plan.pieces());
            CHECK(up.moved == bytes);
            counting_target down;
            CHECK(move_all(r, plan, device, down).whole == bytes);
            CHECK(down.moved == bytes);
            CHECK(down.wrong == 0);
        }
    }
}

TEST_CASE("ring_transfer: if the host side fails, all bytes before that piece are complete") {
    std::size_t const bytes = 300'000;
    for (unsigned threads = 1; threads <= 3; ++threads) {
        transfer_ring    r{{}, {}, {.threads = threads, .chunk_bytes = 8_KiB}};
        piece_plan const plan{bytes, r.chunk_bytes(), 4_KiB};
        for (std::size_t i = 0; i < plan.pieces(); i += laws::of_many(1) * 3) {
            std::vector<std::byte> device(bytes);
            counting_end           up;
            up.fails_at   = plan[i].offset;
            auto const at = move_all(r, plan, device, up);
            CHECK(at.failed);
            CHECK(at.whole == plan[i].offset);
            CHECK_THROWS_AS(std::rethrow_exception(at.cause), std::runtime_error);
            std::size_t wrong = 0;
            for (std::size_t b = 0; b < at.whole; ++b) {
                wrong += device[b] != counting_end::of(b) ? 1 : 0;
            }
            CHECK(wrong == 0);
            counting_target down;
            down.fails_at = plan[i].offset + plan[i].bytes - 1;
            CHECK(move_all(r, plan, device, down).whole == plan[i].offset);
        }
    }
}

/// A platform on which the third record of an event fails, and then the waits for the stream fail.
struct unrecorded_platform : host_platform {
    static inline int records = 0;

    static void record(event&, stream) {
        if (++records == 3) { throw std::runtime_error{"record"}; }
    }
    using host_platform::synchronize;
    static void synchronize(stream) { throw std::runtime_error{"wait"}; }
};

TEST_CASE("ring_transfer: if the wait for the copies fails after a failed record, no byte counts") {
    using lost_ring = ring<unrecorded_platform, host_resource>;
    for (bool const up : {true, false}) {
        unrecorded_platform::records = 0;
        lost_ring              r{{}, {}, {.threads = 1, .chunk_bytes = 8_KiB}};
        piece_plan const       plan{100'000, r.chunk_bytes(), 4_KiB};
        std::vector<std::byte> device(100'000);
        auto const             moves = [&](auto end) {
            ring_transfer<lost_ring, unrecorded_platform, decltype(end)> all{r, plan, device.data(),
                                                                             end};
            all.run(0);
            CHECK(all.failed());
            CHECK(all.whole() == 0);
            CHECK_THROWS_WITH_AS(std::rethrow_exception(all.cause()), "record", std::runtime_error);
        };
        up ? moves(counting_end{}) : moves(counting_target{});
    }
}
