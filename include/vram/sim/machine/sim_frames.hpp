// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_frames` stores the contents of the simulated physical memory.

#include <vram/base/requirements.hpp>

#include <sys/mman.h> // memfd_create, mmap, munmap
#include <unistd.h>   // close, ftruncate

#include <fcntl.h> // fallocate

#include <cstddef>
#include <cstdint>
#include <new> // bad_alloc

namespace vram {
namespace detail {

/// The contents of simulated physical memory, in an anonymous file (memfd). A range of the file can
/// be mapped at any address, and keeps its contents. Ranges are never reused.
///
/// Failure   Members throw `std::bad_alloc` if the system refuses the file or a mapping.
/// Threads   The caller holds the machine's lock.
class sim_frames {
public:
    /// Offsets and sizes in the file are multiples of this number of bytes.
    static constexpr std::size_t page = 4096;

    sim_frames()                             = default;
    sim_frames(sim_frames const&)            = delete;
    sim_frames& operator=(sim_frames const&) = delete;
    ~sim_frames() {
        if (file_ >= 0) { ::close(file_); }
    }

    /// Allocates `bytes` bytes of the memory file, all zero, and returns their offset in the file.
    [[nodiscard]] std::uint64_t take(std::size_t bytes) {
        if (file_ < 0) { open(); }
        if (bytes > most - used_) { throw std::bad_alloc{}; }
        std::uint64_t const place = used_;
        used_ += bytes;
        return place;
    }
    /// Frees `bytes` bytes of the memory file, from its offset `place` on. They are not used again.
    void give(std::uint64_t place, std::size_t bytes) noexcept {
        // Frees the memory of this part of the file. A file system that cannot free a part of a
        // file keeps the memory until the file is closed.
        static_cast<void>(::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      static_cast<off_t>(place), static_cast<off_t>(bytes)));
    }

    /// Maps `bytes` bytes of the memory file, from its offset `place` on, to the address `at`.
    /// Replaces the mapping at that address.
    void show(std::uintptr_t at, std::uint64_t place, std::size_t bytes) {
        map(at, bytes, MAP_SHARED, file_, static_cast<off_t>(place));
    }
    /// Replaces the mapping at `at` by other memory, so that a late access does not crash the
    /// program.
    static void hide(std::uintptr_t at, std::size_t bytes) {
        map(at, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }

private:
    static constexpr std::uint64_t most = std::uint64_t{1} << 62;

    void open() {
        int const fd = ::memfd_create("vram sim", MFD_CLOEXEC);
        if (fd < 0) { throw std::bad_alloc{}; }
        if (::ftruncate(fd, static_cast<off_t>(most)) != 0) {
            ::close(fd);
            throw std::bad_alloc{};
        }
        file_ = fd;
    }

    static void map(std::uintptr_t at, std::size_t bytes, int how, int fd, off_t place) {
        if (::mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_FIXED | how, fd,
                   place) == MAP_FAILED) {
            throw std::bad_alloc{};
        }
    }

    int           file_ = -1;
    std::uint64_t used_ = 0;
};

} // namespace detail
} // namespace vram
