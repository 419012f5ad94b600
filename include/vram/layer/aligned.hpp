// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `aligned` is a layer that gives every request at least a certain alignment.

#include <vram/base/align.hpp> // align, valid_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp>        // expects
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/powers.hpp> // fallible_resource, reusing_resource, rounding_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::layer

#include <concepts> // same_as
#include <cstddef>
#include <utility>

namespace vram {

/// Selects if the layer `aligned` also rounds sizes up to a multiple of the alignment.
enum class aligned_size { as_asked, rounded_up };

/// Raises the alignment of every request to at least `least`.
///
///     aligned mr{cuda_resource{}, 2_MiB, aligned_size::rounded_up};   // whole pages
///
/// Failure   The functions fail as those of the upstream. If a size is too large to be rounded up,
///           the upstream refuses the request.
/// Threads   The rules are those of the upstream.
/// Cost      Two additions per call. Rounding adds less than the alignment to each block.
template <class Upstream>
class aligned : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    /// Creates the layer over `upstream`. `least`, the smallest alignment, must be a power of two.
    aligned(Upstream upstream, std::size_t least, aligned_size rounding = aligned_size::as_asked)
        : base{std::move(upstream)}, least_{least}, rounding_{rounding} {
        expects(valid_alignment(least), "aligned: the alignment must be a power of two");
    }

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<aligned> Same>
    aligned(Same& other) : aligned{detail::refuse_copy(other)} {}
    template <std::same_as<aligned> Same>
    aligned& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        return as_asked(bytes, alignment, [&] {
            return sited{this->upstream_, at}.allocate(s, size(bytes, alignment),
                                                       at_least(alignment));
        });
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        return as_asked(bytes, alignment, [&] {
            return sited{this->upstream_, at}.allocate_sync(size(bytes, alignment),
                                                            at_least(alignment));
        });
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        return sited{this->upstream_, at}.try_allocate(s, size(bytes, alignment),
                                                       at_least(alignment));
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        return sited{this->upstream_, at}.try_allocate_sync(size(bytes, alignment),
                                                            at_least(alignment));
    }

    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        return sited{this->upstream_, at}.try_allocate_ready(s, size(bytes, alignment),
                                                             at_least(alignment));
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        sited{this->upstream_, at}.deallocate(s, p, size(bytes, alignment), at_least(alignment));
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        sited{this->upstream_, at}.deallocate_sync(p, size(bytes, alignment), at_least(alignment));
    }

    /// Returns the smallest alignment that a block of this layer has, in bytes.
    [[nodiscard]] std::size_t alignment() const noexcept { return least_; }
    /// Returns the option that selects if sizes are rounded up.
    [[nodiscard]] aligned_size rounding() const noexcept { return rounding_; }

    /// Returns the number of bytes that the upstream allocates for a request of `bytes` bytes.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes, std::size_t alignment) const noexcept
        requires rounding_resource<Upstream>
    {
        return this->upstream_.rounded_size(size(bytes, alignment), at_least(alignment));
    }

private:
    /// Calls `ask`, which makes a request to the upstream, and returns the result. If `ask` throws
    /// `out_of_memory`, stores the size and alignment that the caller requested in the exception.
    template <class Ask>
    static void* as_asked(std::size_t bytes, std::size_t alignment, Ask ask) {
        try {
            return ask();
        } catch (out_of_memory& e) {
            e.numbers().asked     = bytes;
            e.numbers().alignment = alignment;
            throw;
        }
    }

    [[nodiscard]] std::size_t at_least(std::size_t alignment) const noexcept {
        // An invalid alignment is passed on, so that the upstream reports it.
        return valid_alignment(alignment) ? detail::larger_of(alignment, least_) : alignment;
    }
    [[nodiscard]] std::size_t size(std::size_t bytes, std::size_t alignment) const noexcept {
        return rounding_ == aligned_size::as_asked ? bytes : align(bytes, at_least(alignment));
    }

    std::size_t  least_;
    aligned_size rounding_;
};

namespace with {
/// Puts an `aligned` layer over a resource: `source | with::aligned(2_MiB)`.
[[nodiscard]] inline auto aligned(std::size_t  least,
                                  aligned_size rounding = aligned_size::as_asked) {
    return layer<vram::aligned>(least, rounding);
}
} // namespace with

} // namespace vram
