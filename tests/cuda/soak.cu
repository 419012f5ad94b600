// SPDX-License-Identifier: Apache-2.0
// The pools on a GPU under a long random load: kernels write every block after its allocation and
// check it before its free, on eight streams, with blocks handed from one stream to another. Wrong
// words are counted on the device and read once, at the end.
//
//   VRAM_SOAK_SECONDS   for each pool: 2 if it is not set, 60 for a long run, 0.1 under a tool that
//                       makes kernels slow; below 1 there is less live memory as well
//   VRAM_SOAK_SEED      seed of the load; random by default. It is printed

#include <vram/cuda/cuda.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>

#include "../laws/soak.hpp"
#include "machine.hpp"

#include <algorithm> // min
#include <cstdio>    // printf
#include <cstdlib>   // getenv, strtod
#include <random>    // random_device

using namespace vram;

namespace {

using soak_upstream = stream_ordered<cuda_resource>;

__global__ void soak_write(std::uint64_t* to, std::size_t words, std::uint64_t number) {
    std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step) {
        to[i] = number << 32 | i; // laws::soak_word, which is the host's
    }
}

__global__ void soak_check(std::uint64_t const* from, std::size_t words, std::uint64_t number,
                           laws::soak_wrongs* wrongs) {
    std::size_t const  step  = std::size_t{gridDim.x} * blockDim.x;
    unsigned long long wrong = 0;
    std::size_t        place = 0;
    for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step) {
        std::uint64_t const found = from[i];
        if (found == (number << 32 | i)) { continue; }
        ++wrong;
        place         = i;
        wrongs->found = found; // any wrong word is good enough for the report
    }
    if (wrong == 0) { return; }
    wrongs->number = number;
    wrongs->place  = place;
    atomicAdd(reinterpret_cast<unsigned long long*>(&wrongs->words), wrong);
}

__global__ void soak_dawdle(std::size_t length) {
    for (std::size_t i = 0; i < length; ++i) { __nanosleep(100'000); }
}

/// Launches the kernels and counts wrong words.
class cuda_painter {
public:
    cuda_painter()
        : wrongs_{static_cast<laws::soak_wrongs*>(memory_.allocate_sync(sizeof *wrongs_))} {
        cuda_fill(side_, wrongs_, std::byte{0}, sizeof *wrongs_);
        side_.synchronize();
    }
    cuda_painter(cuda_painter&&) = delete;
    ~cuda_painter() { memory_.deallocate_sync(wrongs_, sizeof *wrongs_); }

    void write(cuda_stream_view s, void* p, std::size_t bytes, std::uint64_t number) {
        soak_write<<<grid(bytes), threads, 0, s.get()>>>(static_cast<std::uint64_t*>(p), bytes / 8,
                                                         number);
        cuda_check(cudaGetLastError());
    }
    void check(cuda_stream_view s, void const* p, std::size_t bytes, std::uint64_t number) {
        soak_check<<<grid(bytes), threads, 0, s.get()>>>(static_cast<std::uint64_t const*>(p),
                                                         bytes / 8, number, wrongs_);
        cuda_check(cudaGetLastError());
    }
    void dawdle(cuda_stream_view s, std::size_t length) {
        soak_dawdle<<<1, 1, 0, s.get()>>>(length);
        cuda_check(cudaGetLastError());
    }
    /// The streams are done.
    [[nodiscard]] laws::soak_wrongs wrongs() {
        laws::soak_wrongs seen{~0ULL};
        cuda_copy(side_, &seen, wrongs_, sizeof seen);
        side_.synchronize();
        return seen;
    }

private:
    static constexpr unsigned threads = 256;

    static unsigned grid(std::size_t bytes) {
        return static_cast<unsigned>(std::min<std::size_t>(bytes / 8 / threads + 1, 128));
    }

    cuda_resource      memory_;
    cuda_stream        side_;
    laws::soak_wrongs* wrongs_;
};

double soak_seconds() {
    char const* const said = std::getenv("VRAM_SOAK_SECONDS");
    double const      n    = said != nullptr ? std::strtod(said, nullptr) : 2;
    return n > 0 ? n : 0.01;
}

laws::soak_options soak_load() {
    static char const* const   said = std::getenv("VRAM_SOAK_SEED");
    static std::uint64_t const seed =
        said != nullptr ? std::strtoull(said, nullptr, 10) : std::random_device{}();
    double const       seconds = soak_seconds();
    laws::soak_options o{.seed = seed};
    o.time = std::chrono::milliseconds{static_cast<long>(seconds * 1000)};
    o.live = std::min(o.live, cuda_platform::memory(cuda_device::current()).free / 8);
    if (seconds < 1) {
        o.live = static_cast<std::size_t>(static_cast<double>(o.live) * seconds);
        o.most = std::min(o.most, o.live / 8);
    }
    return o;
}

/// Returns the wrong words of a load on `memory`.
template <class Memory>
laws::soak_wrongs soak_through(char const* name, Memory& memory, laws::soak_options const& o) {
    doubles::mishaps const   told;
    cuda_painter             painter;
    laws::soak_figures const did    = laws::soak{memory, painter, o}.run();
    laws::soak_wrongs const  found  = painter.wrongs();
    memory_usage const       in_end = memory.usage();
    std::printf(
        "soak: %s, seed %llu: %llu blocks (%s), %llu handed over, %llu waits, %llu calls "
        "of the upstream, at most %s held; %llu words wrong\n",
        name, static_cast<unsigned long long>(o.seed), static_cast<unsigned long long>(did.blocks),
        bytes{did.bytes}.text().c_str(), static_cast<unsigned long long>(did.handed),
        static_cast<unsigned long long>(in_end.waits),
        static_cast<unsigned long long>(in_end.upstream),
        bytes{in_end.peak_reserved}.text().c_str(), static_cast<unsigned long long>(found.words));
    if (found.words != 0) {
        std::printf("soak: word %llu of block %llu was word %llu of block %llu\n",
                    static_cast<unsigned long long>(found.place),
                    static_cast<unsigned long long>(found.number),
                    static_cast<unsigned long long>(found.found & 0xFFFFFFFFU),
                    static_cast<unsigned long long>(found.found >> 32));
    }
    std::fflush(stdout);
    CHECK(did.blocks != 0);
    CHECK(in_end.live == 0);
    memory.trim();
    CHECK(memory.usage().reserved == 0);
    CHECK(told.count() == 0);
    return found;
}

template <class Memory>
void soaks_well(char const* name, Memory memory, laws::soak_options const& o = soak_load()) {
    CHECK(soak_through(name, memory, o).words == 0);
}

/// Runs a load with an injected flaw, in memory with a fixed position.
void soak_notices(char const* flaw, laws::soak_flaw what) {
    laws::soak_options o   = soak_load();
    o.time                 = std::chrono::milliseconds{200};
    o.most                 = std::min(o.most, 4_MiB);
    o.live                 = std::min(o.live, 512_MiB);
    o.flaw                 = what;
    std::size_t const room = align(2 * o.live, 2_MiB);
    pool       memory{soak_upstream{cuda_resource{}}, {.initial_size = room, .max_size = room}};
    auto const words = soak_through(flaw, memory, o).words;
    if (soak_seconds() < 1) { // a tool may let kernels run one after the other only
        WARN(words != 0);
    } else {
        CHECK(words != 0);
    }
}

laws::soak_options soak_with_threads(unsigned threads) {
    laws::soak_options o = soak_load();
    o.threads            = threads;
    return o;
}

} // namespace

TEST_CASE("soak on a GPU: pool") {
    tests::machine const here;
    soaks_well("pool", pool<soak_upstream>{});
    soaks_well("pool, four threads", pool<soak_upstream>{}, soak_with_threads(4));
}

TEST_CASE("soak on a GPU: pool in place") {
    tests::machine const here;
    soaks_well("pool in place", pool<virtual_resource>{});
    soaks_well("pool in place, four threads", pool<virtual_resource>{}, soak_with_threads(4));
}

TEST_CASE("soak on a GPU: pool whose pages have two addresses") {
    tests::machine const here;
    auto const make = [] { return pool{virtual_resource{{.handle_size = 2_MiB}}, {.slack = 0}}; };
    soaks_well("pool whose pages have two addresses", make());
    soaks_well("pool whose pages have two addresses, four threads", make(), soak_with_threads(4));
}

TEST_CASE("soak on a GPU: pool that moves pages") {
    tests::machine const here;
    auto const           make = [] {
        return pool{virtual_resource{{.handle_size = 2_MiB}}, {.remap = true}};
    };
    soaks_well("pool that moves pages", make());
    soaks_well("pool that moves pages, four threads", make(), soak_with_threads(4));
}

TEST_CASE("soak on a GPU: arena") {
    tests::machine const here;
    soaks_well("arena by thread, four threads", arena<pool<soak_upstream>>{}, soak_with_threads(4));
    soaks_well("arena by stream, four threads",
               arena<pool<soak_upstream>>{{.key = arena_key::stream}}, soak_with_threads(4));
}

TEST_CASE("soak on a GPU: slab") {
    tests::machine const here;
    laws::soak_options   o = soak_load();
    o.most                 = std::min(o.most, 1_MiB);
    soaks_well("slab", slab<soak_upstream>{1_MiB}, o);
    o.threads = 4;
    soaks_well("slab, four threads", slab<soak_upstream>{1_MiB}, o);
}

TEST_CASE("soak on a GPU: binned") {
    tests::machine const here;
    binned_options const o{.largest = 8_MiB};
    soaks_well("binned over a pool", binned<pool<soak_upstream>>{o});
    soaks_well("binned over a pool, four threads", binned<pool<soak_upstream>>{o},
               soak_with_threads(4));
}

TEST_CASE("soak on a GPU: monotonic") {
    tests::machine const here;
    soaks_well("monotonic", monotonic<soak_upstream>{});
}

TEST_CASE("soak on a GPU: memory that is reused too early is detected") {
    tests::machine const here;
    soak_notices("a pool that is told of one stream", laws::soak_flaw::one_stream);
}

TEST_CASE("soak on a GPU: a block that another stream uses without a wait is detected") {
    tests::machine const here;
    soak_notices("a hand-over without a wait", laws::soak_flaw::no_wait);
}
