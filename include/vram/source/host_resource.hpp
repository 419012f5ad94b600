// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `host_resource` allocates pageable host memory with aligned `operator new`.

#include <vram/base/align.hpp>    // align, default_alignment
#include <vram/base/contract.hpp> // expects
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/powers.hpp> // the concepts that the proofs below check
#include <vram/source/host_platform.hpp>

#include <cstddef>
#include <limits> // numeric_limits
#include <new>    // operator new, align_val_t, nothrow

namespace vram {

/// Allocates pageable host memory, for `host_platform`.
///
///     host_resource mr;
///     void* p = mr.allocate_sync(1_MiB, 4096);
///
/// Failure   Throws `out_of_memory`.
/// Threads   Any thread may call.
/// Streams   `allocate` and `allocate_sync` do the same.
/// Cost      One call of `operator new` or `operator delete`.
class host_resource {
public:
    using platform   = host_platform;
    using stream     = platform::stream;
    using properties = property_set<host_accessible>;

    [[nodiscard]] void* allocate(stream, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return allocate_sync(bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        void* const p = try_allocate_sync(bytes, alignment);
        if (p == nullptr && bytes != 0) {
            throw out_of_memory{
                {.asked = bytes, .rounded = align(bytes, alignment), .alignment = alignment}};
        }
        return p;
    }

    [[nodiscard]] void* try_allocate(stream, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept {
        return try_allocate_sync(bytes, alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept {
        expects(valid_alignment(alignment), "host_resource: the alignment must be a power of two");
        std::size_t const rounded = align(bytes, alignment);
        if (bytes == 0 || rounded > largest) { return nullptr; }
        return ::operator new(rounded, std::align_val_t{alignment}, std::nothrow);
    }

    void deallocate(stream, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        deallocate_sync(p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t, std::size_t alignment = default_alignment) noexcept {
        // This `operator delete` takes no size: clang 16 does not declare the sized overload.
        ::operator delete(p, std::align_val_t{alignment});
    }

    friend bool operator==(host_resource const&, host_resource const&) = default;

private:
    /// Larger requests are refused without a call of `operator new`. No C++ object can be larger,
    /// and AddressSanitizer reports such a request as an error.
    static constexpr std::size_t largest = std::numeric_limits<std::ptrdiff_t>::max();
};

static_assert(resource<host_resource> && fallible_resource<host_resource>);
static_assert(has_property<host_resource, host_accessible>);

} // namespace vram
