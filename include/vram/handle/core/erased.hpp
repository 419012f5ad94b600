// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `erased` is a resource of any type in two words: the base of `resource_ref` and `any_resource`.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
#include <vram/handle/core/cccl_3_0_calls.hpp>
#include <vram/handle/core/resource_calls.hpp>
#include <vram/pool/free_pieces.hpp>

#include <cstddef>
#include <optional>    // optional
#include <string_view> // string_view

namespace vram {
namespace detail {

/// A resource of any type: a pointer to the resource, and one to the table of the functions of its
/// type. The base class of `resource_ref`, which borrows the resource, and `any_resource`, which
/// owns it.
///
/// If the resource lacks an optional function such as `trim`, a call has no effect and returns 0,
/// null or an empty optional. But `try_allocate` then calls `allocate`, and `rounded_size` returns
/// the requested size.
///
/// Cost      One call through a pointer.
template <class Platform>
class erased : public cccl_3_0_calls<erased<Platform>> {
public:
    using platform = Platform;
    using stream   = typename platform::stream;
    using cccl_3_0_calls<erased>::allocate;
    using cccl_3_0_calls<erased>::deallocate;

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current()) const {
        return calls_->allocate(target_, s, bytes, alignment, at);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) const {
        return calls_->allocate_sync(target_, bytes, alignment, at);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) const noexcept {
        return calls_->try_allocate(target_, s, bytes, alignment, at);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at = call_site::current()) const noexcept {
        return calls_->try_allocate_sync(target_, bytes, alignment, at);
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) const noexcept {
        calls_->deallocate(target_, s, p, bytes, alignment, at);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) const noexcept {
        calls_->deallocate_sync(target_, p, bytes, alignment, at);
    }

    /// Returns true if `p` lies in memory of the resource. Returns an empty optional if the
    /// resource has no function `owns`.
    [[nodiscard]] std::optional<bool> owns(void const* p) const {
        if (calls_->owns == nullptr) { return {}; }
        return calls_->owns(target_, p);
    }
    /// Returns the counters of the resource, such as live bytes. Returns an empty optional if the
    /// resource has no function `usage`.
    [[nodiscard]] std::optional<memory_usage> usage() const {
        if (calls_->usage == nullptr) { return {}; }
        return calls_->usage(target_);
    }
    /// Makes the resource return unused memory beyond `keep` bytes to its upstream. Returns the
    /// number of bytes returned; 0 without `trim`.
    std::size_t trim(std::size_t keep = 0) const {
        return calls_->trim == nullptr ? 0 : calls_->trim(target_, keep);
    }
    void retire(stream s) const {
        if (calls_->retire != nullptr) { calls_->retire(target_, s); }
    }

    /// Allocates a block that the stream `s` can use without a wait. Returns null if the resource
    /// has no such block, or has no function `try_allocate_ready`.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) const {
        return calls_->try_allocate_ready == nullptr
                   ? nullptr
                   : calls_->try_allocate_ready(target_, s, bytes, alignment, at);
    }
    /// Returns the size that the resource allocates for a request of `bytes` bytes, or `bytes` if
    /// it has no `rounded_size`.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes,
                                           std::size_t alignment) const noexcept {
        return calls_->rounded_size == nullptr ? bytes
                                               : calls_->rounded_size(target_, bytes, alignment);
    }
    /// Returns the device of the memory, or nothing if the resource has no `device`.
    [[nodiscard]] std::optional<typename Platform::device> device() const {
        if (calls_->device_of == nullptr) { return {}; }
        return calls_->device_of(target_);
    }
    /// Returns unused chunks to the upstream without a wait. Returns the number of their bytes; 0
    /// if the resource has no `trim_no_wait`.
    std::size_t trim_no_wait() const {
        return calls_->trim_no_wait == nullptr ? 0 : calls_->trim_no_wait(target_);
    }
    /// Returns the number and sizes of the free blocks, or nothing if the resource has no
    /// `free_memory`.
    [[nodiscard]] std::optional<free_pieces> free_memory() const {
        if (calls_->free_memory == nullptr) { return {}; }
        return calls_->free_memory(target_);
    }
    /// Sets the peaks of the resource to the present values, and returns the peaks from before.
    /// Returns an empty optional if the resource has no function `reset_peaks`.
    std::optional<memory_usage> reset_peaks() const {
        if (calls_->reset_peaks == nullptr) { return {}; }
        return calls_->reset_peaks(target_);
    }
    void raise_peaks(memory_usage const& before) const {
        if (calls_->raise_peaks != nullptr) { calls_->raise_peaks(target_, before); }
    }
    /// Returns the name of the class of the resource, such as "pool", for reports.
    [[nodiscard]] std::string_view resource_name() const noexcept { return calls_->name; }
    /// Returns false if the handle was moved from and has not been assigned since.
    [[nodiscard]] bool holds_resource() const noexcept { return target_ != nullptr; }

    /// Returns true if both handles refer to one resource, to equal resources of one type, or to no
    /// resource.
    friend bool operator==(erased const& a, erased const& b) {
        if (a.target_ == b.target_ && a.calls_ == b.calls_) { return true; }
        return a.calls_ == b.calls_ && a.target_ != nullptr && b.target_ != nullptr &&
               a.calls_->equal(a.target_, b.target_);
    }

    /// Calls `to.visit` for each layer of the resource that `handle` refers to, the outermost layer
    /// first. `depth`: number of layers and handles around that resource.
    friend void visit_hidden(erased const& handle, layer_visitor& to, std::size_t depth) {
        handle.calls_->visit(handle.target_, to, depth);
    }

protected:
    using calls_type = resource_calls<Platform>;

    /// Makes the handle empty, after its resource was moved to another handle. Functions that
    /// allocate or free then call `broken_contract`, which throws or ends the program.
    void let_go() noexcept {
        target_ = nullptr;
        calls_  = &no_calls<Platform>;
    }

    erased(void* target, calls_type const* calls) noexcept : target_{target}, calls_{calls} {}
    erased(erased const&)            = default;
    erased& operator=(erased const&) = default;
    ~erased()                        = default;

    void*             target_;
    calls_type const* calls_;
};

} // namespace detail
} // namespace vram
