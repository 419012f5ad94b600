// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/leak_check.hpp> // first: the header must stand alone

#include "../doubles/archetype.hpp"
#include "../doubles/mishaps.hpp"

#include <vram/base/bytes.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <string_view>
#include <type_traits>

using namespace vram;

template class vram::leak_check<doubles::archetype<>>;

static_assert(!std::is_constructible_v<leak_check<doubles::archetype<>>, doubles::archetype<>>);
static_assert(!std::is_move_constructible_v<leak_check<doubles::archetype<>>>);

namespace {

error last{};

/// Keeps the last error instead of printing it.
struct keeping {
    keeping() { last = {}; }
    ~keeping() { set_error_sink(before); }

    error_sink before = set_error_sink([](error const& e) noexcept { last = e; });
};

/// Its usage is unknown at times.
struct unreadable : doubles::archetype<> {
    bool readable = true;

    [[nodiscard]] memory_usage usage() const {
        if (!readable) { throw std::runtime_error{"no figures"}; }
        return doubles::archetype<>::usage();
    }
};

} // namespace

TEST_CASE("leak_check: a scope that frees all its memory is not reported") {
    doubles::archetype<> memory;
    doubles::mishaps     told;
    {
        leak_check watch{memory};
        memory.deallocate_sync(memory.allocate_sync(1_KiB), 1_KiB);
        CHECK(watch.clean());
    }
    CHECK(told.count() == 0);
}

TEST_CASE("leak_check: a leak is reported with its bytes and the line of the check") {
    doubles::archetype<> memory;
    void*                left = nullptr;
    keeping              told;
    unsigned             line = 0;
    {
        line = __LINE__ + 1;
        leak_check watch{memory};
        left = memory.allocate_sync(3_KiB);
        CHECK(watch.bytes() == 3_KiB);
        CHECK_FALSE(watch.clean());
    }
    CHECK(last.kind == error_kind::leak);
    CHECK(last.bytes == 3_KiB);
    CHECK(last.where.line() == line);
    CHECK(std::string_view{last.where.file_name()}.ends_with("leak_check.cpp"));
    memory.deallocate_sync(left, 3_KiB);
}

TEST_CASE(
    "leak_check: usage that cannot be read at the end is reported, and the program continues") {
    unreadable memory;
    keeping    told;
    unsigned   line = 0;
    {
        line = __LINE__ + 1;
        leak_check watch{memory};
        memory.readable = false;
    }
    CHECK(last.kind == error_kind::lost_exception);
    CHECK(last.where.line() == line);
}

TEST_CASE("leak_check: memory that stays live on purpose can be dismissed") {
    doubles::archetype<> memory;
    doubles::mishaps     told;
    void*                left = nullptr;
    {
        leak_check watch{memory};
        left = memory.allocate_sync(3_KiB);
        watch.dismiss();
    }
    CHECK(told.count() == 0);
    memory.deallocate_sync(left, 3_KiB);
}

TEST_CASE("leak_check: a scope that frees earlier memory has no negative leak") {
    doubles::archetype<> memory;
    doubles::mishaps     told;
    void* const          old = memory.allocate_sync(3_KiB);
    {
        leak_check watch{memory};
        memory.deallocate_sync(old, 3_KiB);
    }
    CHECK(told.count() == 0);
}
