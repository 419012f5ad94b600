// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `machine` is the base of the tests of `cuda/`: the double of the runtime with a fresh device, or
/// the real device. On the double, a failure can be injected into every call.

#include <vram/cuda/core/over_aligned.hpp> // over_aligned
#include <vram/cuda/cuda_error.hpp>        // cuda_error

#include "../doubles/mishaps.hpp" // mishaps

#ifdef VRAM_CUDART_DOUBLE
#include "../doubles/cudart/cudart.hpp"
#endif

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdint> // uint64_t
#include <new>     // bad_alloc

namespace tests {

/// The first line of a test case: in the end nothing is latched, over-aligned or, on the double,
/// out.
class machine {
public:
#ifdef VRAM_CUDART_DOUBLE
    explicit machine(doubles::cudart::machine_options const& options = {}) {
        doubles::cudart::reset(options);
    }
#else
    machine() { (void)cudaGetLastError(); }
#endif
    machine(machine&&) = delete;
    ~machine() {
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        CHECK(vram::detail::over_aligned::count() == 0);
#ifdef VRAM_CUDART_DOUBLE
        CHECK(doubles::cudart::out() == doubles::cudart::census{});
        CHECK(doubles::cudart::mistakes() == 0);
#endif
    }
};

/// Whether there is a second device; the double has one.
inline bool two_devices() {
    int devices = 0;
    cudaGetDeviceCount(&devices);
    return devices > 1;
}

#ifdef VRAM_CUDART_DOUBLE

/// The errors that a call may meet: no memory, and anything else.
inline constexpr cudaError_t refusals[] = {cudaErrorMemoryAllocation, cudaErrorUnknown};

/// Makes the 1st, 2nd, 3rd... CUDA call of `act` fail, until there are fewer. `act` must either
/// throw and change nothing, or succeed, and `undo` reverts it. No error may stay latched. Returns
/// how many failures made it throw.
template <class Act, class Undo>
unsigned walk_failures(Act act, Undo undo) {
    using namespace doubles;
    unsigned thrown = 0;
    for (cudaError_t const status : refusals) {
        bool struck = true;
        for (std::uint64_t n = 1; struck; ++n) {
            REQUIRE(n < 1000);
            mishaps const told;
            auto const    before = cudart::out();
            bool          threw  = false;
            cudart::fail_nth(n, status);
            try {
                act();
            } catch (std::bad_alloc const&) { threw = true; } catch (vram::cuda_error const& e) {
                threw = true;
                CHECK(e.status() == status);
            }
            struck = cudart::forgive();
            CHECK(cudaPeekAtLastError() == cudaSuccess);
            cudaSetDevice(0); // a guard that fails to restore the device can only report that
            if (!threw) { undo(); }
            thrown += threw ? 1 : 0;
            CHECK((struck || (!threw && told.count() == 0)));
            CHECK(cudart::out() == before);
        }
    }
    return thrown;
}

/// Makes each call of a function fail that must not throw, such as a free: each failure must be
/// reported to the error sink. `make` prepares the object that `act` destroys.
template <class Make, class Act>
void walk_reports(Make make, Act act) {
    using namespace doubles;
    bool struck = true;
    for (std::uint64_t n = 1; struck; ++n) {
        REQUIRE(n < 1000);
        mishaps const told;
        make();
        cudart::fail_nth(n, cudaErrorUnknown);
        act();
        struck = cudart::forgive();
        CHECK((told.count() > 0) == struck);
        cudaSetDevice(0);
        CHECK(cudaPeekAtLastError() == cudaSuccess);
    }
}

#endif

} // namespace tests
