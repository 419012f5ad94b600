// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader_core` is a loader's ring the other way round: from the device to a sink.

#include <vram/base/contract.hpp>             // expects
#include <vram/base/error.hpp>                // report_error
#include <vram/base/gate.hpp>                 // the gate of platforms where time is real
#include <vram/base/worker.hpp>               // their thread
#include <vram/concepts/powers.hpp>           // synchronous_resource
#include <vram/layer/sure_wait.hpp>           // sure_wait
#include <vram/transfer/copy_lane.hpp>        // copy_lane
#include <vram/transfer/kept_for_good.hpp>    // kept_for_good
#include <vram/transfer/loader_error.hpp>     // loader_error
#include <vram/transfer/near_device.hpp>      // near_device
#include <vram/transfer/pinned_slot.hpp>      // pinned_slot
#include <vram/transfer/platform_clock.hpp>   // platform_clock
#include <vram/transfer/slot.hpp>             // slot
#include <vram/transfer/slot_memory.hpp>      // slot_memory
#include <vram/transfer/slot_order.hpp>       // slot_order
#include <vram/transfer/slot_queue.hpp>       // slot_queue
#include <vram/transfer/stage.hpp>            // stage
#include <vram/transfer/unloader_options.hpp> // unloader_options

#include <algorithm> // max
#include <chrono>    // seconds
#include <cstddef>   // size_t, byte
#include <exception> // exception_ptr
#include <memory>    // enable_shared_from_this, shared_ptr
#include <span>      // span
#include <utility>   // move, exchange
#include <vector>    // vector

namespace vram {

/// Slots on the device go round: free, held by the program, full, free once their copy is over; the
/// device waits for that, not the host. Pinned slots: empty, copying, landed, empty when the sink
/// has had them.
///
/// Failure   of the sink or of a copy: thrown by the next call of the program's; nothing is written
///           after it. The constructor throws what the resources throw, and keeps nothing
/// Threads   the sink on a thread of its own, everything else on the program's
/// Streams   a lane of its own carries the copies
template <class Platform, synchronous_resource Device, synchronous_resource Pinned, class Sink>
class unloader_core final
    : public std::enable_shared_from_this<unloader_core<Platform, Device, Pinned, Sink>> {
public:
    using slot   = vram::slot<Platform>;
    using pinned = pinned_slot<Platform>;
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    using memory = slot_memory<Platform, Device, Pinned>;

    unloader_core(Sink sink, stream producer, Device on_device, Pinned on_host,
                  unloader_options options)
        : sink_{std::move(sink)},
          options_{complete(options)},
          where_{Platform::device_of(producer)},
          lane_{where_},
          slots_{make_slots(where_, options_.device_depth)},
          pinned_{make_pinned(where_, options_.pinned_depth)},
          memory_{std::move(on_device), std::move(on_host), slots_, pinned_, lane_.view()},
          landed_{options_.pinned_depth, true} {
        {
            near_device<Platform> const near{where_, options_.near_device};
            pageable_ = memory_.take(options_.batch_bytes, options_.pageable_fallback);
        }
        for (slot& s : slots_) { free_.push(s); }
        for (pinned& p : pinned_) {
            p.owner = this;
            empty_.push(p);
        }
        thread_ = typename Platform::thread{where_, [this] { run(); }};
    }
    ~unloader_core() { shut_down(); }

    /// A slot to write the next result into; `s` waits for the copy of what was there. The host
    /// waits where every slot is full, until the sink has had one.
    slot& take(stream s) {
        if (Platform::capturing(s)) { throw loader_error{loader_error::reason::capturing, index_}; }
        slot* got = nullptr;
        {
            auto held = gate_.hold();
            if (held_ == slots_.size()) {
                throw loader_error{loader_error::reason::all_held, index_, held_, slots_.size()};
            }
            gate_.wait(held, [&] { return problem_ != nullptr || !free_.empty(); });
            rethrow();
            got = free_.pop();
            ++held_;
        }
        try {
            Platform::wait(s, got->copied);
        } catch (...) {
            give_back(*got);
            throw;
        }
        got->size = 0;
        return *got;
    }

    /// `bytes` of `s` are the next result, once `on` and whoever else writes there got here. Where
    /// this throws, the slot is still the caller's.
    void send(slot*& from, std::size_t bytes, stream on) {
        if (bytes > options_.batch_bytes) {
            throw loader_error{loader_error::reason::too_large, index_, bytes,
                               options_.batch_bytes};
        }
        if (stopping_) { throw loader_error{loader_error::reason::ended, index_}; }
        slot& s = *from;
        s.record_users(on);
        from    = nullptr; // from here on it is the ring's
        s.size  = bytes;
        s.index = index_++;
        {
            auto const held = gate_.hold();
            --held_;
            full_.push(s);
        }
        copy_all();
    }
    /// `s` is given back with nothing in it.
    void give_back(slot& s) noexcept {
        {
            auto const held = gate_.hold();
            --held_;
            free_.push(s);
        }
        gate_.notify();
    }
    /// The same, where work that writes there may be under way.
    void drop(slot& s, stream on) noexcept {
        s.unsure = !sure_wait<Platform>(on, [on] { return Platform::device_of(on); });
        for (stream const& other : s.others) {
            bool const over =
                sure_wait<Platform>(other, [&] { return Platform::device_of(other); });
            s.unsure = s.unsure || !over;
        }
        s.forget_users();
        if (!s.unsure) { give_back(s); }
    }

    /// The host waits until the sink has had everything.
    void finish() {
        auto held = gate_.hold();
        gate_.wait(held, [&] { return problem_ != nullptr || idle(); });
        rethrow();
    }
    /// The same where nothing may be thrown, and the end of the sink's thread.
    void shut_down() noexcept {
        if (std::exchange(down_, true)) { return; }
        {
            auto held = gate_.hold();
            gate_.wait(held, [&] { return problem_ != nullptr || idle(); });
            stopping_ = true;
            if (problem_ != nullptr && !told_) { report_error({.kind = mishap::platform_error}); }
        }
        gate_.notify();
        thread_.join();
        if (!lane_.drain()) { kept_.keep(this->weak_from_this().lock()); }
    }

    [[nodiscard]] std::size_t sent() const noexcept { return index_; }
    [[nodiscard]] std::size_t pageable() const noexcept { return pageable_; }
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return options_.batch_bytes; }

private:
    static unloader_options complete(unloader_options o) {
        expects(o.batch_bytes != 0, "unloader: a result has at least one byte");
        o.depth = std::max<std::size_t>(o.depth, 1);
        if (o.pinned_depth == 0) { o.pinned_depth = o.depth; }
        if (o.device_depth == 0) { o.device_depth = o.depth; }
        memory::check(o.pinned_depth + o.device_depth, o.batch_bytes, o.budget);
        return o;
    }
    static std::vector<slot> make_slots(device where, std::size_t n) {
        std::vector<slot> all;
        all.reserve(n);
        for (std::size_t i = 0; i < n; ++i) { all.emplace_back(where); }
        return all;
    }
    static std::vector<pinned> make_pinned(device where, std::size_t n) {
        std::vector<pinned> all;
        all.reserve(n);
        for (std::size_t i = 0; i < n; ++i) { all.emplace_back(where, false); }
        return all;
    }

    /// Enqueues copies as long as there is a full slot and an empty block; on the program's thread,
    /// or the sink's, one at a time.
    void copy_all() noexcept {
        for (;;) {
            slot*   from = nullptr;
            pinned* to   = nullptr;
            {
                auto const held = gate_.hold();
                if (copying_ || problem_ != nullptr || full_.empty() || empty_.empty()) { return; }
                from     = full_.pop();
                to       = empty_.pop();
                copying_ = true;
                ++in_flight_;
                ++to->flight;
            }
            std::exception_ptr problem = copy(*from, *to);
            {
                auto const held = gate_.hold();
                copying_        = false;
                if (problem != nullptr) {
                    if (problem_ == nullptr) { problem_ = std::move(problem); }
                    --in_flight_;
                }
                if (!from->unsure) { free_.push(*from); }
            }
            gate_.notify();
        }
    }
    std::exception_ptr copy(slot& from, pinned& to) noexcept {
        stage<Platform> const shown{"vram copy"};
        stream const          on      = lane_.view();
        bool                  started = false;
        try {
            to.size  = from.size;
            to.index = from.index;
            from.await_users(on);
            Platform::copy(on, to.memory, from.memory, from.size);
            started = true;
            Platform::record(to.left, on);
            Platform::record(from.copied, on);
        } catch (...) {
            std::exception_ptr problem = std::current_exception();
            if (started) {
                bool const over = sure_wait<Platform>(on, [on] { return Platform::device_of(on); });
                from.unsure = to.unsure = !over;
            }
            return problem;
        }
        try {
            lane_.call_after(to.left, landed, &to);
        } catch (...) { // the sink's thread waits for the event instead
            report_error({.kind = mishap::platform_error, .pointer = to.memory});
            to.in_flight = true;
            land(to);
        }
        return nullptr;
    }
    static void landed(void* slot) {
        pinned& p = *static_cast<pinned*>(slot);
        static_cast<unloader_core*>(p.owner)->land(p);
    }
    void land(pinned& p) noexcept {
        {
            auto const held = gate_.hold();
            landed_.push(p);
        }
        gate_.notify();
    }

    /// The sink's thread.
    void run() {
        stage<Platform>::name_thread("vram unloader");
        near_device<Platform> const near{where_, options_.near_device};
        while (pinned* const p = await_landed()) {
            std::exception_ptr problem;
            try {
                if (std::exchange(p->in_flight, false)) { Platform::synchronize(p->left); }
                stage<Platform> const shown{"vram sink"};
                sink_(std::span<std::byte const>{p->memory, p->size}, p->index);
            } catch (...) { problem = std::current_exception(); }
            {
                auto const held = gate_.hold();
                --in_flight_;
                empty_.push(*p);
                if (problem != nullptr) { problem_ = std::move(problem); }
            }
            gate_.notify();
            copy_all();
        }
    }
    pinned* await_landed() {
        auto held = gate_.hold();
        for (;;) {
            auto const ready = [&] {
                return stopping_ || (problem_ == nullptr && landed_.front() != nullptr);
            };
            if (in_flight_ == 0) {
                gate_.wait(held, [&] { return ready() || in_flight_ != 0; });
            }
            if (ready() || gate_.wait_for(held, patience, ready)) { break; }
            if (problem_ != nullptr) { // nothing more is written
                gate_.wait(held, [&] { return stopping_; });
                break;
            }
            held.unlock();
            look_after_copies();
            held = gate_.hold();
        }
        return stopping_ ? nullptr : landed_.pop();
    }
    /// A device that failed calls nobody: where a call-back does not come, somebody asks.
    void look_after_copies() noexcept {
        try {
            for (pinned& p : pinned_) {
                if (Platform::done(p.left)) { Platform::synchronize(p.left); }
            }
        } catch (...) {
            {
                auto const held = gate_.hold();
                if (problem_ == nullptr) { problem_ = std::current_exception(); }
            }
            gate_.notify();
        }
    }

    [[nodiscard]] bool idle() const noexcept { return full_.empty() && in_flight_ == 0; }
    /// With the gate held: what went wrong on another thread, now and from now on.
    void rethrow() {
        if (problem_ == nullptr) { return; }
        told_ = true;
        std::rethrow_exception(problem_);
    }

    static constexpr std::chrono::seconds patience{1};

    Sink                    sink_;
    unloader_options        options_;
    device                  where_;
    typename Platform::gate gate_;
    copy_lane<Platform>     lane_;
    std::vector<slot>       slots_;
    std::vector<pinned>     pinned_;
    memory                  memory_;
    slot_queue<slot>        free_;
    slot_queue<slot>        full_; ///< waits for a pinned block
    slot_queue<pinned>      empty_;
    slot_order<pinned>      landed_; ///< waits for the sink, in order
    std::exception_ptr      problem_;
    std::size_t             index_ = 0;
    std::size_t             held_  = 0; ///< slots that the program has
    std::size_t   in_flight_       = 0; ///< results between a copy's beginning and the sink's end
    std::size_t   pageable_        = 0;
    bool          copying_         = false;
    bool          stopping_        = false;
    bool          down_            = false;
    bool          told_            = false;
    kept_for_good kept_;
    typename Platform::thread thread_;
};

} // namespace vram
