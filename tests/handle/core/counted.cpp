// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/core/counted.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <thread> // thread
#include <vector> // vector

using namespace vram;
using namespace vram::detail;

namespace {

/// Records its destruction, and the value that was written before.
struct told {
    explicit told(int& s) : seen{s} {}
    ~told() { seen = written; }

    int& seen;
    int  written = 0;
};

} // namespace

template class vram::detail::counted_value<told>;

TEST_CASE("counted: the object is destroyed with its last owner, and not before") {
    int   seen  = -1;
    auto* value = new counted_value<told>{std::in_place, seen};
    CHECK(value->holders() == 1);
    value->hold();
    CHECK(value->holders() == 2);
    value->value.written = 7;
    value->drop();
    CHECK(seen == -1);
    value->drop();
    CHECK(seen == 7);
}

TEST_CASE("counted: owners on many threads destroy it once, after all their writes to it") {
    int   seen  = -1;
    auto* value = new counted_value<told>{std::in_place, seen};
    {
        value->value.written = 3;
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
            value->hold();
            threads.emplace_back([value] {
                for (int n = 0; n < 1000; ++n) {
                    value->hold();
                    value->drop();
                }
                value->drop();
            });
        }
        value->drop();
        for (auto& each : threads) { each.join(); }
    }
    CHECK(seen == 3);
}
