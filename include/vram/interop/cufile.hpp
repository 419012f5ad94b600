// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cufile` is a file that GPUDirect Storage copies to and from the device without host memory.

#include <vram/interop/core/cufile_calls.hpp>

#if __has_include(<dlfcn.h>)

#include <vram/data/file.hpp>

#include <fcntl.h>  // open
#include <unistd.h> // close

#include <cerrno> // errno
#include <cstddef>
#include <span>         // span
#include <string>       // string
#include <system_error> // error_code, generic_category
#include <utility>

namespace vram {

/// A `file` with direct copies to and from the device. If libcufile is missing or refuses the file,
/// it is an ordinary file.
///
///     cufile const weights{"weights.bin"};
///     stage.upload(stream, device, weights, 0, bytes);   // the result says if it used `gds`
///
/// Failure   Throws `file_error`, as `file`.
/// Threads   Any threads may read and write at the same time.
/// Streams   No stream may be using the memory. The copy is complete when the call returns.
/// Cost      Opens the file twice and registers it.
class cufile {
public:
    explicit cufile(std::string path, file_options options = {},
                    detail::cufile_calls const* calls = detail::cufile_calls::here())
        : plain_{std::move(path), options}, calls_{calls} {
        bool const writes = options.use != file_options::mode::read;
        if (calls_ == nullptr) { return; }
        descriptor_ =
            ::open(plain_.path().c_str(), (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | direct_flag);
        if (descriptor_ < 0) { return; }
        detail::cufile_calls::description what;
        what.handle.descriptor = descriptor_;
        if (calls_->add(&handle_, &what).library != 0) { handle_ = nullptr; }
    }
    cufile(cufile const&)            = delete;
    cufile& operator=(cufile const&) = delete;
    ~cufile() {
        if (handle_ != nullptr) { calls_->remove(handle_); }
        if (descriptor_ >= 0) { ::close(descriptor_); }
    }

    /// Returns true if libcufile has accepted the file. `read_device` and `write_device` may then
    /// be called; otherwise only `read` and `write`, which take host memory.
    [[nodiscard]] bool reaches_device() const noexcept { return handle_ != nullptr; }

    /// Reads `bytes` bytes of the file, from `offset` on, into device memory at `to`. Throws
    /// `file_error` if the file ends earlier.
    void read_device(void* to, std::size_t bytes, std::size_t offset) const {
        move(bytes, offset, [&](std::size_t n, off_t place, off_t at) {
            return calls_->read(handle_, to, n, place, at);
        });
    }
    /// Writes `bytes` bytes of device memory at `from` to the file, from `offset` on. Throws
    /// `file_error` if a write fails.
    void write_device(void const* from, std::size_t bytes, std::size_t offset) {
        move(bytes, offset, [&](std::size_t n, off_t place, off_t at) {
            return calls_->write(handle_, from, n, place, at);
        });
    }

    void read(std::span<std::byte> to, std::size_t offset) const { plain_.read(to, offset); }
    void write(std::span<std::byte const> from, std::size_t offset) { plain_.write(from, offset); }

    /// Returns this file as an object of the class `file`, which reads and writes host memory by
    /// calls of the system, without libcufile.
    [[nodiscard]] file&       plain() noexcept { return plain_; }
    [[nodiscard]] file const& plain() const noexcept { return plain_; }

private:
#if defined(O_DIRECT)
    static constexpr int direct_flag = O_DIRECT;
#else
    static constexpr int direct_flag = 0;
#endif

    template <class Call>
    void move(std::size_t bytes, std::size_t offset, Call call) const {
        for (std::size_t done = 0; done < bytes;) {
            ssize_t const n =
                call(bytes - done, static_cast<off_t>(offset + done), static_cast<off_t>(done));
            if (n > 0) {
                done += static_cast<std::size_t>(n);
            } else if (n == 0) {
                throw file_error{file_error::reason::ends_early, plain_.path(), offset, bytes,
                                 done};
            } else if (n != -1 || errno != EINTR) {
                int const code = n == -1 ? errno : EIO;
                throw file_error{std::error_code{code, std::generic_category()}, plain_.path(),
                                 offset, bytes, done};
            }
        }
    }

    file                         plain_;
    detail::cufile_calls const*  calls_;
    int                          descriptor_ = -1;
    detail::cufile_calls::handle handle_     = nullptr;
};

} // namespace vram

#endif
