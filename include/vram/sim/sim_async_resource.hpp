// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_async_resource` allocates device memory in stream order, as cudaMallocAsync does.

#include <vram/base/align.hpp>    // default_alignment, valid_alignment
#include <vram/base/contract.hpp> // expects
#include <vram/base/core/process_exit.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/error.hpp>           // report_error
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/powers.hpp> // the concepts that the proofs check, property_set
#include <vram/sim/machine/sim_capture_guard.hpp>
#include <vram/sim/machine/sim_heap.hpp> // sim_heap, sim_pool
#include <vram/sim/machine/sim_wait.hpp>
#include <vram/sim/sim_error.hpp> // report_sim_error
#include <vram/sim/sim_platform.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>          // shared_ptr
#include <source_location> // source_location
#include <vector>          // vector

namespace vram {

/// The sizes in bytes that configure a `sim_async_resource` (a simulated stream-ordered pool). The
/// members have the same names as in `cuda_pool_options`.
struct sim_async_options {
    /// Number of bytes that the constructor reserves, and that the pool keeps until a `trim`.
    std::size_t initial_size = 0;
    /// If the pool has reserved more bytes than this number, it returns unused memory after each
    /// allocation and free. Bytes of live blocks count as reserved. By default, the pool keeps at
    /// most `initial_size` unused bytes, and with `sim_options::pool_unit` also the unused bytes of
    /// units that are not wholly free. The default of `cuda_pool_options` keeps everything.
    std::size_t release_threshold = 0;
    /// Largest number of bytes that the pool may reserve, rounded up to a multiple of
    /// `sim_options::pool_unit`. 0 means no limit.
    std::size_t maximum_size = 0;
};

/// Allocates stream-ordered memory from a pool on one device. After a free on a stream, later work
/// of that stream may reuse the memory. If another stream gets the memory, that stream first waits
/// for the free.
///
/// Failure   `allocate` throws `out_of_memory` (limit of device or pool, or an injected fault),
///           `sim_error` or `sim_race`.
/// Threads   Any thread may use the resource.
/// Streams   A stream that did not allocate a block may use it only after a wait for the allocating
///           stream.
/// Cost      O(log blocks), and as much for each stream with pending frees, and for each pending
///           free that a search skips. Each free is an operation of the simulation.
class sim_async_resource {
public:
    using platform   = sim_platform;
    using at         = std::source_location; ///< type of the source location in reports
    using properties = property_set<device_accessible>;

    /// Makes a pool on the current device.
    explicit sim_async_resource(sim_async_options const& options = {}, at w = at::current())
        : sim_async_resource{sim_device::current(), options, w} {}
    /// Makes a pool on `device`. Throws `sim_error{invalid_value}` if `sim_options::pool_unit` is
    /// larger than 1 TiB.
    explicit sim_async_resource(sim_device device, sim_async_options const& options = {},
                                at w = at::current())
        : device_{device}, owner_{std::make_shared<owner>(device.machine())} {
        detail::process_exit::watch();
        detail::sim_pool& pool = *owner_->pool;
        pool.device            = device.index();
        pool.threshold         = detail::larger_of(options.release_threshold, options.initial_size);
        if (std::size_t const unit = device.machine().options.pool_unit; unit != 0) {
            if (unit > std::size_t{1} << 40) { throw sim_error{sim_status::invalid_value, w}; }
            pool.places = std::make_unique<detail::sim_places>(unit);
        }
        if (std::size_t const most = options.maximum_size; most != 0) { // in whole units
            pool.maximum = saturating_add((most - 1) / pool.step() * pool.step(), pool.step());
        }
        pool.peers = std::make_shared<std::vector<bool>>(device.machine().options.devices,
                                                         device.machine().options.peer_access);
        if (options.initial_size != 0) { reserve(options.initial_size, w); }
    }

    /// Lets kernels, fills and copies of `peer` access all memory of the pool, as
    /// cudaMemPoolSetAccess does. A copy that names both devices needs no access.
    /// Otherwise such accesses are reported.
    void allow_access(sim_device peer) { set_access(peer, true); }
    /// Ends the access of `peer` to the pool's memory.
    void deny_access(sim_device peer) { set_access(peer, false); }

    [[nodiscard]] void* allocate(sim_stream_view stream, std::size_t bytes,
                                 std::size_t alignment = default_alignment, at w = at::current()) {
        if (bytes == 0) { return nullptr; }
        expects(valid_alignment(alignment), "sim: the alignment must be a power of two");
        detail::sim_machine&      m = device_.machine();
        detail::sim_stream_state& s = stream.state();
        detail::sim_call          call{m, sim_call_kind::allocate, device_.index(), w, bytes};
        // Throws the report of an earlier mistake that was not thrown yet. Nothing is allocated
        // yet, so no block is lost.
        call.throw_report();
        void* const p = detail::sim_heap{call}.allocate(*owner_->pool, s, bytes, alignment);
        if (p == nullptr) { refuse(call, bytes, alignment, s.id.load()); }
        return p;
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      at w = at::current()) {
        sim_stream_view const stream = sim_stream_view::legacy(device_);
        void* const           p      = allocate(stream, bytes, alignment, w);
        try {
            if (p != nullptr) { stream.synchronize(); }
        } catch (...) {
            // `synchronize` threw the error of earlier work, so the new block is freed again.
            deallocate(stream, p, bytes, alignment, w);
            throw;
        }
        return p;
    }

    [[nodiscard]] void* try_allocate(sim_stream_view stream, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     at          w         = at::current()) noexcept {
        try {
            return allocate(stream, bytes, alignment, w);
        } catch (...) { return nullptr; }
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          at          w         = at::current()) noexcept {
        try {
            return allocate_sync(bytes, alignment, w);
        } catch (...) { return nullptr; }
    }

    void deallocate(sim_stream_view stream, void* p, std::size_t bytes,
                    std::size_t alignment = default_alignment, at w = at::current()) noexcept {
        if (p == nullptr || detail::process_exit::began()) { return; }
        try {
            // Handles a destroyed stream, for which the id is 0. Work that was queued on the stream
            // may still use the block, so the free first waits for all work of the device.
            if (stream.state().id == 0) {
                report_error({.kind     = error_kind::dead_stream,
                              .pointer  = p,
                              .bytes    = bytes,
                              .where    = w,
                              .resource = "sim_async_resource"});
                device_.await_all(w); // unlike `synchronize`, does not invalidate captures
                stream = sim_stream_view::legacy(device_);
            }
            if (free(stream, p, bytes, w)) { return; }
            detail::refused_free e{"sim_async_resource", p, bytes, alignment, w};
            report_error(e.on<platform>(&stream).what);
        } catch (...) { detail::report_sim_error(p, bytes, w); }
        detail::note_refused(p);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         at w = at::current()) noexcept {
        if (p != nullptr) { deallocate(sim_stream_view::legacy(device_), p, bytes, alignment, w); }
    }

    /// Returns the size of the block for a request of `bytes`: rounded up to a multiple of
    /// `sim_options::granularity`.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes,
                                           std::size_t /* alignment */) const noexcept {
        return align(bytes, device_.machine().options.granularity);
    }

    /// Returns unused memory to the device until at most `keep` unused bytes are left, and returns
    /// the number of bytes that the device got. If necessary, waits for queued frees.
    ///
    /// With `sim_options::pool_unit`, returns only units that are completely free, and stops before
    /// fewer than `keep` unused bytes are left. More than `keep` may then be left.
    std::size_t trim(std::size_t keep = 0, at w = at::current()) {
        std::shared_ptr<detail::sim_pool> const pool = owner_->pool;
        detail::sim_machine&                    m    = device_.machine();
        detail::sim_capture_guard const         relaxed{m};
        detail::sim_call call{m, sim_call_kind::synchronize, device_.index(), w};
        std::size_t      back = return_unused(keep);
        for (std::uint64_t const until = pool->tickets; !pool->pending.empty();) {
            detail::sim_pool::waiting const& oldest = pool->pending.begin()->second;
            bool const                       few =
                pool->reserved < saturating_add(saturating_add(pool->live, keep), pool->step());
            if (oldest.ticket > until || few) { break; }
            detail::sim_wait{call}.await(oldest.place);
            back += return_unused(keep);
        }
        return back;
    }
    /// Returns unused memory to the device as `trim` does, but does not wait for queued frees. The
    /// result is the number of bytes that the device got.
    std::size_t trim_no_wait(std::size_t keep = 0) {
        std::unique_lock const held{device_.machine().mutex};
        return return_unused(keep);
    }
    [[nodiscard]] memory_usage usage() const {
        std::unique_lock const  held{device_.machine().mutex};
        detail::sim_pool const& pool = *owner_->pool;
        return {.live          = pool.live,
                .requested     = pool.live,
                .reserved      = pool.reserved,
                .peak_live     = pool.peak_live,
                .peak_reserved = pool.peak_reserved,
                .pending       = pool.all_pending()};
    }

    [[nodiscard]] sim_device device() const noexcept { return device_; }

    /// Resources are equal if they share one pool.
    friend bool operator==(sim_async_resource const&, sim_async_resource const&) = default;

private:
    /// The pool, shared by all copies of the resource. The last copy ends the pool.
    struct owner {
        explicit owner(detail::sim_machine& m)
            : machine{m}, pool{std::make_shared<detail::sim_pool>()} {}
        owner(owner const&)            = delete;
        owner& operator=(owner const&) = delete;
        ~owner() {
            if (detail::process_exit::began()) { return; }
            std::unique_lock const held{machine.mutex};
            detail::sim_heap::retire(machine, *pool);
        }
        detail::sim_machine&              machine;
        std::shared_ptr<detail::sim_pool> pool;
    };

    /// `trim` without a wait.
    std::size_t return_unused(std::size_t keep) {
        std::size_t const held = saturating_add(owner_->pool->live, keep);
        return detail::sim_room::trim(device_.machine(), *owner_->pool, held);
    }
    /// Reserves memory for the pool. Only the constructor calls this function.
    void reserve(std::size_t bytes, at w) {
        detail::sim_call call{device_.machine(), sim_call_kind::allocate, device_.index(), w,
                              bytes};
        call.throw_report();
        if (!detail::sim_heap{call}.reserve(*owner_->pool, bytes)) {
            refuse(call, bytes, default_alignment, 0);
        }
    }
    [[noreturn]] void refuse(detail::sim_call& call, std::size_t bytes, std::size_t alignment,
                             std::uint64_t stream) const {
        call.throw_report();
        detail::sim_machine&            m = device_.machine();
        detail::sim_device_state const& d = m.at(device_.index());
        throw out_of_memory{{.asked        = bytes,
                             .rounded      = align(bytes, m.options.granularity),
                             .alignment    = alignment,
                             .stream       = stream,
                             .live         = owner_->pool->live,
                             .reserved     = owner_->pool->reserved,
                             .device_free  = d.free(),
                             .device_total = d.capacity}};
    }
    void set_access(sim_device peer, bool allowed) {
        std::unique_lock const held{device_.machine().mutex};
        owner_->pool->peers->at(static_cast<std::size_t>(peer.index())) = allowed;
    }

    /// Frees a block in the order of `stream`. Returns false, and frees nothing, if `p` is not a
    /// live block of the pool.
    [[nodiscard]] bool free(sim_stream_view stream, void* p, std::size_t bytes, at w) {
        detail::sim_stream_state& s = stream.state();
        detail::sim_call call{device_.machine(), sim_call_kind::free, device_.index(), w, bytes};
        call.admit();
        return detail::sim_heap{call}.free(owner_->pool, s, p, bytes);
    }

    sim_device             device_;
    std::shared_ptr<owner> owner_;
};

static_assert(resource<sim_async_resource> && fallible_resource<sim_async_resource>);
static_assert(trimmable_resource<sim_async_resource> && measured_resource<sim_async_resource>);

} // namespace vram
