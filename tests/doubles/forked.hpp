// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `code_of_child` runs a function in a forked process.

#include <cstdio> // fflush

#include <sys/wait.h> // waitpid
#include <unistd.h>   // fork, _exit

namespace doubles {

/// Returns the exit code of a forked child that ends with the result of `body`.
template <class Body>
int code_of_child(Body const& body) {
    std::fflush(nullptr); // the child would write it again
    pid_t const child = ::fork();
    if (child == 0) { ::_exit(body()); }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace doubles
