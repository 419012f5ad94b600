// SPDX-License-Identifier: Apache-2.0
#define NVTX_NO_IMPL // types and numbers alone: this file is the tool
#include "tool.hpp"

#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtMem.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace doubles {

namespace {

nvtx_tool the_tool;

/// Prints a summary at the end of the process if the tool is a library.
struct summary {
    ~summary() {
        if (std::getenv("VRAM_NVTX_SUMMARY") == nullptr) { return; }
        for (std::string const& each : the_tool.wrong) { std::printf("wrong: %s\n", each.c_str()); }
        std::printf("groups %zu, heaps %zu, regions %zu, wrong %zu\n", the_tool.groups.size(),
                    the_tool.heaps.size(), the_tool.regions(), the_tool.wrong.size());
    }
} const at_the_end;

std::uint64_t next_number = std::uint64_t{1} << 32; // of layouts, groups and ranges

/// Holds the mutex during a call, and counts it.
class call {
public:
    explicit call(char const* name) : name_{name}, held_{the_tool.mutex} { ++the_tool.calls; }

    void require(bool right, char const* what) const {
        if (!right) { the_tool.wrong.push_back(std::string{name_} + ": " + what); }
    }

private:
    char const*                 name_;
    std::lock_guard<std::mutex> held_;
};

nvtxDomainHandle_t domain() { return reinterpret_cast<nvtxDomainHandle_t>(&the_tool); }

// The core.

nvtxDomainHandle_t NVTX_API create_domain(char const* name) {
    call const c{"nvtxDomainCreateA"};
    c.require(name == std::string{"vram"}, "the name");
    return domain();
}
std::string text_of(call const& c, nvtxEventAttributes_t const* event) {
    c.require(event->version == NVTX_VERSION && event->size == sizeof *event, "the version");
    c.require(event->messageType == NVTX_MESSAGE_TYPE_ASCII, "the message");
    return event->message.ascii;
}
void NVTX_API mark(nvtxDomainHandle_t in, nvtxEventAttributes_t const* event) {
    call const c{"nvtxDomainMarkEx"};
    c.require(in == domain(), "the domain");
    bool const counted = event->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    the_tool.marks.emplace_back(text_of(c, event), counted ? event->payload.ullValue : 0);
}
int NVTX_API push(nvtxDomainHandle_t in, nvtxEventAttributes_t const* event) {
    call const c{"nvtxDomainRangePushEx"};
    c.require(in == domain(), "the domain");
    the_tool.ranges.push_back("+" + text_of(c, event));
    return 0;
}
int NVTX_API pop(nvtxDomainHandle_t in) {
    call const c{"nvtxDomainRangePop"};
    c.require(in == domain(), "the domain");
    the_tool.ranges.emplace_back("-");
    return 0;
}

// Layouts and counters.

std::uint64_t NVTX_API add_layout(nvtxDomainHandle_t in, nvtxPayloadSchemaAttr_t const* layout) {
    call const c{"nvtxPayloadSchemaRegister"};
    c.require(in == domain(), "the domain");
    c.require(layout->type == NVTX_PAYLOAD_SCHEMA_TYPE_STATIC &&
                  layout->flags == NVTX_PAYLOAD_SCHEMA_FLAG_COUNTER_GROUP,
              "the type");
    c.require(layout->numEntries == 3 && layout->payloadStaticSize == sizeof(nvtx_tool::sample) &&
                  (layout->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE) != 0 &&
                  (layout->fieldMask & NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES) != 0,
              "the size");
    char const* const names[]{"live", "reserved", "peak"};
    for (std::size_t i = 0; i != 3; ++i) {
        nvtxPayloadSchemaEntry_t const& e = layout->entries[i];
        c.require(e.type == NVTX_PAYLOAD_ENTRY_TYPE_INT64 && e.offset == i * 8 && e.flags == 0,
                  "an entry");
        c.require(e.name == std::string{names[i]}, "the name of an entry");
        auto const* const unit = reinterpret_cast<nvtxSemanticsCounter_t const*>(e.semantics);
        c.require(unit->header.structSize == sizeof *unit &&
                      unit->header.semanticId == NVTX_SEMANTIC_ID_COUNTERS_V1 &&
                      unit->header.version == NVTX_COUNTER_SEMANTIC_VERSION &&
                      unit->unit == std::string{"bytes"},
                  "the unit");
    }
    return ++next_number;
}
std::uint64_t NVTX_API add_counters(nvtxDomainHandle_t in, nvtxCounterAttr_t const* group) {
    call const c{"nvtxCounterRegister"};
    c.require(in == domain(), "the domain");
    c.require(group->structSize == sizeof *group && group->schemaId > NVTX_COUNTER_ID_DYNAMIC_START,
              "the layout");
    if (!the_tool.attached) { return 0; }
    the_tool.groups[++next_number].name = group->name;
    return next_number;
}
void NVTX_API take_sample(nvtxDomainHandle_t in, std::uint64_t id, void const* values,
                          std::size_t size) {
    {
        call const c{"nvtxCounterSample"};
        c.require(in == domain() && size == sizeof(nvtx_tool::sample), "the size");
        auto found = the_tool.groups.find(id);
        if (found == the_tool.groups.end()) {
            auto const before = the_tool.earlier.find(id);
            c.require(before != the_tool.earlier.end(), "the group");
            if (before == the_tool.earlier.end()) { return; }
            found = the_tool.groups.emplace(id, nvtx_tool::group{before->second, {}}).first;
        }
        found->second.samples.push_back(*static_cast<nvtx_tool::sample const*>(values));
    }
    if (the_tool.after_sample) { the_tool.after_sample(); }
}

// Memory.

nvtxMemHeapHandle_t NVTX_API add_heap(nvtxDomainHandle_t in, nvtxMemHeapDesc_t const* heap) {
    call const c{"nvtxMemHeapRegister"};
    c.require(in == domain(), "the domain");
    c.require(heap->extCompatID == NVTX_EXT_COMPATID_MEM && heap->structSize == sizeof *heap &&
                  heap->reserved0 == 0,
              "the version");
    c.require(heap->usage == NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR &&
                  heap->type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS &&
                  heap->typeSpecificDescSize == sizeof(nvtxMemVirtualRangeDesc_t),
              "the type");
    auto const& range = *static_cast<nvtxMemVirtualRangeDesc_t const*>(heap->typeSpecificDesc);
    auto const  at    = reinterpret_cast<std::uintptr_t>(range.ptr);
    if (!the_tool.attached || (the_tool.refuses && the_tool.refuses(at, range.size))) {
        return nullptr;
    }
    c.require(at != 0 && range.size != 0, "an empty heap");
    auto const next = the_tool.heaps.lower_bound(at);
    c.require(next == the_tool.heaps.end() || next->first - at >= range.size, "over another heap");
    c.require(next == the_tool.heaps.begin() ||
                  at - std::prev(next)->first >= std::prev(next)->second.bytes,
              "in another heap");
    the_tool.heaps[at].bytes = range.size;
    return reinterpret_cast<nvtxMemHeapHandle_t>(at);
}
void NVTX_API remove_heap(nvtxDomainHandle_t in, nvtxMemHeapHandle_t heap) {
    call const c{"nvtxMemHeapUnregister"};
    c.require(in == domain(), "the domain");
    auto const found = the_tool.heaps.find(reinterpret_cast<std::uintptr_t>(heap));
    c.require(found != the_tool.heaps.end(), "no heap");
    if (found == the_tool.heaps.end()) { return; }
    c.require(found->second.regions.empty(), "it has regions");
    the_tool.heaps.erase(found);
}
void NVTX_API add_regions(nvtxDomainHandle_t in, nvtxMemRegionsRegisterBatch_t const* batch) {
    call const c{"nvtxMemRegionsRegister"};
    c.require(in == domain(), "the domain");
    c.require(batch->extCompatID == NVTX_EXT_COMPATID_MEM && batch->structSize == sizeof *batch,
              "the version");
    c.require(batch->regionType == NVTX_MEM_TYPE_VIRTUAL_ADDRESS &&
                  batch->regionDescElementSize == sizeof(nvtxMemVirtualRangeDesc_t) &&
                  batch->regionHandleElementsOut == nullptr,
              "the type");
    auto const found = the_tool.heaps.find(reinterpret_cast<std::uintptr_t>(batch->heap));
    c.require(found != the_tool.heaps.end(), "no heap");
    if (found == the_tool.heaps.end()) { return; }
    auto& regions = found->second.regions;
    for (std::size_t i = 0; i != batch->regionCount; ++i) {
        auto const& range =
            static_cast<nvtxMemVirtualRangeDesc_t const*>(batch->regionDescElements)[i];
        auto const at = reinterpret_cast<std::uintptr_t>(range.ptr);
        c.require(range.size != 0 && at - found->first < found->second.bytes &&
                      range.size <= found->second.bytes - (at - found->first),
                  "not in the heap");
        auto const next = regions.lower_bound(at);
        c.require(next == regions.end() || next->first - at >= range.size, "over another region");
        c.require(next == regions.begin() || at - std::prev(next)->first >= std::prev(next)->second,
                  "in another region");
        regions[at] = range.size;
    }
}
void NVTX_API remove_regions(nvtxDomainHandle_t in, nvtxMemRegionsUnregisterBatch_t const* batch) {
    call const c{"nvtxMemRegionsUnregister"};
    c.require(in == domain(), "the domain");
    c.require(batch->extCompatID == NVTX_EXT_COMPATID_MEM && batch->structSize == sizeof *batch,
              "the version");
    c.require(batch->refType == NVTX_MEM_REGION_REF_TYPE_POINTER &&
                  batch->refElementSize == sizeof(nvtxMemRegionRef_t),
              "the type");
    for (std::size_t i = 0; i != batch->refCount; ++i) {
        auto const at   = reinterpret_cast<std::uintptr_t>(batch->refElements[i].pointer);
        bool       gone = false;
        for (auto& [start, heap] : the_tool.heaps) { gone |= heap.regions.erase(at) != 0; }
        c.require(gone, "no region");
        the_tool.names.erase(at);
    }
}
void NVTX_API name_regions(nvtxDomainHandle_t in, nvtxMemRegionsNameBatch_t const* batch) {
    call const c{"nvtxMemRegionsName"};
    c.require(in == domain(), "the domain");
    c.require(batch->extCompatID == NVTX_EXT_COMPATID_MEM && batch->structSize == sizeof *batch &&
                  batch->regionElementSize == sizeof(nvtxMemRegionNameDesc_t),
              "the version");
    for (std::size_t i = 0; i != batch->regionCount; ++i) {
        nvtxMemRegionNameDesc_t const& e = batch->regionElements[i];
        c.require(e.regionRefType == NVTX_MEM_REGION_REF_TYPE_POINTER &&
                      e.nameType == NVTX_MESSAGE_TYPE_ASCII,
                  "the type");
        the_tool.names[reinterpret_cast<std::uintptr_t>(e.region.pointer)] = e.name.ascii;
    }
}

template <class Function>
intptr_t slot(Function* function) {
    return reinterpret_cast<intptr_t>(function);
}

int NVTX_API attach_core(NvtxGetExportTableFunc_t get) {
    auto const* const tables =
        static_cast<NvtxExportTableCallbacks const*>(get(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned          size  = 0;
    if (tables == nullptr ||
        tables->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
        return 0;
    }
    auto const set = [&](unsigned number, auto* function) {
        *table[number] = reinterpret_cast<NvtxFunctionPointer>(function);
    };
    set(NVTX_CBID_CORE2_DomainCreateA, create_domain);
    set(NVTX_CBID_CORE2_DomainMarkEx, mark);
    set(NVTX_CBID_CORE2_DomainRangePushEx, push);
    set(NVTX_CBID_CORE2_DomainRangePop, pop);
    return 1;
}
int NVTX_API attach_extension(nvtxExtModuleInfo_t* module) {
    intptr_t* const slots = module->segments->functionSlots;
    if (module->moduleId == NVTX_EXT_PAYLOAD_MODULEID) {
        slots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] = slot(add_layout);
    } else if (module->moduleId == NVTX_EXT_COUNTERS_MODULEID) {
        slots[NVTX3EXT_CBID_nvtxCounterRegister] = slot(add_counters);
        slots[NVTX3EXT_CBID_nvtxCounterSample]   = slot(take_sample);
    } else if (module->moduleId == NVTX_EXT_MODULEID_MEM) {
        slots[NVTX3EXT_CBID_nvtxMemHeapRegister]      = slot(add_heap);
        slots[NVTX3EXT_CBID_nvtxMemHeapUnregister]    = slot(remove_heap);
        slots[NVTX3EXT_CBID_nvtxMemRegionsRegister]   = slot(add_regions);
        slots[NVTX3EXT_CBID_nvtxMemRegionsUnregister] = slot(remove_regions);
        slots[NVTX3EXT_CBID_nvtxMemRegionsName]       = slot(name_regions);
    } else {
        return 0;
    }
    return 1;
}

} // namespace

nvtx_tool& nvtx_tool::get() { return the_tool; }

void nvtx_tool::clear() {
    std::lock_guard const held{mutex};
    attached = true;
    wrong.clear();
    for (auto const& [id, g] : groups) { earlier.emplace(id, g.name); }
    groups.clear();
    marks.clear();
    ranges.clear();
    heaps.clear();
    names.clear();
    calls        = 0;
    refuses      = nullptr;
    after_sample = nullptr;
}
void nvtx_tool::freed(void const* p, std::size_t bytes) {
    std::lock_guard const held{mutex};
    auto const            at = reinterpret_cast<std::uintptr_t>(p);
    std::erase_if(heaps, [&](auto const& h) { return h.first - at < bytes; });
}
nvtx_tool::group const& nvtx_tool::named(std::string const& name) const {
    static group const none;
    for (auto const& [id, g] : groups) {
        if (g.name == name) { return g; }
    }
    return none;
}
nvtx_tool::sample nvtx_tool::last(std::string const& name) const {
    group const& g = named(name);
    return g.samples.empty() ? sample{-1, -1, -1} : g.samples.back();
}
std::size_t nvtx_tool::regions() const {
    std::size_t sum = 0;
    for (auto const& [at, h] : heaps) { sum += h.regions.size(); }
    return sum;
}

} // namespace doubles

// The names that the headers of NVTX look for, in a library and in the program.
extern "C" {
[[gnu::visibility("default")]] int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get) {
    return doubles::attach_core(get);
}
[[gnu::visibility("default")]] int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
    return doubles::attach_extension(module);
}
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr        = doubles::attach_core;
NvtxExtInitializeInjectionFunc_t InitializeInjectionNvtxExtension_fnptr = doubles::attach_extension;
}
