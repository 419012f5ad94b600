// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `feeding` has sources for the loader's tests, and the checks of their batches.

#include <vram/sim/sim.hpp>
#include <vram/transfer/loader_error.hpp>

#include <cstddef>
#include <cstring>
#include <span>

namespace feeding {

/// A source of `batches` batches, each filled with its own number; declares its writes to the
/// checker.
struct numbered {
    static constexpr std::size_t count = 16;
    static constexpr std::size_t bytes = count * sizeof(std::size_t);

    std::size_t batches = 0;

    std::size_t operator()(std::span<std::byte> to, std::size_t index) const {
        if (index >= batches) { return 0; }
        vram::sim_touch({to.data(), bytes}, vram::sim_access::write);
        for (std::size_t i = 0; i < count; ++i) {
            std::memcpy(to.data() + i * sizeof index, &index, sizeof index);
        }
        return bytes;
    }
};

/// A kernel that reads and writes the whole batch.
inline void use(vram::sim_stream_view stream, auto& batch) {
    vram::sim_launch(stream, {.name   = "use",
                              .reads  = {{batch.data(), batch.size()}},
                              .writes = {{batch.data(), batch.size()}}});
}

/// The exception of type `Thrown` that the source of a loader threw.
template <class Thrown>
Thrown cause_of(vram::loader_error const& e) {
    try {
        e.rethrow_cause();
    } catch (Thrown const& thrown) { return thrown; }
}

} // namespace feeding
