// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/stream_ordered_options.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("stream_ordered_options: by default each free has its own event, and nothing is kept") {
    CHECK(stream_ordered_options{}.frees_per_event == 1);
    CHECK(stream_ordered_options{}.give_back_bytes == 0);
}
