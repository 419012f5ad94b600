// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/ask_upstream.hpp> // first: the header stands alone

#include <vram/layer/limiting.hpp>
#include <vram/source/null_resource.hpp>

#include "../../doubles/archetype.hpp"
#include "../../doubles/minimal_resource.hpp"

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {

/// A resource with a broken device.
struct broken_machine : null_resource<> {
    [[nodiscard]] void* allocate_sync(std::size_t, std::size_t = default_alignment) { throw 42; }
    void*               try_allocate_sync(std::size_t, std::size_t = default_alignment) = delete;
};

template <class R>
void both_ways(R& mr) {
    host_platform::stream const s;
    for (auto const* const on : {static_cast<host_platform::stream const*>(nullptr), &s}) {
        void* const p = ask_upstream<false>(mr, on, 512, 256);
        CHECK(p != nullptr);
        CHECK(ask_upstream<false>(mr, on, unsatisfiable, 256) == nullptr);
        CHECK_THROWS_AS((void)ask_upstream<true>(mr, on, unsatisfiable, 256), out_of_memory);
        mr.deallocate_sync(p, 512, 256);
    }
}

} // namespace

TEST_CASE("ask_upstream: a refusal is null, or thrown on request") {
    doubles::archetype<>        able;
    doubles::minimal_resource<> minimal;
    both_ways(able);
    both_ways(minimal);
}

TEST_CASE("ask_upstream: another error is always thrown") {
    broken_machine mr;
    CHECK_THROWS_AS((void)ask_upstream<false>(mr, nullptr, 512, 256), int);
    CHECK_THROWS_AS((void)ask_upstream<true>(mr, nullptr, 512, 256), int);
}
