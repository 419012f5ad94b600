// SPDX-License-Identifier: Apache-2.0
// A program that leaks: found by a scope, by the figures of the pool, and by the error sink.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>

using namespace vram;

namespace {

using stack = statistics<pool<stream_ordered<sim_resource>>>; // on a GPU: cuda_resource

void* serve(stack& memory, sim_stream_view stream) {
    void* const request = memory.allocate(stream, 1_MiB);
    void* const answer  = memory.allocate(stream, 2_MiB);
    memory.deallocate(stream, request, 1_MiB);
    return answer;
}

std::size_t leaks = 0, leaked = 0;

} // namespace

int main() {
    sim_node node;
    // [sink]
    set_error_sink([](error const& e) noexcept { // called for errors that cannot be thrown
        if (e.kind == error_kind::leak) { ++leaks, leaked = e.bytes; }
        print_error(e);
    });
    // [/sink]
    stack      memory;
    sim_stream stream;
    void*      answer = nullptr;
    // [scope]
    {
        leak_check const watch{memory}; // reports at the end of the scope, with this line
        answer = serve(memory, stream);
    }
    expects(leaks == 1 && leaked == 2_MiB, "the sink got the bytes");

    memory_delta probe{memory};
    void* const  second = serve(memory, stream);
    std::printf("%zu bytes in %llu blocks are live\n", probe.bytes(),
                static_cast<unsigned long long>(probe.counted().blocks.value));
    // [/scope]
    error_count const errors; // errors that the sink receives from here on
    std::fputs(report(memory).c_str(), stdout);

    memory.deallocate(stream, answer, 2_MiB);
    memory.deallocate(stream, second, 2_MiB);
    expects(memory.usage().live == 0, "nothing is left");
    expects(errors.count() == 0, errors.first());
}
