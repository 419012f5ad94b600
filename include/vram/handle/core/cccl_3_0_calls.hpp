// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cccl_3_0_calls` are the names that CCCL before 3.1 (CUDA 13.0) uses for a resource's functions.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstddef>

namespace vram {
namespace detail {

/// Gives a handle of a resource the four functions that CCCL before 3.1 calls: `allocate` and
/// `deallocate` without a stream, `allocate_async` and `deallocate_async` with the stream last.
/// `Handle` derives from this class.
///
/// Sizes must be `std::size_t`, so that a call without its stream, such as `allocate(0, 64)`, does
/// not compile.
template <class Handle>
class cccl_3_0_calls {
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

} // namespace detail
} // namespace vram
