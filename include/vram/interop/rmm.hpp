// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `as_rmm` makes a resource for RMM from a stack, whose refusals are `rmm::out_of_memory`.

#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage
#include <vram/concepts/resource.hpp>
#include <vram/handle/resource_ref.hpp> // resource_ref_of
#include <vram/interop/mr.hpp>          // default_queries_of, libcu++
#include <vram/probe/explain.hpp>

#include <rmm/error.hpp>

#include <concepts> // copyable
#include <cstddef>
#include <utility>

namespace vram {

/// The exception for a refused allocation that RMM expects, with the numbers of vram's
/// `out_of_memory`. RMM's failure callbacks catch its base class.
///
///     catch (rmm_out_of_memory const& e) { reduce_batch(e.numbers().asked); }
class rmm_out_of_memory : public ::rmm::out_of_memory {
public:
    explicit rmm_out_of_memory(vram::out_of_memory const& e)
        : ::rmm::out_of_memory{explain(e)}, numbers_{e.numbers()} {}

    /// Returns the numbers of the refused allocation.
    [[nodiscard]] shortage const& numbers() const noexcept { return numbers_; }

private:
    shortage numbers_;
};

/// A stack (a resource of vram with its upstreams) as a copyable resource of RMM, made by `as_rmm`.
///
///     shared memory{pool{stream_ordered{cuda_resource{}}}};
///     rmm::mr::set_current_device_resource(as_rmm(memory)); // for each container without its own
///     rmm_resource lent = as_rmm(memory);
///     rmm::device_uvector<int> v{1000, stream, lent};
///
/// `Handle` is a handle of a stack by value, such as `shared`, `any_resource` or `resource_ref`.
///
/// Failure   Throws `rmm_out_of_memory`, an `rmm::out_of_memory`, if the stack has no memory.
/// Threads   The rules are those of the stack.
/// Streams   The rules are those of the stack.
template <resource Handle>
    requires std::copyable<Handle> && has_property<Handle, device_accessible>
class rmm_resource : public detail::default_queries_of<detail::ordered_properties<Handle>> {
public:
    using platform   = typename Handle::platform;
    using stream     = typename platform::stream;
    using properties = typename Handle::properties;

    /// Stores a copy of `handle`.
    explicit rmm_resource(Handle handle) noexcept : handle_{std::move(handle)} {}

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment) {
        return translated([&] { return handle_.allocate(s, bytes, alignment); });
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        return translated([&] { return handle_.allocate_sync(bytes, alignment); });
    }
    void deallocate(stream s, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment) noexcept {
        handle_.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes,
                         std::size_t alignment = default_alignment) noexcept {
        handle_.deallocate_sync(p, bytes, alignment);
    }

    /// Returns the handle of the stack (a resource with its upstreams) that this resource uses.
    [[nodiscard]] Handle const& upstream() const noexcept { return handle_; }

    friend bool operator==(rmm_resource const& a, rmm_resource const& b) {
        return a.handle_ == b.handle_;
    }

private:
    template <class Call>
    static void* translated(Call call) {
        try {
            return call();
        } catch (vram::out_of_memory const& e) { throw rmm_out_of_memory{e}; }
    }

    Handle handle_;
};

/// Returns a resource for RMM that borrows `stack`. The stack must outlive the returned resource
/// and every block that was allocated from the resource.
template <resource R>
    requires(!std::copyable<R>)
[[nodiscard]] rmm_resource<resource_ref_of<R>> as_rmm(R& stack) noexcept {
    return rmm_resource<resource_ref_of<R>>{resource_ref_of<R>{stack}};
}
/// Makes a resource for RMM that stores the copyable handle `handle`. A stored `shared` or
/// `any_resource` keeps its stack (a resource with its upstreams) alive.
template <resource Handle>
    requires std::copyable<Handle>
[[nodiscard]] rmm_resource<Handle> as_rmm(Handle handle) noexcept {
    return rmm_resource<Handle>{std::move(handle)};
}

} // namespace vram
