// SPDX-License-Identifier: Apache-2.0
// A retry policy makes room after a refusal: one of the program, and a wait for other processes.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

/// Frees the least recently used entry of a cache, until the request fits or the cache is empty.
class drop_oldest {
public:
    static constexpr unsigned max_tries = 100; // `retrying` calls it at most so many times

    explicit drop_oldest(std::vector<void*>& cache) : cache_{&cache} {}

    template <class R>
    bool operator()(R& memory, failed_attempt const& failed) {
        std::size_t const limit = failed.numbers.limit; // if the refusal was an exception
        if (cache_->empty() || failed.bytes > limit) { return false; } // no room can be made
        memory.deallocate_sync(cache_->front(), entry);
        cache_->erase(cache_->begin());
        return true; // try again
    }

    static constexpr std::size_t entry = 8_MiB;

private:
    std::vector<void*>* cache_;
};
static_assert(retry<drop_oldest, limiting<sim_resource>>);

/// Sleeps in simulated time: a test with the simulated device takes no real time.
struct sleep_in_virtual_time {
    void operator()(std::chrono::nanoseconds how_long) const { sim_work(how_long); }
};

void drop_a_cache() {
    sim_node           node;
    std::vector<void*> cache;
    retrying           memory{limiting{sim_resource{}, 64_MiB}, drop_oldest{cache}};
    for (int i = 0; i < 8; ++i) { cache.push_back(memory.allocate_sync(drop_oldest::entry)); }

    void* const p = memory.allocate_sync(20_MiB); // three entries are dropped for it
    expects(cache.size() == 5, "no more than necessary");
    bool refused = false;
    try {
        (void)memory.allocate_sync(65_MiB);
    } catch (over_limit const&) { refused = true; }
    expects(refused && cache.size() == 5, "a request above the limit drops nothing");

    memory.deallocate_sync(p, 20_MiB);
    for (void* entry : cache) { memory.deallocate_sync(entry, drop_oldest::entry); }
}

void trim_other_pools() {
    sim_node   node{{.capacity = 1_GiB}};
    sim_stream stream;
    pool       other{stream_ordered{sim_resource{}}};
    // [retrying]
    retrying memory{segregated{pool{stream_ordered{sim_resource{}}},
                               pool{stream_ordered{sim_resource{}}}, 1_MiB},
                    trim_upstream{}, // first both pools of this stack return their idle chunks,
                    calling{[&](failed_attempt const&) { // then the program makes room:
                        return other.trim() != 0;        // true: the request is repeated
                    }}};
    // [/retrying]
    other.deallocate(stream, other.allocate(stream, 600_MiB), 600_MiB); // stays reserved
    std::vector<void*> small;
    for (int i = 0; i < 200; ++i) { small.push_back(memory.allocate(stream, 1_MiB)); }
    for (void* each : small) { memory.deallocate(stream, each, 1_MiB); } // stays reserved too

    void* const large = memory.allocate(stream, 900_MiB);
    expects(other.usage().reserved == 0, "both policies were needed");
    memory.deallocate(stream, large, 900_MiB);
}

void wait_for_another_process() {
    sim_node node{{.capacity = 1_GiB}};
    node.take(0, 1_GiB); // another process has allocated all memory

    wait_backoff const in_real_time{1ms, 100ms}; // for a GPU
    static_cast<void>(in_real_time);
    wait_backoff const policy{1ms, 100ms, sleep_in_virtual_time{}};
    retrying           memory{sim_resource{}, policy};
    auto const         start = node.now();
    expects(memory.try_allocate_sync(1_MiB) == nullptr, "eight waits, and a refusal");
    expects(node.now() - start >= 227ms, "1, 2, 4, ... 64, and 100 ms");

    node.give_back(0, 1_GiB);
    memory.deallocate_sync(memory.allocate_sync(1_MiB), 1_MiB);
}

void split_the_work() {
    sim_node    node;
    sim_stream  stream;
    limiting    memory{stream_ordered{sim_resource{}}, 100_MiB};
    sim_range   scratch{};
    std::size_t done = 0;
    // Pieces of whole rows of 4 KiB, of at least 64 rows; twice as large after 3 full ones.
    split_options const options{.granule = 4_KiB, .least = 64 * 4_KiB, .grow_after = 3};
    split_on_oom        split{options};
    split(1_GiB, [&](std::size_t first, std::size_t bytes) {
        buffer piece{memory, stream, bytes}; // throws `out_of_memory`: the piece is halved
        scratch = {piece.data(), bytes};
        sim_launch(stream, {.writes = {scratch}});
        done = first + bytes;
    });
    expects(done == 1_GiB && split.done() == done, "all of the work, in order");
    expects(split.splits() > 4, "the size was doubled at times, and halved again");
}

} // namespace

int main() {
    drop_a_cache();
    trim_other_pools();
    wait_for_another_process();
    split_the_work();
}
