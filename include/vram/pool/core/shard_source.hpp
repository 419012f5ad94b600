// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `shard_source` is the upstream of one shard of an arena: a reference to the shared
/// `chunk_directory`.

#include <vram/base/error.hpp>      // report_error
#include <vram/concepts/powers.hpp> // resource, fallible_resource
#include <vram/pool/core/chunk_directory.hpp>

#include <cstddef>
#include <new> // bad_alloc

namespace vram {
namespace detail {

/// The upstream of one shard (pool) of an arena. Allocates chunks through the arena's
/// `chunk_directory`, which records for each chunk the shard that owns it. Two objects are equal if
/// they have the same directory.
///
/// Failure   As `chunk_directory`. `try_allocate` also returns null if host memory is lacking.
template <synchronous_resource Upstream>
class shard_source {
public:
    using registry   = chunk_directory<Upstream>;
    using platform   = typename Upstream::platform;
    using stream     = typename platform::stream;
    using properties = typename Upstream::properties;

    /// The name of the resource in the errors of a pool that allocates from this one.
    static constexpr char const* pool_name = "arena";

    shard_source(registry& all, unsigned owner) noexcept : all_{&all}, owner_{owner} {}

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment)
        requires resource<Upstream>
    {
        return bytes == 0 ? nullptr : all_->template take<true>(owner_, &s, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        return bytes == 0 ? nullptr : all_->template take<true>(owner_, nullptr, bytes, alignment);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        return try_take(&s, bytes, alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return try_take(nullptr, bytes, alignment);
    }

    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment)
        requires reusing_resource<Upstream>
    {
        return bytes == 0 ? nullptr : all_->take_ready(owner_, s, bytes, alignment);
    }

    void deallocate(stream s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept
        requires resource<Upstream>
    {
        if (p != nullptr) { all_->give(s, p, bytes, alignment); }
    }
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) noexcept {
        if (p != nullptr) { all_->give(p, bytes, alignment); }
    }

    [[nodiscard]] auto device() const
        requires names_device<Upstream>
    {
        return all_->upstream().device();
    }

    /// Returns the object that notifies the observers of events in the arena.
    [[nodiscard, gnu::always_inline]] observation<Upstream> seen() const noexcept {
        return all_->seen();
    }
    /// Sets the address of the `chunk_directory` after the directory was moved.
    void rebind(registry& all) noexcept { all_ = &all; }

    friend bool operator==(shard_source const& a, shard_source const& b) noexcept {
        return a.all_ == b.all_;
    }

private:
    void* try_take(stream const* on, std::size_t bytes, std::size_t alignment) noexcept {
        if (bytes == 0) { return nullptr; }
        try {
            return all_->template take<false>(owner_, on, bytes, alignment);
        } catch (std::bad_alloc const&) { return nullptr; }
    }

    registry* all_;
    unsigned  owner_;
};

} // namespace detail
} // namespace vram
