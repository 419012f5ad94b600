// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `found` lists the allocators that can be compared on this machine, and the omitted ones with
/// reasons.

#include "../support/subject.hpp" // subject

#include <string>
#include <vector>

namespace bench {

struct found {
    std::vector<subject>     subjects;
    std::vector<std::string> left_out; ///< one line each
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

/// Returns the reason if there is no usable GPU, or an empty string.
std::string no_cuda();
/// Returns the name of the GPU.
std::string cuda_name();

/// A library with subjects has this function, with the name `bench_add_peer`.
using add_peer = void (*)(found*);

} // namespace bench
