// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `older_calls` are the names under which the CCCL of CUDA 13.0 (3.0.1) asks a resource for
/// memory.

#include <vram/base/requirements.hpp> // C++20

#include <concepts> // same_as
#include <cstddef>  // size_t

namespace vram {

/// Gives a handle the four calls that CCCL had before 3.1: `allocate` and `deallocate` without a
/// stream for the synchronous pair, and `_async` with the stream last. `Handle` derives from it,
/// has the calls of today as const members, and writes `using older_calls<Handle>::allocate;` (and
/// `deallocate`) beside them.
///
/// Sizes must be exactly `std::size_t`, so that a call that forgot its stream, `allocate(0, 64)`,
/// does not compile.
///
/// Failure   as the handle
/// Threads   as the handle
/// Cost      none
template <class Handle>
class older_calls {
public:
    template <std::same_as<std::size_t> Size>
    [[nodiscard]] void* allocate(Size bytes, Size alignment) const {
        return self().allocate_sync(bytes, alignment);
    }
    template <class Stream>
        requires requires(Handle const& h, Stream s, std::size_t n) { h.allocate(s, n, n); }
    [[nodiscard]] void* allocate_async(std::size_t bytes, std::size_t alignment, Stream s) const {
        return self().allocate(s, bytes, alignment);
    }

    template <std::same_as<std::size_t> Size>
    void deallocate(void* p, Size bytes, Size alignment) const noexcept {
        self().deallocate_sync(p, bytes, alignment);
    }
    template <class Stream>
        requires requires(Handle const& h, Stream s, void* p, std::size_t n) {
            h.deallocate(s, p, n, n);
        }
    void deallocate_async(void* p, std::size_t bytes, std::size_t alignment,
                          Stream s) const noexcept {
        self().deallocate(s, p, bytes, alignment);
    }

private:
    [[nodiscard]] Handle const& self() const noexcept { return static_cast<Handle const&>(*this); }
};

} // namespace vram
