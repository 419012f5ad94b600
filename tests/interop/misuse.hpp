// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `misuse` uses a stack through a handle of another library with streams of another device, with
/// another current device, and with alignments that are unusual or wrong.

#include "../cuda/machine.hpp"            // two_devices
#include "../doubles/contracts_throw.hpp" // contracts_throw

#include <vram/base/align.hpp>             // is_aligned
#include <vram/base/bytes.hpp>             // literals
#include <vram/cuda/cuda_device.hpp>       // cuda_device
#include <vram/cuda/cuda_device_guard.hpp> // cuda_device_guard
#include <vram/cuda/cuda_stream.hpp>       // cuda_stream

#include <cstddef> // size_t
#include <string>  // string

namespace misuse {

using namespace vram;
using namespace vram::literals;

/// Another device: the memory stays that of device 0. `stack` is the stack, a `pool` over it
/// without live memory; `through` allocates from it.
template <class Through, class Stack>
void other_devices(Through& through, Stack& stack) {
    if (!tests::two_devices()) { return; }
    cuda_stream const here{cuda_device{0}}, there{cuda_device{1}};
    for (int const current : {0, 1}) {
        CAPTURE(current);
        cuda_device_guard const on{cuda_device{current}};
        for (cuda_stream const* first : {&here, &there}) {
            for (cuda_stream const* second : {&there, &here}) {
                void* const p = through.allocate(*first, 1000);
                CHECK(stack.owns(p));
                through.deallocate(*second, p, 1000); // ordered by the caller, if it used `p`
                void* const q = through.allocate_sync(3000);
                CHECK(stack.owns(q));
                through.deallocate_sync(q, 3000);
            }
        }
        CHECK(cuda_device::current() == cuda_device{current});
    }
    CHECK(stack.usage().live == 0);
}

/// Large alignments work; one that is not a power of two is a broken contract, with a sentence.
template <class Through>
void alignments(Through& through) {
    cuda_stream const s;
    for (std::size_t const large : {1_KiB, 64_KiB, 4_MiB}) {
        void* const p = through.allocate(s, 100, large);
        CHECK(is_aligned(p, large));
        through.deallocate(s, p, 100, large);
        void* const q = through.allocate_sync(100, large);
        CHECK(is_aligned(q, large));
        through.deallocate_sync(q, 100, large);
    }
    doubles::contracts_throw const on;
    for (std::size_t const wrong : {std::size_t{0}, std::size_t{3}, std::size_t{768}}) {
        CAPTURE(wrong);
        try {
            (void)through.allocate(s, 100, wrong);
            FAIL("it is no alignment");
        } catch (doubles::broken_contract const& e) {
            CHECK(e.what.find("must be a power of two") != e.what.npos);
        }
    }
}

} // namespace misuse
