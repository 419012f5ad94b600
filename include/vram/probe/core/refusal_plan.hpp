// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `refusal_plan` selects the requests that a `refusing` layer refuses, and tracks its blocks.

#include <vram/base/call_site.hpp>
#include <vram/base/core/address_map.hpp>
#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/lock.hpp>
#include <vram/base/core/only_if_used.hpp>
#include <vram/base/core/trial_of_thread.hpp>
#include <vram/base/tag.hpp> // current_tag

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <memory> // unique_ptr, make_unique
#include <new>    // bad_alloc
#include <utility>

namespace vram {
namespace detail {

/// The record of a block that was allocated in a trial (one call of `survives_oom`). The record of
/// a freed block is kept for a time, so that a second free is found.
struct tried_block {
    void*         address   = nullptr;
    std::size_t   bytes     = 0;
    std::size_t   alignment = 0;
    std::uint64_t run       = 0; ///< index (from 1) of the run that allocated the block
    std::uint64_t serial    = 0; ///< index (from 1) of the allocation among all runs
    bool          live      = false;
    memory_tag    owner{};
    call_site     at{}; ///< line of the allocation
    call_site     freed_at{};
};

/// The record of a wrong free. The block was already free, or the size or alignment was wrong.
struct tried_free {
    enum class mistake : unsigned char { none, twice, wrong_size };

    mistake     what = mistake::none;
    tried_block block{};       ///< record of the block that the program tried to free
    std::size_t bytes     = 0; ///< size in bytes that the program passed to the free
    std::size_t alignment = 0; ///< alignment that the program passed to the free
    call_site   at{};
};

/// Decides which requests a `refusing` layer refuses during a trial (one call of `survives_oom`).
/// Counts only requests of the thread that called `survives_oom`. Also counts those of each
/// `sim_thread` that it starts, if such threads run one at a time. Any thread may allocate and
/// free; only one thread begins and ends runs.
template <class = only_if_used>
class refusal_plan {
public:
    refusal_plan()               = default;
    refusal_plan(refusal_plan&&) = delete;
    ~refusal_plan()              = default;

    /// Begins a trial (one call of `survives_oom`) and returns its number, to which
    /// `trial_of_thread` must be set in the threads of the trial.
    std::uint64_t begin_trial() {
        auto const held = lock_.hold();
        forget();
        run_ = serial_ = 0;
        live_bytes_ = live_blocks_ = 0;
        number_                    = next_.fetch_add(1, std::memory_order_relaxed) + 1;
        active_.store(true, std::memory_order_release);
        return number_;
    }
    /// Ends the trial (the call of `survives_oom`): from now on the layer forwards every call to
    /// its upstream.
    void end_trial() noexcept {
        auto const held = lock_.hold();
        active_.store(false, std::memory_order_release);
        forget();
    }

    /// Begins a run of the tested code. Refuses the request number `refused` and the following
    /// ones, at most `most` requests. The first request has the number 1. If `refused` is 0,
    /// refuses none.
    void begin_run(std::uint64_t refused, std::uint64_t most) noexcept {
        auto const held = lock_.hold();
        ++run_;
        requests_ = refusals_ = 0;
        refused_              = refused;
        most_                 = most;
        first_                = {};
        wrong_                = {};
    }

    [[nodiscard]] bool active() const noexcept { return active_.load(std::memory_order_acquire); }

    /// Counts a request if the calling thread belongs to the trial (the call of `survives_oom`).
    /// Returns true if the layer must refuse the request. Requests for 0 bytes are not counted.
    [[nodiscard]] bool refuses(std::size_t bytes, std::size_t alignment, call_site at) noexcept {
        if (bytes == 0) { return false; }
        auto const held = lock_.hold();
        if (!counts()) { return false; }
        ++requests_;
        if (refused_ == 0 || requests_ < refused_ || refusals_ == most_) { return false; }
        if (refusals_++ == 0) {
            first_ = {nullptr, bytes, alignment, run_, 0, false, current_tag(), at, {}};
        }
        return true;
    }

    /// Records that the block at `p` was allocated. If the calling thread is not part of the trial
    /// (the call of `survives_oom`), only erases an old record of the address `p`.
    void allocated(void* p, std::size_t bytes, std::size_t alignment, call_site at) noexcept {
        if (p == nullptr) { return; }
        auto const held = lock_.hold();
        if (!counts()) {
            forget(p);
            return;
        }
        try {
            tried_block* b = find(p);
            if (b == nullptr) {
                blocks_.reserve(1);
                b = records_.push(std::make_unique<tried_block>()).get();
                blocks_.insert(key(p), b);
            }
            count_out(*b); // a block that the upstream ended without a free
            *b = {p, bytes, alignment, run_, ++serial_, true, current_tag(), at, {}};
            live_bytes_ += bytes;
            ++live_blocks_;
        } catch (std::bad_alloc const&) {} // the block is not tracked
    }

    /// Records the free of the block at `p`. If `bytes` or `alignment` is wrong, sets it to the
    /// value of the allocation. Returns false if the block was already free; the layer then must
    /// not free it.
    [[nodiscard]] bool freeing(void* p, std::size_t& bytes, std::size_t& alignment,
                               call_site at) noexcept {
        if (p == nullptr) { return true; }
        auto const   held = lock_.hold();
        tried_block* b    = find(p);
        if (b == nullptr) { return true; }
        if (!b->live) {
            note({tried_free::mistake::twice, *b, bytes, alignment, at});
            return false;
        }
        if (b->bytes != bytes || b->alignment != alignment) {
            note({tried_free::mistake::wrong_size, *b, bytes, alignment, at});
        }
        bytes       = b->bytes;
        alignment   = b->alignment;
        b->live     = false;
        b->freed_at = at;
        live_bytes_ -= bytes;
        --live_blocks_;
        return true;
    }

    void forget_freed() noexcept {
        auto const held = lock_.hold();
        for (std::size_t i = records_.size(); i-- != 0;) {
            if (records_[i]->live) { continue; }
            blocks_.erase(key(records_[i]->address));
            (void)records_.take(i);
        }
    }

    [[nodiscard]] std::uint64_t requests() const noexcept {
        auto const held = lock_.hold();
        return requests_;
    }
    [[nodiscard]] std::uint64_t refusals() const noexcept {
        auto const held = lock_.hold();
        return refusals_;
    }
    /// Returns the first refused request of this run, or an empty record if none was refused.
    [[nodiscard]] tried_block first_refused() const noexcept {
        auto const held = lock_.hold();
        return first_;
    }
    /// Returns the first wrong free of this run, or an empty record if there was none.
    [[nodiscard]] tried_free wrong_free() const noexcept {
        auto const held = lock_.hold();
        return wrong_;
    }
    [[nodiscard]] std::size_t live_bytes() const noexcept {
        auto const held = lock_.hold();
        return live_bytes_;
    }
    [[nodiscard]] std::size_t live_blocks() const noexcept {
        auto const held = lock_.hold();
        return live_blocks_;
    }
    [[nodiscard]] std::uint64_t run() const noexcept {
        auto const held = lock_.hold();
        return run_;
    }
    /// Returns the oldest live block of the run number `run`, or an empty record if there is none.
    [[nodiscard]] tried_block live_of(std::uint64_t run) const noexcept {
        auto const  held = lock_.hold();
        tried_block first;
        for (auto const& each : records_) {
            bool const earlier = first.serial == 0 || each->serial < first.serial;
            if (each->live && each->run == run && earlier) { first = *each; }
        }
        return first;
    }

private:
    [[nodiscard]] static std::uint64_t key(void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p);
    }
    [[nodiscard]] tried_block* find(void const* p) const noexcept { return blocks_.find(key(p)); }
    void                       note(tried_free const& wrong) noexcept {
        if (wrong_.what == tried_free::mistake::none) { wrong_ = wrong; }
    }
    /// Returns true if the calling thread takes part in a trial (a call of `survives_oom`).
    [[nodiscard]] bool counts() const noexcept { return active() && trial_of_thread == number_; }
    void               count_out(tried_block const& b) noexcept {
        if (!b.live) { return; }
        live_bytes_ -= b.bytes;
        --live_blocks_;
    }
    void forget() noexcept {
        blocks_ = {};
        records_.clear();
    }
    void forget(void const* p) noexcept {
        tried_block const* const b = find(p);
        if (b == nullptr) { return; }
        count_out(*b);
        blocks_.erase(key(p));
        std::size_t i = 0;
        while (records_[i].get() != b) { ++i; }
        (void)records_.take(i);
    }

    static inline constinit std::atomic<std::uint64_t> next_{0};

    lock              lock_;
    std::atomic<bool> active_{false};
    std::uint64_t     number_   = 0;
    std::uint64_t     run_      = 0;
    std::uint64_t     serial_   = 0;
    std::uint64_t     requests_ = 0;
    std::uint64_t     refusals_ = 0;
    std::uint64_t     refused_  = 0;
    std::uint64_t     most_     = 0;
    tried_block       first_{};
    tried_free        wrong_{};
    std::size_t       live_bytes_  = 0;
    std::size_t       live_blocks_ = 0;
    /// Records of blocks by address. The record of a freed block stays, to find a second free.
    address_map<tried_block>                 blocks_;
    heap_array<std::unique_ptr<tried_block>> records_;
};

/// Owns the `refusal_plan` of a layer, from the first call of `survives_oom` to the end of the
/// layer: other threads may use the plan after `survives_oom` has ended.
template <class = only_if_used>
class owned_refusal_plan {
public:
    owned_refusal_plan() = default;
    owned_refusal_plan(owned_refusal_plan&& other) noexcept
        : plan_{other.plan_.exchange(nullptr)} {}
    owned_refusal_plan& operator=(owned_refusal_plan&& other) noexcept {
        delete plan_.exchange(other.plan_.exchange(nullptr));
        return *this;
    }
    ~owned_refusal_plan() { delete plan_.load(); }

    /// Returns the plan if a trial (a call of `survives_oom`) is in progress, otherwise null.
    [[nodiscard]] refusal_plan<>* active() const noexcept {
        refusal_plan<>* const plan = plan_.load(std::memory_order_acquire);
        return plan != nullptr && plan->active() ? plan : nullptr;
    }
    /// Returns the plan, and creates it if there is none. To be called by one thread at a time.
    [[nodiscard]] refusal_plan<>& made() {
        if (plan_.load() == nullptr) { plan_.store(new refusal_plan<>); }
        return *plan_.load();
    }

private:
    std::atomic<refusal_plan<>*> plan_{nullptr};
};

} // namespace detail
} // namespace vram
