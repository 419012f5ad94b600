// SPDX-License-Identifier: Apache-2.0
// Host memory, as a scale, and the loop itself. Streams have no meaning here.

#include "../support/workloads.hpp"
#include "found.hpp"

#include <cstdlib> // malloc, free
#include <memory_resource>
#include <new> // bad_alloc

namespace bench {

namespace {

class malloc_memory {
public:
    using stream = unsigned;

    explicit malloc_memory(set_up const&) {}

    [[nodiscard]] stream stream_at(unsigned i) const { return i; }

    [[nodiscard]] void* allocate(stream, std::size_t bytes) {
        void* const p = std::malloc(bytes);
        if (p == nullptr) { throw std::bad_alloc{}; }
        return p;
    }
    void deallocate(stream, void* p, std::size_t) { std::free(p); }
};

class pmr_memory {
public:
    using stream = unsigned;

    explicit pmr_memory(set_up const&) {}

    [[nodiscard]] stream stream_at(unsigned i) const { return i; }

    [[nodiscard]] void* allocate(stream, std::size_t bytes) { return pool_.allocate(bytes); }
    void deallocate(stream, void* p, std::size_t bytes) { pool_.deallocate(p, bytes); }

private:
    std::pmr::synchronized_pool_resource pool_;
};

/// Allocates nothing, so that only the loop is measured.
class nothing_memory {
public:
    using stream = unsigned;

    explicit nothing_memory(set_up const&) {}

    [[nodiscard]] stream stream_at(unsigned i) const { return i; }

    [[nodiscard]] void* allocate(stream, std::size_t) { return this; }
    void                deallocate(stream, void* p, std::size_t) { keep(p); }
};

} // namespace

void add_yardstick(found& all) {
    all.subjects.push_back(make_subject<nothing_memory>(
        "empty loop", "what every figure below holds of the benchmark's own", role::yardstick));
}

void add_host(found& all) {
    all.subjects.push_back(make_subject<malloc_memory>("malloc", "the C library's", role::host));
    all.subjects.push_back(make_subject<pmr_memory>("std::pmr::synchronized_pool_resource",
                                                    "the C++ library's", role::host));
}

} // namespace bench
