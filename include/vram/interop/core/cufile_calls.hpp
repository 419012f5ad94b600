// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cufile_calls` are the functions of GPUDirect Storage, found at run time.

#include <vram/base/requirements.hpp>

#if __has_include(<dlfcn.h>)

#include <dlfcn.h>     // dlopen, dlsym
#include <sys/types.h> // off_t, ssize_t

#include <cstddef>

namespace vram {
namespace detail {

/// Pointers to functions of libcufile, so that programs need not link with it. The types have the
/// layout that the library documents. Tests can pass another table to `cufile`.
///
///     if (auto const* storage = cufile_calls::here()) { ... }
struct cufile_calls {
    struct result { ///< status of the library and of the driver; 0 means success
        int library = 0;
        int driver  = 0;
    };
    struct description {
        /// Kind of `handle` for cuFile: 1 (CU_FILE_HANDLE_TYPE_OPAQUE_FD) is a file descriptor.
        int type = 1;
        union {
            int   descriptor;
            void* other;
        } handle{};
        void const* operations = nullptr;
    };
    using handle = void*;

    result (*open_driver)()                                                              = nullptr;
    result (*add)(handle*, description*)                                                 = nullptr;
    void (*remove)(handle)                                                               = nullptr;
    ssize_t (*read)(handle, void* device, std::size_t, off_t place, off_t offset)        = nullptr;
    ssize_t (*write)(handle, void const* device, std::size_t, off_t place, off_t offset) = nullptr;

    /// Returns the functions of libcufile. The first call loads the library. Returns null if the
    /// library is missing or lacks a function, or if its driver does not start.
    [[nodiscard]] static cufile_calls const* here() {
        static cufile_calls const found = look_up("libcufile.so.0");
        return found.read != nullptr ? &found : nullptr;
    }

    /// Returns the functions of the library with this name. All are null if one is missing, or if
    /// the library's driver does not start.
    [[nodiscard]] static cufile_calls look_up(char const* library) noexcept {
        void* const loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (loaded == nullptr) { return {}; }
        cufile_calls calls;
        bool const   complete = find(loaded, "cuFileDriverOpen", calls.open_driver) &&
                              find(loaded, "cuFileHandleRegister", calls.add) &&
                              find(loaded, "cuFileHandleDeregister", calls.remove) &&
                              find(loaded, "cuFileRead", calls.read) &&
                              find(loaded, "cuFileWrite", calls.write);
        if (complete && calls.open_driver().library == 0) { return calls; }
        ::dlclose(loaded);
        return {};
    }

private:
    template <class Function>
    static bool find(void* library, char const* name, Function& call) noexcept {
        call = reinterpret_cast<Function>(::dlsym(library, name));
        return call != nullptr;
    }
};

static_assert(sizeof(cufile_calls::description) == 24);

} // namespace detail
} // namespace vram

#endif
