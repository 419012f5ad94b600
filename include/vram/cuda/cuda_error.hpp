// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_error` is an error of the CUDA runtime, with its number and its source location.

#include <vram/base/error.hpp>         // report_error
#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage
#include <vram/cuda/core/cuda_exit.hpp>

#include <cuda_runtime_api.h> // cudaError_t

#include <cstddef>         // size_t
#include <source_location> // source_location
#include <string>          // string
#include <system_error>    // system_error, error_category

namespace vram {

/// The exception for a failed call of CUDA. A shortage of memory is `out_of_memory` instead, on
/// every platform.
///
///     try { stream.synchronize(); } catch (cuda_error const& e) { if (e.status() ==
///     cudaErrorLaunchFailure) ... }
///
/// An error of a kernel appears at a later call, which need not be related to it. CUDA keeps such
/// an error and returns it from every later call.
class cuda_error : public std::system_error {
public:
    /// Makes an exception from a status of the CUDA runtime.
    explicit cuda_error(cudaError_t          status,
                        std::source_location where = std::source_location::current())
        : std::system_error{static_cast<int>(status), category()}, where_{where} {}

    /// Returns this error with the text `what` in front, such as the name of the operation.
    [[nodiscard]] cuda_error in(std::string const& what) const { return {status(), what, where_}; }

    /// Returns the status of the CUDA runtime.
    [[nodiscard]] cudaError_t status() const noexcept {
        return static_cast<cudaError_t>(code().value());
    }
    /// Returns the source location of the call that received the error.
    [[nodiscard]] std::source_location const& where() const noexcept { return where_; }

    /// Returns the error category "cuda". Its values are those of `cudaError_t`, its messages those
    /// of the runtime.
    [[nodiscard]] static std::error_category const& category() noexcept {
        class cuda_category final : public std::error_category {
            [[nodiscard]] char const* name() const noexcept override { return "cuda"; }
            [[nodiscard]] std::string message(int value) const override {
                auto const status = static_cast<cudaError_t>(value);
                return std::string{cudaGetErrorName(status)} + ": " + cudaGetErrorString(status);
            }
        };
        static cuda_category const only;
        return only;
    }

    /// Reports the error `status` to the error sink, for functions that must not throw, and clears
    /// CUDA's latched error. `p`, `bytes`: the block. If `status` is cudaSuccess, only returns
    /// true.
    static bool report(cudaError_t status, void const* p = nullptr, std::size_t bytes = 0,
                       std::source_location where = std::source_location::current()) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        return report(
            status,
            {.kind = error_kind::platform_error, .pointer = p, .bytes = bytes, .where = where});
    }
    /// Reports the error `status` of the CUDA function `call` to the error sink, and clears CUDA's
    /// latched error. If `status` is cudaSuccess, only returns true.
    static bool report(char const* call, cudaError_t status,
                       std::source_location where = std::source_location::current()) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        return report(status, {.kind = error_kind::platform_error, .where = where, .call = call});
    }
    /// Reports the error `status` to the error sink with all details in `what`, and clears CUDA's
    /// latched error. If `status` is cudaSuccess, only returns true.
    static bool report(cudaError_t status, error what) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        clear(status);
        what.code    = static_cast<int>(status);
        what.text_of = text_of;
        // CUDA returns cudaErrorInvalidValue for an unknown pointer, and for one that was freed
        // before.
        if (what.pointer != nullptr && status == cudaErrorInvalidValue) {
            what.kind   = error_kind::foreign_pointer;
            what.advice = "CUDA has no such block: it was freed before, or another resource "
                          "allocated it. Free each block once, through its resource.";
        }
        report_error(what);
        return false;
    }
    /// Returns the name and the description of an error of the runtime.
    [[nodiscard]] static code_text text_of(int code) noexcept {
        auto const status = static_cast<cudaError_t>(code);
        return {cudaGetErrorName(status), cudaGetErrorString(status)};
    }

    /// Clears the latched error of a failed call, so that the next `cudaGetLastError` of the
    /// program does not attribute it to an unrelated call. An error that cannot be cleared (see
    /// `breaks_context`) remains, and is stored as the failure of the device.
    static void clear(cudaError_t status) noexcept {
        note(status);
        if (status != cudaErrorCudartUnloading) { (void)cudaGetLastError(); }
    }
    /// If `status` means that the context is broken, stores it as the failure of the device: its
    /// consequences, errors of each later call, are then not reported one by one. Clears nothing.
    static void note(cudaError_t status) noexcept {
        if (breaks_context(status)) { note_device_failure(static_cast<int>(status), text_of); }
    }
    /// Returns true for an error after which each call of CUDA returns the same error, until the
    /// process ends: CUDA's documentation says so of these.
    [[nodiscard]] static constexpr bool breaks_context(cudaError_t status) noexcept {
        switch (status) {
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case cudaErrorContained:
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchTimeout:
        case cudaErrorAssert:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorLaunchFailure:
        case cudaErrorTensorMemoryLeak:
        case cudaErrorExternalDevice: return true;
        default: return false;
        }
    }

private:
    cuda_error(cudaError_t status, std::string const& what, std::source_location where)
        : std::system_error{static_cast<int>(status), category(), what}, where_{where} {}

    std::source_location where_;
};

/// Throws unless `status` is cudaSuccess: `out_of_memory` with the numbers `asked` if CUDA has no
/// memory, otherwise `cuda_error`. Clears CUDA's latched error. Cost: one branch.
inline void cuda_check(cudaError_t status, shortage const& asked,
                       std::source_location where = std::source_location::current()) {
    if (status == cudaSuccess) [[likely]] { return; }
    cuda_error::clear(status);
    if (status == cudaErrorMemoryAllocation) { throw out_of_memory{asked}; }
    throw cuda_error{status, where};
}
/// Throws unless `status` is cudaSuccess: an `out_of_memory` without numbers if CUDA has no memory,
/// otherwise `cuda_error`. Clears CUDA's latched error.
inline void cuda_check(cudaError_t          status,
                       std::source_location where = std::source_location::current()) {
    if (status != cudaSuccess) [[unlikely]] { cuda_check(status, shortage{}, where); }
}

/// Converts the status of a query: returns true if all work is complete, false for
/// cudaErrorNotReady, and throws other errors. CUDA does not latch cudaErrorNotReady.
[[nodiscard]] inline bool cuda_done(cudaError_t          status,
                                    std::source_location where = std::source_location::current()) {
    if (status == cudaErrorNotReady) { return false; }
    cuda_check(status, where);
    return true;
}

} // namespace vram
