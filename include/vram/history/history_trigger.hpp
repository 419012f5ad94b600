// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `history_trigger` writes a history at the end of the process, after a refusal, or on a signal.

#include <vram/history/core/history_state.hpp> // history_state, history_file
#include <vram/history/core/signal_writer.hpp>
#include <vram/history/history.hpp> // history, history_format

#include <cstdlib> // atexit
#include <memory>  // shared_ptr
#include <mutex>   // mutex, lock_guard
#include <string>  // string
#include <utility>
#include <vector> // vector

namespace vram {

/// Writes the events of a `history` to a file at the end of the process, after a refusal, or on a
/// signal. The file is replaced each time. The trigger stays until the end of the process, even if
/// this object, the history and its stack have ended before. It writes nothing in a forked child of
/// the process that made it.
///
///     history_trigger{memory.observer(), "run.pickle", viewer_pickle}
///         .at_exit()
///         .on_refusal()
///         .on_signal(SIGUSR1);
///
/// Failure   Throws `std::bad_alloc`; `on_signal` also `std::system_error`. Errors of the file are
///           reported to the error sink.
/// Threads   Any thread may call. `on_signal` starts a thread.
class history_trigger {
public:
    history_trigger(history const& log, std::string path, history_format format)
        : state_{log.state_}, file_{.path = std::move(path), .format = format} {}

    /// Lets the trigger write the file when the program calls `exit` or returns from `main`, but
    /// not after `abort` or `_exit`.
    history_trigger& at_exit() {
        at_end::add(state_, file_);
        return *this;
    }
    /// Lets the trigger write the file after a resource has refused a request, at most once in each
    /// second of the clock. A refusal counts even if another resource then grants the request.
    history_trigger& on_refusal() {
        state_->write_on_refusal(file_);
        return *this;
    }
#if __has_include(<semaphore.h>)
    /// Writes the file when the signal arrives, then does what the signal did before. But without a
    /// handler, SIGUSR1, SIGUSR2 and real-time signals do not end the process.
    history_trigger& on_signal(int signal) {
        detail::signal_writer::add(signal, [state = state_, file = file_] { file.write(*state); });
        return *this;
    }
#endif

private:
    using state = std::shared_ptr<detail::history_state>;

    /// All files that are written when the process exits. The first `add` installs the function
    /// that writes them (`std::atexit`).
    class at_end {
    public:
        static void add(state const& of, detail::history_file const& which) {
            at_end&               all = only();
            std::lock_guard const held{all.mutex_};
            all.files_.emplace_back(of, which);
            [[maybe_unused]] static int const armed = std::atexit(&write);
        }

    private:
        static at_end& only() {
            // This object is never destroyed, because `write` needs it at the end of the process.
            static auto* const made = new at_end;
            return *made;
        }
        static void write() {
            at_end&               all = only();
            std::lock_guard const held{all.mutex_};
            for (auto const& [of, which] : all.files_) { which.write(*of); }
            all.files_.clear();
        }

        std::mutex                                          mutex_;
        std::vector<std::pair<state, detail::history_file>> files_;
    };

    state                state_;
    detail::history_file file_;
};

} // namespace vram
