// SPDX-License-Identifier: Apache-2.0
// An observer of the program: pools notify it of each block and each chunk.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstddef>
#include <functional>
#include <mutex>

using namespace vram;

namespace {

// [log]
/// Counts live blocks and chunks by events, and remembers the line of the largest block.
class block_log {
public:
    template <class Stream>
    void observe(memory_event<Stream> const& e) noexcept {
        std::lock_guard const held{mutex_}; // each thread that uses a pool calls this
        switch (e.kind) {
        case memory_event_kind::allocated:
            blocks.add(e.bytes);
            if (e.bytes > largest) { largest = e.bytes, line = e.at.line(); }
            break;
        case memory_event_kind::freed: blocks.sub(e.bytes); break;
        case memory_event_kind::chunk_added: chunks.add(e.bytes); break;
        case memory_event_kind::chunk_removed: chunks.sub(e.bytes); break;
        default: break;
        }
    }

    counter     blocks, chunks;
    std::size_t largest = 0;
    unsigned    line    = 0;

private:
    std::mutex mutex_;
};
static_assert(observer<block_log, sim_stream_view>);
// [/log]

} // namespace

int main() {
    sim_node   node;
    sim_stream stream;
    block_log  log;
    {
        // [observed]
        auto memory = sim_resource{} | with::stream_ordered | with::observed(std::ref(log)) |
                      with::pool; // resources after `observed` notify the log
        // [/observed]
        static_assert(observed_resource<decltype(memory)>);

        unsigned const line  = static_cast<unsigned>(__LINE__) + 1;
        void* const    large = memory.allocate(stream, 5_MiB);
        void* const    small = memory.allocate(stream, 1000);
        expects(log.blocks.value == 5_MiB + 1000, "sizes as requested");
        expects(static_cast<std::size_t>(log.chunks.value) == memory.usage().reserved, "chunks");
        expects(log.line == line, "the line of the largest block");

        memory.upstream().mark("the end of a step"); // a mark among the events
        memory.deallocate(stream, small, 1000);
        memory.deallocate(stream, large, 5_MiB);
        expects(memory.observer().blocks.value == 0, "the observer, through the stack");
    }
    expects(log.chunks.value == 0, "each chunk was returned");
}
