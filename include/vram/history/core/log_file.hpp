// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `log_file` is a text file to which many threads append lines, and which no crash shortens.

#include <vram/base/core/lock.hpp>
#include <vram/base/core/report_caught.hpp>
#include <vram/concepts/core/owning_process.hpp>
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
#include <unistd.h>     // access, close, ftruncate, getcwd
#include <utility>

namespace vram {
namespace detail {

/// A text file to which lines are appended through a memory mapping. If the process is killed, the
/// lines appended before stay in the file. `most_bytes`: largest size of the file, where 0 means no
/// limit. Before a line exceeds this size, the file is renamed to PATH.1, or emptied if
/// `older_files` is 0. Any thread may call `append`. A forked child process only counts its lines
/// as lost, and its destructor leaves the file unchanged.
///
///     log_file log{"run.csv", "Thread,Time\n", 0, 0};
///     log.append("1,12:00\n");
///
/// Failure   The constructor throws `file_error`; `append` reports its first error to the error
///           sink.
class log_file {
public:
    log_file(std::string path, std::string header, std::size_t most_bytes, unsigned older_files)
        : path_{most_bytes != 0 ? absolute(std::move(path)) : std::move(path)},
          header_{std::move(header)},
          most_bytes_{most_bytes},
          older_files_{older_files} {
        open();
    }
    log_file(log_file const&)            = delete;
    log_file& operator=(log_file const&) = delete;
    ~log_file() { close(); }

    void append(std::string_view line) noexcept {
        if (!owner_.is_current()) { // a thread of the parent may hold the lock
            lost_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
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
    /// and all later ones. In a forked child process, all lines of the child count too.
    [[nodiscard]] std::uint64_t lost() const noexcept {
        return lost_.load(std::memory_order_relaxed);
    }

private:
    static constexpr std::size_t window = std::size_t{1} << 20;

    /// Returns `path` as an absolute path. The program may change its working directory before the
    /// file is renamed.
    [[nodiscard]] static std::string absolute(std::string path) {
        char       folder[4096];
        bool const relative = !path.empty() && path.front() != '/';
        if (!relative || ::getcwd(folder, sizeof folder) == nullptr) { return path; }
        return std::string{folder} + "/" + path;
    }
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
    /// open. The next write of the other `log_file` to an emptied file would raise SIGBUS.
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
                size_ = start; // drops the part of the line that was written: `close` cuts it off
                throw;
            }
            std::size_t const n = std::min(text.size(), window - at);
            std::memcpy(part_ + at, text.data(), n);
            size_ += n;
            text.remove_prefix(n);
        }
    }
    /// Writes `text` with calls of `::write`, because a pipe or a device cannot be mapped.
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
    /// Maps the next `window` bytes of the file, from the offset `size_` on. First allocates disk
    /// space for them: if the disk were full, a write to the mapping would raise SIGBUS.
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
        if (!direct_ && owner_.is_current()) { // the parent of a forked child still uses the file
            // Cuts off the unused end of the file. If `ftruncate` fails, the file ends with empty
            // lines.
            [[maybe_unused]] int const cut = ::ftruncate(file_, static_cast<off_t>(size_));
            // Releases the lock on the file that `empty` took. If a forked child process has a copy
            // of the descriptor `file_`, closing the file alone would not release the lock.
            static_cast<void>(::flock(file_, LOCK_UN));
        }
        ::close(file_);
        file_ = -1;
    }
    void rotate() {
        close();
        // The first missing file ends the list: `older_files_` may be a very large number.
        unsigned last = older_files_ != 0 ? 1 : 0;
        while (last < older_files_ && ::access(older(last).c_str(), F_OK) == 0) { ++last; }
        for (unsigned i = last; i != 0; --i) {
            std::string const from = i == 1 ? path_ : older(i - 1);
            // ENOENT means that the file `from` does not exist yet. Any other error ends the log.
            if (std::rename(from.c_str(), older(i).c_str()) != 0 && errno != ENOENT) {
                fail(errno);
            }
        }
        open();
    }

    [[nodiscard]] std::string older(unsigned i) const { return path_ + "." + std::to_string(i); }

    static constexpr std::size_t nowhere = ~std::size_t{0};

    std::string    path_;
    std::string    header_;
    std::size_t    most_bytes_;
    unsigned       older_files_;
    owning_process owner_;
    lock           lock_;
    int            file_      = -1;
    bool           direct_    = false;   ///< true for a pipe or a device, which cannot be mapped
    char*          part_      = nullptr; ///< mapped part of the file; null if no part is mapped
    std::size_t    mapped_at_ = nowhere; ///< offset of the mapped part in the file
    /// Bytes of the header and the lines. The mapped part is larger; `close` cuts off the rest.
    std::size_t                size_ = 0;
    std::atomic<std::uint64_t> lost_{0};
};

} // namespace detail
} // namespace vram
