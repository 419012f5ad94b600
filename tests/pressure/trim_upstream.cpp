// SPDX-License-Identifier: Apache-2.0
#include <vram/pressure/trim_upstream.hpp> // first: the header stands alone

#include <vram/layer/limiting.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/stream_ordered.hpp>

#include "../doubles/minimal_resource.hpp"
#include "../laws/resource.hpp"

using namespace vram;

namespace {

/// Allocates from `held` bytes that are only available after `trim`.
class miser : public doubles::archetype<> {
public:
    explicit miser(std::size_t held) : archetype{100 - held}, held_{held} {}

    void* try_allocate_sync(std::size_t n, std::size_t a = default_alignment) noexcept {
        return opened_ || n <= 100 - held_ ? host_resource{}.try_allocate_sync(n, a) : nullptr;
    }
    void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        if (void* const p = try_allocate_sync(n, a)) { return p; }
        throw out_of_memory{{.asked = n, .alignment = a}};
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        host_resource{}.deallocate_sync(p, n, a);
    }
    std::size_t trim(std::size_t = 0) noexcept { return std::exchange(opened_, true) ? 0 : held_; }

private:
    std::size_t held_;
    bool        opened_ = false;
};

} // namespace

TEST_CASE("trim_upstream: unused memory of the stack meets the request") {
    retrying    mr{miser{60}, trim_upstream{}};
    void* const p = mr.allocate_sync(90);
    CHECK(p != nullptr);
    mr.deallocate_sync(p, 90);
}

TEST_CASE("trim_upstream: if the trim frees nothing, the upstream is not called again") {
    doubles::faults plan;
    retrying        mr{doubles::failing_resource{doubles::archetype<>{}, plan}, trim_upstream{}};
    plan.fail_nth(1, true);
    CHECK_THROWS_AS((void)mr.allocate_sync(10), out_of_memory);
    CHECK(plan.struck() == 1);
    CHECK(mr.upstream().upstream().trims() == 1);
}

TEST_CASE("trim_upstream: a resource without trim is not called") {
    doubles::faults plan;
    retrying mr{doubles::failing_resource{doubles::minimal_resource<>{}, plan}, trim_upstream{}};
    plan.fail_nth(1, true);
    CHECK_THROWS_AS((void)mr.allocate_sync(10), out_of_memory);
    CHECK(plan.struck() == 1);
}
