// SPDX-License-Identifier: Apache-2.0
// The benchmark of other libraries on a stack: Thrust's sort and CUB's sum, with their calls of
// CUDA that allocate counted, and RMM's vectors.

#include "support/library_work.hpp"
#include "support/options.hpp"
#include "support/results.hpp"
#include "support/verdicts.hpp"

#include <output_file.hpp>

#if defined VRAM_BENCH_NVCC
#include "support/machine.hpp"

#include <dlfcn.h>
#endif

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

using namespace bench;

namespace {

struct named {
    std::string name;
};
struct origin : named {
    storage     from;
    std::string about;
};
struct work_case : named {
    std::size_t keys; ///< 0: vectors of RMM
    bool        sorts;
};

constexpr std::size_t large = std::size_t{1} << 26, small_number = std::size_t{1} << 16;
char const            ours[] = "pool<stream_ordered<cuda_resource>>", driver[] = "cudaMallocAsync",
           library[] = "its own";

std::vector<origin> origins() {
    return {{{ours}, storage::vram, "a stack of vram"},
            {{driver}, storage::driver, "a pool of the driver that keeps freed memory"},
            {{"cudaMallocAsync(default)"}, storage::driver_plain, "a wait releases freed memory"},
            {{library}, storage::library, "Thrust's own way; cudaMalloc for CUB"}};
}

std::vector<work_case> cases() {
    return {{{"thrust_sort_2^16"}, small_number, true},
            {{"thrust_sort_2^26"}, large, true},
            {{"cub_sum_2^16"}, small_number, false},
            {{"cub_sum_2^26"}, large, false},
            {{"rmm_uvector_churn"}, 0, false}};
}

#if defined VRAM_BENCH_NVCC

/// Measures one turn: the time until the work is complete, and the counted calls.
figures turn_of(library_work& work, work_case const& c, storage from, std::size_t times) {
    auto const  run = [&] { c.sorts ? work.sort(from) : work.reduce(from); };
    double      ns  = 0;
    call_counts calls{};
    for (std::size_t i = 0; i != times + 2; ++i) { // the first two are the warm-up
        if (c.sorts || i == 0) { work.shuffle(); }
        work.wait();
        call_counts const before = counted_calls();
        auto const        start  = bench::clock::now();
        run();
        work.wait();
        double const took = ns_since(start);
        if (i < 2) { continue; }
        call_counts const after = counted_calls();
        ns += took;
        calls.allocations += after.allocations - before.allocations;
        calls.frees += after.frees - before.frees;
    }
    if (!(c.sorts ? work.is_sorted() : work.is_sum())) {
        throw cli::failure{cli::wrong_result, c.name + ": the result differs from the host's"};
    }
    auto const each = static_cast<double>(times);
    return {{"ns_per_call", ns / each, "ns"},
            {"allocation_calls", static_cast<double>(calls.allocations) / each, "count"},
            {"free_calls", static_cast<double>(calls.frees) / each, "count"}};
}

/// Returns the subjects of RMM's vectors, or the reason for their absence in `why`.
std::vector<vector_subject> vector_subjects(std::string& why) {
    std::vector<vector_subject> all;
#if defined VRAM_BENCH_PEER_RMM_VECTORS
    void* const at    = dlopen(VRAM_BENCH_PEER_RMM_VECTORS, RTLD_NOW | RTLD_LOCAL);
    void* const entry = at != nullptr ? dlsym(at, "bench_add_vectors") : nullptr;
    if (entry == nullptr) {
        char const* const said = dlerror();
        why                    = said != nullptr ? said : "no entry";
        return all;
    }
    reinterpret_cast<add_vectors>(entry)(&all);
#else
    why = VRAM_BENCH_NO_RMM_VECTORS;
#endif
    return all;
}

void vectors(options const& o, work_case const& c, results& r) {
    std::string                 why;
    std::vector<vector_subject> all = vector_subjects(why);
    if (!why.empty()) {
        fmt::print("left out: {}: {}\n", c.name, why);
        return;
    }
    std::size_t const operations = o.quick ? 1000 : 100'000;
    for (unsigned turn = 0; turn != o.turns(); ++turn) {
        for (vector_subject const& each : all) {
            r.add(c.name, each.name, {{"ns_per_call", each.churn(1000, operations), "ns"}});
        }
    }
    for (vector_subject const& each : all) {
        fmt::print("{:<20}{:<38}{:>14.3f}  {}\n", c.name, each.name,
                   *r.value(c.name, each.name, "ns_per_call") / 1e3, each.about);
    }
}

void algorithm(options const& o, work_case const& c, std::vector<origin> const& from, results& r) {
    library_work      work{c.keys};
    std::size_t const times = o.quick ? 2 : c.keys == large ? 10 : 500;
    for (unsigned turn = 0; turn != o.turns(); ++turn) { // subjects take turns
        for (origin const& each : from) {
            r.add(c.name, each.name, turn_of(work, c, each.from, times));
        }
    }
    for (origin const& each : from) {
        fmt::print("{:<20}{:<38}{:>14.3f}{:>14.3f}{:>8.3f}  {}\n", c.name, each.name,
                   *r.value(c.name, each.name, "ns_per_call") / 1e3,
                   *r.value(c.name, each.name, "allocation_calls"),
                   *r.value(c.name, each.name, "free_calls"), each.about);
    }
}

/// Compares the figures of a case with its bars.
void judge(work_case const& c, results const& r, verdicts& v) {
    auto const value = [&](char const* subject, char const* metric) {
        return r.value(c.name, subject, metric);
    };
    auto const time = [&](char const* subject) { return value(subject, "ns_per_call"); };
    auto const over = [&](std::optional<double> a, std::optional<double> b) {
        return a && b ? std::optional{*a / *b} : std::nullopt;
    };
    v.at_most(c.name, ours, "calls that allocate from CUDA", value(ours, "allocation_calls"), 0);
    v.at_most(c.name, ours, "calls that free memory of CUDA", value(ours, "free_calls"), 0);
    v.at_least(c.name, library, "calls that allocate (the count works)",
               value(library, "allocation_calls"), 1);
    v.at_most(c.name, ours, "time over that of cudaMallocAsync", over(time(ours), time(driver)),
              c.keys == large ? 1.02 : 0.9);
    if (c.sorts && c.keys != large) {
        v.at_least(c.name, ours, "time of Thrust's own way over it",
                   over(time(library), time(ours)), 2);
    }
}

int measure(options const& o, std::vector<work_case> const& chosen_cases,
            std::vector<origin> const& from) {
    cli::output_file  json{o.json};
    std::string const missing = on_cuda::missing();
    if (!missing.empty()) { throw cli::failure{cli::bad_usage, "there is no GPU: " + missing}; }
    results  r{"interop"};
    verdicts v;
    fmt::print("{}, medians of {} turns\n\n{:<20}{:<38}{:>14}{:>14}{:>8}\n", on_cuda::name(),
               o.turns(), "case", "memory", "us for a call", "allocations", "frees");
    for (work_case const& c : chosen_cases) {
        if (c.keys == 0) {
            vectors(o, c, r);
        } else {
            algorithm(o, c, from, r);
            judge(c, r, v);
        }
    }
    v.print();
    json.write(r.rows().dump(1) + "\n");
    return o.check && v.missed() != 0 ? cli::failed : cli::success;
}

#else

int measure(options const&, std::vector<work_case> const&, std::vector<origin> const&) {
    throw cli::failure{cli::bad_usage, "this build has no nvcc: nothing can be measured"};
}

#endif

int run(options const& o) {
    auto const which = chosen(cases(), o.cases, "case");
    auto const from  = chosen(origins(), o.subjects, "subject");
    if (o.list) {
        for (origin const& each : origins()) { fmt::print("{:<38}{}\n", each.name, each.about); }
        for (work_case const& each : cases()) { fmt::print("{}\n", each.name); }
        return cli::success;
    }
    if (o.device == "sim") {
        throw cli::failure{
            cli::bad_usage,
            "there is no GPU: the simulated device runs no kernels of Thrust or CUB"};
    }
    return measure(o, which, from);
}

} // namespace

#if defined VRAM_BENCH_NVCC

namespace bench {
namespace {
std::atomic<std::uint64_t> allocations{0}, frees{0};
} // namespace
call_counts counted_calls() noexcept { return {allocations.load(), frees.load()}; }
} // namespace bench

// The linker redirects each call of a function NAME to __wrap_NAME, and __real_NAME to NAME.
#define VRAM_COUNT(counter, name, parameters, arguments)                                           \
    extern "C" cudaError_t __real_##name parameters;                                               \
    extern "C" cudaError_t __wrap_##name parameters;                                               \
    extern "C" cudaError_t __wrap_##name parameters {                                              \
        ++bench::counter;                                                                          \
        return __real_##name arguments;                                                            \
    }
VRAM_COUNT(allocations, cudaMalloc, (void** p, std::size_t n), (p, n))
VRAM_COUNT(allocations, cudaMallocAsync, (void** p, std::size_t n, cudaStream_t s), (p, n, s))
VRAM_COUNT(allocations, cudaMallocFromPoolAsync,
           (void** p, std::size_t n, cudaMemPool_t pool, cudaStream_t s), (p, n, pool, s))
VRAM_COUNT(allocations, cudaMallocManaged, (void** p, std::size_t n, unsigned flags), (p, n, flags))
VRAM_COUNT(allocations, cudaMallocHost, (void** p, std::size_t n), (p, n))
VRAM_COUNT(allocations, cudaHostAlloc, (void** p, std::size_t n, unsigned flags), (p, n, flags))
VRAM_COUNT(frees, cudaFree, (void* p), (p))
VRAM_COUNT(frees, cudaFreeAsync, (void* p, cudaStream_t s), (p, s))
VRAM_COUNT(frees, cudaFreeHost, (void* p), (p))
#undef VRAM_COUNT

#endif

int main(int argc, char** argv) {
    options  o;
    CLI::App app{"Other libraries on a stack: Thrust's sort, CUB's sum, and RMM's vectors.",
                 "interop"};
    add_options(app, o);
    return cli::run(app, argc, argv, [&] { return run(o); });
}
