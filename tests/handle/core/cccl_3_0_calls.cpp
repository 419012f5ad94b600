// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/core/cccl_3_0_calls.hpp> // first: the header stands alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/counting_resource.hpp"
#include "../../doubles/minimal_resource.hpp"

#include <vram/base/align.hpp>
#include <vram/handle/shared.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {

// The requirements of CCCL 3.0.1 for a `resource` and an `async_resource`.
template <class R>
concept older_resource = requires(R& r, void* p, std::size_t n) {
    { r.allocate(n, n) } -> std::same_as<void*>;
    { r.deallocate(p, n, n) } -> std::same_as<void>;
};
template <class R, class Stream>
concept older_async_resource =
    older_resource<R> && requires(R& r, void* p, std::size_t n, Stream s) {
        { r.allocate_async(n, n, s) } -> std::same_as<void*>;
        { r.deallocate_async(p, n, n, s) } -> std::same_as<void>;
    };
template <class R>
concept takes_ints = requires(R& r) { r.allocate(0, 64); };

using shared_full = shared<doubles::archetype<>>;
using half        = shared<doubles::minimal_resource<>>;

static_assert(older_async_resource<shared_full, host_platform::stream>);
static_assert(older_resource<half> && !older_async_resource<half, host_platform::stream>);
static_assert(!older_async_resource<shared_full, int>);
static_assert(!takes_ints<shared_full>,
              "a call without its stream must not mean the synchronous pair");

} // namespace

TEST_CASE("cccl_3_0_calls: each reaches the present function, with its arguments in order") {
    doubles::ledger book;
    shared          mr{doubles::counting_resource{doubles::archetype<>{}, book}};

    void* p = mr.allocate(std::size_t{100}, std::size_t{512});
    CHECK(vram::is_aligned(p, 512));
    CHECK(book.out() == 100);
    CHECK(book.last_stream() == doubles::no_stream);
    mr.deallocate(p, std::size_t{100}, std::size_t{512});
    CHECK(book.out() == 0);

    p = mr.allocate_async(100, 512, host_platform::stream{});
    CHECK(vram::is_aligned(p, 512));
    CHECK(book.last_stream() == host_platform::id({}));
    mr.deallocate_async(p, 100, 512, host_platform::stream{});
    CHECK(book.out() == 0);
    CHECK(*book.broken() == '\0');
}
