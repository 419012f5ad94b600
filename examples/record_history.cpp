// SPDX-License-Identifier: Apache-2.0
// A history of allocations, written for PyTorch's memory viewer, Perfetto and other tools.
// record_history [FOLDER] writes the files to a folder and keeps them.

#include <vram/history/chrome_trace.hpp>
#include <vram/history/history.hpp>
#include <vram/history/history_columns.hpp>
#include <vram/history/history_trigger.hpp>
#include <vram/history/perfetto_trace.hpp>
#include <vram/history/read_history.hpp>
#include <vram/history/rmm_csv.hpp>
#include <vram/history/viewer_json.hpp>
#include <vram/history/viewer_pickle.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

using namespace vram;

namespace {

/// Three steps: activations live for one step, and the state of the optimizer for all.
template <class Memory>
void train(Memory& memory, sim_stream const& stream) {
    void* state = nullptr;
    {
        tagged const scope{"optimizer"};
        state = memory.allocate(stream, 8_MiB);
    }
    for (int step = 0; step != 3; ++step) {
        tagged const       scope{"activations"};
        std::vector<void*> layers;
        for (std::size_t layer = 1; layer != 9; ++layer) {
            layers.push_back(memory.allocate(stream, layer * 100'000));
        }
        while (!layers.empty()) {
            memory.deallocate(stream, layers.back(), layers.size() * 100'000);
            layers.pop_back();
        }
    }
    if (memory.try_allocate(stream, 1_TiB) != nullptr) { std::puts("a terabyte"); }
    memory.deallocate(stream, state, 8_MiB);
}

} // namespace

int main(int argc, char** argv) {
    std::filesystem::path const folder =
        argc > 1 ? argv[1] : std::filesystem::temp_directory_path();
    auto const file = [&](char const* name) { return (folder / name).string(); };

    sim_node const   node;
    sim_stream const stream;
    // [record]
    auto memory  = sim_resource{} | with::stream_ordered | with::observed(history{}) | with::pool;
    history& log = memory.observer();
    // [/record]
    train(memory, stream);
    // [write]
    log.write(file("run.pickle"), viewer_pickle);          // for pytorch.org/memory_viz
    log.write(file("run.perfetto-trace"), perfetto_trace); // for ui.perfetto.dev
    log.write(file("run.csv"), rmm_csv);                   // for replay, and for pandas
    log.write(file("run.vram"), history_columns);          // for read_history
    // [/write]
    log.write(file("run.viewer.json"), viewer_json);
    log.write(file("run.chrome.json"), chrome_trace);

    // [read]
    history_record const read = read_history(file("run.vram"));
    std::printf("%zu events, %llu overwritten\n", read.events.size(),
                static_cast<unsigned long long>(read.overwritten));
    // [/read]
    expects(read == log.record() || read.events.size() == log.events(), "all events");
    write_record(read, file("run.pickle"), viewer_pickle);

    if (argc > 1) {
        // [triggers]
        history_trigger{log, file("end.pickle"), viewer_pickle}.at_exit().on_refusal();
        // [/triggers]
        return 0;
    }
    for (char const* const name : {"run.pickle", "run.perfetto-trace", "run.csv", "run.vram",
                                   "run.viewer.json", "run.chrome.json"}) {
        std::filesystem::remove(folder / name);
    }
}
