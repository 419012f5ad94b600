// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `layer_base` is the base of a layer: it owns the upstream and forwards optional functions.

#include <vram/concepts/core/diagnosed.hpp>     // refuse_order
#include <vram/concepts/core/held_resource.hpp> // expect_resource
#include <vram/concepts/observer.hpp>           // observed_resource
#include <vram/concepts/powers.hpp>             // the powers that are forwarded

#include <cstddef>
#include <utility>

namespace vram {

/// Base class of layers: owns the upstream and forwards its optional functions (`owns`, `usage`,
/// `trim`, ...), except those for pages of virtual memory. A layer must itself write each function
/// that allocates or frees.
///
/// Failure   The functions fail as those of the upstream.
/// Threads   The rules are those of the upstream.
template <synchronous_resource Upstream>
class layer_base {
public:
    using upstream_type = Upstream;
    using platform      = typename Upstream::platform;
    using stream        = typename platform::stream;
    using properties    = typename Upstream::properties;

    /// Selected for a call `allocate(stream, bytes)` if the upstream has no stream order. Does not
    /// compile: the error message names the alternatives.
    template <detail::not_a_size Stream>
        requires(!resource<Upstream>)
    [[nodiscard]] void* allocate(Stream&&, std::size_t) {
        detail::refuse_order<Stream>();
        return nullptr;
    }
    template <detail::not_a_size Stream>
        requires(!resource<Upstream>)
    void deallocate(Stream&&, void*, std::size_t) noexcept {
        detail::refuse_order<Stream>();
    }

    [[nodiscard]] bool owns(void const* p) const
        requires owning_resource<Upstream>
    {
        return upstream_.owns(p);
    }
    [[nodiscard]] memory_usage usage() const
        requires measured_resource<Upstream>
    {
        return upstream_.usage();
    }
    std::size_t trim(std::size_t keep = 0)
        requires trimmable_resource<Upstream>
    {
        return upstream_.trim(keep);
    }
    void retire(stream s)
        requires retiring_resource<Upstream>
    {
        upstream_.retire(s);
    }
    void forget_captures()
        requires forgetting_resource<Upstream>
    {
        upstream_.forget_captures();
    }
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes, std::size_t alignment) const noexcept
        requires rounding_resource<Upstream>
    {
        return upstream_.rounded_size(bytes, alignment);
    }
    [[nodiscard]] auto device() const
        requires detail::names_device<Upstream>
    {
        return upstream_.device();
    }
    std::size_t trim_no_wait()
        requires promptly_trimmable_resource<Upstream>
    {
        return upstream_.trim_no_wait();
    }
    [[nodiscard]] auto free_memory() const
        requires surveyed_resource<Upstream>
    {
        return upstream_.free_memory();
    }
    memory_usage reset_peaks()
        requires peaking_resource<Upstream>
    {
        return upstream_.reset_peaks();
    }
    void raise_peaks(memory_usage const& before)
        requires peaking_resource<Upstream>
    {
        upstream_.raise_peaks(before);
    }
    /// Returns the observer that the upstream notifies. Resources over this layer notify it too.
    [[nodiscard]] decltype(auto) observer()
        requires observed_resource<Upstream>
    {
        return upstream_.observer();
    }

    /// Returns the upstream (the resource under this layer), which the layer owns.
    [[nodiscard]] Upstream&       upstream() noexcept { return upstream_; }
    [[nodiscard]] Upstream const& upstream() const noexcept { return upstream_; }

    /// A layer is equal only to itself: memory must be freed by the layer that allocated it.
    friend bool operator==(layer_base const& a, layer_base const& b) noexcept { return &a == &b; }

protected:
    explicit layer_base(Upstream upstream) : upstream_{std::move(upstream)} {
        detail::expect_resource(upstream_, "the upstream must hold a resource; it was moved from");
    }
    layer_base(layer_base&&)            = default;
    layer_base& operator=(layer_base&&) = default;
    ~layer_base()                       = default;

    [[no_unique_address]] Upstream upstream_;
};

} // namespace vram
