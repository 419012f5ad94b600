// SPDX-License-Identifier: Apache-2.0
// mimalloc, loaded at run time: linked, it would replace malloc in the whole program.

#include "../support/workloads.hpp"
#include "found.hpp"

#include <dlfcn.h>
#include <new> // bad_alloc

namespace bench {

namespace {

void* (*take)(std::size_t) = nullptr;
void (*give)(void*)        = nullptr;

class mimalloc_memory {
public:
    using stream = unsigned;

    explicit mimalloc_memory(set_up const&) {}

    [[nodiscard]] stream stream_at(unsigned i) const { return i; }

    [[nodiscard]] void* allocate(stream, std::size_t bytes) {
        void* const p = take(bytes);
        if (p == nullptr) { throw std::bad_alloc{}; }
        return p;
    }
    void deallocate(stream, void* p, std::size_t) { give(p); }
};

} // namespace

void add_mimalloc(found& all) {
    void* library = nullptr;
    for (char const* const name :
         {"libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so"}) {
        if (library == nullptr) { library = dlopen(name, RTLD_NOW | RTLD_LOCAL); }
    }
    if (library != nullptr) {
        take = reinterpret_cast<decltype(take)>(dlsym(library, "mi_malloc"));
        give = reinterpret_cast<decltype(give)>(dlsym(library, "mi_free"));
    }
    if (take == nullptr || give == nullptr) {
        all.left_out.push_back("mimalloc: no libmimalloc.so is found (Debian: libmimalloc-dev)");
        return;
    }
    all.subjects.push_back(make_subject<mimalloc_memory>("mimalloc", "Microsoft's", role::host));
}

} // namespace bench
