// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/host_work.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

namespace {
struct host_work_listener {
    static inline void*       to    = nullptr;
    static inline void const* from  = nullptr;
    static inline std::size_t bytes = 0;

    static void host_copies(void* t, void const* f, std::size_t n, bool) {
        to    = t;
        from  = f;
        bytes = n;
    }
};
} // namespace

TEST_CASE("host_work: a platform with host_copies is notified, and others have no cost") {
    CHECK(vram::detail::hears_host_work<host_work_listener>);
    CHECK_FALSE(vram::detail::hears_host_work<vram::host_platform>);
    char a = 0, b = 0;
    vram::detail::host_work<host_work_listener>::copies(&a, &b, 1);
    CHECK(host_work_listener::to == &a);
    CHECK(host_work_listener::from == &b);
    CHECK(host_work_listener::bytes == 1);
    vram::detail::host_work<vram::host_platform>::copies(&a, &b, 1);
}
