// SPDX-License-Identifier: Apache-2.0
// One small load on every pool: the reserved memory, the time
// for a block, the number of waits between streams, and the use of each pool.

#include "machine.hpp"

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>

#include <chrono>
#include <random>
#include <vector>

using namespace vram;

namespace {

constexpr std::size_t largest = 512_KiB;
constexpr std::size_t blocks  = 256; // live blocks of a stream at the same time

struct figures {
    double        held  = 0; // peak reserved over the peak of live bytes
    double        ns    = 0; // host time for one block, allocated and freed
    std::uint64_t waits = 0;
};

/// Steps on two streams. In each step a stream allocates blocks, frees the first half of them,
/// allocates as many again, and frees all of them.
template <class Platform, class Memory>
figures run(Memory& memory, typename Platform::own_stream const (&streams)[2]) {
    using clock = std::chrono::steady_clock;
    struct piece {
        void*       p;
        std::size_t bytes;
    };
    constexpr bool     step_by_step = requires { memory.reset_sync(); };
    std::mt19937       random{1};
    std::vector<piece> out;
    clock::duration    spent{};
    std::size_t        pairs = 0, live = 0, most = 0;

    auto const take = [&](auto s) {
        std::size_t const from  = out.size();
        auto const        begin = clock::now();
        for (std::size_t i = 0; i < blocks / 2; ++i) {
            std::size_t const bytes = 1 + random() % largest;
            out.push_back({memory.allocate(s, bytes), bytes});
        }
        spent += clock::now() - begin;
        for (std::size_t i = from; i < out.size(); ++i) {
            Platform::fill(s, out[i].p, std::byte{1}, out[i].bytes); // the work
            live += out[i].bytes;
        }
        pairs += out.size() - from;
        most = live > most ? live : most;
    };
    auto const give = [&](auto s) {
        for (std::size_t i = 0; i < blocks / 2; ++i) { live -= out[i].bytes; }
        auto const begin = clock::now();
        for (std::size_t i = 0; i < blocks / 2 && !step_by_step; ++i) {
            memory.deallocate(s, out[i].p, out[i].bytes);
        }
        spent += clock::now() - begin;
        out.erase(out.begin(), out.begin() + blocks / 2);
    };
    for (int step = 0; step < 100; ++step) {
        for (auto const& owner : streams) {
            auto const s = owner.view();
            take(s), take(s), give(s), take(s), give(s), give(s);
        }
        if constexpr (step_by_step) { memory.reset_sync(); }
    }
    memory_usage const u = memory.usage();
    expects(u.live == 0 && live == 0, "all of it is back");
    auto const ns = std::chrono::duration<double, std::nano>{spent}.count();
    return {static_cast<double>(u.peak_reserved) / static_cast<double>(most),
            ns / static_cast<double>(pairs), u.waits};
}

template <class Machine>
int compare(Machine& machine) {
    using platform = typename Machine::platform;
    using plain    = stream_ordered<typename Machine::resource>;
    using owner    = typename platform::own_stream;
    owner const streams[2]{owner{}, owner{}};

    fmt::print("{}\n{:<16}{:>16}{:>8}{:>8}  take it for\n", machine.name(), "", "reserved / live",
               "ns", "waits");
    auto const show = [&](char const* name, char const* what_for, auto memory) {
        figures const f = run<platform>(memory, streams);
        fmt::print("{:<16}{:>16.2f}{:>8.0f}{:>8}  {}\n", name, f.held, f.ns, f.waits, what_for);
        return f;
    };
    // [pools]
    auto const any   = show("pool", "anything", pool<plain>{});
    auto const place = show("pool, in place", "large blocks of many sizes, scarce memory",
                            pool<typename Machine::virtual_resource>{});
    auto const own   = show("arena", "streams, or threads, that allocate all the time",
                            arena<pool<plain>>{{.key = arena_key::stream}});
    auto const tiles = show("slab", "blocks of one size", slab<plain>{largest});
    auto const sizes = show("binned", "small blocks of few sizes", binned<plain>{});
    auto const step  = show("monotonic", "blocks that end together", monotonic<plain>{});
    // [/pools]
    expects(any.held < 1.25 && place.held < 1.25, "a pool reserves little more than is live");
    expects(own.waits == 0, "arena: no stream waits for another");
    expects(own.held > 2, "arena: both streams have memory of their own");
    expects(tiles.held > any.held, "slab: the smallest block has a whole one");
    expects(sizes.held > any.held, "binned: every size has chunks of its own");
    expects(step.held > 3, "monotonic: a step does not reuse its own frees");
    return 0;
}

} // namespace

int main(int argc, char** argv) {
    std::string device = "auto";
    CLI::App    app{"One small load on every pool.", "choose_a_pool"};
    add_device(app, device);
    return cli::run(app, argc, argv, [&] {
        return on_machine(device, {.backed = false}, [](auto& m) { return compare(m); });
    });
}
