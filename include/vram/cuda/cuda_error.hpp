// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_error` is a refusal of the CUDA runtime, with its number and the place that met it.

#include <vram/base/error.hpp>         // report_error
#include <vram/base/out_of_memory.hpp> // out_of_memory, shortage
#include <vram/cuda/cuda_exit.hpp>     // cuda_exit

#include <cuda_runtime_api.h> // cudaError_t

#include <cstddef>         // size_t
#include <source_location> // source_location
#include <string>          // string
#include <system_error>    // system_error, error_category

namespace vram {

/// What the CUDA parts throw, but for memory that is not there: that is `out_of_memory` on every
/// platform.
///
///     try { stream.synchronize(); } catch (cuda_error const& e) { if (e.status() ==
///     cudaErrorLaunchFailure) ... }
///
/// An error that a kernel made shows at whatever call comes next; CUDA keeps such an error and
/// returns it for ever.
class cuda_error : public std::system_error {
public:
    explicit cuda_error(cudaError_t          status,
                        std::source_location where = std::source_location::current())
        : std::system_error{static_cast<int>(status), category()}, where_{where} {}

    /// The same, with what it was that failed before its text.
    [[nodiscard]] cuda_error in(std::string const& what) const { return {status(), what, where_}; }

    [[nodiscard]] cudaError_t status() const noexcept {
        return static_cast<cudaError_t>(code().value());
    }
    [[nodiscard]] std::source_location const& where() const noexcept { return where_; }

    /// The category "cuda": values are those of `cudaError_t`, messages those of the runtime.
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

    /// Tells the error sink, where nothing may be thrown, and clears what CUDA latched. Returns
    /// whether all was well.
    static bool report(cudaError_t status, void const* p = nullptr, std::size_t bytes = 0,
                       std::source_location where = std::source_location::current()) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        return report(
            status,
            {.kind = error_kind::platform_error, .pointer = p, .bytes = bytes, .where = where});
    }
    /// The same for a failed `call`.
    static bool report(char const* call, cudaError_t status,
                       std::source_location where = std::source_location::current()) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        return report(status, {.kind = error_kind::platform_error, .where = where, .call = call});
    }
    /// The same with all that is known; `what.call` is the call that failed.
    static bool report(cudaError_t status, error what) noexcept {
        if (status == cudaSuccess) [[likely]] { return true; }
        clear(status);
        what.code    = static_cast<int>(status);
        what.text_of = text_of;
        // A pointer that CUDA does not know has this number, and so has one that was freed before.
        if (what.pointer != nullptr && status == cudaErrorInvalidValue) {
            what.kind   = error_kind::foreign_pointer;
            what.advice = "CUDA knows no such block: it was freed before, or another resource "
                          "allocated it. Free each block once, through its resource.";
        }
        report_error(what);
        return false;
    }
    /// The name and the description of an error of the runtime.
    [[nodiscard]] static code_text text_of(int code) noexcept {
        auto const status = static_cast<cudaError_t>(code);
        return {cudaGetErrorName(status), cudaGetErrorString(status)};
    }

    /// A failed call leaves its error latched, and the next `cudaGetLastError` of the program would
    /// blame whatever was called there. What cannot be cleared (a broken context) stays.
    static void clear(cudaError_t status) noexcept {
        if (status != cudaErrorCudartUnloading) { (void)cudaGetLastError(); }
    }

private:
    cuda_error(cudaError_t status, std::string const& what, std::source_location where)
        : std::system_error{static_cast<int>(status), category(), what}, where_{where} {}

    std::source_location where_;
};

/// Throws unless `status` is success: `out_of_memory` with the numbers in `asked` when CUDA has no
/// memory, else `cuda_error`. Nothing stays latched. Cost: one branch.
inline void cuda_check(cudaError_t status, shortage const& asked,
                       std::source_location where = std::source_location::current()) {
    if (status == cudaSuccess) [[likely]] { return; }
    cuda_error::clear(status);
    if (status == cudaErrorMemoryAllocation) { throw out_of_memory{asked}; }
    throw cuda_error{status, where};
}
inline void cuda_check(cudaError_t          status,
                       std::source_location where = std::source_location::current()) {
    if (status != cudaSuccess) [[unlikely]] { cuda_check(status, shortage{}, where); }
}

/// What a query answered: whether all is done. CUDA does not latch that it is not.
[[nodiscard]] inline bool cuda_done(cudaError_t          status,
                                    std::source_location where = std::source_location::current()) {
    if (status == cudaErrorNotReady) { return false; }
    cuda_check(status, where);
    return true;
}

} // namespace vram
