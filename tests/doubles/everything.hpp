// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `everything` is a resource with every power, which counts its calls.

#include "archetype.hpp" // archetype

#include <vram/base/align.hpp>           // align
#include <vram/base/memory_usage.hpp>    // memory_usage
#include <vram/pool/free_pieces.hpp>     // free_pieces
#include <vram/source/host_platform.hpp> // host_platform

#include <cstddef> // size_t

namespace doubles {

/// The counts of calls of `everything`.
struct asked_of {
    unsigned ready = 0, prompt = 0, surveys = 0, resets = 0, raises = 0, forgets = 0;
};

/// A resource with every power.
class everything : public archetype<> {
public:
    using device_type = vram::host_platform::device;

    everything() = default;
    explicit everything(asked_of& book) : book_{&book} {}

    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t n, std::size_t a) {
        ++book_->ready;
        return try_allocate(s, n, a);
    }
    [[nodiscard]] std::size_t rounded_size(std::size_t n, std::size_t) const noexcept {
        return vram::align(n, 64);
    }
    [[nodiscard]] device_type device() const { return {}; }
    std::size_t               trim_no_wait() {
        ++book_->prompt;
        return 7;
    }
    [[nodiscard]] vram::free_pieces free_memory() const {
        ++book_->surveys;
        vram::free_pieces all;
        all.add(100);
        return all;
    }
    vram::memory_usage reset_peaks() {
        ++book_->resets;
        return {.peak_live = 10};
    }
    void raise_peaks(vram::memory_usage const&) { ++book_->raises; }
    void forget_captures() { ++book_->forgets; }

private:
    static inline asked_of unread; ///< counts of objects without an observer
    asked_of*              book_ = &unread;
};

} // namespace doubles
