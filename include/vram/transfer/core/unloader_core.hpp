// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader_core` is the state that an unloader and its results share.

#include <vram/base/contract.hpp>             // expects
#include <vram/base/core/smaller_of.hpp>      // larger_of
#include <vram/base/core/worker.hpp>          // the thread of platforms where time is real
#include <vram/base/tag.hpp>                  // tagged
#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/concepts/core/user_line.hpp>   // user_line, user_code, remembered_line
#include <vram/concepts/powers.hpp>           // synchronous_resource, resource
#include <vram/transfer/core/leak_on_purpose.hpp>
#include <vram/transfer/core/numa_local.hpp>
#include <vram/transfer/core/profiler_range.hpp>
#include <vram/transfer/core/slot_memory.hpp>
#include <vram/transfer/core/unloader_ring.hpp>
#include <vram/transfer/unloader_options.hpp>

#include <cstddef>
#include <exception> // exception_ptr, current_exception
#include <memory>    // enable_shared_from_this
#include <span>      // span
#include <utility>

namespace vram {
namespace detail {

/// The state of an unloader that exists until the unloader and its last `result` are destroyed.
///
/// Failure   The constructor throws the exceptions of the resources, and then leaks nothing.
/// Threads   The sink runs on a thread of the unloader. One thread of the program calls all
///           functions.
template <class Platform, synchronous_resource Device, synchronous_resource Pinned, class Sink>
class unloader_core final
    : public unloader_ring<Platform>,
      public std::enable_shared_from_this<unloader_core<Platform, Device, Pinned, Sink>> {
    using ring   = unloader_ring<Platform>;
    using memory = slot_memory<Platform, Device, Pinned>;

public:
    using typename ring::device;
    using typename ring::pinned;
    using typename ring::slot;
    using typename ring::stream;

    unloader_core(Sink receiver, stream producer, Device on_device, Pinned on_host,
                  unloader_options options)
        : ring{complete(options), Platform::device_of(producer)},
          sink_{std::move(receiver)},
          where_{Platform::device_of(producer)},
          held_{hold_stream<Platform>(producer)},
          memory_{std::move(on_device), std::move(on_host), this->slots_, this->pinned_,
                  this->channel_.view()} {
        {
            numa_local<Platform> const here{where_, options.numa_local};
            tagged const               purpose{"unloader"};
            std::size_t const          budget = options.completion_flags ? options.budget : 0;
            pageable_ = memory_.take(options.batch_bytes, options.pageable_fallback, budget);
        }
        if constexpr (resource<Device>) { // the program's stream waits for the allocation, too
            for (slot& s : this->slots_) { Platform::record(s.copied, this->channel_.view()); }
        }
        thread_ = typename Platform::thread{where_, [this] { run(); }};
    }
    ~unloader_core() { shut_down(); }

    /// Waits until the sink has received all results, or the sink or a copy has failed. Then ends
    /// the sink's thread, and waits for the callbacks and completion flags of all copies.
    void shut_down() noexcept {
        // Does nothing in a forked child process: the sink's thread exists only in the parent
        // process.
        if (!this->in_owning_process()) { return; }
        if (std::exchange(down_, true)) { return; }
        this->stop();
        thread_.join();
        // If the wait for the copies fails, a late callback may still access this object. `kept_`
        // then keeps the object until the process ends.
        bool const over = this->channel_.drain(memory_.has_flags());
        if (!over) { kept_.keep(this->weak_from_this().lock()); }
    }

    [[nodiscard]] std::size_t pageable() const noexcept { return pageable_; }

private:
    static unloader_options complete(unloader_options o) {
        expects(o.batch_bytes != 0, "unloader_options: batch_bytes must be at least 1");
        o.depth = larger_of<std::size_t>(o.depth, 1);
        if (o.pinned_depth == 0) { o.pinned_depth = o.depth; }
        if (o.device_depth == 0) { o.device_depth = o.depth; }
        memory::expect_within(o.pinned_depth + o.device_depth, o.batch_bytes, o.budget);
        return o;
    }

    void run() {
        profiler_range<Platform>::name_thread("vram unloader");
        user_line<Platform> const  from{made_.at()};
        numa_local<Platform> const here{where_, this->options_.numa_local};
        while (pinned* const p = this->await_copied()) {
            std::exception_ptr problem;
            try {
                if (std::exchange(p->in_flight, false)) { Platform::synchronize(p->copied); }
                profiler_range<Platform> const shown{"vram sink"};
                user_code<Platform> const      theirs;
                sink_(std::span<std::byte const>{p->memory, p->size}, p->index);
            } catch (...) { problem = std::current_exception(); }
            this->written(*p, std::move(problem));
        }
    }

    Sink   sink_;
    device where_;
    /// The line of the program that made the unloader, for reports.
    [[no_unique_address]] remembered_line<Platform> made_;
    /// Keeps the handle of the stream `producer`, which writes the results, valid after its owner
    /// (such as a `cuda_stream`) was destroyed. Empty if vram did not create the stream. Without
    /// effect after the owner has released the handle, or after a reset of the device.
    stream_hold<Platform>     held_;
    memory                    memory_;
    std::size_t               pageable_ = 0;
    bool                      down_     = false;
    leak_on_purpose           kept_;
    typename Platform::thread thread_;
};

} // namespace detail
} // namespace vram
