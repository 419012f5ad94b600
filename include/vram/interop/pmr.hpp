// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pmr` is a resource of host memory for the standard library's polymorphic containers.

#include <vram/concepts/property.hpp>           // host_accessible
#include <vram/concepts/resource.hpp>           // synchronous_resource
#include <vram/concepts/sited.hpp>              // sited
#include <vram/handle/core/stored_resource.hpp> // stored_resource

#include <concepts>        // copy_constructible
#include <cstddef>         // size_t
#include <memory_resource> // memory_resource
#include <type_traits>     // remove_reference_t
#include <utility>         // forward

namespace vram {

/// A `std::pmr::memory_resource` over memory that the host can access, such as pinned memory.
///
///     vram::pmr pinned{pool{pinned_resource{}}};
///     std::pmr::vector<float> samples{&pinned};
///
/// `R` is stored by value, or borrowed as `Resource&`. A device resource does not compile.
///
/// Failure   Throws `out_of_memory`, which is a `std::bad_alloc`.
/// Threads   The rules are those of the resource.
/// Streams   None. A container frees its memory without a stream, so no stream may still use it.
/// Cost      A virtual call besides that of the resource.
template <class R>
    requires synchronous_resource<std::remove_reference_t<R>> &&
             has_property<std::remove_reference_t<R>, host_accessible>
class pmr final : public std::pmr::memory_resource {
public:
    using resource_type = std::remove_reference_t<R>;

    /// Stores the resource `mr`, or a reference to it.
    explicit pmr(R mr) : mr_{std::forward<R>(mr)} {}
    pmr(pmr&&) = delete; // not movable, because containers point to it

    [[nodiscard]] resource_type& upstream() noexcept { return mr_.get(); }

private:
    // The standard requires a non-null pointer for 0 bytes. vram returns null for that.
    static std::size_t at_least_one(std::size_t bytes) noexcept { return bytes == 0 ? 1 : bytes; }

    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        return sited{mr_.get()}.allocate_sync(at_least_one(bytes), alignment);
    }
    void do_deallocate(void* p, std::size_t bytes, std::size_t alignment) override {
        sited{mr_.get()}.deallocate_sync(p, at_least_one(bytes), alignment);
    }
    bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
        auto const* const same = dynamic_cast<pmr const*>(&other);
        return same != nullptr && mr_ == same->mr_;
    }

    detail::stored_resource<R> mr_;
};

template <class R>
    requires(!std::copy_constructible<R>)
pmr(R&) -> pmr<R&>;

} // namespace vram
