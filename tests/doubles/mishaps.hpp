// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// During its lifetime `mishaps` receives the reports to the error sink, instead of printing them.

#include <vram/base/error.hpp> // set_error_sink

#include <array>      // array
#include <atomic>     // atomic
#include <cstddef>    // size_t
#include <functional> // function
#include <mutex>      // mutex, scoped_lock

namespace doubles {

/// Counts errors by kind. The newest existing object receives them; any thread may report.
class mishaps {
public:
    mishaps() noexcept : outer_{current_.exchange(this)}, before_{vram::set_error_sink(note)} {}
    mishaps(mishaps&&) = delete;
    ~mishaps() {
        vram::set_error_sink(before_);
        current_ = outer_;
    }

    [[nodiscard]] std::size_t count(vram::error_kind kind) const noexcept {
        return counts_[static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] std::size_t count() const noexcept {
        std::size_t sum = 0;
        for (auto const& each : counts_) { sum += each; }
        return sum;
    }
    /// Returns the pointer of the last error, to check that the right block is named.
    [[nodiscard]] void const* pointer() const noexcept { return pointer_; }
    /// Returns the last error with its numbers. Its strings are valid only if they are literals.
    [[nodiscard]] vram::error last() const {
        std::scoped_lock const held{mutex_};
        return last_;
    }
    /// Returns the number of errors reported by a thread that held a lock.
    [[nodiscard]] std::size_t under_a_lock() const noexcept { return under_a_lock_; }

    std::function<void()> also; ///< called for each error reported without a lock

private:
    static void note(vram::error const& e) noexcept {
        mishaps& self = *current_.load();
        ++self.counts_[static_cast<std::size_t>(e.kind)];
        self.pointer_ = e.pointer;
        {
            std::scoped_lock const held{self.mutex_};
            self.last_       = e;
            self.last_.cause = nullptr;
        }
        if (vram::detail::locks_held != 0) {
            ++self.under_a_lock_;
        } else if (self.also) {
            self.also();
        }
    }

    static inline std::atomic<mishaps*> current_ = nullptr;

    std::array<std::atomic<std::size_t>, 16> counts_{};
    std::atomic<void const*>                 pointer_      = nullptr;
    std::atomic<std::size_t>                 under_a_lock_ = 0;
    mutable std::mutex                       mutex_;
    vram::error                              last_{};
    mishaps*                                 outer_;
    vram::error_sink                         before_;
};

} // namespace doubles
