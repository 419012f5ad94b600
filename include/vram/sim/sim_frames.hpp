// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_frames` is what lies in the physical memory of the simulated machine, wherever that is
/// mapped.

#include <vram/base/requirements.hpp> // C++20

#include <sys/mman.h> // memfd_create, mmap, munmap
#include <unistd.h>   // close, ftruncate

#include <fcntl.h> // fallocate

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <new>     // bad_alloc

namespace vram {

/// A file that nobody else sees: pages of it are shown at addresses, and what was written there is
/// seen again wherever they are shown next. Its places are used once and never again.
///
/// Failure   `std::bad_alloc` where the system has no file or no mapping for it
/// Threads   one at a time: the machine's lock
/// Cost      one call of the system each; contents are committed when they are written
class sim_frames {
public:
    static constexpr std::size_t page = 4096; ///< what everything here is a multiple of

    sim_frames()                             = default;
    sim_frames(sim_frames const&)            = delete;
    sim_frames& operator=(sim_frames const&) = delete;
    ~sim_frames() {
        if (file_ >= 0) { ::close(file_); }
    }

    /// A place for `bytes` bytes that nobody wrote.
    [[nodiscard]] std::uint64_t take(std::size_t bytes) {
        if (file_ < 0) { open(); }
        if (bytes > most - used_) { throw std::bad_alloc{}; }
        std::uint64_t const place = used_;
        used_ += bytes;
        return place;
    }
    /// Nobody will look at it again.
    void give(std::uint64_t place, std::size_t bytes) noexcept {
        // Where the file cannot have holes, the contents go with the machine.
        static_cast<void>(::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                      static_cast<off_t>(place), static_cast<off_t>(bytes)));
    }

    /// Makes `place` visible at `at`, instead of what was there.
    void show(std::uintptr_t at, std::uint64_t place, std::size_t bytes) {
        map(at, bytes, MAP_SHARED, file_, static_cast<off_t>(place));
    }
    /// Makes nothing visible at `at`: work that comes too late writes into the void, as reports
    /// say, instead of ending the program.
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

} // namespace vram
