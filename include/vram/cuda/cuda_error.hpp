// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_error` is an error of the CUDA runtime, with its number and its source location.

#include <vram/base/error.hpp>         // report_error
#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage
#include <vram/cuda/core/cuda_exit.hpp>

#include <cuda_runtime_api.h> // cudaError_t

#include <cstddef>
#include <source_location> // source_location
#include <string>          // string
#include <system_error>    // system_error, error_category

namespace vram {

/// The exception for a failed call of CUDA. A lack of memory throws `out_of_memory` instead.
///
///     try { stream.synchronize(); }
///     catch (cuda_error const& e) { if (e.status() == cudaErrorLaunchFailure) ... }
///
/// A kernel's error is returned by a later call of CUDA, and by every call after that.
class cuda_error : public std::system_error {
public:
    /// Makes an exception for the error `status`, which a call of the CUDA runtime returned at
    /// `where`.
    explicit cuda_error(cudaError_t          status,
                        std::source_location where = std::source_location::current())
        : std::system_error{static_cast<int>(status), category()}, where_{where} {}

    /// Returns a copy of this error whose message begins with `what`, such as the name of the
    /// operation.
    [[nodiscard]] cuda_error in(std::string const& what) const { return {status(), what, where_}; }

    /// Returns the status that the failed call returned.
    [[nodiscard]] cudaError_t status() const noexcept {
        return static_cast<cudaError_t>(code().value());
    }
    /// Returns the source location at which the error was found: the call of `cuda_check` or of the
    /// constructor.
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

    /// Returns true if `status` is cudaSuccess. Otherwise reports `status` to the error sink,
    /// clears the error in CUDA (`cudaGetLastError`), and returns false. `p` and `bytes`: address
    /// and size of the block to report.
    static bool report(cudaError_t status, void const* p = nullptr, std::size_t bytes = 0,
                       std::source_location where = std::source_location::current()) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        return report(
            status,
            {.kind = error_kind::platform_error, .pointer = p, .bytes = bytes, .where = where});
    }
    /// Returns true if `status` is cudaSuccess. Otherwise reports `status` to the error sink,
    /// clears the error in CUDA (`cudaGetLastError`), and returns false. `call`: name of the CUDA
    /// function that returned `status`.
    static bool report(char const* call, cudaError_t status,
                       std::source_location where = std::source_location::current()) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        return report(status, {.kind = error_kind::platform_error, .where = where, .call = call});
    }
    /// Returns true if `status` is cudaSuccess. Otherwise reports `status` to the error sink,
    /// clears the error in CUDA (`cudaGetLastError`), and returns false. `what`: the other details
    /// of the report.
    static bool report(cudaError_t status, error what) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        clear(status);
        what.code    = static_cast<int>(status);
        what.text_of = text_of;
        // A free returns cudaErrorInvalidValue if CUDA has no block at the address. The error is
        // then reported as `foreign_pointer`, with a likely cause.
        if (what.pointer != nullptr && status == cudaErrorInvalidValue) {
            what.kind   = error_kind::foreign_pointer;
            what.advice = "CUDA has no such block: it was freed before, or another resource "
                          "allocated it. Free each block once, through its resource.";
        }
        report_error(what);
        return false;
    }
    /// Returns the name and the description of the runtime error with the number `code`.
    [[nodiscard]] static code_text text_of(int code) noexcept {
        auto const status = static_cast<cudaError_t>(code);
        return {cudaGetErrorName(status), cudaGetErrorString(status)};
    }

    /// Clears the error that CUDA keeps after a failed call, so that a later `cudaGetLastError`
    /// does not return it. Also calls `note(status)`, which remembers an error that breaks the
    /// context.
    static void clear(cudaError_t status) noexcept {
        note(status);
        if (status != cudaErrorCudartUnloading) { (void)cudaGetLastError(); }
    }
    /// If `status` means that the context is broken, stores the first such status of the process,
    /// so that `report_error` reports it once. Does not clear CUDA's latched error.
    static void note(cudaError_t status) noexcept {
        if (breaks_context(status)) { note_device_failure(static_cast<int>(status), text_of); }
    }
    /// Returns true if `status` means that the context is broken: later calls of CUDA in the
    /// process fail too, usually with the same error.
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

/// Throws unless `status` is cudaSuccess. First clears the error in CUDA (`cudaGetLastError`).
/// Throws `out_of_memory` for cudaErrorMemoryAllocation, and `cuda_error` for all other errors.
/// `asked`: the numbers that `out_of_memory` contains, such as the requested bytes.
inline void cuda_check(cudaError_t status, shortage const& asked,
                       std::source_location where = std::source_location::current()) {
    if (status == cudaSuccess) [[likely]] { return; }
    cuda_error::clear(status);
    if (status == cudaErrorMemoryAllocation) { throw out_of_memory{asked}; }
    throw cuda_error{status, where};
}
/// Throws unless `status` is cudaSuccess: an `out_of_memory` without numbers for
/// cudaErrorMemoryAllocation, otherwise `cuda_error`. Clears CUDA's latched error before it throws.
inline void cuda_check(cudaError_t          status,
                       std::source_location where = std::source_location::current()) {
    if (status != cudaSuccess) [[unlikely]] { cuda_check(status, shortage{}, where); }
}

/// Converts the status of a query of a stream or an event: true for cudaSuccess, false for
/// cudaErrorNotReady. Throws for any other status.
[[nodiscard]] inline bool cuda_done(cudaError_t          status,
                                    std::source_location where = std::source_location::current()) {
    if (status == cudaErrorNotReady) { return false; }
    cuda_check(status, where);
    return true;
}

} // namespace vram
