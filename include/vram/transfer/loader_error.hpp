// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_error` says at which batch a loader could not go on, and why.

#include <cstddef>   // size_t
#include <exception> // exception

namespace vram {

/// What was wrong. The numbers are those of the batch that was asked for.
class loader_error : public std::exception {
public:
    enum class reason {
        too_large,     ///< the source gave more than a slot holds: `bytes` against `limit`
        all_held,      ///< every slot is held by a batch that was kept: another one can never come
        capturing,     ///< the consumer's stream is being captured into a graph
        already_begun, ///< a loader is read once, from one `begin()`
        wrong_alignment, ///< `span<T>` of no whole number of `T`: `bytes` against `limit`
    };

    explicit loader_error(reason why, std::size_t index = 0, std::size_t bytes = 0,
                          std::size_t limit = 0) noexcept
        : why_{why}, index_{index}, bytes_{bytes}, limit_{limit} {}

    [[nodiscard]] reason      why() const noexcept { return why_; }
    [[nodiscard]] std::size_t index() const noexcept { return index_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

    [[nodiscard]] char const* what() const noexcept override {
        switch (why_) {
        case reason::too_large: return "vram: a batch is larger than the loader's slots";
        case reason::all_held: return "vram: all slots of the loader are held by batches in use";
        case reason::capturing: return "vram: a loader cannot be read while its stream is captured";
        case reason::already_begun: return "vram: a loader can be read once";
        case reason::wrong_alignment: return "vram: a batch is no whole number of elements";
        }
        return "vram: loader";
    }

private:
    reason      why_;
    std::size_t index_;
    std::size_t bytes_;
    std::size_t limit_;
};

} // namespace vram
