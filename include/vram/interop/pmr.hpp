// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pmr` lends a stack of host memory to the standard library's polymorphic containers;
/// `pmr_source` takes a `std::pmr::memory_resource` into vram.

#include <vram/base/align.hpp>    // align, default_alignment
#include <vram/base/contract.hpp> // expects
#include <vram/base/core/report_caught.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp> // synchronous_only
#include <vram/concepts/property.hpp>       // host_accessible
#include <vram/concepts/resource.hpp>       // synchronous_resource
#include <vram/concepts/sited.hpp>
#include <vram/handle/core/stored_resource.hpp>
#include <vram/source/host_platform.hpp>

#include <concepts> // copy_constructible
#include <cstddef>
#include <limits>          // numeric_limits
#include <memory_resource> // memory_resource
#include <new>             // bad_alloc
#include <type_traits>     // remove_reference_t, remove_cvref_t
#include <utility>

namespace vram {

namespace detail {

template <class R>
struct check_host_access {
    static_assert(
        has_property<R, host_accessible>,
        "the host writes to the memory of a pmr: write pmr{pool{pinned_resource{}}}, with "
        "pinned_resource, managed_resource or host_resource");
    using type = R;
};

} // namespace detail

/// A `std::pmr::memory_resource` over memory that the host can access, such as pinned memory.
///
///     vram::pmr pinned{pool{pinned_resource{}}};
///     std::pmr::vector<float> samples{&pinned};
///
/// `R` is stored by value, or borrowed as `Resource&`. A device resource does not compile.
///
/// Failure   Throws `out_of_memory`, which is a `std::bad_alloc`.
/// Threads   The rules are those of the resource.
/// Streams   A container frees its memory without a stream, so no stream may still use it.
template <class R>
    requires synchronous_resource<std::remove_reference_t<R>> &&
             has_property<std::remove_reference_t<R>, host_accessible>
class pmr final : public std::pmr::memory_resource {
public:
    using resource_type = std::remove_reference_t<R>;

    /// Stores the resource `mr` by value. If `R` is a reference type, borrows `mr` instead: `mr`
    /// must then outlive this object.
    explicit pmr(R mr) : mr_{std::forward<R>(mr)} {}
    pmr(pmr&&) = delete; // not movable, because containers point to it

    [[nodiscard]] resource_type& upstream() noexcept { return mr_.get(); }

private:
    // Returns `bytes`, or 1 instead of 0. For 0 bytes, the standard requires a non-null pointer,
    // but vram's resources return null.
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
    requires(!std::copy_constructible<R> && has_property<R, host_accessible>)
pmr(R&) -> pmr<R&>;
/// Stops compilation with a message if the host cannot access the memory of the resource.
template <class R>
    requires synchronous_resource<std::remove_cvref_t<R>> &&
             (!has_property<std::remove_cvref_t<R>, host_accessible>)
pmr(R&&) -> pmr<typename detail::check_host_access<std::remove_cvref_t<R>>::type>;

/// A `std::pmr::memory_resource` as an upstream of vram's layers and pools. The memory resource
/// must outlive this object.
///
///     std::pmr::monotonic_buffer_resource frame;
///     limiting                            budget{pmr_source{frame}, 1_MiB};
///
/// Over pinned memory, `Platform` is `cuda_platform`, and `Properties` is
/// `property_set<device_accessible, host_accessible>`.
///
/// Failure   Throws `out_of_memory` if the memory resource throws `std::bad_alloc`.
///           `deallocate_sync` reports exceptions to the error sink.
/// Threads   The rules are those of the memory resource: most are for one thread at a time.
/// Streams   Not stream-ordered. If streams use the memory, compose `stream_ordered` over it.
template <class Platform = host_platform, class Properties = property_set<host_accessible>>
class pmr_source : public detail::synchronous_only<pmr_source<Platform, Properties>> {
public:
    using platform   = Platform;
    using properties = Properties;

    /// Borrows `memory`, by default `std::pmr::get_default_resource()`.
    explicit pmr_source(
        std::pmr::memory_resource& memory = *std::pmr::get_default_resource()) noexcept
        : memory_{&memory} {}

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        expects(valid_alignment(alignment), "pmr_source: the alignment must be a power of two");
        if (bytes == 0) { return nullptr; }
        // Refuses very large sizes here, because some memory resources round a size up without a
        // test for overflow.
        if (align(bytes, alignment) > largest) { throw refused(bytes, alignment); }
        try {
            return memory_->allocate(bytes, alignment);
        } catch (out_of_memory const&) {
            throw; // passes on an exception of vram, which describes the refusal in full
        } catch (std::bad_alloc const&) { throw refused(bytes, alignment); }
    }
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) noexcept {
        if (p == nullptr) { return; }
        try {
            memory_->deallocate(p, bytes, alignment);
        } catch (...) {
            detail::report_caught({.kind     = error_kind::platform_error,
                                   .pointer  = p,
                                   .bytes    = bytes,
                                   .resource = "pmr_source",
                                   .call     = "std::pmr::memory_resource::deallocate"});
        }
    }

    [[nodiscard]] std::pmr::memory_resource& upstream() const noexcept { return *memory_; }

    friend bool operator==(pmr_source const& a, pmr_source const& b) {
        return *a.memory_ == *b.memory_;
    }

private:
    static out_of_memory refused(std::size_t bytes, std::size_t alignment) noexcept {
        return out_of_memory{{.asked = bytes, .rounded = bytes, .alignment = alignment}};
    }

    static constexpr std::size_t largest = std::numeric_limits<std::ptrdiff_t>::max();

    std::pmr::memory_resource* memory_;
};

} // namespace vram
