// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file` is a file that threads read and write at any offset, completely or not at all.

#include <vram/base/core/smaller_of.hpp>
#include <vram/data/core/file_calls.hpp>

#if __has_include(<unistd.h>)

#include <vram/base/align.hpp> // align_down
#include <vram/data/file_error.hpp>

#include <atomic> // atomic
#include <cerrno> // errno
#include <cstddef>
#include <cstdint>
#include <span>         // span
#include <string>       // string
#include <system_error> // error_code, generic_category
#include <utility>

namespace vram {

/// Options of opening a `file`: for reading or writing, and through the page cache or not.
struct file_options {
    enum class mode {
        read,   ///< opens an existing file, only for reading
        update, ///< opens an existing file, for reading and writing
        create, ///< creates a file or empties an existing one, for reading and writing
    };
    mode use = mode::read;
    /// If true, reads and writes bypass the page cache where offset, address and size are multiples
    /// of `file::direct_alignment`, unless the file system refuses.
    bool direct = false;
};

/// A file that is read and written at given offsets, so that threads share no file position.
///
///     file const weights{"weights.bin"};
///     weights.read(std::as_writable_bytes(std::span{row}), index * row_bytes);
///     file results{"out.bin", {.use = file_options::mode::create}};
///     results.write(std::as_bytes(std::span{row}), index * row_bytes);
///
/// Failure   Throws `file_error`, also for a read beyond the end of the file; the destructor
///           reports no errors.
/// Threads   Any threads may read and write concurrently, but not move or destroy the file.
/// Cost      One system call for each read or write; up to three if `direct`, because unaligned
///           bytes at both ends pass through the page cache.
template <class Calls>
class basic_file {
public:
    /// Alignment of offset, address and size in bytes for calls that bypass the page cache.
    static constexpr std::size_t direct_alignment = 4096;

    explicit basic_file(std::string path, file_options options = {}) : path_{std::move(path)} {
        int const flags = options.use == file_options::mode::read     ? O_RDONLY
                          : options.use == file_options::mode::update ? O_RDWR
                                                                      : O_RDWR | O_CREAT | O_TRUNC;
        plain_.fd       = open(flags);
        if (plain_.fd < 0) { fail(errno); }
        int const regular = Calls::is_file(plain_.fd);
        if (regular < 0) { fail(errno); }
        if (regular == 0) { throw file_error{file_error::reason::not_a_file, path_}; }
        if (options.direct) { open_direct(flags & ~(O_CREAT | O_TRUNC)); }
    }
    basic_file(basic_file&& other) noexcept
        : path_{std::move(other.path_)},
          plain_{std::move(other.plain_)},
          direct_{std::move(other.direct_)},
          refused_{other.refused_.load(std::memory_order_relaxed)} {}
    basic_file& operator=(basic_file&& other) noexcept {
        basic_file gone{std::move(other)};
        path_.swap(gone.path_);
        plain_.swap(gone.plain_);
        direct_.swap(gone.direct_);
        refused_ = gone.refused_.exchange(refused_);
        return *this;
    }
    ~basic_file() = default;

    /// Returns the current size of the file in bytes. Cost: a system call.
    [[nodiscard]] std::size_t size() const {
        off_t const bytes = Calls::size(plain_.fd);
        if (bytes < 0) { fail(errno); }
        return static_cast<std::size_t>(bytes);
    }
    [[nodiscard]] std::string const& path() const noexcept { return path_; }

    /// Fills all of `to` with the bytes at `offset`, or throws.
    void read(std::span<std::byte> to, std::size_t offset) const {
        move(to.data(), to.size(), offset,
             [](int fd, std::byte* p, std::size_t n, off_t at) noexcept {
                 return Calls::read(fd, p, n, at);
             });
    }
    /// Writes all of `from` at `offset`, or throws. The file grows if necessary.
    void write(std::span<std::byte const> from, std::size_t offset) {
        move(from.data(), from.size(), offset,
             [](int fd, std::byte const* p, std::size_t n, off_t at) noexcept {
                 ssize_t const written = Calls::write(fd, p, n, at);
                 if (written == 0) { errno = ENOSPC; }
                 return written != 0 ? written : -1;
             });
    }
    /// Truncates the file to `bytes` bytes, or extends it with zeros, which on most file systems
    /// occupy no disk space. Throws `file_error` if the system refuses.
    void resize(std::size_t bytes) {
        if (bytes > Calls::most) { fail(EFBIG, bytes); }
        while (Calls::resize(plain_.fd, static_cast<off_t>(bytes)) != 0) {
            if (errno != EINTR) { fail(errno, bytes); }
        }
    }
    /// Blocks the calling thread until all bytes written so far are on the storage device. Throws
    /// `file_error` if a write failed.
    void flush() {
        while (Calls::flush(plain_.fd) != 0) {
            if (errno != EINTR) { fail(errno); }
        }
    }

    /// Returns true if reads and writes bypass the page cache where offset, address and size are
    /// multiples of `direct_alignment`.
    [[nodiscard]] bool direct() const noexcept {
        return direct_.fd >= 0 && refused_.load(std::memory_order_relaxed) == 0;
    }
    /// Returns the error with which the system refused to bypass the page cache. Returns an empty
    /// `std::error_code` if the system did not refuse.
    [[nodiscard]] std::error_code direct_refused() const noexcept {
        return {refused_.load(std::memory_order_relaxed), std::generic_category()};
    }
    /// Returns a descriptor of the file, opened without `O_DIRECT`, for other system calls. Do not
    /// close the descriptor: this object closes it. Returns -1 if this object was moved from.
    [[nodiscard]] int descriptor() const noexcept { return plain_.fd; }

private:
    /// Owns a file descriptor, or none (-1), and closes it in the destructor. An object that was
    /// moved from owns none.
    struct descriptor_owner {
        int fd = -1;

        descriptor_owner() = default;
        descriptor_owner(descriptor_owner&& other) noexcept : fd{std::exchange(other.fd, -1)} {}
        ~descriptor_owner() {
            if (fd >= 0) { Calls::close(fd); }
        }
        void swap(descriptor_owner& other) noexcept { std::swap(fd, other.fd); }
    };

    [[noreturn]] void fail(int code, std::size_t offset = 0, std::size_t wanted = 0,
                           std::size_t got = 0) const {
        throw file_error{{code, std::generic_category()}, path_, offset, wanted, got};
    }

    [[nodiscard]] int open(int flags) const noexcept {
        for (;;) {
            int const fd = Calls::open(path_.c_str(), flags);
            if (fd >= 0 || errno != EINTR) { return fd; }
        }
    }
    void open_direct(int flags) noexcept {
        if constexpr (Calls::direct_flag != 0) {
            direct_.fd = open(flags | Calls::direct_flag);
            if (direct_.fd < 0) { refused_ = errno; }
        } else {
            refused_ = ENOTSUP;
        }
    }

    /// Transfers `bytes` bytes between the memory `p` and the file at `offset`. Repeats the system
    /// call `call` until all bytes are transferred. Throws `file_error` if a call fails.
    template <class Byte, class Call>
    void move(Byte* p, std::size_t bytes, std::size_t offset, Call call) const {
        if (offset > Calls::most || bytes > Calls::most - offset) {
            fail(EOVERFLOW, offset, bytes);
        }
        for (std::size_t done = 0; done < bytes;) {
            run const     next = next_run(p + done, bytes - done, offset + done);
            ssize_t const n =
                call(next.fd, p + done, next.bytes, static_cast<off_t>(offset + done));
            if (n > 0) {
                done += static_cast<std::size_t>(n);
            } else if (n == 0) {
                throw file_error{file_error::reason::ends_early, path_, offset, bytes, done};
            } else if (errno == EINVAL && next.fd == direct_.fd) {
                // Stops using `O_DIRECT`, which the system refused. Later calls use the page cache.
                refused_.store(EINVAL, std::memory_order_relaxed);
            } else if (errno != EINTR) {
                fail(errno, offset, bytes, done);
            }
        }
    }

    struct run { // arguments of one system call: the descriptor and the number of bytes
        int         fd;
        std::size_t bytes;
    };
    [[nodiscard]] run next_run(void const* p, std::size_t bytes,
                               std::size_t offset) const noexcept {
        constexpr std::size_t unit = direct_alignment;
        std::size_t const     past = offset % unit;
        // True if address and offset have the same remainder modulo `unit`. Only then can both
        // become multiples of `unit`, which a call that bypasses the page cache requires.
        bool const together = reinterpret_cast<std::uintptr_t>(p) % unit == past;
        if (!direct() || !together) { return {plain_.fd, bytes}; }
        if (past != 0) { return {plain_.fd, detail::smaller_of(bytes, unit - past)}; }
        std::size_t const whole = align_down(bytes, unit);
        return whole != 0 ? run{direct_.fd, whole} : run{plain_.fd, bytes};
    }

    std::string      path_;
    descriptor_owner plain_;
    descriptor_owner direct_;
    /// `errno` with which the system refused `O_DIRECT`, or 0.
    mutable std::atomic<int> refused_{0};
};

/// A `basic_file` with the system calls of the operating system.
using file = basic_file<detail::file_calls>;

} // namespace vram

#endif
