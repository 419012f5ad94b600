// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `error_count` counts the errors that are reported to the error sink in a scope.

#include <vram/base/error.hpp> // error, set_error_sink
#include <vram/base/error_text.hpp>

#include <atomic> // atomic
#include <cstdint>
#include <cstdio> // snprintf
#include <mutex>  // mutex, lock_guard

namespace vram {

/// Counts the errors that all threads report to the error sink while this object exists. The
/// previously installed error sink receives each error too.
///
///     error_count errors;
///     train_step(memory);
///     CHECK(errors.count() == 0);          // errors.first() is the text of the first one
///
/// Threads   Any thread. Errors after the program has installed another sink are not counted.
class error_count {
public:
    [[nodiscard]] error_count() noexcept {
        std::lock_guard const held{lock};
        if (newest == nullptr) {
            error_sink const before = set_error_sink(&note);
            if (before != &note) { forward.store(before); }
        }
        older_ = newest;
        newest = this;
    }
    error_count(error_count&&) = delete;
    ~error_count() {
        std::lock_guard const held{lock};
        error_count**         at = &newest;
        while (*at != this) { at = &(*at)->older_; }
        *at = older_;
        if (newest != nullptr) { return; }
        error_sink const installed = set_error_sink(forward.load());
        // If the program installed another sink within the scope, that one stays installed.
        if (installed != &note) { set_error_sink(installed); }
    }

    /// Returns the number of errors that all threads have reported since the construction.
    [[nodiscard]] std::uint64_t count() const noexcept {
        std::lock_guard const held{lock};
        return count_;
    }
    /// Returns the text of the first error, at most 511 characters; empty if there is none.
    [[nodiscard]] char const* first() const noexcept {
        std::lock_guard const held{lock};
        return first_;
    }

private:
    static void note(error const& e) noexcept {
        {
            std::lock_guard const held{lock};
            for (error_count* each = newest; each != nullptr; each = each->older_) {
                if (each->count_++ != 0) { continue; }
                std::snprintf(each->first_, sizeof each->first_, "%.511s", error_text{e}.c_str());
            }
        }
        forward.load()(e); // without the lock: the sink may report errors itself
    }

    static inline std::mutex              lock;
    static inline error_count*            newest = nullptr;
    static inline std::atomic<error_sink> forward{print_error};

    error_count*  older_      = nullptr;
    std::uint64_t count_      = 0;
    char          first_[512] = "";
};

} // namespace vram
