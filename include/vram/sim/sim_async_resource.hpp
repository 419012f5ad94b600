// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_async_resource` is device memory in stream order, as cudaMallocAsync gives it.

#include <vram/base/align.hpp>            // default_alignment, valid_alignment
#include <vram/base/contract.hpp>         // expects
#include <vram/base/error.hpp>            // report_error
#include <vram/base/memory_usage.hpp>     // memory_usage
#include <vram/base/out_of_memory.hpp>    // out_of_memory
#include <vram/base/process_exit.hpp>     // process_exit
#include <vram/concepts/powers.hpp>       // the concepts that the proofs check, property_set
#include <vram/concepts/refused_free.hpp> // refused_free
#include <vram/sim/sim_capture_guard.hpp> // sim_capture_guard
#include <vram/sim/sim_error.hpp>         // report_sim_error
#include <vram/sim/sim_heap.hpp>          // sim_heap, sim_pool
#include <vram/sim/sim_platform.hpp>      // sim_platform
#include <vram/sim/sim_wait.hpp>          // sim_wait

#include <cstddef>         // size_t
#include <memory>          // shared_ptr
#include <source_location> // source_location

namespace vram {

/// What a pool of its own keeps and may hold, in bytes.
struct sim_async_options {
    std::size_t release_threshold = 0; ///< kept when nothing needs it
    std::size_t maximum           = unsatisfiable;
};

/// Memory from a pool on one device. What a stream freed is its own again at once; another stream
/// gets it when it is ordered after the free, when the free is done, or (where nothing else is
/// left) by being made to wait.
///
/// Failure   `out_of_memory` at the device's capacity or the pool's maximum;
///           `sim_error{device_lost}`
/// Threads   any
/// Streams   in order; the memory is there for other streams only after an event. A block whose
///           stream was destroyed is freed after a wait for the device
/// Cost      O(log blocks), an operation for each free
class sim_async_resource {
public:
    using platform   = sim_platform;
    using at         = std::source_location; ///< each call takes the place it is made from
    using properties = property_set<device_accessible>;

    explicit sim_async_resource(sim_device        device  = sim_device::current(),
                                sim_async_options options = {})
        : device_{device}, owner_{std::make_shared<owner>(device.machine())} {
        process_exit::watch();
        owner_->pool->device    = device.index();
        owner_->pool->threshold = options.release_threshold;
        owner_->pool->maximum   = options.maximum;
    }

    [[nodiscard]] void* allocate(sim_stream_view stream, std::size_t bytes,
                                 std::size_t alignment = default_alignment, at w = at::current()) {
        if (bytes == 0) { return nullptr; }
        expects(valid_alignment(alignment), "sim: the alignment is a power of two");
        sim_machine&      m = device_.machine();
        sim_stream_state& s = stream.state();
        sim_call          call{m, sim_call_kind::allocate, device_.index(), w, bytes};
        call.tell(); // of earlier calls, before there is anything to lose
        void* const p = sim_heap{call}.allocate(*owner_->pool, s, bytes, alignment);
        if (p == nullptr) {
            call.tell();
            sim_device_state const& d = m.at(device_.index());
            throw out_of_memory{{.asked        = bytes,
                                 .rounded      = align(bytes, m.options.granularity),
                                 .alignment    = alignment,
                                 .stream       = s.id.load(),
                                 .live         = owner_->pool->live,
                                 .reserved     = owner_->pool->reserved,
                                 .device_free  = d.free(),
                                 .device_total = d.capacity}};
        }
        return p;
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      at w = at::current()) {
        sim_stream_view const stream = sim_stream_view::legacy(device_);
        void* const           p      = allocate(stream, bytes, alignment, w);
        try {
            if (p != nullptr) { stream.synchronize(); }
        } catch (...) { // what earlier work left to be told
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
        if (p == nullptr || process_exit::began()) { return; }
        try {
            if (stream.state().id == 0) { // a raw stream was destroyed, and its work may still run
                report_error({.kind     = error_kind::dead_stream,
                              .pointer  = p,
                              .bytes    = bytes,
                              .where    = w,
                              .resource = "sim_async_resource"});
                device_.await_all(w); // which breaks no capture
                stream = sim_stream_view::legacy(device_);
            }
            if (free(stream, p, bytes, w)) { return; }
            refused_free e{"sim_async_resource", p, bytes, alignment, w};
            report_error(e.on<platform>(&stream).what);
        } catch (...) { report_sim_error(p, bytes, w); }
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         at w = at::current()) noexcept {
        if (p != nullptr) { deallocate(sim_stream_view::legacy(device_), p, bytes, alignment, w); }
    }

    /// The granularity of the node.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes,
                                           std::size_t /* alignment */) const noexcept {
        return align(bytes, device_.machine().options.granularity);
    }

    /// Gives back to the device what the pool holds beyond `keep` bytes and nobody uses. The host
    /// waits for what streams are yet to free, oldest first, as far as that is needed.
    std::size_t trim(std::size_t keep = 0, at w = at::current()) {
        std::shared_ptr<sim_pool> const pool = owner_->pool;
        sim_machine&                    m    = device_.machine();
        sim_capture_guard const         relaxed{m};
        sim_call                        call{m, sim_call_kind::synchronize, device_.index(), w};
        std::size_t                     back = sim_heap::trim(m, *pool, keep);
        for (std::uint64_t const until = pool->tickets; !pool->pending.empty();) {
            sim_pool::waiting const& oldest = pool->pending.begin()->second;
            if (oldest.ticket > until || pool->reserved <= pool->live + keep) { break; }
            sim_wait{call}.await(oldest.place);
            back += sim_heap::trim(m, *pool, keep);
        }
        return back;
    }
    /// The same without a wait: what nobody uses now.
    std::size_t trim_no_wait(std::size_t keep = 0) {
        sim_machine&           m = device_.machine();
        std::unique_lock const held{m.mutex};
        return sim_heap::trim(m, *owner_->pool, keep);
    }
    [[nodiscard]] memory_usage usage() const {
        std::unique_lock const held{device_.machine().mutex};
        sim_pool const&        pool = *owner_->pool;
        return {.live          = pool.live,
                .requested     = pool.live,
                .reserved      = pool.reserved,
                .peak_live     = pool.peak_live,
                .peak_reserved = pool.peak_reserved,
                .pending       = pool.pending_bytes};
    }

    [[nodiscard]] sim_device device() const noexcept { return device_; }

    /// Equal where the pool is one.
    friend bool operator==(sim_async_resource const&, sim_async_resource const&) = default;

private:
    /// The pool, until the last resource that allocates from it is gone. Frees may still be under
    /// way then.
    struct owner {
        explicit owner(sim_machine& m) : machine{m}, pool{std::make_shared<sim_pool>()} {}
        owner(owner const&)            = delete;
        owner& operator=(owner const&) = delete;
        ~owner() {
            if (process_exit::began()) { return; }
            std::unique_lock const held{machine.mutex};
            sim_heap::retire(machine, *pool);
        }
        sim_machine&              machine;
        std::shared_ptr<sim_pool> pool;
    };

    /// False, with nothing done: there is no such block.
    [[nodiscard]] bool free(sim_stream_view stream, void* p, std::size_t bytes, at w) {
        sim_stream_state& s = stream.state();
        sim_call          call{device_.machine(), sim_call_kind::free, device_.index(), w, bytes};
        call.admit();
        return sim_heap{call}.free(owner_->pool, s, p, bytes);
    }

    sim_device             device_;
    std::shared_ptr<owner> owner_;
};

static_assert(resource<sim_async_resource> && fallible_resource<sim_async_resource>);
static_assert(trimmable_resource<sim_async_resource> && measured_resource<sim_async_resource>);

} // namespace vram
