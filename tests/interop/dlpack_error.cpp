// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/dlpack_error.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <string>

namespace dlpack_error_tests {

using vram::dlpack_error;

TEST_CASE("dlpack_error: the text has the number, or the names of both element types") {
    CHECK(dlpack_error{"vram: a DLPack tensor is read-only"}.what() ==
          std::string{"vram: a DLPack tensor is read-only"});
    CHECK(dlpack_error{"vram: a DLPack tensor has an impossible extent", -3}.what() ==
          std::string{"vram: a DLPack tensor has an impossible extent: -3"});
    vram::detail::dlpack_type const found{.code = 2, .bits = 32, .lanes = 1};
    vram::detail::dlpack_type const wanted{.code = 0, .bits = 64, .lanes = 1};
    dlpack_error const error{"vram: a DLPack tensor has another element type", found, wanted};
    CHECK(error.what() ==
          std::string{"vram: a DLPack tensor has another element type: float32, not int64"});
    dlpack_error const copy = error;
    CHECK(copy.what() == std::string{error.what()});
}

} // namespace dlpack_error_tests
