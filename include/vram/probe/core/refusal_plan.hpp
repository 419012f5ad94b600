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

/// A block that was allocated in a trial (one call of `survives_oom`): live, or freed and its
/// address not allocated again.
struct tried_block {
    void*         address   = nullptr;
    std::size_t   bytes     = 0;
    std::size_t   alignment = 0;
    std::uint64_t run       = 0; ///< number of the run that allocated the block
    std::uint64_t serial    = 0; ///< number of the allocation in the trial; the first has 1
    bool          live      = false;
    memory_tag    owner{};
    call_site     at{}; ///< line of the allocation
    call_site     freed_at{};
};

/// A free of a block that is already free, or a free with a wrong size.
struct tried_free {
    enum class mistake : unsigned char { none, twice, wrong_size };

    mistake     what = mistake::none;
    tried_block block{};       ///< the block, with its allocation and its first free
    std::size_t bytes     = 0; ///< the size that the free passed
    std::size_t alignment = 0; ///< the alignment that the free passed
    call_site   at{};
};

/// Selects the requests of a `refusing` layer that are refused during a trial, which is one call of
/// `survives_oom` with many runs. Counts requests of the thread that called `survives_oom`, and
/// usually of each `sim_thread` that it starts. Any thread may call the functions of the layer; one
/// thread begins and ends runs.
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

    /// Begins a run in which the request number `refused` (from 1; 0 means none) and the `most` - 1
    /// after it are refused.
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

    /// Counts a request of a thread that belongs to the trial (the call of `survives_oom`). Returns
    /// true to refuse the request.
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

    /// Records a new block, in place of an earlier record with the same address. If the thread does
    /// not belong to the trial (the call of `survives_oom`), only erases that record.
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
            *b = {p, bytes, alignment, run_, ++serial_, true, current_tag(), at, {}};
            live_bytes_ += bytes;
            ++live_blocks_;
        } catch (std::bad_alloc const&) {} // the block is not tracked
    }

    /// Records a free and corrects a wrong `bytes` or `alignment`. Returns false for a second free,
    /// which must not be passed on.
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

    /// Erases the records of freed blocks. Otherwise their number would grow with each run.
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
    /// Returns the first refused request of the present run, or an empty record.
    [[nodiscard]] tried_block first_refused() const noexcept {
        auto const held = lock_.hold();
        return first_;
    }
    /// Returns the first invalid free of the present run, or an empty record.
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
    /// Returns the first live block that the run `run` allocated, or an empty record.
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
    /// Returns true if a trial is in progress and the calling thread belongs to the trial.
    [[nodiscard]] bool counts() const noexcept { return active() && trial_of_thread == number_; }
    void               forget() noexcept {
        blocks_ = {};
        records_.clear();
    }
    /// Erases the record of the block at `p`, if there is one.
    void forget(void const* p) noexcept {
        tried_block const* const b = find(p);
        if (b == nullptr) { return; }
        if (b->live) {
            live_bytes_ -= b->bytes;
            --live_blocks_;
        }
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
    /// The blocks of the trial by address, also freed ones, so that a second free is found.
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
