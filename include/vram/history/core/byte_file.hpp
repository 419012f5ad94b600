// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `byte_file` is a new file that is written from the beginning to the end.

#include <vram/data/file_error.hpp>

#include <atomic>   // atomic
#include <cerrno>   // errno
#include <charconv> // to_chars
#include <concepts> // integral
#include <cstddef>
#include <cstdint>
#include <cstdio>       // FILE
#include <cstring>      // memcpy
#include <string>       // string
#include <string_view>  // string_view
#include <sys/stat.h>   // stat
#include <system_error> // generic_category
#include <unistd.h>     // getpid
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// A new file, which gets its name when it is complete. Bytes go to a temporary ".part" file, and
/// `close` renames this file to `path`. Without `close`, the destructor removes the ".part" file.
/// A pipe or a device, such as /dev/null, is not replaced: bytes go to it directly. Throws
/// `file_error`.
///
///     byte_file out{path};
///     out << "Thread,Time\n" << 17;
///     out.close();
class byte_file {
public:
    explicit byte_file(std::string path) : path_{std::move(path)}, room_(1 << 16) {
        struct stat there = {};
        if (::stat(path_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
            file_ = std::fopen(path_.c_str(), "wb");
            if (file_ == nullptr) { fail(); }
            return;
        }
        std::string const beginning = path_ + "." + std::to_string(::getpid()) + "-";
        do { // tries the next number if an ended process has left a ".part" file of this name
            part_ = beginning + std::to_string(files_.fetch_add(1)) + ".part";
            file_ = std::fopen(part_.c_str(), "wbx");
        } while (file_ == nullptr && errno == EEXIST);
        if (file_ == nullptr) { fail(); }
    }
    byte_file(byte_file const&)            = delete;
    byte_file& operator=(byte_file const&) = delete;
    ~byte_file() {
        if (file_ == nullptr) { return; }
        static_cast<void>(std::fclose(file_));
        if (!part_.empty()) { static_cast<void>(std::remove(part_.c_str())); }
    }

    byte_file& operator<<(std::string_view text) {
        put(text.data(), text.size());
        return *this;
    }
    byte_file& operator<<(char c) {
        put(&c, 1);
        return *this;
    }
    template <std::integral Number>
    byte_file& operator<<(Number n) {
        reserve(24);
        auto const end = std::to_chars(room_.data() + used_, room_.data() + used_ + 24, n);
        used_          = static_cast<std::size_t>(end.ptr - room_.data());
        return *this;
    }
    byte_file& hexadecimal(std::uint64_t n) {
        *this << "0x";
        reserve(24);
        auto const end = std::to_chars(room_.data() + used_, room_.data() + used_ + 24, n, 16);
        used_          = static_cast<std::size_t>(end.ptr - room_.data());
        return *this;
    }
    void put(void const* from, std::size_t bytes) {
        if (bytes > room_.size() - used_) {
            flush();
            if (bytes > room_.size()) { return write(from, bytes); }
        }
        if (bytes != 0) { std::memcpy(room_.data() + used_, from, bytes); }
        used_ += bytes;
    }
    void byte(unsigned value) {
        reserve(1);
        room_[used_++] = static_cast<char>(static_cast<std::uint8_t>(value));
    }

    /// Writes the buffered bytes, closes the ".part" file and renames it to the path of the
    /// constructor. If one of these steps fails, throws `file_error`; an older file with this path
    /// then stays unchanged.
    void close() {
        flush();
        std::FILE* const file = file_;
        file_                 = nullptr;
        bool const closed     = std::fclose(file) == 0;
        bool const direct     = part_.empty();
        if (closed && (direct || std::rename(part_.c_str(), path_.c_str()) == 0)) { return; }
        int const why = errno;
        if (!direct) { static_cast<void>(std::remove(part_.c_str())); }
        errno = why;
        fail();
    }

private:
    void reserve(std::size_t bytes) {
        if (bytes > room_.size() - used_) { flush(); }
    }
    void flush() {
        write(room_.data(), used_);
        used_ = 0;
    }
    void write(void const* from, std::size_t bytes) {
        errno                  = 0;
        std::size_t const done = std::fwrite(from, 1, bytes, file_);
        if (done != bytes) { fail(bytes, done); }
        written_ += bytes;
    }
    [[noreturn]] void fail(std::size_t wanted = 0, std::size_t done = 0) const {
        throw file_error{
            {errno != 0 ? errno : EIO, std::generic_category()}, path_, written_, wanted, done};
    }

    static inline constinit std::atomic<unsigned> files_{0}; ///< number of the next ".part" file

    std::string       path_;
    std::string       part_; ///< path of the ".part" file; empty for a pipe or a device
    std::FILE*        file_ = nullptr;
    std::vector<char> room_;
    std::size_t       used_    = 0;
    std::size_t       written_ = 0;
};

} // namespace detail
} // namespace vram
