// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `segregated` sends small requests to one resource and large requests to another.

#include <vram/base/call_site.hpp>
#include <vram/concepts/core/diagnosed.hpp> // check_pair, refuse_copy
#include <vram/concepts/powers.hpp> // fallible_resource, reusing_resource, rounding_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/core/pair_base.hpp>
#include <vram/layer/with.hpp> // with::layer_of

#include <concepts> // same_as
#include <cstddef>
#include <utility>

namespace vram {

/// Requests up to `threshold` bytes go to the first resource, larger ones to the second.
///
///     segregated mr{slab{cuda_resource{}, 4_KiB}, pool{cuda_resource{}}, 4_KiB};
///
/// At a free, the size of the block determines the resource again, so no table of blocks is needed.
///
/// Failure   The functions fail as those of the selected resource. If it has no memory, the other
///           one is not called; `fallback` is the layer for that.
/// Threads   The rules are those of the less safe of the two resources.
/// Cost      One comparison per call.
template <class Small, class Large>
class segregated
    : public detail::pair_base<typename detail::check_pair<detail::checked_upstream<Small>,
                                                           detail::checked_upstream<Large>>::type,
                               Large> {
    using base = detail::pair_base<Small, Large>;

    static constexpr bool ordered  = resource<Small> && resource<Large>;
    static constexpr bool fallible = fallible_resource<Small> && fallible_resource<Large>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    segregated(Small below, Large above, std::size_t threshold)
        : base{std::move(below), std::move(above)}, threshold_{threshold} {}

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<segregated> Same>
    segregated(Same& other) : segregated{detail::refuse_copy(other)} {}
    template <std::same_as<segregated> Same>
    segregated& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires ordered
    {
        return is_small(bytes) ? sited{below(), at}.allocate(s, bytes, alignment)
                               : sited{above(), at}.allocate(s, bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        return is_small(bytes) ? sited{below(), at}.allocate_sync(bytes, alignment)
                               : sited{above(), at}.allocate_sync(bytes, alignment);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires ordered && fallible
    {
        return is_small(bytes) ? sited{below(), at}.try_allocate(s, bytes, alignment)
                               : sited{above(), at}.try_allocate(s, bytes, alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible
    {
        return is_small(bytes) ? sited{below(), at}.try_allocate_sync(bytes, alignment)
                               : sited{above(), at}.try_allocate_sync(bytes, alignment);
    }

    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires ordered && (reusing_resource<Small> || reusing_resource<Large>)
    {
        if constexpr (reusing_resource<Small>) {
            if (is_small(bytes)) {
                return sited{below(), at}.try_allocate_ready(s, bytes, alignment);
            }
        }
        if constexpr (reusing_resource<Large>) {
            if (!is_small(bytes)) {
                return sited{above(), at}.try_allocate_ready(s, bytes, alignment);
            }
        }
        return nullptr;
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires ordered
    {
        is_small(bytes) ? sited{below(), at}.deallocate(s, p, bytes, alignment)
                        : sited{above(), at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        is_small(bytes) ? sited{below(), at}.deallocate_sync(p, bytes, alignment)
                        : sited{above(), at}.deallocate_sync(p, bytes, alignment);
    }

    /// Returns the size that is allocated for a request of `bytes` bytes, by the resource that gets
    /// requests of that size.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes, std::size_t alignment) const noexcept
        requires rounding_resource<Small> || rounding_resource<Large>
    {
        return is_small(bytes) ? detail::rounded_size(below(), bytes, alignment)
                               : detail::rounded_size(above(), bytes, alignment);
    }
    /// Returns the size up to which requests go to the first resource.
    [[nodiscard]] std::size_t threshold() const noexcept { return threshold_; }

    /// Returns the resource for requests up to the threshold.
    [[nodiscard]] Small&       below() noexcept { return this->first_; }
    [[nodiscard]] Small const& below() const noexcept { return this->first_; }
    /// Returns the resource for requests above the threshold.
    [[nodiscard]] Large&       above() noexcept { return this->second_; }
    [[nodiscard]] Large const& above() const noexcept { return this->second_; }

private:
    [[nodiscard]] bool is_small(std::size_t bytes) const noexcept { return bytes <= threshold_; }

    std::size_t threshold_;
};

namespace with {
/// Makes a `segregated` layer; the resource before `|` is the one for small requests: `small |
/// with::segregated(large, 4_KiB)`.
template <synchronous_resource Large>
[[nodiscard]] auto segregated(Large above, std::size_t threshold) {
    return layer_of<vram::segregated, Large>(std::move(above), threshold);
}
} // namespace with

} // namespace vram
