// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/owning_process.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

TEST_CASE("owning_process: a forked child is not the owning process") {
    vram::detail::owning_process const made;
    CHECK(made.is_current());
    pid_t const child = ::fork();
    if (child == 0) {
        vram::detail::owning_process const own;
        bool const                         right      = !made.is_current() && own.is_current();
        pid_t const                        grandchild = ::fork();
        if (grandchild == 0) { ::_exit(made.is_current() || own.is_current() ? 1 : 0); }
        int status = 1;
        (void)::waitpid(grandchild, &status, 0);
        ::_exit(right && status == 0 && own.is_current() ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(made.is_current());
}
