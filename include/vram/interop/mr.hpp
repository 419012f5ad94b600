// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `mr` takes a memory resource of CCCL or RMM into vram; `as_mr` lends them one of vram's.

#include <vram/base/align.hpp> // is_aligned
#include <vram/base/out_of_memory.hpp>
#include <vram/cuda/cuda_error.hpp>
#include <vram/cuda/cuda_platform.hpp>
#include <vram/handle/resource_ref.hpp>

#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE // required by CCCL before 3.1
#endif
#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <concepts> // copyable, derived_from, convertible_to, same_as
#include <cstddef>
#include <cstring>     // strncmp
#include <new>         // bad_alloc
#include <stdexcept>   // invalid_argument
#include <type_traits> // conditional_t, remove_cvref_t
#include <utility>

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

/// The properties of a resource `R` of CCCL or RMM for vram, by `::cuda::has_property`:
/// `device_accessible`, `host_accessible`, both or neither.
template <class R>
using properties_of =
    std::conditional_t<::cuda::has_property<R, ::cuda::mr::device_accessible>,
                       std::conditional_t<::cuda::has_property<R, ::cuda::mr::host_accessible>,
                                          property_set<device_accessible, host_accessible>,
                                          property_set<device_accessible>>,
                       std::conditional_t<::cuda::has_property<R, ::cuda::mr::host_accessible>,
                                          property_set<host_accessible>, property_set<>>>;

/// Gives a class the type with which CCCL's `make_buffer` finds the properties of a resource, so
/// that a call need not list them.
#if CCCL_VERSION >= 3002000
template <class Properties>
struct default_queries_of {
    using default_queries = ::cuda::mr::properties_list<>;
};
template <>
struct default_queries_of<property_set<device_accessible>> {
    using default_queries = ::cuda::mr::properties_list<::cuda::mr::device_accessible>;
};
template <>
struct default_queries_of<property_set<host_accessible>> {
    using default_queries = ::cuda::mr::properties_list<::cuda::mr::host_accessible>;
};
template <>
struct default_queries_of<property_set<device_accessible, host_accessible>> {
    using default_queries =
        ::cuda::mr::properties_list<::cuda::mr::device_accessible, ::cuda::mr::host_accessible>;
};
#else
template <class Properties>
struct default_queries_of {};
#endif

/// The properties of vram's resource `R` as a `property_set`. If `R` has both, `device_accessible`
/// comes first, as `default_queries_of` expects.
template <class R>
using ordered_properties =
    std::conditional_t<has_property<R, device_accessible>,
                       std::conditional_t<has_property<R, host_accessible>,
                                          property_set<device_accessible, host_accessible>,
                                          property_set<device_accessible>>,
                       std::conditional_t<has_property<R, host_accessible>,
                                          property_set<host_accessible>, property_set<>>>;

/// Returns true if CCCL's error means a shortage of memory. Before CCCL 3.1, the error has only a
/// text.
template <class Error>
[[nodiscard]] bool about_memory(Error const& e) noexcept {
    if constexpr (requires(Error const& of) { of.status(); }) {
        return e.status() == cudaErrorMemoryAllocation;
    } else {
        constexpr char prefix[] = "cudaError 2:";
        return std::strncmp(e.what(), prefix, sizeof prefix - 1) == 0;
    }
}

#if CCCL_VERSION >= 3004000
/// `value` is true if `R` can be copied, as CCCL requires of each resource. Otherwise compilation
/// stops with a message that names the remedy, `as_mr(stack)`.
template <class R>
struct copied_by_cccl {
    static_assert(std::copyable<R>, "CCCL copies resources, and a stack cannot be copied: write "
                                    "as_mr(stack), a view of it; for RMM, as_rmm(stack)");
    static constexpr bool value = std::copyable<R>;
};
#endif

/// Adapts `Handle` to CCCL 3.2 and 3.3, which take the addresses of `allocate_sync` and
/// `deallocate_sync`: removes their `call_site` parameter. For other versions it is `Handle`
/// itself.
#if CCCL_VERSION >= 3002000 && CCCL_VERSION < 3004000
template <class Handle>
class addressable : public Handle {
public:
    explicit addressable(Handle handle) noexcept : Handle{std::move(handle)} {}

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) const {
        return Handle::allocate_sync(bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) const noexcept {
        Handle::deallocate_sync(p, bytes, alignment);
    }
};
#else
template <class Handle>
using addressable = Handle;
#endif

/// Converts a temporary `Lent`, the type that `as_mr` returns, to CCCL's `resource_ref`s, because
/// CCCL's own conversions accept only lvalues. Base class of `Lent` (CRTP).
template <class Lent, class R>
class lent_as_temporary {
public:
#if CCCL_VERSION >= 3001000
    template <class... Words>
        requires(has_property<R, Words> && ...)
    operator ::cuda::mr::resource_ref<Words...>() && {
        return ::cuda::mr::resource_ref<Words...>{static_cast<Lent&>(*this)};
    }
    template <class... Words>
        requires(has_property<R, Words> && ...)
    operator ::cuda::mr::synchronous_resource_ref<Words...>() && {
        return ::cuda::mr::synchronous_resource_ref<Words...>{static_cast<Lent&>(*this)};
    }
#else
    template <class... Words>
        requires(has_property<R, Words> && ...)
    operator ::cuda::mr::async_resource_ref<Words...>() && {
        return ::cuda::mr::async_resource_ref<Words...>{static_cast<Lent&>(*this)};
    }
    template <class... Words>
        requires(has_property<R, Words> && ...)
    /// Converts a temporary to CCCL's `resource_ref`. Before CCCL 3.1, a `resource_ref` has only
    /// functions without a stream.
    operator ::cuda::mr::resource_ref<Words...>() && {
        return ::cuda::mr::resource_ref<Words...>{static_cast<Lent&>(*this)};
    }
#endif
};

} // namespace detail

#if CCCL_VERSION >= 3004000
/// Stops the compilation of `::cuda::mr::resource_ref{stack}` if `stack` cannot be copied. The
/// compiler then names this function, because CCCL first asks for the property `P`.
template <class R, std::same_as<::cuda::mr::dynamic_accessibility_property> P>
    requires synchronous_resource<R> && (!std::copyable<R>) && detail::copied_by_cccl<R>::value
void get_property(R const&, P) = delete;
#endif

/// A memory resource of CCCL's concept as an upstream of vram's layers.
///
///     limiting budget{mr{rmm::mr::get_current_device_resource_ref()}, 2_GiB};
///
/// `Resource` is stored as a copy: a `::cuda::mr::resource_ref` or `any_resource`, a resource of
/// RMM, or the reference of a pool such as `::cuda::device_memory_pool`, which must outlive this
/// object.
///
/// Failure   Throws `out_of_memory` if `Resource` has no memory, or does not respect the requested
///           alignment.
/// Threads   The rules are those of `Resource`.
/// Streams   The rules are those of `Resource`.
template <std::copyable Resource>
    requires detail::foreign_synchronous<Resource>
class mr {
public:
    using platform   = cuda_platform;
    using stream     = cuda_stream_view;
    using properties = detail::properties_of<Resource>;

    /// Stores `resource`, a resource or handle of CCCL or RMM. A template, because a parameter
    /// `Resource` would make copies of an `mr` ambiguous.
    template <class From>
        requires(!std::same_as<std::remove_cvref_t<From>, mr>) &&
                std::convertible_to<From, Resource>
    explicit mr(From&& resource) : resource_{std::forward<From>(resource)} {}

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
    // The functions `take` and `give` call `resource_`. Before CCCL 3.1 (`#else`), the functions of
    // a resource have other names, such as `allocate_async`.
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
            // Passes on an exception of vram unchanged: it describes the refusal better than
            // `refused` could.
            throw;
        } catch (std::bad_alloc const&) {
            throw refused(bytes, alignment);
        } catch (std::invalid_argument const&) {
            // CCCL's resources throw `std::invalid_argument` for an alignment above their largest.
            // Above the default alignment, this is therefore a refusal (`out_of_memory`).
            if (alignment <= default_alignment) { throw; }
            throw refused(bytes, alignment);
        } catch (::cuda::cuda_error const& e) {
            if (!detail::about_memory(e)) { throw; }
            cuda_error::clear(cudaErrorMemoryAllocation);
            throw refused(bytes, alignment);
        }
    }

    Resource resource_;
};

/// `mr{x}` stores a copy of `x` if `x` is a copyable resource or handle of CCCL or RMM.
template <std::copyable Resource>
    requires detail::foreign_synchronous<Resource>
mr(Resource) -> mr<Resource>;

/// `mr{pool}` borrows a CCCL pool that cannot be copied: the `mr` stores the pool's
/// `reference_type`. The pool must outlive the `mr`.
template <class Pool>
    requires std::derived_from<Pool, typename Pool::reference_type> && (!std::copyable<Pool>)
mr(Pool&) -> mr<typename Pool::reference_type>;

/// A copyable view of a stack (a resource of vram with its upstreams) for CCCL and RMM, which
/// refuse move-only resources. The stack must outlive the view.
///
///     f(as_mr(stack));              // f takes a ::cuda::mr::resource_ref
///     auto lent = as_mr(stack);     // must outlive a reference that is made from it
///     ::cuda::mr::resource_ref<::cuda::mr::device_accessible> ref{lent};
///
///     auto x = ::cuda::make_buffer<float>(stream, as_mr(stack), n, ::cuda::no_init);
///
/// Objects of `shared`, `any_resource` and `resource_ref` that are not temporary need no view. With
/// CCCL 3.2 and 3.3, they need it, too.
template <resource R>
class mr_view : public detail::addressable<resource_ref_of<R>>,
                public detail::default_queries_of<detail::ordered_properties<R>>,
                public detail::lent_as_temporary<mr_view<R>, R> {
public:
    /// Borrows `stack`, which must outlive this view.
    explicit mr_view(R& stack) noexcept
        : detail::addressable<resource_ref_of<R>>{resource_ref_of<R>{stack}} {}
};

/// A resource for CCCL and RMM that stores a copyable handle of vram, such as `shared`. `as_mr`
/// makes it. A stored `shared` or `any_resource` keeps its stack (a resource with its upstreams)
/// alive. The type `default_queries` tells CCCL's `make_buffer` the properties of the memory.
///
///     shared memory{pool{stream_ordered{cuda_resource{}}}};
///     f(as_mr(memory)); // f takes a ::cuda::mr::resource_ref
///     mr_handle lent = as_mr(memory);
template <resource Handle>
    requires std::copyable<Handle>
class mr_handle : public detail::addressable<Handle>,
                  public detail::default_queries_of<detail::ordered_properties<Handle>>,
                  public detail::lent_as_temporary<mr_handle<Handle>, Handle> {
public:
    /// Stores a copy of `handle`, a handle of vram such as `shared`.
    explicit mr_handle(Handle handle) noexcept : detail::addressable<Handle>{std::move(handle)} {}
};

/// Returns a view of `stack` as a resource of CCCL and RMM. The stack must outlive the view and its
/// copies.
template <resource R>
    requires(!std::copyable<R>)
[[nodiscard]] mr_view<R> as_mr(R& stack) noexcept {
    return mr_view<R>{stack};
}
/// Makes a resource for CCCL and RMM that stores the copyable handle `handle`. A stored `shared` or
/// `any_resource` keeps its stack (a resource with its upstreams) alive.
template <resource Handle>
    requires std::copyable<Handle>
[[nodiscard]] mr_handle<Handle> as_mr(Handle handle) noexcept {
    return mr_handle<Handle>{std::move(handle)};
}

/// Makes an upstream of vram from a resource of CCCL or RMM: `mr{resource}`.
template <class Resource>
[[nodiscard]] mr<Resource> from_mr(Resource resource) {
    return mr<Resource>{std::move(resource)};
}

} // namespace vram
