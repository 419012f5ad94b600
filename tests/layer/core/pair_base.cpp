// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/core/pair_base.hpp> // first: the header stands alone

#include <vram/source/null_resource.hpp>

#include "../../doubles/archetype.hpp"
#include "../../doubles/minimal_resource.hpp"

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <stdexcept> // runtime_error
#include <utility>

using namespace vram;
using namespace vram::detail;

namespace {

template <synchronous_resource First, synchronous_resource Second>
struct both : pair_base<First, Second> {
    both(First first, Second second)
        : pair_base<First, Second>{std::move(first), std::move(second)} {}
};

/// Holds unused memory, and gives it back when it is trimmed.
class hoard : public null_resource<> {
public:
    explicit hoard(std::size_t held) : held_{held} {}

    std::size_t trim(std::size_t keep = 0) noexcept {
        std::size_t const goes = held_ > keep ? held_ - keep : 0;
        held_ -= goes;
        return goes;
    }
    [[nodiscard]] memory_usage usage() const noexcept { return {.reserved = held_}; }

private:
    std::size_t held_;
};

/// Its calls fail.
struct unable : doubles::archetype<> {
    [[noreturn]] static void fail() { throw std::runtime_error{"unable"}; }
    [[noreturn]] std::size_t trim(std::size_t = 0) { fail(); }
    [[noreturn]] std::size_t trim_no_wait() { fail(); }
    [[noreturn]] void        retire(stream) { fail(); }
    [[noreturn]] void        forget_captures() { fail(); }
};
/// Counts the calls of `trim_no_wait`.
struct prompt : doubles::archetype<> {
    std::size_t trim_no_wait() { return ++prompt_trims; }
    std::size_t prompt_trims = 0;
};

} // namespace

TEST_CASE("pair_base: a pair has the powers that both upstreams have, and trim if one has it") {
    using whole = doubles::archetype<>;
    using least = doubles::minimal_resource<>;
    static_assert(owning_resource<both<whole, whole>> && measured_resource<both<whole, whole>>);
    static_assert(!owning_resource<both<whole, least>> && !measured_resource<both<least, whole>>);
    static_assert(trimmable_resource<both<whole, least>> && retiring_resource<both<least, whole>>);
    static_assert(!trimmable_resource<both<least, least>>);
    both mixed{whole{}, least{}};
    CHECK(mixed.trim() == 0);
    CHECK(mixed.first().trims() == 1);
    mixed.retire({});
    CHECK(mixed.first().retired() == 1);
    static_assert(!forgetting_resource<both<least, least>>);
    mixed.forget_captures();
    CHECK(mixed.first().forgotten() == 1);
    both turned{least{}, whole{}};
    turned.forget_captures();
    CHECK(turned.second().forgotten() == 1);
}

TEST_CASE("pair_base: bytes that trim may keep are kept once") {
    both mr{hoard{100}, hoard{100}};
    CHECK(mr.trim(1000) == 0);
    CHECK(mr.trim(130) == 70); // 100 here, 30 there
    CHECK(mr.second().usage().reserved == 30);
    CHECK(mr.trim(50) == 80); // 50 here, none there
    CHECK(mr.first().usage().reserved == 50);
    CHECK(mr.second().usage().reserved == 0);
    CHECK(mr.trim() == 50);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("pair_base: the second upstream is called also if the first one throws") {
    doubles::mishaps const told;
    both                   mr{unable{}, prompt{}};
    CHECK_THROWS_AS(mr.trim(), std::runtime_error);
    CHECK_THROWS_AS(mr.trim_no_wait(), std::runtime_error);
    CHECK_THROWS_AS(mr.retire({}), std::runtime_error);
    CHECK_THROWS_AS(mr.forget_captures(), std::runtime_error);
    CHECK(mr.second().trims() == 1);
    CHECK(mr.second().prompt_trims == 1);
    CHECK(mr.second().retired() == 1);
    CHECK(mr.second().forgotten() == 1);
    CHECK(told.count() == 0);
}

TEST_CASE("pair_base: it has the properties that both upstreams have") {
    static_assert(has_property<both<null_resource<>, null_resource<>>, device_accessible>);
    static_assert(has_property<both<null_resource<>, null_resource<>>, host_accessible>);
    static_assert(has_property<both<null_resource<>, host_resource>, host_accessible>);
    static_assert(!has_property<both<null_resource<>, host_resource>, device_accessible>);
    static_assert(sizeof(both<null_resource<>, host_resource>) == 1);
    CHECK(true);
}
