// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `leak_on_purpose` keeps an object alive until the process ends.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <memory> // shared_ptr
#include <utility>

namespace vram {
namespace detail {

/// A member that keeps the object that contains it alive until the process ends, because other code
/// may still write to the object, such as a callback of a failed device. A global list refers to
/// the object, so that leak checkers do not report it.
///
/// Threads   Any thread may call `keep`, once for each object.
class leak_on_purpose {
public:
    leak_on_purpose()                  = default;
    leak_on_purpose(leak_on_purpose&&) = delete;

    /// Keeps the object that contains this member alive until the process ends. `self` must own
    /// that object. A second call does nothing.
    void keep(std::shared_ptr<void> self) noexcept {
        if (self == nullptr || self_ != nullptr) { return; }
        self_ = std::move(self);
        next_ = all_.load();
        while (!all_.compare_exchange_weak(next_, this)) {}
    }

private:
    static inline std::atomic<leak_on_purpose*> all_{nullptr};

    std::shared_ptr<void> self_;
    leak_on_purpose*      next_ = nullptr;
};

} // namespace detail
} // namespace vram
