// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `mr` takes a memory resource of CCCL or RMM into vram; `as_mr` lends them one of vram's.

#include <vram/base/align.hpp>          // is_aligned
#include <vram/base/out_of_memory.hpp>  // out_of_memory
#include <vram/cuda/cuda_error.hpp>     // cuda_error
#include <vram/cuda/cuda_platform.hpp>  // cuda_platform
#include <vram/handle/resource_ref.hpp> // resource_ref

#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE // what CCCL before 3.1 waits for
#endif
#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <concepts>    // copyable, equality_comparable
#include <cstddef>     // size_t
#include <cstring>     // strncmp
#include <new>         // bad_alloc
#include <type_traits> // conditional_t
#include <utility>     // move

namespace vram {

namespace detail {

#if CCCL_VERSION >= 3001000
template <class R>
concept foreign_synchronous = ::cuda::mr::synchronous_resource<R>;
template <class R>
concept foreign_resource = ::cuda::mr::resource<R>;
#else
template <class R>
concept foreign_synchronous = ::cuda::mr::resource<R>;
template <class R>
concept foreign_resource = ::cuda::mr::async_resource<R>;
#endif

/// The words of vram for what `::cuda::has_property` says of `R`.
template <class R>
using properties_of =
    std::conditional_t<::cuda::has_property<R, ::cuda::mr::device_accessible>,
                       std::conditional_t<::cuda::has_property<R, ::cuda::mr::host_accessible>,
                                          property_set<device_accessible, host_accessible>,
                                          property_set<device_accessible>>,
                       std::conditional_t<::cuda::has_property<R, ::cuda::mr::host_accessible>,
                                          property_set<host_accessible>, property_set<>>>;

/// Whether CCCL's error is about memory. It says so by its number; before 3.1, by its text alone.
template <class Error>
[[nodiscard]] bool about_memory(Error const& e) noexcept {
    if constexpr (requires(Error const& of) { of.status(); }) {
        return e.status() == cudaErrorMemoryAllocation;
    } else {
        constexpr char prefix[] = "cudaError 2:";
        return std::strncmp(e.what(), prefix, sizeof prefix - 1) == 0;
    }
}

} // namespace detail

/// A memory resource of CCCL's model as an upstream of vram's layers.
///
///     limiting budget{mr{rmm::mr::get_current_device_resource_ref()}, 2_GiB};
///
/// `Resource` is copied in: a `::cuda::mr::resource_ref` or `any_resource`, a resource of RMM. It
/// is asked for no zero bytes. It has the stream-ordered pair where `Resource` has, and the
/// properties that `Resource` has.
///
/// Failure   `out_of_memory` for every way in which such resources say it (`std::bad_alloc`, RMM's
///           own, a `::cuda::cuda_error` over memory), and where `Resource` does not keep the
///           alignment asked for (RMM's pools do not above 256 bytes); other exceptions pass
/// Threads   as `Resource`
/// Streams   as `Resource`
/// Cost      none beside a test of the address
template <std::copyable Resource>
    requires detail::foreign_synchronous<Resource>
class mr {
public:
    using platform   = cuda_platform;
    using stream     = cuda_stream_view;
    using properties = detail::properties_of<Resource>;

    explicit mr(Resource resource) : resource_{std::move(resource)} {}

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment)
        requires detail::foreign_resource<Resource>
    {
        if (bytes == 0) { return nullptr; }
        void* const p = translated(bytes, alignment, [&] { return take(s, bytes, alignment); });
        if (is_aligned(p, alignment)) [[likely]] { return p; }
        give(s, p, bytes, alignment);
        throw refused(bytes, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        if (bytes == 0) { return nullptr; }
        void* const p = translated(bytes, alignment, [&] { return take(bytes, alignment); });
        if (is_aligned(p, alignment)) [[likely]] { return p; }
        give(p, bytes, alignment);
        throw refused(bytes, alignment);
    }

    void deallocate(stream s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept
        requires detail::foreign_resource<Resource>
    {
        if (p != nullptr) { give(s, p, bytes, alignment); }
    }
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) noexcept {
        if (p != nullptr) { give(p, bytes, alignment); }
    }

    [[nodiscard]] Resource&       upstream() noexcept { return resource_; }
    [[nodiscard]] Resource const& upstream() const noexcept { return resource_; }

    friend bool operator==(mr const& a, mr const& b) { return a.resource_ == b.resource_; }

private:
    // The calls, as each generation of CCCL spells them.
#if CCCL_VERSION >= 3001000
    void* take(stream s, std::size_t bytes, std::size_t alignment) {
        return resource_.allocate(::cuda::stream_ref{s.get()}, bytes, alignment);
    }
    void* take(std::size_t bytes, std::size_t alignment) {
        return resource_.allocate_sync(bytes, alignment);
    }
    void give(stream s, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        resource_.deallocate(::cuda::stream_ref{s.get()}, p, bytes, alignment);
    }
    void give(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        resource_.deallocate_sync(p, bytes, alignment);
    }
#else
    void* take(stream s, std::size_t bytes, std::size_t alignment) {
        return resource_.allocate_async(bytes, alignment, ::cuda::stream_ref{s.get()});
    }
    void* take(std::size_t bytes, std::size_t alignment) {
        return resource_.allocate(bytes, alignment);
    }
    void give(stream s, void* p, std::size_t bytes, std::size_t alignment) noexcept {
        resource_.deallocate_async(p, bytes, alignment, ::cuda::stream_ref{s.get()});
    }
    void give(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        resource_.deallocate(p, bytes, alignment);
    }
#endif

    static out_of_memory refused(std::size_t bytes, std::size_t alignment) noexcept {
        return out_of_memory{{.asked = bytes, .rounded = bytes, .alignment = alignment}};
    }

    template <class Call>
    static void* translated(std::size_t bytes, std::size_t alignment, Call call) {
        try {
            return call();
        } catch (out_of_memory const&) {
            throw; // from a stack of vram inside: it knows more
        } catch (std::bad_alloc const&) {
            throw refused(bytes, alignment);
        } catch (::cuda::cuda_error const& e) {
            if (!detail::about_memory(e)) { throw; }
            cuda_error::clear(cudaErrorMemoryAllocation);
            throw refused(bytes, alignment);
        }
    }

    Resource resource_;
};

/// A stack that lives elsewhere, as something that CCCL and RMM may copy: they refuse what is
/// move-only.
///
///     f(as_mr(stack));              // where f takes a ::cuda::mr::resource_ref
///     auto lent = as_mr(stack);     // to keep a reference, keep what it refers to
///     ::cuda::mr::resource_ref<::cuda::mr::device_accessible> ref{lent};
///
/// Two words; the stack outlives it. `shared`, `any_resource` and `resource_ref` need no such help.
template <resource R>
class mr_view : public resource_ref_of<R> {
public:
    explicit mr_view(R& stack) noexcept : resource_ref_of<R>{stack} {}

    /// For the length of a call. CCCL's references are made from lvalues alone.
#if CCCL_VERSION >= 3001000
    template <class... Words>
        requires(has_property<R, Words> && ...)
    operator ::cuda::mr::resource_ref<Words...>() && {
        return ::cuda::mr::resource_ref<Words...>{*this};
    }
#else
    template <class... Words>
        requires(has_property<R, Words> && ...)
    operator ::cuda::mr::async_resource_ref<Words...>() && {
        return ::cuda::mr::async_resource_ref<Words...>{*this};
    }
#endif
};

/// Lends `stack` to CCCL and RMM.
template <resource R>
[[nodiscard]] mr_view<R> as_mr(R& stack) noexcept {
    return mr_view<R>{stack};
}

/// Takes a resource of CCCL or RMM into vram: `mr{resource}`.
template <class Resource>
[[nodiscard]] mr<Resource> from_mr(Resource resource) {
    return mr<Resource>{std::move(resource)};
}

} // namespace vram
