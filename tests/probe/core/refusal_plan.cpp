// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/refusal_plan.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>

using namespace vram;
using detail::refusal_plan;
using detail::trial_scope;
using detail::tried_free;

namespace refusal_plan_test {

/// An address that no block has.
void* place(std::uintptr_t n) { return reinterpret_cast<void*>(n * 4096); }

TEST_CASE("refusal_plan: the selected request is refused, and with a number the ones after it") {
    refusal_plan      plan;
    trial_scope const in{plan.begin_trial()};
    plan.begin_run(2, 1);
    CHECK_FALSE(plan.refuses(10, 16, {}));
    CHECK_FALSE(plan.refuses(0, 16, {})); // nothing is allocated
    CHECK(plan.refuses(20, 32, call_site::current()));
    CHECK_FALSE(plan.refuses(30, 16, {}));
    CHECK(plan.requests() == 3);
    CHECK(plan.refusals() == 1);
    CHECK(plan.first_refused().bytes == 20);
    CHECK(plan.first_refused().alignment == 32);
    CHECK(plan.first_refused().at.known());

    plan.begin_run(1, 2);
    CHECK(plan.refuses(10, 16, {}));
    CHECK(plan.refuses(10, 16, {}));
    CHECK_FALSE(plan.refuses(10, 16, {}));
    CHECK(plan.refusals() == 2);
    plan.end_trial();
    CHECK_FALSE(plan.refuses(10, 16, {}));
    CHECK(plan.requests() == 3); // not counted after the end
}

TEST_CASE("refusal_plan: requests of threads outside the trial are neither refused nor counted") {
    refusal_plan<> plan;
    auto const     number = plan.begin_trial();
    plan.begin_run(1, 1);
    CHECK_FALSE(plan.refuses(10, 16, {}));
    plan.allocated(place(1), 10, 16, {});
    CHECK(plan.live_blocks() == 0);
    {
        trial_scope const in{number};
        plan.allocated(place(1), 10, 16, {});
        CHECK(plan.refuses(10, 16, {}));
    }
    std::size_t bytes = 10, alignment = 16;
    CHECK(plan.freeing(place(1), bytes, alignment, {})); // a free of any thread is noted
    CHECK(plan.live_blocks() == 0);
    plan.end_trial();
}

TEST_CASE("refusal_plan: live blocks are known with their lines and runs") {
    refusal_plan      plan;
    trial_scope const in{plan.begin_trial()};
    plan.begin_run(0, 0);
    plan.allocated(nullptr, 5, 16, {});
    plan.allocated(place(1), 100, 16, {});
    auto const first = plan.run();
    plan.begin_run(0, 0);
    unsigned const line = __LINE__ + 1;
    plan.allocated(place(2), 200, 16, call_site::current());
    plan.allocated(place(3), 300, 16, {});
    CHECK(plan.live_bytes() == 600);
    CHECK(plan.live_blocks() == 3);
    CHECK(plan.live_of(plan.run()).bytes == 200);
#ifndef VRAM_NO_CALL_SITES
    CHECK(plan.live_of(plan.run()).at.line() == line);
#else
    (void)line;
#endif
    CHECK(plan.live_of(first).bytes == 100);
    std::size_t bytes = 100, alignment = 16;
    CHECK(plan.freeing(place(1), bytes, alignment, {}));
    CHECK(plan.live_of(first).bytes == 0);
    CHECK(plan.live_bytes() == 500);
    plan.forget_freed();
    CHECK(plan.live_bytes() == 500);
    CHECK(plan.live_of(plan.run()).bytes == 200);
    CHECK(plan.freeing(place(1), bytes, alignment, {})); // not known any more
    CHECK(plan.wrong_free().what == tried_free::mistake::none);
    plan.end_trial();
}

TEST_CASE("refusal_plan: a second free is withheld, and a free with a wrong size is corrected") {
    refusal_plan      plan;
    trial_scope const in{plan.begin_trial()};
    plan.begin_run(0, 0);
    plan.allocated(place(1), 100, 16, {});
    plan.allocated(place(2), 200, 64, {});
    std::size_t bytes = 100, alignment = 16;
    CHECK(plan.freeing(place(1), bytes, alignment, {}));
    CHECK(plan.wrong_free().what == tried_free::mistake::none);
    CHECK_FALSE(plan.freeing(place(1), bytes, alignment, {}));
    CHECK(plan.wrong_free().what == tried_free::mistake::twice);
    CHECK(plan.wrong_free().block.bytes == 100);
    plan.allocated(place(1), 70, 16, {}); // the address is that of a new block
    bytes = 70;
    CHECK(plan.freeing(place(1), bytes, alignment, {}));

    plan.begin_run(0, 0);
    CHECK(plan.wrong_free().what == tried_free::mistake::none);
    bytes = 150, alignment = 32;
    CHECK(plan.freeing(place(2), bytes, alignment, {}));
    CHECK(bytes == 200);
    CHECK(alignment == 64);
    CHECK(plan.wrong_free().what == tried_free::mistake::wrong_size);
    CHECK(plan.wrong_free().bytes == 150);
    CHECK(plan.live_bytes() == 0);
    CHECK(plan.freeing(place(9), bytes, alignment, {})); // a block from before the trial
    CHECK(plan.freeing(nullptr, bytes, alignment, {}));
    plan.end_trial();
}

TEST_CASE(
    "refusal_plan: a block of another thread at the address of a freed block is not recorded") {
    refusal_plan<> plan;
    auto const     number = plan.begin_trial();
    plan.begin_run(0, 1);
    std::size_t bytes = 10, alignment = 16;
    {
        trial_scope const in{number};
        plan.allocated(place(1), 10, 16, {});
        CHECK(plan.freeing(place(1), bytes, alignment, {}));
        plan.allocated(place(2), 30, 16, {});
    }
    plan.allocated(place(1), 20, 32, {}); // outside of the trial
    bytes = 20, alignment = 32;
    CHECK(plan.freeing(place(1), bytes, alignment, {}));
    CHECK(bytes == 20);
    CHECK(alignment == 32);
    CHECK(plan.wrong_free().what == tried_free::mistake::none);
    plan.allocated(place(2), 20, 32, {}); // the upstream ended the live block without a free
    CHECK(plan.live_bytes() == 0);
    CHECK(plan.live_blocks() == 0);
    plan.forget_freed();
}

TEST_CASE("refusal_plan: a block that its upstream ended without a free is not counted any more") {
    refusal_plan      plan;
    trial_scope const in{plan.begin_trial()};
    plan.begin_run(0, 0);
    plan.allocated(place(1), 100, 16, {});
    plan.allocated(place(1), 70, 16, {}); // the upstream has the address free again
    CHECK(plan.live_bytes() == 70);
    CHECK(plan.live_blocks() == 1);
    std::size_t bytes = 70, alignment = 16;
    CHECK(plan.freeing(place(1), bytes, alignment, {}));
    CHECK(plan.live_bytes() == 0);
    CHECK(plan.live_blocks() == 0);
    plan.end_trial();
}

TEST_CASE("refusal_plan: a moved layer takes its plan along") {
    detail::owned_refusal_plan<> one;
    CHECK(one.active() == nullptr);
    refusal_plan<>& plan = one.made();
    CHECK(one.active() == nullptr);
    plan.begin_trial();
    CHECK(one.active() == &plan);
    detail::owned_refusal_plan<> two{std::move(one)};
    CHECK(two.active() == &plan);
    detail::owned_refusal_plan<> three;
    CHECK(&three.made() != &plan);
    three = std::move(two);
    CHECK(three.active() == &plan);
    plan.end_trial();
    CHECK(three.active() == nullptr);
}

} // namespace refusal_plan_test
