// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `found` is everything that can be compared on this machine, and what is left out and why.

#include "../support/subject.hpp" // subject

#include <string>
#include <vector>

namespace bench {

struct found {
    std::vector<subject>     subjects;
    std::vector<std::string> left_out; ///< a line for each
    std::string              machine;
    bool                     gpu = false;
};

/// \param device  auto, sim or cuda
found find_subjects(std::string const& device);

void add_yardstick(found&);
void add_sim(found&);
void add_host(found&);
void add_mimalloc(found&);
void add_cuda(found&);

/// Why there is no GPU to use; empty where there is one.
std::string no_cuda();
/// What the GPU is called.
std::string cuda_name();

/// Libraries with subjects of their own; each has this function, named `bench_add_peer`.
using add_peer = void (*)(found*);

} // namespace bench
