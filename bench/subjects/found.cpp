// SPDX-License-Identifier: Apache-2.0
// The available subjects. A peer is a library of its own, so that only it is omitted if it cannot
// be loaded. The build defines its path (VRAM_BENCH_PEER_...) or the reason for its absence
// (VRAM_BENCH_NO_...).

#include "found.hpp"

#include <cli.hpp> // failure

#include <dlfcn.h>

namespace bench {

#if !defined VRAM_BENCH_CUDA
std::string no_cuda() { return "this build found no CUDA Toolkit"; }
std::string cuda_name() { return {}; }
void        add_cuda(found&) {}
#endif

namespace {

void load_peer(found& all, std::string const& name, char const* file, char const* why_not) {
    if (file == nullptr) {
        all.left_out.push_back(name + ": " + why_not);
        return;
    }
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL); // never unloaded
    void* const entry   = library != nullptr ? dlsym(library, "bench_add_peer") : nullptr;
    if (entry == nullptr) {
        char const* const said = dlerror();
        all.left_out.push_back(name + ": " + (said != nullptr ? said : "no entry"));
        return;
    }
    reinterpret_cast<add_peer>(entry)(&all);
}

void load_peers(found& all) {
#if defined VRAM_BENCH_PEER_RMM
    load_peer(all, "RMM", VRAM_BENCH_PEER_RMM, nullptr);
#else
    load_peer(all, "RMM", nullptr, VRAM_BENCH_NO_RMM);
#endif
#if defined VRAM_BENCH_PEER_TORCH
    load_peer(all, "PyTorch", VRAM_BENCH_PEER_TORCH, nullptr);
#else
    load_peer(all, "PyTorch", nullptr, VRAM_BENCH_NO_TORCH);
#endif
}

} // namespace

found find_subjects(std::string const& device) {
    found             all;
    std::string const missing = device == "sim" ? "--device sim" : no_cuda();
    if (device == "cuda" && !missing.empty()) {
        throw cli::failure{cli::bad_usage, "there is no GPU: " + missing};
    }
    add_yardstick(all);
    add_host(all);
    add_mimalloc(all);
    all.gpu = missing.empty();
    if (all.gpu) {
        all.machine = "the GPU (" + cuda_name() + ")";
        add_cuda(all);
        load_peers(all);
    } else {
        all.machine =
            "sim, its own cost kept out: sim_resource hands out addresses and nothing else";
        add_sim(all);
        all.left_out.push_back("the GPU and its allocators: " + missing);
    }
    return all;
}

} // namespace bench
