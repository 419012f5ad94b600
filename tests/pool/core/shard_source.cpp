// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/shard_source.hpp> // first: the header stands alone

#include <vram/pool/pool.hpp>

#include "../../doubles/archetype.hpp"
#include "../../doubles/bombing.hpp"
#include "../../doubles/minimal_resource.hpp"
#include "../../laws/resource.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;
using namespace vram::detail;

namespace {

using whole = doubles::archetype<>;
using plain = doubles::minimal_resource<>;

} // namespace

template class vram::detail::shard_source<whole>;
template class vram::detail::shard_source<plain>;

static_assert(fallible_resource<shard_source<whole>>);
static_assert(!resource<shard_source<plain>> && !fallible_resource<shard_source<plain>>);
// Trim belongs to the owner of all memory.
static_assert(!trimmable_resource<shard_source<whole>>);
static_assert(!retiring_resource<shard_source<whole>>);
static_assert(!reusing_resource<shard_source<whole>>); // as its upstream is
static_assert(reusing_resource<shard_source<pool<whole>>>);
static_assert(std::is_trivially_copyable_v<shard_source<whole>>);
static_assert(std::is_same_v<shard_source<whole>::properties, whole::properties>);

TEST_CASE("shard_source: it keeps the laws of a resource") {
    whole           up;
    chunk_directory all{up, unsatisfiable, unsatisfiable};
    shard_source    mr{all, 4};
    laws::obeyed_by(mr);
    plain           few;
    chunk_directory least{few, unsatisfiable, unsatisfiable};
    shard_source    bare{least, 4};
    laws::obeyed_by(bare);
    CHECK(all.reserved() == 0);
}

TEST_CASE("shard_source: its chunks are registered for its owner") {
    whole           up;
    chunk_directory all{up, 1000, unsatisfiable};
    shard_source    first{all, 1}, second{all, 2};
    CHECK(first == second);
    void* const p = first.allocate({}, 600);
    void* const q = second.try_allocate({}, 100);
    CHECK(all.owner_of(p) == 1);
    CHECK(all.owner_of(q) == 2);
    CHECK(second.try_allocate_sync(400) == nullptr);
    CHECK_THROWS_AS((void)second.allocate_sync(400), out_of_memory);
    second.deallocate({}, p, 600); // the registry is one
    second.deallocate_sync(q, 100);
    chunk_directory other{up, 1000, unsatisfiable};
    second.rebind(other);
    CHECK(first != second);
    void* none = p;
    {
        doubles::bombing const armed{1};
        none = second.try_allocate_sync(1);
    }
    CHECK(none == nullptr);
}

TEST_CASE(
    "shard_source: chunks that the upstream has ready are registered as well, and no others") {
    pool<whole>     up{whole{}, {.initial_size = 1_MiB}};
    chunk_directory all{up, 100'000, unsatisfiable};
    shard_source    mr{all, 7};
    CHECK(mr.try_allocate_ready({}, 0) == nullptr);
    CHECK(mr.try_allocate_ready({}, 2_MiB) == nullptr);
    CHECK(mr.try_allocate_ready({}, 200'000) == nullptr); // though the upstream has that
    void* const p = mr.try_allocate_ready({}, 60'000);
    CHECK(all.owner_of(p) == 7);
    CHECK(all.reserved() == 60'000);
    CHECK(mr.try_allocate_ready({}, 60'000) == nullptr);
    CHECK(up.usage().live == align(60'000, 256));
    mr.deallocate({}, p, 60'000);
    CHECK(all.reserved() == 0);
}
