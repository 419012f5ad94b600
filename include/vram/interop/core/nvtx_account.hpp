// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_account` sums the bytes of a resource or of a tag, and samples them for a tool.

#include <vram/base/core/thread_number.hpp>
#include <vram/base/core/thread_shards.hpp>
#include <vram/interop/core/nvtx_counter_group.hpp>
#include <vram/probe/core/brief_lock.hpp>

#include <atomic> // atomic
#include <cstdint>
#include <mutex>  // mutex, lock_guard, unique_lock
#include <string> // string
#include <utility>

namespace vram {
namespace detail {

/// Counts live, reserved and peak bytes of a resource or a tag, and passes the values to an NVTX
/// tool, such as Nsight Systems.
///
/// At first each change goes to the counters at once, and the peak is exact. After `exact_switches`
/// thread switches (changes by another thread than the one before), each thread first sums its own
/// changes of live bytes. All sums go to the counters when one of them reaches `slack(peak)` bytes
/// or `most_pending` changes, and when reserved bytes change. Until then, live bytes and peak may
/// be off by `slack(peak)` for each thread. `flush` adds the sums and passes the values.
///
/// Threads   Any thread may call any function. One thread at a time calls the tool.
class alignas(64) nvtx_account {
public:
    /// Number of thread switches after which each thread first sums its own changes. A thread
    /// switch is a change by another thread than the thread of the change before.
    static constexpr unsigned exact_switches = 256;
    /// Number of changes of live bytes by one thread after which the tool gets new values.
    static constexpr unsigned most_pending = 1024;
    /// Returns the number of bytes at which the sum of a thread's changes is added to the counters.
    /// This is 1 MiB, or 1/128 of `peak` if that is more.
    [[nodiscard]] static constexpr std::int64_t slack(std::int64_t peak) noexcept {
        return static_cast<std::int64_t>(peak_slack(std::size_t{1} << 20, peak));
    }

    /// Registers the counters with the NVTX tool. If live or reserved bytes have changed by `step`
    /// bytes or more, `change` passes new values to the tool.
    nvtx_account(std::string name, char const* description, std::int64_t step)
        : group_{nvtx_counter_group::add(std::move(name), description)}, step_{step} {}
    nvtx_account(nvtx_account&&) = delete;
    ~nvtx_account() { group_.release(); }

    [[nodiscard]] bool known() const noexcept { return group_.known(); }

    /// Adds `live` and `reserved` bytes, which may be negative, to the counters. A small change may
    /// first stay in the sum of the calling thread. Passes the values to the NVTX tool if the
    /// counters have changed by `step` bytes or more.
    void change(std::int64_t live, std::int64_t reserved) noexcept {
        std::int64_t const most = slack_.load(std::memory_order_relaxed);
        if (most != 0 && reserved == 0) {
            if (add_up(live, most)) { return; }
            live = 0;
        }
        std::lock_guard const held{mutex_};
        if (slack_.load(std::memory_order_relaxed) == 0) {
            count_switch();
        } else {
            collect();
        }
        values_.live += live;
        values_.reserved += reserved;
        if (values_.live > values_.peak) { raise_peak(); }
        if (!suffices(group_.last())) { group_.sample(values_); }
    }
    /// Passes the present live, reserved and peak bytes to the NVTX tool, if they differ from the
    /// values that the tool has.
    void flush() noexcept {
        std::lock_guard const held{mutex_};
        collect();
        if (values_.live > values_.peak) { raise_peak(); }
        if (group_.last() != values_) { group_.sample(values_); }
    }

private:
    using values = nvtx_counter_group::values;

    /// Changes of live bytes by the threads of one shard that are not in `values_` yet.
    struct alignas(64) shard {
        brief_lock   lock;
        std::int64_t live    = 0;
        unsigned     changes = 0;
    };

    /// Adds `live` to the sum of the calling thread. Returns false if the sum must now be added to
    /// `values_`, because it has reached `most` bytes or `most_pending` changes.
    [[nodiscard, gnu::always_inline]] bool add_up(std::int64_t live, std::int64_t most) noexcept {
        // Finds the sum of this thread. A new sum is made under `mutex_`, because a `collect` at
        // the same time would miss it.
        shard& mine = shards_.mine([this](shard&) { return std::unique_lock{mutex_}; });
        brief_lock::guard const held{mine.lock};
        mine.live += live;
        ++mine.changes;
        return -most < mine.live && mine.live < most && mine.changes < most_pending;
    }
    /// Adds the sums of all threads to `values_`, and sets the sums to 0. Holds the locks of all
    /// sums, so that no thread changes a sum meanwhile.
    void collect() noexcept {
        thread_shards<shard>::all_held const all{&shards_};
        all.for_each([&](shard& each) {
            values_.live += std::exchange(each.live, 0);
            each.changes = 0;
        });
    }
    void raise_peak() noexcept {
        values_.peak = values_.live;
        if (slack_.load(std::memory_order_relaxed) != 0) {
            slack_.store(slack(values_.peak), std::memory_order_relaxed);
        }
    }
    /// Counts a thread switch if another thread made the previous change. After `exact_switches`
    /// thread switches, sets `slack_`, so that each thread sums its own changes.
    void count_switch() noexcept {
        unsigned const number = thread_number();
        unsigned const before = std::exchange(last_thread_, number);
        if (before == number || before == no_thread_number) { return; }
        if (++switches_ == exact_switches) {
            slack_.store(slack(values_.peak), std::memory_order_relaxed);
        }
    }
    /// Returns true if the tool needs no new values, because live and reserved bytes differ by less
    /// than `step_` from `sent`, the values that the tool has. If `step_` is 0, returns true only
    /// if all values are equal.
    [[nodiscard]] bool suffices(values const& sent) const noexcept {
        if (step_ <= 0) { return sent == values_; }
        auto const little = [this](std::int64_t by) { return -step_ < by && by < step_; };
        return little(values_.live - sent.live) && little(values_.reserved - sent.reserved);
    }

    // Each change reads these members, but they seldom change. They are on another cache line than
    // the members below, which change often.
    nvtx_counter_group group_;
    std::int64_t       step_;
    /// If this is 0, a thread adds each change to `values_` at once. Otherwise each thread sums its
    /// changes until the sum reaches this number of bytes.
    std::atomic<std::int64_t> slack_{0};

    alignas(64) std::mutex mutex_; ///< guards the members below
    values   values_;
    unsigned last_thread_ = no_thread_number; ///< number of the thread that made the last change
    unsigned switches_    = 0;                ///< number of thread switches (see `exact_switches`)
    thread_shards<shard> shards_;             ///< not guarded by `mutex_`: each shard has a lock
};

} // namespace detail
} // namespace vram
