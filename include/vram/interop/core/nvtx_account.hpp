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

/// Counts live, reserved and peak bytes of a resource or a tag, and passes them to an NVTX tool,
/// such as Nsight Systems.
///
/// At first the tool gets each change, and the peak is exact. After `exact_switches` changes that
/// follow one of another thread, each thread first adds its changes of live bytes up, and the tool
/// gets values when those of a thread reach `slack(peak)` bytes, after `most_pending` changes of a
/// thread, and when reserved bytes change. Live bytes and peak may then be off by `slack(peak)` for
/// each thread. `flush` passes the current values.
///
/// Threads   Any thread may call any function. One thread at a time calls the tool.
class alignas(64) nvtx_account {
public:
    /// Number of changes that follow a change of another thread, after which threads add their
    /// changes up before the tool gets them.
    static constexpr unsigned exact_switches = 256;
    /// Number of changes of live bytes by one thread after which the tool gets new values.
    static constexpr unsigned most_pending = 1024;
    /// Returns the sum of changes by one thread at which the tool gets new values: the tolerance of
    /// `statistics`, 1 MiB, or 1/128 of the peak if that is more.
    [[nodiscard]] static constexpr std::int64_t slack(std::int64_t peak) noexcept {
        return static_cast<std::int64_t>(peak_slack(std::size_t{1} << 20, peak));
    }

    /// Registers the counters with the NVTX tool. `change` does not pass values that differ by less
    /// than `step` bytes from those passed before.
    nvtx_account(std::string name, char const* description, std::int64_t step)
        : group_{nvtx_counter_group::add(std::move(name), description)}, step_{step} {}
    nvtx_account(nvtx_account&&) = delete;
    ~nvtx_account() { group_.release(); }

    [[nodiscard]] bool known() const noexcept { return group_.known(); }

    /// Adds `live` and `reserved` to the counters, and passes the values to the NVTX tool, except
    /// if many threads use the counters and the change is small, or if the values differ by less
    /// than the step.
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
    /// Passes live, reserved and peak bytes to the NVTX tool if they differ from those that it has.
    void flush() noexcept {
        std::lock_guard const held{mutex_};
        collect();
        if (values_.live > values_.peak) { raise_peak(); }
        if (group_.last() != values_) { group_.sample(values_); }
    }

private:
    using values = nvtx_counter_group::values;

    /// Changes of one thread that are not in `values_` yet.
    struct alignas(64) shard {
        brief_lock   lock;
        std::int64_t live    = 0;
        unsigned     changes = 0;
    };

    /// Adds `live` to the changes of the calling thread. Returns true if their sum is less than
    /// `most` and their number less than `most_pending`, so that the tool needs no new values.
    [[nodiscard, gnu::always_inline]] bool add_up(std::int64_t live, std::int64_t most) noexcept {
        // A shard is first used with `mutex_` held, because `collect` would otherwise miss it.
        shard& mine = shards_.mine([this](shard&) { return std::unique_lock{mutex_}; });
        brief_lock::guard const held{mine.lock};
        mine.live += live;
        ++mine.changes;
        return -most < mine.live && mine.live < most && mine.changes < most_pending;
    }
    /// Adds the changes of all threads to `values_`, as they are at one moment.
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
    /// If the last change was of another thread, counts that. After `exact_switches` such changes,
    /// threads add their changes up from now on.
    void count_switch() noexcept {
        unsigned const number = thread_number();
        unsigned const before = std::exchange(last_thread_, number);
        if (before == number || before == no_thread_number) { return; }
        if (++switches_ == exact_switches) {
            slack_.store(slack(values_.peak), std::memory_order_relaxed);
        }
    }
    /// Returns true if the tool, which has `sent`, needs no new values. If `step_` is 0, all must
    /// be equal; otherwise live and reserved bytes must differ by less than `step_`.
    [[nodiscard]] bool suffices(values const& sent) const noexcept {
        if (step_ <= 0) { return sent == values_; }
        auto const little = [this](std::int64_t by) { return -step_ < by && by < step_; };
        return little(values_.live - sent.live) && little(values_.reserved - sent.reserved);
    }

    // Read in each change, and seldom written: not on a cache line with the members below.
    nvtx_counter_group group_;
    std::int64_t       step_;
    /// 0 while the tool gets each change. Otherwise the sum of changes by one thread at which the
    /// tool gets new values.
    std::atomic<std::int64_t> slack_{0};

    alignas(64) std::mutex mutex_; ///< guards the members below
    values   values_;
    unsigned last_thread_ = no_thread_number; ///< number of the thread that changed last
    unsigned switches_    = 0;    ///< changes so far that followed one of another thread
    thread_shards<shard> shards_; ///< not guarded: each shard has a lock
};

} // namespace detail
} // namespace vram
