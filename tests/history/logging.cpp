// SPDX-License-Identifier: Apache-2.0
#include <vram/history/logging.hpp> // first: the header stands alone

#include "../laws/resource.hpp"
#include "recorded.hpp"

#include <vram/pool/arena.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

using namespace vram;

template class vram::logging<doubles::archetype<>>;

namespace {
std::vector<std::string> lines_of(std::string const& text) {
    std::vector<std::string> all;
    std::istringstream       from{text};
    for (std::string line; std::getline(from, line);) { all.push_back(line); }
    return all;
}
/// Returns the column `number` of a line without quotes.
std::string column(std::string const& line, unsigned number) {
    std::istringstream from{line};
    std::string        cell;
    for (unsigned i = 0; i <= number; ++i) { std::getline(from, cell, ','); }
    return cell;
}
} // namespace

TEST_CASE("logging: it keeps the laws of a resource") {
    std::deque<recorded_history::file_name> files; // Only one log at a time can have a file.
    laws::resource([&](auto up) {
        files.emplace_back(("laws" + std::to_string(files.size())).c_str());
        return logging{std::move(up), files.back().path()};
    });
}

TEST_CASE("logging: a line has RMM's columns, the tag and the line of the program") {
    sim_node const                    node;
    sim_stream                        s;
    recorded_history::file_name const file{"log"};
    {
        auto         memory = sim_resource{} | with::stream_ordered | with::logging(file.path());
        auto const   line   = std::to_string(__LINE__ + 2);
        tagged const scope{"cache"};
        void* const  p = memory.allocate(s, 1000);
        REQUIRE(lines_of(file.contents()).size() >= 2); // before the end of the layer
        CHECK(
            lines_of(file.contents())[1].ends_with(",cache," + std::string{__FILE__} + "," + line));
        memory.deallocate_sync(p, 1000);
        CHECK_THROWS_AS((void)memory.allocate(s, 1_TiB), out_of_memory);
        CHECK(memory.try_allocate_sync(1_TiB) == nullptr);
        CHECK(memory.allocate(s, 0) == nullptr);
        memory.deallocate(s, nullptr, 0);
        CHECK(memory.lost() == 0);
    }
    auto const lines = lines_of(file.contents());
    REQUIRE(lines.size() == 5);
    CHECK(lines[0] == "Thread,Time,Action,Pointer,Size,Stream,Tag,File,Line");
    CHECK(column(lines[1], 2) == "allocate");
    CHECK(column(lines[1], 3).starts_with("0x"));
    CHECK(column(lines[1], 4) == "1000");
    CHECK(column(lines[1], 5) == std::to_string(s.id()));
    CHECK(column(lines[2], 2) == "free");
    CHECK(column(lines[2], 3) == column(lines[1], 3));
    CHECK(column(lines[2], 5) == "0");
    CHECK(column(lines[3], 2) == "allocate failure");
    CHECK(column(lines[4], 4) == std::to_string(1_TiB));
}

TEST_CASE("logging: threads write whole lines, and a free precedes the next use of its memory") {
    sim_node const                    node;
    recorded_history::file_name const file{"threads"};
    std::size_t const                 pairs = 400;
    {
        logging                  memory{arena{stream_ordered{sim_resource{}}}, file.path()};
        std::vector<std::thread> threads;
        for (int t = 0; t != 4; ++t) {
            threads.emplace_back([&] {
                sim_stream s;
                for (std::size_t i = 1; i <= pairs; ++i) {
                    memory.deallocate(s, memory.allocate(s, i), i);
                }
            });
        }
        for (std::thread& each : threads) { each.join(); }
    }
    auto const lines = lines_of(file.contents());
    REQUIRE(lines.size() == 1 + 4 * 2 * pairs);
    std::vector<std::string> live;
    for (std::size_t i = 1; i != lines.size(); ++i) {
        CHECK(std::count(lines[i].begin(), lines[i].end(), ',') == 8);
        auto const p     = column(lines[i], 3);
        auto const found = std::find(live.begin(), live.end(), p);
        if (column(lines[i], 2) == "allocate") {
            CHECK(found == live.end());
            live.push_back(p);
        } else {
            REQUIRE(found != live.end());
            live.erase(found);
        }
    }
    CHECK(live.empty());
}

TEST_CASE("logging: a file that cannot be created is an error of the constructor") {
    sim_node const node;
    CHECK_THROWS_AS((logging{sim_resource{}, "/no/such/folder/log"}), file_error);
}
