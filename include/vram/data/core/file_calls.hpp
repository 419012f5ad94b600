// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file_calls` are the system calls of a `file`: POSIX, or nothing on other systems.

#include <vram/base/requirements.hpp>

#if __has_include(<unistd.h>)

#include <cerrno> // errno
#include <cstddef>
#include <fcntl.h>     // open, O_*
#include <limits>      // numeric_limits
#include <sys/stat.h>  // fstat
#include <sys/types.h> // off_t
#include <unistd.h>    // pread, pwrite, lseek, ftruncate, fdatasync, close

namespace vram {
namespace detail {

/// The system calls of a `file`, which return -1 with the reason in `errno` if they fail. Tests
/// replace this class.
struct file_calls {
    /// Opens a file and returns its descriptor, or -1. If the file is a pipe, does not wait until
    /// another process opens it. Child programs do not inherit the descriptor.
    static int open(char const* path, int flags) noexcept {
        return ::open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    }
    /// Flag of `open` with which reads and writes bypass the page cache (`O_DIRECT`); 0 if the
    /// system does not have this flag.
    static constexpr int direct_flag =
#if defined O_DIRECT
        O_DIRECT;
#else
        0;
#endif
    /// Returns 1 for a regular file or block device, 0 for other types, and -1 with `errno` for a
    /// directory or an error.
    static int is_file(int fd) noexcept {
        struct stat s{};
        if (::fstat(fd, &s) != 0) { return -1; }
        if (S_ISDIR(s.st_mode)) {
            errno = EISDIR;
            return -1;
        }
        return S_ISREG(s.st_mode) || S_ISBLK(s.st_mode) ? 1 : 0;
    }
    /// Returns the size in bytes of a file or a block device, or -1 with `errno`.
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

    /// Largest offset in a file that the system calls can express.
    static constexpr std::size_t most = static_cast<std::size_t>(std::numeric_limits<off_t>::max());
};

} // namespace detail
} // namespace vram

#endif
