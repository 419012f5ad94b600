// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `log_file` is a text file to which many threads append lines, and which no crash shortens.

#include <vram/base/core/lock.hpp>
#include <vram/base/core/report_caught.hpp>
#include <vram/data/file_error.hpp>

#include <algorithm> // min
#include <atomic>    // atomic
#include <cerrno>    // errno
#include <cstddef>
#include <cstdint>
#include <cstdio>       // rename
#include <cstring>      // memcpy, memset
#include <fcntl.h>      // open, posix_fallocate
#include <string>       // string, to_string
#include <string_view>  // string_view
#include <sys/file.h>   // flock
#include <sys/mman.h>   // mmap
#include <sys/stat.h>   // fstat
#include <sys/types.h>  // off_t
#include <system_error> // generic_category
#include <unistd.h>     // close, ftruncate
#include <utility>

namespace vram {
namespace detail {

/// Appends lines to a file through a memory mapping, so that they stay in the file if the process
/// is killed. A file that a line would make larger than `most_bytes` (0 means no limit) is first
/// renamed to PATH.1, or emptied if `older_files` is 0. Any thread may append, but not in a forked
/// child process.
///
///     log_file log{"run.csv", "Thread,Time\n", 0, 0};
///     log.append("1,12:00\n");
///
/// Failure   The constructor throws `file_error`; `append` reports its first error to the error
///           sink.
class log_file {
public:
    log_file(std::string path, std::string header, std::size_t most_bytes, unsigned older_files)
        : path_{std::move(path)},
          header_{std::move(header)},
          most_bytes_{most_bytes},
          older_files_{older_files} {
        open();
    }
    log_file(log_file const&)            = delete;
    log_file& operator=(log_file const&) = delete;
    ~log_file() { close(); }

    void append(std::string_view line) noexcept {
        auto const held = lock_.hold();
        if (file_ < 0) {
            lost_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        try {
            if (!direct_ && most_bytes_ != 0 && size_ > header_.size() &&
                size_ + line.size() > most_bytes_) {
                rotate();
            }
            put(line);
        } catch (...) {
            lost_.fetch_add(1, std::memory_order_relaxed);
            close();
            report_caught({.kind   = error_kind::lost_exception,
                           .call   = "a line of a log",
                           .advice = "The lines from now on are lost."});
        }
    }

    /// Returns the number of lines that are not in the file: the one at which writing first failed,
    /// and all later ones.
    [[nodiscard]] std::uint64_t lost() const noexcept {
        return lost_.load(std::memory_order_relaxed);
    }

private:
    static constexpr std::size_t window = std::size_t{1} << 20;

    [[noreturn]] void fail(int why) const {
        throw file_error{{why, std::generic_category()}, path_, size_};
    }
    void open() {
        size_ = 0;
        file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file_ < 0) { fail(errno); }
        struct stat what = {};
        direct_          = ::fstat(file_, &what) == 0 && !S_ISREG(what.st_mode);
        if (!direct_) { empty(); }
        try {
            put(header_);
        } catch (...) {
            close();
            throw;
        }
    }
    /// Empties the file. Throws `file_error` if that fails, or if another `log_file` has the file
    /// open: its next write to the mapped file would raise SIGBUS.
    void empty() {
        int why = 0;
        if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            why = EBUSY;
        } else if (::ftruncate(file_, 0) != 0) {
            why = errno;
        }
        if (why == 0) { return; }
        ::close(file_);
        file_ = -1;
        fail(why);
    }
    void put(std::string_view text) {
        if (direct_) { return write(text); }
        std::size_t const start = size_;
        while (!text.empty()) {
            std::size_t const at = size_ % window;
            try {
                if (at == 0 && mapped_at_ != size_) { map(); }
            } catch (...) {
                size_ = start; // so that `close` cuts off the part of the line written so far
                throw;
            }
            std::size_t const n = std::min(text.size(), window - at);
            std::memcpy(part_ + at, text.data(), n);
            size_ += n;
            text.remove_prefix(n);
        }
    }
    /// Writes to a pipe or a device, which cannot be mapped.
    void write(std::string_view text) {
        while (!text.empty()) {
            auto const n = ::write(file_, text.data(), text.size());
            if (n < 0 && errno != EINTR) { fail(errno); }
            if (n > 0) {
                size_ += static_cast<std::size_t>(n);
                text.remove_prefix(static_cast<std::size_t>(n));
            }
        }
    }
    /// Maps the part that begins at `size_`. Its disk space is allocated first: otherwise a full
    /// disk would end the process by a signal.
    void map() {
        unmap();
        int why = EINTR;
        while (why == EINTR) {
            why = ::posix_fallocate(file_, static_cast<off_t>(size_), static_cast<off_t>(window));
        }
        if (why != 0) { fail(why); }
        void* const part = ::mmap(nullptr, window, PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                                  static_cast<off_t>(size_));
        if (part == MAP_FAILED) { fail(errno); }
        part_      = static_cast<char*>(part);
        mapped_at_ = size_;
        std::memset(part_, '\n', window);
    }
    void unmap() noexcept {
        if (part_ != nullptr) { ::munmap(part_, window); }
        part_      = nullptr;
        mapped_at_ = nowhere;
    }
    void close() noexcept {
        unmap();
        if (file_ < 0) { return; }
        // Cuts off the unused end of the file. If `ftruncate` fails, empty lines stay there.
        [[maybe_unused]] int const cut =
            direct_ ? 0 : ::ftruncate(file_, static_cast<off_t>(size_));
        // Unlocks the file, which `empty` locked: a forked child with a copy of `file_` would
        // otherwise keep the lock after `close`.
        if (!direct_) { static_cast<void>(::flock(file_, LOCK_UN)); }
        ::close(file_);
        file_ = -1;
    }
    void rotate() {
        close();
        for (unsigned i = older_files_; i != 0; --i) {
            std::string const from = i == 1 ? path_ : path_ + "." + std::to_string(i - 1);
            std::string const to   = path_ + "." + std::to_string(i);
            // ENOENT: this older file does not exist yet. Any other error ends the log.
            if (std::rename(from.c_str(), to.c_str()) != 0 && errno != ENOENT) { fail(errno); }
        }
        open();
    }

    static constexpr std::size_t nowhere = ~std::size_t{0};

    std::string path_;
    std::string header_;
    std::size_t most_bytes_;
    unsigned    older_files_;
    lock        lock_;
    int         file_      = -1;
    bool        direct_    = false;   ///< true for a pipe or a device
    char*       part_      = nullptr; ///< the mapped part; null if no part is mapped
    std::size_t mapped_at_ = nowhere; ///< offset of the mapped part in the file
    /// Bytes of header and lines in the file. `close` cuts off the rest of the mapped part.
    std::size_t                size_ = 0;
    std::atomic<std::uint64_t> lost_{0};
};

} // namespace detail
} // namespace vram
