// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file` is read and written at any place, by any number of threads, whole or not at all.

#include <vram/transfer/file_calls.hpp> // file_calls

#if __has_include(<unistd.h>)

#include <vram/base/align.hpp>          // align_down
#include <vram/transfer/file_error.hpp> // file_error

#include <algorithm>    // min
#include <atomic>       // atomic
#include <cerrno>       // errno
#include <cstddef>      // size_t, byte
#include <cstdint>      // uintptr_t
#include <span>         // span
#include <string>       // string
#include <system_error> // error_code, generic_category
#include <utility>      // exchange, move, swap

namespace vram {

/// How a file is opened.
struct file_options {
    enum class mode {
        read,   ///< it is there, and is only read
        update, ///< it is there, and is read and written
        create, ///< it is made, or emptied, and is read and written
    };
    mode use = mode::read;
    /// Past the page cache where place, memory and size allow it (`file::direct_alignment`).
    bool direct = false;
};

/// A file whose calls name their place, so that nobody moves it under another's feet.
///
///     file const weights{"weights.bin"};
///     weights.read(std::as_writable_bytes(std::span{row}), index * row_bytes);
///     file results{"out.bin", {.use = file_options::mode::create}};
///     results.write(std::as_bytes(std::span{row}), index * row_bytes);
///
/// With `direct`, those parts go past the page cache whose place and address are multiples of
/// `direct_alignment`; what is left over goes through it. Where the file system refuses,
/// everything does, and `direct_refused()` has the reason.
///
/// Failure   `file_error` with the system's code, the place, the bytes wanted and the bytes done;
///           a file that ends before is one too. Interrupted and short calls are made again.
///           The end closes the file and says nothing: `flush` before it, where that matters
/// Threads   any may read and write at once; opening, moving and ending are one thread's
/// Cost      a system call for each run of bytes; nothing is allocated but by opening
template <class Calls>
class basic_file {
public:
    /// Place, address and size, in bytes, that direct input and output want.
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
        basic_file gone{std::move(other)}; // what this one had ends with it
        path_.swap(gone.path_);
        plain_.swap(gone.plain_);
        direct_.swap(gone.direct_);
        refused_ = gone.refused_.exchange(refused_);
        return *this;
    }
    ~basic_file() = default;

    /// Bytes of the file now. Cost: a system call.
    [[nodiscard]] std::size_t size() const {
        off_t const bytes = Calls::size(plain_.fd);
        if (bytes < 0) { fail(errno); }
        return static_cast<std::size_t>(bytes);
    }
    [[nodiscard]] std::string const& path() const noexcept { return path_; }

    /// Fills `to` with the bytes at `offset`, all of it.
    void read(std::span<std::byte> to, std::size_t offset) const {
        move(to.data(), to.size(), offset,
             [](int fd, std::byte* p, std::size_t n, off_t at) noexcept {
                 return Calls::read(fd, p, n, at);
             });
    }
    /// Writes all of `from` at `offset`; a file that is shorter becomes as long as that.
    void write(std::span<std::byte const> from, std::size_t offset) {
        move(from.data(), from.size(), offset,
             [](int fd, std::byte const* p, std::size_t n, off_t at) noexcept {
                 ssize_t const written = Calls::write(fd, p, n, at);
                 if (written == 0) { errno = ENOSPC; }
                 return written != 0 ? written : -1;
             });
    }
    /// Cuts the file, or lengthens it with zeros that take no room.
    void resize(std::size_t bytes) {
        if (bytes > Calls::most) { fail(EFBIG, bytes); }
        while (Calls::resize(plain_.fd, static_cast<off_t>(bytes)) != 0) {
            if (errno != EINTR) { fail(errno, bytes); }
        }
    }
    /// What was written is on the device when this returns; late errors of writing show here.
    void flush() {
        while (Calls::flush(plain_.fd) != 0) {
            if (errno != EINTR) { fail(errno); }
        }
    }

    /// Whether there is a way past the page cache, and it was not refused.
    [[nodiscard]] bool direct() const noexcept {
        return direct_.fd >= 0 && refused_.load(std::memory_order_relaxed) == 0;
    }
    /// Why there is none where it was asked for; no error where it was not, or where there is one.
    [[nodiscard]] std::error_code direct_refused() const noexcept {
        return {refused_.load(std::memory_order_relaxed), std::generic_category()};
    }
    /// The descriptor, for calls that are not here; -1 once moved from.
    [[nodiscard]] int descriptor() const noexcept { return plain_.fd; }

private:
    struct descriptor_owner { // closes what it holds
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

    /// Moves `bytes` between `p` and the file, run by run.
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
                refused_.store(EINVAL, std::memory_order_relaxed); // then through the cache
            } else if (errno != EINTR) {
                fail(errno, offset, bytes, done);
            }
        }
    }

    struct run { // bytes that one call moves, and by which descriptor
        int         fd;
        std::size_t bytes;
    };
    [[nodiscard]] run next_run(void const* p, std::size_t bytes,
                               std::size_t offset) const noexcept {
        constexpr std::size_t unit = direct_alignment;
        std::size_t const     past = offset % unit;
        bool const together = reinterpret_cast<std::uintptr_t>(p) % unit == past; // aligned at once
        if (!direct() || !together) { return {plain_.fd, bytes}; }
        if (past != 0) { return {plain_.fd, std::min(bytes, unit - past)}; }
        std::size_t const whole = align_down(bytes, unit);
        return whole != 0 ? run{direct_.fd, whole} : run{plain_.fd, bytes};
    }

    std::string              path_;
    descriptor_owner         plain_;
    descriptor_owner         direct_;
    mutable std::atomic<int> refused_{0}; ///< the code with which direct input and output was
};

/// The one of this system.
using file = basic_file<file_calls>;

} // namespace vram

#endif
