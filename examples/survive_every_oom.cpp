// SPDX-License-Identifier: Apache-2.0
// Each allocation of a function is refused once: a leak on the path of the error is found, with
// both lines.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>

using namespace vram;

namespace {

// [bug]
/// Returns a checksum. If the second allocation is refused, the first block leaks.
int blend(auto& memory, sim_stream_view stream) {
    void* const one = memory.allocate(stream, 4_MiB);
    void* const two = memory.allocate(stream, 1_MiB);
    // ... the work
    memory.deallocate(stream, two, 1_MiB);
    memory.deallocate(stream, one, 4_MiB);
    return 42;
}
// [/bug]

/// The same work; its memory is freed however the function ends.
int blend_safely(auto& memory, sim_stream_view stream) {
    buffer const one{memory, stream, 4_MiB}, two{memory, stream, 1_MiB};
    return 42;
}

} // namespace

int main() {
    sim_stream stream;
    // [survive]
    pool<stream_ordered<sim_resource>> memory; // on a GPU: cuda_resource

    oom_survival const bad = survives_oom(memory, [&](auto& mr) { return blend(mr, stream); });
    std::puts(bad.text().c_str());
    expects(bad.fault == oom_fault::leak && bad.refused == 2, "the second allocation");

    expects(bool{survives_oom(memory, [&](auto& mr) { return blend_safely(mr, stream); })},
            "correct for each refusal");
    // [/survive]

    // [chunks]
    auto stack = sim_resource{} | with::stream_ordered | with::refusing | with::pool;
    expects(bool{survives_oom(stack, [&] { return blend_safely(stack, stream); })},
            "each chunk of the pool is refused");
    // [/chunks]

    // [only]
    survives_oom_options const repeat{.only = bad.refused}; // for a debugger
    expects(!survives_oom(memory, [&](auto& mr) { return blend(mr, stream); }, repeat), "again");
    // [/only]
    set_error_sink([](error const&) noexcept {}); // the pool reports the leaks at its end
}
