// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `resetting` is a `monotonic` that is reset once no block is live.

#include <vram/pool/monotonic.hpp> // monotonic

#include <cstddef> // size_t
#include <utility> // move

namespace doubles {

/// A `monotonic` that reuses its memory in a load of single blocks, for tests of all pools: if a
/// free leaves no block live, it is reset on the stream of that free. For one thread at a time,
/// because another thread could allocate between the two calls.
template <class Upstream, vram::growth Growth>
class resetting : public vram::monotonic<Upstream, Growth> {
    using base = vram::monotonic<Upstream, Growth>;

public:
    using typename base::stream;

    explicit resetting(base memory) : base{std::move(memory)} {}

    void deallocate(stream s, void* p, std::size_t bytes,
                    std::size_t alignment = vram::default_alignment) noexcept {
        base::deallocate(s, p, bytes, alignment);
        if (this->usage().live == 0) { this->reset(s); }
    }
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = vram::default_alignment) noexcept {
        base::deallocate_sync(p, bytes, alignment);
        if (this->usage().live == 0) { this->reset_sync(); }
    }
};

} // namespace doubles
