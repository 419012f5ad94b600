// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Histories of random programs, and files of tests.

#include <vram/concepts/observer.hpp>    // memory_event, memory_event_kind
#include <vram/history/history.hpp>      // history
#include <vram/layer/observed.hpp>       // observed
#include <vram/layer/stream_ordered.hpp> // stream_ordered
#include <vram/pool/pool.hpp>            // pool
#include <vram/sim/sim.hpp>              // sim_node, sim_stream, sim_resource

#include <cstddef>      // size_t
#include <filesystem>   // path
#include <fstream>      // ifstream
#include <functional>   // ref
#include <random>       // minstd_rand
#include <sstream>      // ostringstream
#include <string>       // string
#include <system_error> // error_code
#include <unistd.h>     // getpid
#include <utility>      // pair
#include <vector>       // vector

namespace recorded_history {

/// The name of a file that no other test uses. The destructor removes it.
class file_name {
public:
    explicit file_name(char const* name)
        : path_{std::filesystem::temp_directory_path() /
                ("vram-" + std::to_string(::getpid()) + "-" + name)} {}
    file_name(file_name const&)            = delete;
    file_name& operator=(file_name const&) = delete;
    ~file_name() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }

    [[nodiscard]] std::string path() const { return path_.string(); }
    [[nodiscard]] bool        exists() const { return std::filesystem::exists(path_); }
    [[nodiscard]] std::string contents() const {
        std::ostringstream all;
        all << std::ifstream{path_, std::ios::binary}.rdbuf();
        return all.str();
    }

private:
    std::filesystem::path path_;
};

/// Returns what `format` writes.
inline std::string written(vram::history_record const& record, vram::history_format format) {
    file_name const         file{"written"};
    vram::detail::byte_file out{file.path()};
    format(record, out);
    out.close();
    return file.contents();
}

/// Allocates and frees at random, frees everything if `all`, and makes invalid frees if `wrong`.
template <class Memory>
void play(Memory& memory, std::size_t steps, std::size_t largest, bool all = true,
          bool wrong = false) {
    vram::sim_stream                           streams[2];
    std::minstd_rand                           random{7};
    std::vector<std::pair<void*, std::size_t>> live;
    auto const                                 free = [&](std::size_t i) {
        memory.deallocate(streams[random() % 2], live[i].first, live[i].second);
        live[i] = live.back();
        live.pop_back();
    };
    for (std::size_t i = 0; i != steps; ++i) {
        if (live.size() < 40 && random() % 2 == 0) {
            std::size_t const n = 1 + random() % largest;
            live.emplace_back(memory.allocate(streams[random() % 2], n), n);
        } else if (!live.empty()) {
            std::size_t const victim = random() % live.size();
            if (wrong && random() % 8 == 0) {
                memory.deallocate(streams[0], live[victim].first, live[victim].second + 1);
            }
            free(victim);
        }
        if (i % 150 == 149) { memory.trim(); }
    }
    while (all && !live.empty()) { free(live.size() - 1); }
    for (vram::sim_stream& each : streams) { each.synchronize(); }
}

/// Returns the record of a random program on a pool. At the end some blocks are live.
inline vram::history_record sample(std::size_t steps = 300, std::size_t kept = 1 << 16) {
    vram::sim_node const node{{.on_report = vram::sim_on_report::collect}};
    vram::history        log{{.events = kept, .device = 1}};
    vram::pool memory{vram::observed{vram::stream_ordered{vram::sim_resource{}}, std::ref(log)}};
    {
        vram::tagged const scope{"sample"};
        play(memory, steps, 300'000);
    }
    memory.upstream().mark("the end, \"quoted\"");
    vram::sim_stream stream;
    void* const      p = memory.allocate(stream, 5000);
    static_cast<void>(memory.try_allocate(stream, std::size_t{1} << 50));
    auto made = log.record();
    memory.deallocate(stream, p, 5000);
    return made;
}

} // namespace recorded_history
