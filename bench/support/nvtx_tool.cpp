// SPDX-License-Identifier: Apache-2.0
#define NVTX_NO_IMPL // types and numbers alone: this file is the tool
#include "nvtx_tool.hpp"

#include <nvtx3/nvToolsExtCounters.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bench {

namespace {

std::atomic<bool>          takes{true};
std::atomic<std::uint64_t> next{std::uint64_t{1} << 32};

struct ring {
    std::array<std::array<std::byte, 32>, 1024> samples;
    std::size_t                                 taken = 0;
};
thread_local ring ring_of_thread;

std::uint64_t NVTX_API add_layout(nvtxDomainHandle_t, nvtxPayloadSchemaAttr_t const*) {
    return ++next;
}
std::uint64_t NVTX_API add_counters(nvtxDomainHandle_t, nvtxCounterAttr_t const*) {
    return takes.load() ? ++next : 0;
}
void NVTX_API take_sample(nvtxDomainHandle_t, std::uint64_t id, void const* values,
                          std::size_t size) {
    ring& to = ring_of_thread;
    auto& at = to.samples[to.taken++ % to.samples.size()];
    std::memcpy(at.data(), &id, sizeof id);
    std::memcpy(at.data() + sizeof id, values, std::min(size, at.size() - sizeof id));
}

int NVTX_API attach(nvtxExtModuleInfo_t* module) {
    std::intptr_t* const slots = module->segments->functionSlots;
    if (module->moduleId == NVTX_EXT_PAYLOAD_MODULEID) {
        slots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] =
            reinterpret_cast<std::intptr_t>(add_layout);
        return 1;
    }
    if (module->moduleId == NVTX_EXT_COUNTERS_MODULEID) {
        slots[NVTX3EXT_CBID_nvtxCounterRegister] = reinterpret_cast<std::intptr_t>(add_counters);
        slots[NVTX3EXT_CBID_nvtxCounterSample]   = reinterpret_cast<std::intptr_t>(take_sample);
        return 1;
    }
    return 0;
}

} // namespace

void attach_nvtx_tool(bool attached) { takes.store(attached); }

} // namespace bench

// The name that the headers of NVTX look for.
extern "C" {
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = bench::attach;
}
