// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/tracking_options.hpp> // first: the header stands alone

using namespace vram;

static_assert(tracking_options{}.frames == 0, "stacks cost memory, so they are off");
static_assert(tracking_options{}.report_leaks);
