// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `recordings` are the traces of a run: the given ones, or those in `bench/traces`.

#include "tape.hpp" // tape

#include <cli.hpp>   // failure
#include <trace.hpp> // read_trace

#include <fmt/format.h>

#include <algorithm> // sort
#include <cstddef>   // size_t
#include <filesystem>
#include <string>
#include <utility> // move
#include <vector>

namespace bench {

/// Returns the name of a file's case.
inline std::string stem(std::filesystem::path const& file) {
    std::string name = file.filename().string();
    return name.substr(0, name.find('.', 1));
}

/// A file of the run, and the name of its case.
struct recording {
    std::string name;
    std::string file;
};

/// Returns the recordings with unique names of cases.
inline std::vector<recording> recordings(std::vector<std::string> const& files) {
    std::vector<recording> all;
    for (std::string const& file : files) { all.push_back({stem(file), file}); }
    if (all.empty()) {
        for (auto const& entry : std::filesystem::directory_iterator{VRAM_BENCH_TRACES}) {
            std::string const file = entry.path().string();
            if (file.ends_with(".csv") || file.ends_with(".csv.gz")) {
                all.push_back({stem(file), file});
            }
        }
        std::sort(all.begin(), all.end(),
                  [](recording const& a, recording const& b) { return a.name < b.name; });
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (all[i].name == all[j].name) {
                throw cli::failure{cli::bad_usage,
                                   fmt::format("{} and {} are both the case '{}'", all[j].file,
                                               all[i].file, all[i].name)};
            }
        }
    }
    return all;
}

/// Returns the files, so that an output cannot overwrite one of them.
inline std::vector<std::string> paths(std::vector<recording> const& of) {
    std::vector<std::string> all;
    for (recording const& each : of) { all.push_back(each.file); }
    return all;
}

/// Returns a trace as a tape.
inline tape make_tape(std::string name, trace const& recorded) {
    tape out{std::move(name), {}, recorded.slots, recorded.streams, recorded.peak_live};
    out.operations.reserve(recorded.steps.size());
    for (trace_step const& s : recorded.steps) {
        unsigned const frees = s.action == trace_step::kind::free ? 1U : 0U;
        out.operations.push_back({s.bytes, s.slot, s.stream * 2 + frees});
    }
    return out;
}

} // namespace bench
