// SPDX-License-Identifier: Apache-2.0
#include <vram/base/error_kind.hpp> // first: the header stands alone

#include <vram/base/error.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <type_traits>

using namespace vram;

TEST_CASE("error_kind: each kind has a different name") {
    std::set<std::string> names;
    for (auto const kind :
         {error_kind::foreign_pointer, error_kind::wrong_size, error_kind::dead_stream,
          error_kind::platform_error, error_kind::leak, error_kind::double_free,
          error_kind::interior_pointer, error_kind::wrong_alignment, error_kind::lost_exception,
          error_kind::overrun}) {
        names.insert(name(kind));
    }
    CHECK(names.size() == 10);
    CHECK_FALSE(names.contains("unknown error"));
}

TEST_CASE("error_kind: a stream is named by its id, its handle, or as a default stream") {
    int x = 0;
    CHECK_FALSE(stream_name{}.known());
    CHECK(stream_name{.id = 1}.known());
    CHECK(stream_name{.handle = &x}.known());
    CHECK(stream_name{.is_default = true}.known());
}

static_assert(std::is_trivially_copyable_v<error>, "a sink can keep it");
