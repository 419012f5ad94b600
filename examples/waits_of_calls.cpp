// SPDX-License-Identifier: Apache-2.0
// Which calls make the host wait: each call is made while a kernel runs on a stream, and the
// simulated device shows how long it took, and if the kernel then happens before the next call.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t most = 4_MiB; // of the copies

/// The stream on which the kernel runs.
enum class runs_on { own, blocking, other };

/// A kernel of 1 ms that writes `result`, and the objects that a call uses.
struct scene {
    scene(runs_on where, bool null) {
        graph.emplace(capture());
        sim_stream_view const own = null ? sim_stream_view{} : stream.view();
        sim_stream_view const on  = where == runs_on::own        ? own
                                    : where == runs_on::blocking ? blocking.view()
                                                                 : other.view();
        sim_launch(on, {.name = "kernel", .writes = {{result, 64}}, .duration = 1ms});
        ended.record(on);
    }
    scene(scene const&) = delete;
    ~scene() {
        sim_device{}.synchronize();
        for (void* const p : {memory, more}) { device.deallocate_sync(p, most); }
        for (void* const p : {host, more_host}) { pinned.deallocate_sync(p, most); }
        for (void* const p : {given, extra}) { device.deallocate_sync(p, 1_KiB); }
        for (void* const p : {given_pinned, extra_pinned}) { pinned.deallocate_sync(p, 1_KiB); }
        for (void* const p : {given_managed, extra_managed}) { managed.deallocate_sync(p, 1_KiB); }
        for (void* const p : {given_async, extra_async}) { async.deallocate(other, p, 1_KiB); }
        pinned.deallocate_sync(result, 64);
        pinned.deallocate_sync(word, sizeof *word);
    }
    sim_graph capture() {
        sim_graph::begin(stream);
        sim_launch(stream, {.name = "node"});
        return sim_graph::end(stream);
    }

    sim_node                 node{{.backed = false, .on_report = sim_on_report::collect}};
    sim_resource             device;
    sim_pinned_resource      pinned;
    sim_managed_resource     managed;
    sim_async_resource       async;
    sim_stream               stream, other; ///< `stream` is that of the call
    sim_stream               blocking{sim_device{}, {.blocking = true}};
    sim_event                event, ended;
    std::vector<char>        pageable = std::vector<char>(most);
    std::optional<sim_graph> graph;

    void*          memory        = device.allocate_sync(most);
    void*          more          = device.allocate_sync(most);
    void*          host          = pinned.allocate_sync(most);
    void*          more_host     = pinned.allocate_sync(most);
    void*          result        = pinned.allocate_sync(64);
    std::uint32_t* word          = static_cast<std::uint32_t*>(pinned.allocate_sync(4));
    void*          given         = device.allocate_sync(1_KiB);
    void*          given_pinned  = pinned.allocate_sync(1_KiB);
    void*          given_managed = managed.allocate_sync(1_KiB);
    void*          given_async   = async.allocate(stream, 1_KiB);
    void*          extra         = nullptr;
    void*          extra_pinned  = nullptr;
    void*          extra_managed = nullptr;
    void*          extra_async   = nullptr;
    bool           queried       = false; ///< the result of a query
};

struct row {
    char const* call;     ///< CUDA's name
    char const* evidence; ///< how CUDA's behaviour is known
    bool        null;     ///< true if the call uses the legacy default stream
    /// For a kernel on the stream of the call, on a blocking and on a non-blocking stream: `w` if
    /// the call waits and the kernel then happens before the next call, `t` if it only takes the
    /// time, `-` if it does not wait.
    char const*                 cells;
    std::function<void(scene&)> call_it;
};

auto copy(void* scene::* to, void* scene::* from, std::size_t bytes = 1_KiB) {
    return [=](scene& s) { sim_copy(s.stream, s.*to, s.*from, bytes); };
}
auto copy_sync(void* scene::* to, void* scene::* from) {
    return [=](scene& s) { sim_copy_sync(s.*to, s.*from, 1_KiB); };
}

std::vector<row> rows() {
    auto const M = &scene::memory;
    auto const H = &scene::host;
    return {
        {"cudaMemcpyAsync, pinned to device", "documented", false, "---", copy(M, H)},
        {"cudaMemcpyAsync, device to pinned", "documented", false, "---", copy(H, M)},
        {"cudaMemcpyAsync, within a device", "documented", false, "---", copy(&scene::more, M)},
        {"cudaMemcpyAsync, pinned to pinned", "documented", false, "w--",
         copy(&scene::more_host, H)},
        {"cudaMemcpyAsync, pageable to device, 1 MiB", "measured", false, "---",
         [](scene& s) { sim_copy(s.stream, s.memory, s.pageable.data(), 1_MiB); }},
        {"cudaMemcpyAsync, pageable to device, 4 MiB", "measured", false, "t--",
         [](scene& s) { sim_copy(s.stream, s.memory, s.pageable.data(), 4_MiB); }},
        {"cudaMemcpyAsync, device to pageable", "measured", false, "w--",
         [](scene& s) { sim_copy(s.stream, s.pageable.data(), s.memory, 1_KiB); }},
        {"cudaMemcpyBatchAsync, pinned to device", "documented", false, "---",
         [](scene& s) {
             void* const       to[]    = {s.memory};
             void const* const from[]  = {s.host};
             std::size_t const bytes[] = {1_KiB};
             sim_copy_batch(s.stream, to, from, bytes);
         }},
        {"cudaMemcpy, pinned to device", "documented", true, "ww-", copy_sync(M, H)},
        {"cudaMemcpy, device to pinned", "documented", true, "ww-", copy_sync(H, M)},
        {"cudaMemcpy, within a device", "documented", true, "---", copy_sync(&scene::more, M)},
        {"cudaMemcpy, pinned to pinned", "documented", true, "ww-",
         copy_sync(&scene::more_host, H)},
        {"cudaMemcpy, pageable to device", "measured", true, "ww-",
         [](scene& s) { sim_copy_sync(s.memory, s.pageable.data(), 1_KiB); }},
        {"cudaMemcpy, device to pageable", "documented", true, "ww-",
         [](scene& s) { sim_copy_sync(s.pageable.data(), s.memory, 1_KiB); }},
        {"cudaMemsetAsync, device", "documented", false, "---",
         [](scene& s) { sim_fill(s.stream, s.memory, std::byte{}, 1_KiB); }},
        {"cudaMemsetAsync, pinned", "measured", false, "---",
         [](scene& s) { sim_fill(s.stream, s.host, std::byte{}, 1_KiB); }},
        {"cudaMemsetAsync, managed", "measured", false, "---",
         [](scene& s) { sim_fill(s.stream, s.given_managed, std::byte{}, 1_KiB); }},
        {"cudaMalloc", "measured", true, "---",
         [](scene& s) { s.extra = s.device.allocate_sync(1_KiB); }},
        {"cudaFree", "measured", true, "ttt",
         [](scene& s) { s.device.deallocate_sync(std::exchange(s.given, nullptr), 1_KiB); }},
        {"cudaMallocHost", "measured", true, "---",
         [](scene& s) { s.extra_pinned = s.pinned.allocate_sync(1_KiB); }},
        {"cudaFreeHost", "measured", true, "ttt",
         [](scene& s) { s.pinned.deallocate_sync(std::exchange(s.given_pinned, nullptr), 1_KiB); }},
        {"cudaMallocManaged", "measured", true, "---",
         [](scene& s) { s.extra_managed = s.managed.allocate_sync(1_KiB); }},
        {"cudaFree, managed", "measured", true, "ttt",
         [](scene& s) {
             s.managed.deallocate_sync(std::exchange(s.given_managed, nullptr), 1_KiB);
         }},
        {"cudaMallocAsync", "documented", false, "---",
         [](scene& s) { s.extra_async = s.async.allocate(s.stream, 1_KiB); }},
        {"cudaFreeAsync", "documented", false, "---",
         [](scene& s) {
             s.async.deallocate(s.stream, std::exchange(s.given_async, nullptr), 1_KiB);
         }},
        {"cudaLaunchKernel", "documented", false, "---",
         [](scene& s) { sim_launch(s.stream, {}); }},
        {"cudaLaunchHostFunc", "documented", false, "---",
         [](scene& s) { sim_call_host(s.stream, {}, [] {}); }},
        {"cudaGraphLaunch", "documented", false, "---",
         [](scene& s) { s.graph->launch(s.stream); }},
        {"cuStreamWriteValue32, cuStreamWaitValue32", "documented", false, "---",
         [](scene& s) {
             sim_write_value(s.stream, s.word, 1);
             sim_wait_value(s.stream, s.word, 1);
         }},
        {"cudaEventRecord, cudaStreamWaitEvent", "documented", false, "---",
         [](scene& s) {
             s.event.record(s.stream);
             s.event.wait(s.stream);
         }},
        {"cudaStreamCreate, cudaEventCreate", "measured", false, "---",
         [](scene&) {
             sim_stream const stream;
             sim_event const  event;
         }},
        {"cudaStreamDestroy, cudaEventDestroy", "documented", false, "---",
         [](scene& s) {
             s.stream = sim_stream{};
             s.event  = sim_event{};
         }},
        {"cudaStreamQuery, cudaEventQuery", "documented", false, "---",
         [](scene& s) { s.queried = s.stream.done() && s.ended.done(); }},
        {"cudaStreamSynchronize", "documented", false, "w--",
         [](scene& s) { s.stream.synchronize(); }},
        {"cudaStreamSynchronize, legacy stream", "measured", true, "ww-",
         [](scene&) { sim_stream_view{}.synchronize(); }},
        {"cudaEventSynchronize, event after the kernel", "documented", false, "www",
         [](scene& s) { s.ended.synchronize(); }},
        {"cudaDeviceSynchronize", "documented", false, "www",
         [](scene&) { sim_device{}.synchronize(); }},
    };
}

/// Makes the call while the kernel runs.
char cell(row const& r, runs_on where) {
    scene          s{where, r.null};
    sim_time const before = s.node.now();
    r.call_it(s);
    bool const waited = s.node.now() - before >= 900us;
    sim_touch({s.result, 64}, sim_access::read); // a race unless the kernel happens before it
    bool const ordered = s.node.take_reports().empty();
    expects(waited || !ordered, "only a wait is an order");
    return ordered ? 'w' : waited ? 't' : '-';
}

} // namespace

int main() {
    std::printf("%-45s %-12s %-12s %-12s %s\n", "call while a kernel runs on", "its stream",
                "a blocking", "another", "known from");
    std::string wrong;
    for (row const& r : rows()) {
        std::string found;
        for (runs_on const where : {runs_on::own, runs_on::blocking, runs_on::other}) {
            found += cell(r, where);
        }
        auto const word = [&](std::size_t i) {
            return found[i] == 'w' ? "waits" : found[i] == 't' ? "takes time" : "-";
        };
        std::printf("%-45s %-12s %-12s %-12s %s\n", r.call, word(0), word(1), word(2), r.evidence);
        if (found != r.cells) { wrong += std::string{"\n"} + r.call + ": " + found; }
    }
    expects(wrong.empty(), wrong.c_str());
}
