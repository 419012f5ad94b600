// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_core` is the producer's half of a loader: it fills slots, copies them, and owns their
/// memory.

#include <vram/base/align.hpp>              // saturating_add
#include <vram/base/contract.hpp>           // expects
#include <vram/base/over_limit.hpp>         // over_limit
#include <vram/concepts/powers.hpp>         // resource, retiring_resource
#include <vram/transfer/batch_source.hpp>   // batch_source
#include <vram/transfer/loader_options.hpp> // loader_options
#include <vram/transfer/slot_ring.hpp>      // slot_ring

#include <algorithm>  // max
#include <cstddef>    // size_t, byte
#include <exception>  // current_exception
#include <span>       // span
#include <stop_token> // stop_source
#include <utility>    // move

namespace vram {

/// Everything that must live until the last batch has ended.
///
/// Failure   the constructor throws what the resources throw, `over_limit` where the budget is
///           too small, with nothing taken; later failures of source and copy go to their place
///           in the order
/// Threads   `run` on the producer's thread, the rest on the consumer's
/// Streams   a non-blocking stream of its own carries the copies
template <class Platform, synchronous_resource Device, synchronous_resource Pinned, class Source>
class loader_core final : public slot_ring<Platform> {
    using base = slot_ring<Platform>;

public:
    using typename base::slot;
    using typename base::stream;
    using clock = typename base::clock;

    loader_core(Source source, stream consumer, Device device, Pinned pinned,
                loader_options options)
        : source_{std::move(source)},
          options_{options},
          where_{Platform::device_of(consumer)},
          device_{std::move(device)},
          pinned_{std::move(pinned)},
          copies_{where_} {
        expects(options.batch_bytes != 0, "loader: a batch has at least one byte");
        std::size_t const slots = std::max<std::size_t>(options.depth, 1);
        check_budget(slots);
        this->inline_ = options.depth == 0;
        this->slots_.reserve(slots);
        memory_.core = this;
        for (std::size_t i = 0; i < slots; ++i) { add_slot(); }
        for (slot& s : this->slots_) { this->give(s); }
        this->figures_.allocations = 2 * slots;
        if (!this->inline_) {
            thread_ = typename Platform::thread{where_, [this] { run(); }};
        }
    }
    ~loader_core() { shut_down(); }

    /// No further batch is filled.
    void request_stop() noexcept {
        stop_.request_stop();
        this->stop();
    }
    /// Ends the producer and waits for it; a source that takes long is told by its stop token.
    void shut_down() noexcept {
        request_stop();
        thread_.join();
    }

private:
    void check_budget(std::size_t slots) const {
        std::size_t const each = saturating_add(options_.batch_bytes, options_.batch_bytes);
        std::size_t const all  = each > unsatisfiable / slots ? unsatisfiable : each * slots;
        if (all > options_.budget) { throw over_limit{all, 0, options_.budget}; }
    }

    void add_slot() {
        this->slots_.emplace_back(where_, options_.timing);
        slot& s  = this->slots_.back();
        s.pinned = static_cast<std::byte*>(pinned_.allocate_sync(options_.batch_bytes));
        if constexpr (resource<Device>) {
            s.memory =
                static_cast<std::byte*>(device_.allocate(copies_.view(), options_.batch_bytes));
        } else {
            s.memory = static_cast<std::byte*>(device_.allocate_sync(options_.batch_bytes));
        }
    }

    void run() noexcept {
        while (slot* const s = this->await_free()) {
            bool const more = produce(*s);
            this->post(*s);
            if (!more) { return; }
        }
    }
    void produce_inline() override {
        if (!more_) { return; }
        if (slot* const s = this->free_now()) {
            more_ = produce(*s);
            this->post(*s);
        }
    }

    /// Fills `s` with the next batch, its error, or the end. False: it was the last.
    bool produce(slot& s) noexcept {
        try {
            if (in_flight(s)) { await_copied(s); }
            std::uint64_t const since = clock::now();
            if (index_ == 0) {
                this->note([&](auto&) { this->begun_ = since; });
            }
            s.index = index_;
            s.size  = source_.fill({s.pinned, options_.batch_bytes}, index_, stop_.get_token());
            this->note([&](auto& f) { f.fill_ns += clock::now() - since; });
            if (s.size == 0) { return false; }
            copy(s);
            ++index_;
            return true;
        } catch (...) {
            s.size  = 0;
            s.error = std::current_exception();
            return false;
        }
    }

    void await_copied(slot& s) {
        std::uint64_t const since = clock::now();
        Platform::synchronize(s.copied);
        this->note([&](auto& f) {
            if (s.in_flight) { this->note_copy(s); } // `statistics` may have seen it meanwhile
            f.pinned_ns += clock::now() - since;
            ++f.host_waits;
        });
    }

    void copy(slot& s) {
        stream const on = copies_.view();
        await_released(s, on);
        if constexpr (has_timing<Platform>) {
            if (s.timed) { Platform::record(s.begun, on); }
        }
        Platform::copy(on, s.memory, s.pinned, s.size);
        try {
            Platform::record(s.copied, on);
        } catch (...) { // the copy is under way, and nothing else says when it is over
            Platform::synchronize(on);
            throw;
        }
        this->note([&](auto&) { s.in_flight = true; });
    }
    bool in_flight(slot const& s) {
        bool flying = false;
        this->note([&](auto&) { flying = s.in_flight; });
        return flying;
    }
    void await_released(slot& s, stream on) {
        if (!s.in_use) { return; }
        Platform::wait(on, s.released);
        for (std::size_t i = 0; i < s.others.size(); ++i) {
            Platform::wait(on, s.others_released[i]);
        }
        s.others.clear();
        s.in_use = false;
    }

    /// Gives a slot's memory back: the pinned block once its copy is over, the device block once
    /// its last user is, in the order of the copy stream where it can be.
    void give_back(slot& s) noexcept {
        try {
            if (s.in_flight) { Platform::synchronize(s.copied); }
            if constexpr (resource<Device>) {
                await_released(s, copies_.view());
            } else if (s.in_use) {
                Platform::synchronize(s.released);
                for (std::size_t i = 0; i < s.others.size(); ++i) {
                    Platform::synchronize(s.others_released[i]);
                }
            }
        } catch (...) { report_error({.kind = mishap::platform_error, .pointer = s.memory}); }
        if constexpr (resource<Device>) {
            device_.deallocate(copies_.view(), s.memory, options_.batch_bytes);
        } else {
            device_.deallocate_sync(s.memory, options_.batch_bytes);
        }
        pinned_.deallocate_sync(s.pinned, options_.batch_bytes);
    }

    /// The memory of all slots; a member of its own so that it goes back when the constructor
    /// throws.
    struct all_memory {
        loader_core* core = nullptr;

        ~all_memory() {
            if (core == nullptr) { return; }
            for (slot& s : core->slots_) { core->give_back(s); }
            if constexpr (retiring_resource<Device>) {
                try {
                    core->device_.retire(core->copies_.view());
                } catch (...) { report_error({.kind = mishap::platform_error}); }
            }
        }
    };

    batch_source<Source>          source_;
    loader_options                options_;
    typename Platform::device     where_;
    [[no_unique_address]] Device  device_;
    [[no_unique_address]] Pinned  pinned_;
    typename Platform::own_stream copies_;
    all_memory                    memory_;
    std::stop_source              stop_;
    std::size_t                   index_ = 0;
    bool                          more_  = true; ///< inline: the source has not ended
    typename Platform::thread     thread_;
};

} // namespace vram
