// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `kept_for_good` keeps an object that may never end.

#include <vram/base/requirements.hpp> // C++20

#include <atomic>  // atomic
#include <memory>  // shared_ptr
#include <utility> // move

namespace vram {

/// A member by which an object keeps itself alive until the process ends: something outside, such
/// as a call-back of a device that failed, may still write to it. Leak checkers find it reachable.
///
///     kept_.keep(weak_from_this().lock());
///
/// Threads   any, each object once
class kept_for_good {
public:
    kept_for_good()                = default;
    kept_for_good(kept_for_good&&) = delete;

    /// `self` owns the object that this is a member of. Empty: nothing is kept.
    void keep(std::shared_ptr<void> self) noexcept {
        if (self == nullptr || self_ != nullptr) { return; }
        self_ = std::move(self);
        next_ = all_.load();
        while (!all_.compare_exchange_weak(next_, this)) {}
    }

private:
    static inline std::atomic<kept_for_good*> all_{nullptr};

    std::shared_ptr<void> self_;
    kept_for_good*        next_ = nullptr;
};

} // namespace vram
