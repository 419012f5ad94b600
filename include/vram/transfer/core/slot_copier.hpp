// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_copier` enqueues a loader's copies to the device, in order, on a separate stream.

#include <vram/base/core/report_caught.hpp> // report_caught
#include <vram/transfer/core/slot_ring.hpp> // slot_ring

#include <cstdint>  // uint64_t
#include <cstring>  // memset
#include <optional> // optional

namespace vram {
namespace detail {

/// Enqueues a loader's copies, clears blocks before they are used again, and measures the copies.
///
/// Failure   The exception of a copy is thrown when the loop asks for that batch. If a callback
///           cannot be enqueued, the thread that fills the pinned block next waits for the event of
///           the copy instead.
/// Streams   See `copy_channel`.
/// Cost      That of `copy_channel` for each copy.
template <class Platform>
class slot_copier : public slot_ring<Platform> {
    using ring = slot_ring<Platform>;

public:
    using typename ring::clock;
    using typename ring::device;
    using typename ring::pinned;
    using typename ring::slot;
    using typename ring::stream;

    /// Returns the counters and times so far. Must be called on the loop's thread.
    [[nodiscard]] loader_statistics statistics() {
        this->expect_owning_process();
        if (this->options_.timing) { measure_empties(); }
        auto       s = this->note([](auto& f) { return f; });
        auto const t = this->times_.sum();
        s.use_ns     = t;
        return s;
    }

protected:
    /// The byte with which `loader_options::checker` overwrites blocks. As a `float` it reads as
    /// NaN, and as an unsigned integer as the largest number.
    static constexpr unsigned char poison = 0xFF;

    slot_copier(loader_options const& options, device where, std::optional<stream> copies)
        : ring{options, where, copies} {}
    ~slot_copier() = default;

    /// Prepares the pinned block `p` to be filled: waits for its copy if no callback or flag
    /// reports the end, reads the time of the copy, and overwrites the block if
    /// `loader_options::checker` is set.
    void clear(pinned& p) {
        if (p.in_flight) {
            std::uint64_t const since = clock::now();
            Platform::synchronize(p.copied);
            p.in_flight = false;
            this->note([&](auto& f) {
                f.pinned_ns += clock::now() - since;
                ++f.host_waits;
            });
        }
        measure(p);
        if (this->options_.checker) { std::memset(p.memory, poison, this->options_.batch_bytes); }
    }

private:
    void copy_all() noexcept final {
        pinned* from = nullptr;
        slot*   to   = nullptr;
        for (bool more = this->claim(from, to); more;) {
            more = this->copied(from, to, this->channel_.upload(*from, *to));
        }
    }

    void released(slot& s) noexcept final {
        if (!this->options_.checker) { return; }
        try {
            stream const on = this->channel_.view();
            s.await_users(on);
            Platform::fill(on, s.memory, std::byte{poison}, this->options_.batch_bytes);
        } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = s.memory,
                           .resource = "loader",
                           .call     = "the fill of a released block"});
        }
    }

    void measure(pinned& p) {
        if constexpr (has_timing<Platform>) {
            if (!p.unmeasured) { return; }
            auto const ns = static_cast<std::uint64_t>(Platform::elapsed(p.begun, p.copied));
            p.unmeasured  = false;
            this->note([&](auto& f) { f.copy_ns += ns; });
        }
    }
    void measure_empties() {
        for (auto all = this->take_empties(); pinned* const p = all.pop();) {
            try {
                if (p->unmeasured && Platform::done(p->copied)) { measure(*p); }
            } catch (...) {
                report_caught({.kind     = error_kind::platform_error,
                               .pointer  = p->memory,
                               .resource = "loader",
                               .call     = "the timing of a copy"});
            }
            this->put_back(*p);
        }
    }
};

} // namespace detail
} // namespace vram
