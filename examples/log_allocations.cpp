// SPDX-License-Identifier: Apache-2.0
// A line in a CSV file for each allocation and free, for replay and for pandas.

#include <vram/history/logging.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <filesystem>
#include <fstream>
#include <string>

using namespace vram;

int main() {
    sim_node const    node;
    sim_stream const  stream;
    std::string const file = (std::filesystem::temp_directory_path() / "vram-run.csv").string();
    {
        // [layer]
        auto memory = sim_resource{} | with::stream_ordered | with::pool | with::logging(file);
        // [/layer]
        tagged const scope{"cache"};
        void* const  p = memory.allocate(stream, 64_MiB);
        memory.deallocate(stream, p, 64_MiB);
    }
    std::ifstream log{file};
    std::string   names, first;
    expects(std::getline(log, names) && std::getline(log, first), "a line for the names");
    expects(names == "Thread,Time,Action,Pointer,Size,Stream,Tag,File,Line", "RMM's columns first");
    expects(first.find(",allocate,0x") != first.npos, "the allocation");
    expects(first.find(",67108864,") != first.npos, "its size");
    expects(first.find(",cache,") != first.npos, "its tag");
    std::filesystem::remove(file);
}
