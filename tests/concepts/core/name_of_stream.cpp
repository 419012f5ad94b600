// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/name_of_stream.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <utility>

using namespace vram;
using namespace vram::detail;

TEST_CASE("name_of_stream: a stream has its id, and a default stream is named as one") {
    sim_node const   node;
    sim_stream const stream;
    CHECK(name_of_stream<sim_platform>(stream.view()).id == stream.view().id());
    CHECK(name_of_stream<sim_platform>({}).is_default);
    CHECK(name_of_stream<host_platform>({}).is_default);
}

TEST_CASE("name_of_stream: a destroyed stream is unknown, and nothing is thrown") {
    sim_node const            node;
    std::optional<sim_stream> stream{std::in_place};
    auto const                view = stream->view();
    stream.reset();
    CHECK_FALSE(name_of_stream<sim_platform>(view).known());
}

namespace {
struct with_names {
    struct stream {
        void*       handle                     = nullptr;
        friend bool operator==(stream, stream) = default;
    };
    static std::uint64_t name(stream s) { return reinterpret_cast<std::uintptr_t>(s.handle); }
};
} // namespace

TEST_CASE("name_of_stream: a platform with names is not queried for an id") {
    int x = 0;
    CHECK(name_of_stream<with_names>({&x}).handle == &x);
    CHECK(name_of_stream<with_names>({}).is_default);
}
