// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/wake_rules.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <initializer_list>

using namespace vram::detail;

TEST_CASE("wake_rules: a producer leaves the copy to a consumer that waits") {
    wake_rules rules;
    CHECK(rules.producer_copies(true));
    CHECK_FALSE(rules.producer_copies(false));
    rules.consumer_waits(true);
    CHECK_FALSE(rules.producer_copies(true));
    CHECK(rules.consumer_copies(true, false, {}));
    CHECK_FALSE(rules.consumer_copies(false, false, {}));
}

TEST_CASE("wake_rules: a consumer with a ready batch leaves the copy to a producer that is awake") {
    wake_rules rules;
    rules.consumer_waits(true);
    CHECK(rules.consumer_copies(true, true, {.idle = 1}));
    CHECK_FALSE(rules.consumer_copies(true, true, {.idle = 1, .awake = 1}));
    CHECK(rules.consumer_copies(true, false, {.idle = 1, .awake = 1}));
}

TEST_CASE("wake_rules: a release leaves the copy to a producer that is awake, and wakes none") {
    CHECK(wake_rules::left_to_producer(true, {.idle = 1, .awake = 1}));
    CHECK_FALSE(wake_rules::left_to_producer(true, {.idle = 1}));
    CHECK_FALSE(wake_rules::left_to_producer(false, {.idle = 1, .awake = 1}));
}

TEST_CASE("wake_rules: after a copy, the consumer is woken if it waits and did not copy itself") {
    wake_rules rules;
    CHECK_FALSE(rules.wakes_after_copy(false, false, 0, false, {}));
    rules.consumer_waits(true);
    CHECK(rules.wakes_after_copy(false, false, 0, false, {}));
    rules.consumer_works(true);
    CHECK_FALSE(rules.wakes_after_copy(false, false, 0, false, {}));
    CHECK(rules.wakes_after_copy(false, false, 0, true, {})); // a failure ends the loop
    rules.stop();
    CHECK(rules.wakes_after_copy(false, false, 0, false, {}));
    rules.start();
    CHECK_FALSE(rules.stopping());
}

TEST_CASE("wake_rules: after a copy, producers are woken if no thread observes its end") {
    wake_rules const rules;
    for (bool const flagged : {false, true}) {
        CHECK(rules.wakes_after_copy(true, flagged, 1, false, {.idle = 1}));
        CHECK_FALSE(rules.wakes_after_copy(true, flagged, 1, false, {})); // no thread waits
        CHECK_FALSE(rules.wakes_after_copy(false, flagged, 1, false, {.idle = 1})); // it has ended
    }
    CHECK_FALSE(rules.wakes_after_copy(true, true, 1, false, {.idle = 2, .polling = true}));
    // Without a flag, a callback wakes the threads that wait for an earlier copy.
    CHECK_FALSE(rules.wakes_after_copy(true, false, 2, false, {.idle = 1}));
    CHECK_FALSE(rules.wakes_after_copy(true, false, 1, false, {.idle = 1, .awake = 1}));
    CHECK(rules.wakes_after_copy(true, true, 2, false, {.idle = 1, .awake = 1}));
}
