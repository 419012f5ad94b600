// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_memory` owns the pinned and device blocks of a loader's or unloader's slots.

#include <vram/base/align.hpp> // saturating_add, unsatisfiable
#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/base/over_limit.hpp>
#include <vram/concepts/completion_flags.hpp>
#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/held_resource.hpp> // expect_resource
#include <vram/concepts/core/user_line.hpp>     // user_line, remembered_line
#include <vram/concepts/powers.hpp>             // resource, retiring_resource
#include <vram/concepts/sited.hpp>
#include <vram/order/core/wait_or_report.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/transfer/core/numa_local.hpp>
#include <vram/transfer/core/pinned_slot.hpp>
#include <vram/transfer/core/slot.hpp>

#include <cstddef>
#include <cstdint>
#include <new> // placement new
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Owns the memory of a loader's or unloader's slots (places for one batch). The destructor frees
/// the blocks after their last copies and uses. If the wait for these fails, a block is reported as
/// a leak and not freed.
///
/// Threads   One thread at a time.
template <class Platform, synchronous_resource Device, synchronous_resource Pinned>
class slot_memory {
public:
    using slots  = std::vector<slot<Platform>>;
    using pinned = std::vector<pinned_slot<Platform>>;
    using stream = typename Platform::stream;

    /// Throws `over_limit` if `blocks` blocks of `bytes` bytes each need more than `budget` bytes.
    /// Allocates nothing.
    static void expect_within(std::size_t blocks, std::size_t bytes, std::size_t budget) {
        bool const        many = blocks != 0 && bytes > unsatisfiable / blocks;
        std::size_t const all  = many ? unsatisfiable : bytes * blocks;
        if (all > budget) { throw over_limit{all, 0, budget}; }
    }

    slot_memory(Device device, Pinned host, slots& on_device, pinned& on_host, stream copies)
        : device_{std::move(device)},
          host_{std::move(host)},
          on_device_{on_device},
          on_host_{on_host},
          copies_{copies} {
        detail::expect_resource(
            device_, "the handle of device memory must hold a resource; it was moved from");
        detail::expect_resource(
            host_, "the handle of pinned memory must hold a resource; it was moved from");
    }
    slot_memory(slot_memory&&) = delete;

    /// Allocates all blocks, of `bytes` bytes each. Returns the number of pageable blocks. If
    /// memory cannot be pinned, uses pageable memory if `pageable` is true, otherwise throws.
    /// Allocates completion flags (words that the device writes after copies) only if no block is
    /// pageable, and `budget` bytes suffice for all blocks and flags.
    std::size_t take(std::size_t bytes, bool pageable, std::size_t budget = 0) {
        bytes_               = bytes;
        call_site const   at = allocated_at();
        std::size_t const with_flags =
            (on_host_.size() + on_device_.size()) * bytes + apart * on_host_.size();
        std::size_t no = 0;
        for (auto& p : on_host_) {
            try {
                p.memory = static_cast<std::byte*>(sited{host_, at}.allocate_sync(bytes));
            } catch (...) {
                if (!pageable) { throw; }
                p.memory   = static_cast<std::byte*>(host_resource{}.allocate_sync(bytes));
                p.pageable = true;
                ++no;
            }
        }
        if (budget >= with_flags && no == 0) { allocate_flags(); }
        for (auto& s : on_device_) {
            if constexpr (resource<Device>) {
                s.memory = static_cast<std::byte*>(sited{device_, at}.allocate(copies_, bytes));
            } else {
                s.memory = static_cast<std::byte*>(sited{device_, at}.allocate_sync(bytes));
            }
        }
        return no;
    }

    ~slot_memory() {
        user_line<Platform> const from{made_.at(), {part_kind::loader}};
        for (auto& p : on_host_) { give_back(p); }
        for (auto& s : on_device_) { give_back(s); }
        free_flags();
        if constexpr (retiring_resource<Device>) {
            try {
                device_.retire(copies_);
            } catch (...) {
                report_caught(
                    {.kind = error_kind::platform_error, .call = "retiring the copy stream"});
            }
        }
    }

    /// Returns true if memory was allocated for completion flags, the words that the device writes
    /// after copies.
    [[nodiscard]] bool has_flags() const noexcept { return flags_ != nullptr; }

private:
    /// Bytes between completion flags: each has its own cache line.
    static constexpr std::size_t apart = 64;

    /// Returns the line of the program that made the loader or unloader. If the platform does not
    /// know it, returns the line of the call here.
    [[nodiscard]] call_site allocated_at(call_site here = call_site::current()) const noexcept {
        return made_.at().known() ? made_.at() : here;
    }

    void allocate_flags() {
        if constexpr (completion_flags<Platform>) {
            if (on_host_.empty()) { return; }
            try {
                flags_ = static_cast<std::byte*>(
                    sited{host_, allocated_at()}.allocate_sync(apart * on_host_.size()));
            } catch (...) { return; } // the blocks are allocated, so the loader works without flags
            for (std::size_t i = 0; i < on_host_.size(); ++i) {
                on_host_[i].flag = ::new (flags_ + apart * i) std::uint32_t{0};
            }
        }
    }
    /// Frees the memory of the completion flags after a wait for the copy stream. If the wait
    /// fails, reports a leak.
    void free_flags() noexcept {
        if (flags_ == nullptr) { return; }
        std::size_t const bytes = apart * on_host_.size();
        if (!wait(copies_)) { return lost(flags_, bytes); }
        sited{host_, made_.at()}.deallocate_sync(flags_, bytes);
    }

    void give_back(pinned_slot<Platform>& p) noexcept {
        if (p.memory == nullptr) { return; }
        bool const over = p.end_unknown ? device_idle() : p.over == nullptr || wait(*p.over);
        if (!over) { return lost(p.memory, bytes_); }
        if (p.pageable) {
            host_resource{}.deallocate_sync(p.memory, bytes_);
        } else {
            sited{host_, made_.at()}.deallocate_sync(p.memory, bytes_);
        }
    }
    void give_back(slot<Platform>& s) noexcept {
        if (s.memory == nullptr) { return; }
        bool over = !s.end_unknown || device_idle();
        if constexpr (resource<Device>) {
            try {
                s.await_users(copies_);
            } catch (...) {
                report_caught({.kind    = error_kind::platform_error,
                               .pointer = s.memory,
                               .call    = "waiting for the users of a batch"});
                over = over && device_idle();
            }
        } else {
            over = over && wait(copies_) && (!s.in_use || wait_for_users(s));
        }
        if (!over) { return lost(s.memory, bytes_); }
        if constexpr (resource<Device>) {
            sited{device_, made_.at()}.deallocate(copies_, s.memory, bytes_);
        } else {
            sited{device_, made_.at()}.deallocate_sync(s.memory, bytes_);
        }
    }
    bool wait_for_users(slot<Platform>& s) noexcept {
        bool over = wait(s.released);
        for (std::size_t i = 0; i < s.others.size(); ++i) {
            over = wait(s.others_released[i]) && over;
        }
        return over;
    }

    template <class Place>
    bool wait(Place const& place) noexcept {
        return wait_or_report<Platform>(place, [&] { return Platform::device_of(copies_); });
    }
    bool device_idle() noexcept {
        try {
            await_device<Platform>(Platform::device_of(copies_));
            return true;
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "waiting for the device"});
            return false;
        }
    }
    /// Reports the block of `bytes` bytes at `memory` as a leak. The block is not freed, because
    /// the device may still use it.
    static void lost(std::byte* memory, std::size_t bytes) noexcept {
        report_error({.kind    = error_kind::leak,
                      .pointer = memory,
                      .bytes   = bytes,
                      .cause   = "waiting for the copies that use it failed"});
    }

    [[no_unique_address]] Device device_;
    [[no_unique_address]] Pinned host_;
    slots&                       on_device_;
    pinned&                      on_host_;
    stream                       copies_;
    std::size_t                  bytes_ = 0;
    std::byte*                   flags_ = nullptr;
    /// The line of the program that made the loader or unloader, for reports.
    [[no_unique_address]] remembered_line<Platform> made_;
};

} // namespace detail
} // namespace vram
