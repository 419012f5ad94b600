// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/aligned.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"
#include "../doubles/minimal_resource.hpp"
#include "../laws/resource.hpp"

#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

using namespace vram;

template class vram::aligned<doubles::archetype<>>;
template class vram::aligned<doubles::minimal_resource<>>;

TEST_CASE("aligned: it keeps the laws of a resource") {
    laws::resource([](auto up) { return aligned{std::move(up), 512}; });
    laws::resource([](auto up) { return aligned{std::move(up), 512, aligned_size::rounded_up}; });
    laws::resource<doubles::minimal_resource<>>(
        [](auto up) { return std::move(up) | with::aligned(512); });
    laws::resource_of_many_threads([](auto up) { return aligned{std::move(up), 512}; });
}

TEST_CASE("aligned: no failure loses memory") {
    laws::survives_every_failure(
        [](auto up) { return aligned{std::move(up), 64, aligned_size::rounded_up}; },
        [](auto& mr) { laws::block const first{mr, 10}, second{mr, 990}; },
        [](auto& mr) { return mr.usage().live; });
}

TEST_CASE("aligned: every block has the least alignment, and a request may have a larger one") {
    doubles::ledger book;
    aligned         mr{doubles::counting_resource{host_resource{}, book}, 4_KiB};
    void* const     p = mr.allocate_sync(10, 8);
    CHECK(is_aligned(p, 4_KiB));
    mr.deallocate_sync(p, 10, 8);
    void* const q = mr.allocate({}, 10, 8_KiB);
    CHECK(is_aligned(q, 8_KiB));
    mr.deallocate({}, q, 10, 8_KiB);
    CHECK(book.peak() == 10);
    CHECK(*book.broken() == '\0');
    CHECK(mr.alignment() == 4_KiB);
}

TEST_CASE("aligned: sizes are rounded up in allocations and in frees") {
    doubles::ledger book;
    aligned mr{doubles::counting_resource{host_resource{}, book}, 4_KiB, aligned_size::rounded_up};
    void* const p = mr.allocate_sync(10);
    CHECK(book.out() == 4_KiB);
    mr.deallocate_sync(p, 10);
    CHECK(book.out() == 0);
    CHECK(mr.allocate_sync(0) == nullptr);
    CHECK(*book.broken() == '\0');
}

TEST_CASE("aligned: a refusal states the size and the alignment that the caller requested") {
    auto const states = [](auto& mr) {
        for (std::size_t const bytes : {std::size_t{5001}, unsatisfiable - 1}) {
            try {
                (void)mr.allocate({}, bytes, 8);
                FAIL("it does not fit");
            } catch (out_of_memory const& e) {
                CHECK(e.numbers().asked == bytes);
                CHECK(e.numbers().rounded >= align(bytes, 4_KiB));
                CHECK(e.numbers().alignment == 8);
            }
            CHECK_THROWS_AS((void)mr.allocate_sync(bytes, 8), out_of_memory);
        }
    };
    aligned plain{doubles::archetype<>{100}, 4_KiB, aligned_size::rounded_up};
    states(plain);
    aligned limited{limiting{doubles::archetype<>{}, 100}, 4_KiB, aligned_size::rounded_up};
    states(limited);
    CHECK_THROWS_AS((void)limited.allocate_sync(200), over_limit); // as it was thrown
}

TEST_CASE("aligned: an alignment that is not a power of two is a broken contract") {
    doubles::contracts_throw const here;
    for (aligned_size const rounding : {aligned_size::as_asked, aligned_size::rounded_up}) {
        aligned mr{pool<host_resource>{}, 4_KiB, rounding};
        for (std::size_t const wrong : {0, 3, 5000}) {
            CHECK_THROWS_AS((void)mr.allocate_sync(10, wrong), doubles::broken_contract);
        }
    }
}
