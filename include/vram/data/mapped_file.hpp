// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `mapped_file` maps a file into memory: only the pages that are accessed are read.

#if __has_include(<sys/mman.h>)

#include <vram/base/align.hpp>    // align_down
#include <vram/base/contract.hpp> // expects
#include <vram/data/file.hpp>
#include <vram/data/file_error.hpp>

#include <cerrno> // errno
#include <cstddef>
#include <span>         // span
#include <string>       // string
#include <sys/mman.h>   // mmap, munmap, madvise, msync
#include <system_error> // generic_category
#include <type_traits>  // is_trivially_copyable_v, is_const_v
#include <utility>

namespace vram {

/// Options of a `mapped_file`: if the file is created, and when its bytes are read.
struct mapped_file_options {
    /// If 0, the constructor opens an existing file for reading. Otherwise the constructor creates
    /// the file, or empties an existing file, and gives it this many zero bytes.
    std::size_t create = 0;
    /// If true, the system reads the whole file while the constructor maps it. Has no effect on a
    /// system without the flag `MAP_POPULATE` of `mmap`.
    bool populate = false;
};

/// A file that is mapped into the address space of the process. Use it for files that are larger
/// than memory, or of which only parts are read.
///
///     mapped_file const scan{"scan.raw"};
///     tile_source patches{shape, scan.span<std::uint16_t const>()};
///     mapped_file result{"out.raw", {.create = bytes}};     // the system writes its pages later
///
/// Failure   Throws `file_error`. An access may raise SIGBUS if the disk is full or another process
///           truncates the file.
/// Threads   Any thread may access the bytes, but not concurrently with a write of the same byte.
/// Cost      A page fault at the first access to a page, with a read of the file if necessary.
class mapped_file {
public:
    explicit mapped_file(std::string path, mapped_file_options options = {})
        : file_{std::move(path),
                {.use =
                     options.create != 0 ? file_options::mode::create : file_options::mode::read}},
          writable_{options.create != 0} {
        if (writable_) { file_.resize(options.create); }
        std::size_t const bytes = file_.size();
        if (bytes == 0) { return; } // an empty file cannot be mapped, so `bytes()` stays empty
        int flags = MAP_SHARED;
#if defined MAP_POPULATE
        if (options.populate) { flags |= MAP_POPULATE; }
#endif
        void* const p = ::mmap(nullptr, bytes, writable_ ? PROT_READ | PROT_WRITE : PROT_READ,
                               flags, file_.descriptor(), 0);
        if (p == MAP_FAILED) { fail(errno, bytes); }
        bytes_ = {static_cast<std::byte*>(p), bytes};
    }
    mapped_file(mapped_file&& other) noexcept
        : file_{std::move(other.file_)},
          bytes_{std::exchange(other.bytes_, {})},
          writable_{other.writable_} {}
    mapped_file& operator=(mapped_file&& other) noexcept {
        mapped_file gone{std::move(other)};
        std::swap(file_, gone.file_);
        std::swap(bytes_, gone.bytes_);
        std::swap(writable_, gone.writable_);
        return *this;
    }
    ~mapped_file() {
        if (!bytes_.empty()) { ::munmap(bytes_.data(), bytes_.size()); }
    }

    [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::size_t                size() const noexcept { return bytes_.size(); }
    [[nodiscard]] std::string const&         path() const noexcept { return file_.path(); }

    /// Returns the bytes of the file behind the first `header` bytes, as elements. `header` must be
    /// a multiple of the alignment of `Element`. `Element` must be const unless the option `create`
    /// was set. Throws `file_error` if the file is shorter than `header` bytes or ends within an
    /// element.
    template <class Element>
        requires std::is_trivially_copyable_v<Element>
    [[nodiscard]] std::span<Element> span(std::size_t header = 0) const {
        expects(writable_ || std::is_const_v<Element>,
                "mapped_file: elements of a file that is only read must be const");
        expects(header % alignof(Element) == 0,
                "mapped_file: the header must keep the elements aligned");
        if (header > size()) {
            throw file_error{file_error::reason::ends_early, path(), 0, header, size()};
        }
        std::size_t const rest = (size() - header) % sizeof(Element);
        if (rest != 0) {
            throw file_error{file_error::reason::partial_record, path(), size() - rest,
                             sizeof(Element), rest};
        }
        return {reinterpret_cast<Element*>(bytes_.data() + header),
                (size() - header) / sizeof(Element)};
    }

    /// Advises the system to begin to read `bytes` bytes from `offset` on. The system may ignore
    /// the advice.
    void will_need(std::size_t offset, std::size_t bytes) const noexcept {
        if (offset >= size()) { return; }
        std::size_t const begin = align_down(offset, page);
        std::size_t const end   = bytes < size() - offset ? offset + bytes : size();
        (void)::madvise(bytes_.data() + begin, end - begin, MADV_WILLNEED);
    }

    /// Blocks the calling thread until all bytes written to the mapping are on the storage device.
    /// Throws `file_error` if a write failed.
    void flush() {
        if (!bytes_.empty() && ::msync(bytes_.data(), bytes_.size(), MS_SYNC) != 0) {
            fail(errno, bytes_.size());
        }
    }

private:
    // Alignment of an offset for `madvise`: a multiple of any page size (4, 16 or 64 KiB).
    static constexpr std::size_t page = std::size_t{1} << 16;

    [[noreturn]] void fail(int code, std::size_t bytes) const {
        throw file_error{{code, std::generic_category()}, path(), 0, bytes, 0};
    }

    file                 file_;
    std::span<std::byte> bytes_;
    bool                 writable_;
};

} // namespace vram

#endif
