// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/scope_facts.hpp> // first: the header must stand alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/mishaps.hpp"

#include <vram/base/bytes.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

using namespace vram;
using detail::scope_facts;

template class vram::detail::scope_facts<doubles::archetype<>>;
template class vram::detail::scope_facts<statistics<doubles::archetype<>>>;

namespace scope_facts_test {

bool names(std::string const& text, char const* words) {
    return text.find(words) != std::string::npos;
}

TEST_CASE("scope_facts: a true statement has no message") {
    statistics<doubles::archetype<>> memory;
    scope_facts const                facts{memory};
    memory.deallocate_sync(memory.allocate_sync(1_KiB), 1_KiB);
    CHECK(facts.no_leak().empty());
    CHECK(facts.delta_is(0).empty());
    CHECK(facts.delta_at_most(0).empty());
    CHECK(facts.peak_at_most(1_KiB).empty());
    CHECK(facts.allocations_are(1).empty());
}

TEST_CASE("scope_facts: a message has the size found and the size stated") {
    statistics<doubles::archetype<>> memory;
    scope_facts const                facts{memory};
    void* const                      p = memory.allocate_sync(3_KiB);
    CHECK(facts.no_leak() == "the checked code leaks 3.00 KiB");
    CHECK(facts.delta_is(1024) == "the checked code raises the live bytes by 3.00 KiB (3072 "
                                  "bytes), not by 1.00 KiB (1024 bytes)");
    CHECK(facts.delta_at_most(3071) == "the checked code raises the live bytes by 3.00 KiB (3072 "
                                       "bytes), by more than 3.00 KiB (3071 bytes)");
    CHECK(facts.delta_at_most(3072).empty());
    CHECK(facts.peak_at_most(3072).empty());
    CHECK(names(facts.peak_at_most(3071),
                "peak of live bytes by 3.00 KiB (3072 bytes), more than 3.00 KiB (3071 bytes)"));
    CHECK(facts.allocations_are(0) == "the checked code makes 1 allocations, not 0");
    memory.deallocate_sync(p, 3_KiB);

    void* const       q = memory.allocate_sync(2_KiB);
    scope_facts const later{memory};
    memory.deallocate_sync(q, 2_KiB);
    CHECK(later.no_leak().empty());
    CHECK(later.delta_at_most(0).empty());
    CHECK(later.delta_at_most(-2048).empty());
    CHECK(names(later.delta_at_most(-2049), "lowers the live bytes by 2.00 KiB (2048 bytes), by "
                                            "more than -2.00 KiB (-2049 bytes)"));
    CHECK(names(later.delta_is(0), "lowers the live bytes by 2.00 KiB (2048 bytes), not by 0 B"));
    CHECK(later.delta_is(-2048).empty());
}

TEST_CASE("scope_facts: a peak that is only a bound is named as one") {
    pool<host_resource> memory;
    memory.deallocate_sync(memory.allocate_sync(8_KiB), 8_KiB);
    scope_facts const facts{memory};
    CHECK(names(facts.peak_at_most(0), "by at most 8.00 KiB"));
}

TEST_CASE("scope_facts: reported errors are counted, and the first one is named") {
    doubles::mishaps const quiet;
    error_count const      errors;
    CHECK(detail::no_errors(errors).empty());
    report_error({.kind = error_kind::double_free});
    CHECK(names(detail::no_errors(errors), "reports an error: vram: double free"));
    report_error({.kind = error_kind::leak});
    CHECK(
        names(detail::no_errors(errors), "reports 2 errors, the first of which is: vram: double"));
}

} // namespace scope_facts_test
