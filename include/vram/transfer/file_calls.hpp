// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file_calls` is what a `file` asks of the system: POSIX, and nothing where there is none.

#include <vram/base/requirements.hpp> // C++20

#if __has_include(<unistd.h>)

#include <cerrno>      // errno
#include <cstddef>     // size_t
#include <fcntl.h>     // open, O_*
#include <limits>      // numeric_limits
#include <sys/stat.h>  // fstat
#include <sys/types.h> // off_t
#include <unistd.h>    // pread, pwrite, lseek, ftruncate, fdatasync, close

namespace vram {

/// The calls, one by one. Each returns what the system's call returns, and leaves `errno`. Tests
/// put others in their place, to be interrupted, cut short and refused.
///
/// Threads   any
struct file_calls {
    /// `flags` as `open` takes them. Never waits for the other end of a pipe, and no program that
    /// is started gets the descriptor.
    static int open(char const* path, int flags) noexcept {
        return ::open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    }
    /// The flag for input and output that pass the page cache by; 0 where the system has none.
    static constexpr int direct_flag =
#if defined O_DIRECT
        O_DIRECT;
#else
        0;
#endif
    /// Whether it is a regular file or a block device. -1: not known, see `errno`; a folder is
    /// `EISDIR`.
    static int is_file(int fd) noexcept {
        struct stat s{};
        if (::fstat(fd, &s) != 0) { return -1; }
        if (S_ISDIR(s.st_mode)) {
            errno = EISDIR;
            return -1;
        }
        return S_ISREG(s.st_mode) || S_ISBLK(s.st_mode) ? 1 : 0;
    }
    /// Bytes of the file, of a block device too; -1 when it fails.
    static off_t size(int fd) noexcept { return ::lseek(fd, 0, SEEK_END); }

    static ssize_t read(int fd, void* to, std::size_t bytes, off_t offset) noexcept {
        return ::pread(fd, to, bytes, offset);
    }
    static ssize_t write(int fd, void const* from, std::size_t bytes, off_t offset) noexcept {
        return ::pwrite(fd, from, bytes, offset);
    }
    static int resize(int fd, off_t bytes) noexcept { return ::ftruncate(fd, bytes); }
    static int flush(int fd) noexcept {
#if defined _POSIX_SYNCHRONIZED_IO && _POSIX_SYNCHRONIZED_IO > 0
        return ::fdatasync(fd);
#else
        return ::fsync(fd);
#endif
    }
    static int close(int fd) noexcept { return ::close(fd); }

    /// The last place that a file can have.
    static constexpr std::size_t most = static_cast<std::size_t>(std::numeric_limits<off_t>::max());
};

} // namespace vram

#endif
