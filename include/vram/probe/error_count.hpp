// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `error_count` counts the errors that are reported to the error sink in a scope.

#include <vram/base/error.hpp> // error, set_error_sink
#include <vram/base/error_text.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio> // snprintf
#include <mutex>  // mutex, lock_guard
#include <utility>

namespace vram {

/// Counts the errors that all threads report to the error sink while this object exists. The
/// previously installed error sink receives each error too.
///
///     error_count errors;
///     train_step(memory);
///     CHECK(errors.count() == 0);          // errors.first() is the text of the first one
///
/// Threads   Any thread may call. Errors are not counted after another sink was installed, unless
///           that sink passes them on, on the same thread, to the sink that it replaced.
///           The last 8 replaced sinks are known; beyond them, errors go to the default sink.
class error_count {
public:
    [[nodiscard]] error_count() noexcept {
        std::lock_guard const held{lock};
        if (newest == nullptr) {
            error_sink const before = set_error_sink(&note);
            if (before != &note) { add_earlier(before); }
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
        error_sink const installed = set_error_sink(earlier_one(0));
        if (installed != &note) {
            // The program has installed another error sink meanwhile, which stays installed. It may
            // pass errors on to `note`.
            set_error_sink(installed);
        } else if (earlier_count > 1) {
            // The first one is kept, for a thread that is about to call `note`.
            --earlier_count;
        }
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
    /// The error that the calling thread passes on to an earlier sink. `again`: number of times
    /// that the earlier sinks have passed this error back to `note`.
    struct passing {
        error const* what;
        std::size_t  again;

        /// Returns true if `e` is this error or a copy of it.
        [[nodiscard]] bool is(error const& e) const noexcept {
            return what != nullptr && what->kind == e.kind && what->pointer == e.pointer &&
                   what->bytes == e.bytes;
        }
    };

    static void note(error const& e) noexcept {
        // A sink that was installed over `note` in an earlier scope may pass errors on to `note`.
        // In a later scope, `note` then receives the same error again: it was counted already, and
        // goes to the sink before that one.
        bool const    back   = now.is(e);
        passing const before = std::exchange(now, {&e, back ? now.again + 1 : 0});
        error_sink    to     = nullptr;
        {
            std::lock_guard const held{lock};
            to = earlier_one(now.again);
            for (error_count* each = back ? nullptr : newest; each != nullptr;
                 each              = each->older_) {
                if (each->count_++ != 0) { continue; }
                std::snprintf(each->first_, sizeof each->first_, "%.511s", error_text{e}.c_str());
            }
        }
        to(e); // without the lock: the sink may report errors itself
        now = before;
    }

    /// Adds the sink `one`, which `note` has replaced, as the last one. If there is no room,
    /// forgets the oldest.
    static void add_earlier(error_sink one) noexcept {
        std::size_t at = 0;
        while (at < earlier_count && earlier[at] != one) { ++at; }
        if (at == most) { at = 0; }
        if (at < earlier_count) {
            for (--earlier_count; at < earlier_count; ++at) { earlier[at] = earlier[at + 1]; }
        }
        earlier[earlier_count++] = one;
    }
    /// Returns a sink that `note` has replaced: the last one if `i` is 0, the one before it if `i`
    /// is 1, and so on. Returns the default sink if there is none.
    [[nodiscard]] static error_sink earlier_one(std::size_t i) noexcept {
        return i < earlier_count ? earlier[earlier_count - 1 - i] : print_error;
    }

    static constexpr std::size_t most = 8;

    static inline std::mutex                     lock;
    static inline error_count*                   newest        = nullptr;
    static inline error_sink                     earlier[most] = {};
    static inline std::size_t                    earlier_count = 0;
    static inline constinit thread_local passing now{nullptr, 0};

    error_count*  older_      = nullptr;
    std::uint64_t count_      = 0;
    char          first_[512] = "";
};

} // namespace vram
