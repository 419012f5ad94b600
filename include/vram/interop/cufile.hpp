// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cufile` is a file that GPUDirect Storage moves to the device and back, with no host between.

#include <vram/interop/cufile_calls.hpp> // cufile_calls

#if __has_include(<dlfcn.h>)

#include <vram/transfer/file.hpp> // file

#include <fcntl.h>  // open
#include <unistd.h> // close

#include <cerrno>       // errno
#include <cstddef>      // size_t, byte
#include <span>         // span
#include <string>       // string
#include <system_error> // error_code, generic_category
#include <utility>      // move

namespace vram {

/// A `file`, and where the system can, a way past the host.
///
///     cufile const weights{"weights.bin"};
///     stage.upload(stream, device, weights, 0, bytes);   // says whether it went by `gds`
///
/// Where there is no libcufile, or it does not want the file, it is a file like others.
///
/// Failure   `file_error`, as `file`; what the library says by a number of its own is EIO
/// Threads   any may read and write at once
/// Streams   none: the device's memory must be free for it, and is there when the call returns
/// Cost      opens the file twice and registers it; where the library itself goes through the host
///           (its compatibility mode), a ring is faster
class cufile {
public:
    explicit cufile(std::string path, file_options options = {},
                    cufile_calls const* calls = cufile_calls::here())
        : plain_{std::move(path), options}, calls_{calls} {
        bool const writes = options.use != file_options::mode::read;
        if (calls_ == nullptr) { return; }
        descriptor_ =
            ::open(plain_.path().c_str(), (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC | direct_flag);
        if (descriptor_ < 0) { return; }
        cufile_calls::description what;
        what.handle.descriptor = descriptor_;
        if (calls_->add(&handle_, &what).library != 0) { handle_ = nullptr; }
    }
    cufile(cufile const&)            = delete;
    cufile& operator=(cufile const&) = delete;
    ~cufile() {
        if (handle_ != nullptr) { calls_->remove(handle_); }
        if (descriptor_ >= 0) { ::close(descriptor_); }
    }

    /// Whether `read_device` and `write_device` may be called.
    [[nodiscard]] bool reaches_device() const noexcept { return handle_ != nullptr; }

    /// Fills `bytes` bytes of the device's memory with those at `offset`, all of them.
    void read_device(void* to, std::size_t bytes, std::size_t offset) const {
        move(bytes, offset, [&](std::size_t n, off_t place, off_t at) {
            return calls_->read(handle_, to, n, place, at);
        });
    }
    /// Writes `bytes` bytes of the device's memory at `offset`.
    void write_device(void const* from, std::size_t bytes, std::size_t offset) {
        move(bytes, offset, [&](std::size_t n, off_t place, off_t at) {
            return calls_->write(handle_, from, n, place, at);
        });
    }

    void read(std::span<std::byte> to, std::size_t offset) const { plain_.read(to, offset); }
    void write(std::span<std::byte const> from, std::size_t offset) { plain_.write(from, offset); }

    /// The file as it is without the library.
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

    file                 plain_;
    cufile_calls const*  calls_;
    int                  descriptor_ = -1;
    cufile_calls::handle handle_     = nullptr;
};

} // namespace vram

#endif
