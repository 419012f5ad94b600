// SPDX-License-Identifier: Apache-2.0
// Streams, events, and the capture of graphs.

#include "machine.hpp"

#include <vram/sim/sim_launch.hpp> // sim_call_host

#include <algorithm> // clamp

using namespace doubles::cudart;

namespace {

cudaError_t create(machine& m, cudaStream_t* stream, unsigned flags, int priority) {
    auto made = std::make_unique<CUstream_st>();
    if (!m.spare_streams.empty()) { // a handle is reused at once, as in CUDA
        made = std::move(m.spare_streams.back());
        m.spare_streams.pop_back();
    }
    made->device   = this_thread().device;
    made->flags    = flags;
    made->priority = std::clamp(priority, -5, 0);
    made->own.emplace(
        m.device(made->device),
        vram::sim_stream_options{.blocking = flags == cudaStreamDefault, .raw = true});
    made->view = made->own->view();
    *stream    = made.get();
    m.streams.emplace(*stream, std::move(made));
    return cudaSuccess;
}

/// A query or a wait that is illegal for a captured stream, in every mode of the thread.
cudaError_t ask(machine& m, CUstream_st& s) {
    if (s.captured != nullptr) { return spoil(*s.captured); }
    return unsafe(m);
}

/// The result of a query of an event that was recorded in a capture. It breaks a capture in
/// progress, in every mode.
cudaError_t stale(CUevent_st const& event) {
    auto const graph = event.graph.lock();
    if (graph == nullptr) { return cudaErrorInvalidValue; }
    graph->intact = false;
    return cudaErrorCapturedEvent;
}

/// Ends a capture: removes all streams from it.
void end_capture(machine& m, std::shared_ptr<capture> const& ended) {
    for (auto& [handle, stream] : m.streams) {
        if (stream->captured == ended) { stream->captured = nullptr; }
    }
}

/// Returns true if the legacy default stream of `device` is blocked by a captured blocking stream.
bool blocked_by_capture(machine& m, CUstream_st const& s) {
    if (s.own || s.view == vram::sim_stream_view::per_thread(m.device(s.device))) { return false; }
    for (auto const& [handle, other] : m.streams) {
        if (other->device == s.device && other->captured != nullptr &&
            other->flags == cudaStreamDefault) {
            return true;
        }
    }
    return false;
}

} // namespace

extern "C" {

// Streams

cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                   int priority) {
    return machine_call("cudaStreamCreateWithPriority",
                        [&](machine& m, auto&) { return create(m, stream, flags, priority); });
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return machine_call("cudaStreamCreateWithFlags",
                        [&](machine& m, auto&) { return create(m, stream, flags, 0); });
}

cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* stream) {
    return machine_call("cudaStreamCreate",
                        [&](machine& m, auto&) { return create(m, stream, cudaStreamDefault, 0); });
}

cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
    return machine_call("cudaStreamDestroy", [&](machine& m, auto&) {
        auto const found = m.streams.find(stream);
        if (found == m.streams.end()) {
            m.dangling += m.is_gone(stream) ? 1 : 0;
            return cudaErrorInvalidResourceHandle;
        }
        found->second->own.reset();
        auto const left = std::exchange(found->second->captured, nullptr);
        if (left != nullptr && found->second->origin) { end_capture(m, left); }
        m.spare_streams.push_back(std::move(found->second));
        m.streams.erase(found);
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
    return stream_call("cudaStreamGetId", stream, [&](machine& m, auto&, CUstream_st& s) {
        if (s.captured != nullptr) { return spoil(*s.captured); }
        *id = (m.epoch << 32U) + s.view.id(); // unique in the process
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaStreamGetDevice(cudaStream_t stream, int* device) {
    return stream_call("cudaStreamGetDevice", stream, [&](machine&, auto&, CUstream_st& s) {
        if (s.captured != nullptr) { return spoil(*s.captured); }
        *device = s.device;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    return stream_call("cudaStreamGetPriority", stream, [&](machine&, auto&, CUstream_st& s) {
        *priority = s.priority;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    return stream_call("cudaStreamGetFlags", stream, [&](machine&, auto&, CUstream_st& s) {
        if (s.captured != nullptr) { return spoil(*s.captured); }
        *flags = s.flags;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaStreamQuery(cudaStream_t stream) {
    return stream_call("cudaStreamQuery", stream, [&](machine& m, auto&, CUstream_st& s) {
        if (cudaError_t const refused = ask(m, s); refused != cudaSuccess) { return refused; }
        return s.view.done() ? cudaSuccess : cudaErrorNotReady;
    });
}

cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
    return stream_call("cudaStreamSynchronize", stream,
                       [&](machine& m, auto& held, CUstream_st& s) {
                           if (cudaError_t const refused = ask(m, s); refused != cudaSuccess) {
                               return refused;
                           }
                           vram::sim_stream_view const view  = s.view;
                           std::uint64_t const         id    = view.id();
                           std::uint64_t const         frees = m.frees;
                           held.unlock();
                           view.synchronize();
                           held.lock();
                           m.see_frees([&](unseen_free const& each) {
                               return each.stream == id && each.number <= frees;
                           });
                           return cudaSuccess;
                       });
}

cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    return stream_call("cudaStreamWaitEvent", stream, [&](machine& m, auto&, CUstream_st& s) {
        m.note_event(event);
        if (!m.events.contains(event)) { return cudaErrorInvalidResourceHandle; }
        if (s.captured != nullptr) {
            if (event->in_graph) {
                if (s.origin) { s.captured->joined.erase(event->on); }
                return cudaSuccess;
            }
            if (!event->recorded) { return cudaSuccess; }
            s.captured->intact = false; // the graph would depend on work outside it
            return cudaErrorStreamCaptureIsolation;
        }
        if (event->in_graph) {
            auto const graph = event->graph.lock();
            if (graph == nullptr) { return cudaErrorInvalidValue; }
            s.captured = graph; // the stream joins the capture
            s.origin   = false;
            graph->joined.insert(&s);
            return cudaSuccess;
        }
        event->place.wait(s.view);
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                         void* argument) {
    return stream_call("cudaLaunchHostFunc", stream, [&](machine& m, auto&, CUstream_st& s) {
        if (s.captured != nullptr) { return cudaSuccess; }
        vram::sim_event over{m.device(s.device)};
        vram::sim_call_host(s.view, function, argument);
        over.record(s.view);
        m.host_functions.follow(std::move(over));
        return cudaSuccess;
    });
}

// Events

cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    return machine_call("cudaEventCreateWithFlags", [&](machine& m, auto&) {
        int const  device = this_thread().device;
        bool const timed  = (flags & cudaEventDisableTiming) == 0;
        auto       made   = std::make_unique<CUevent_st>(
            CUevent_st{vram::sim_event{m.device(device), timed}, device, flags});
        *event = made.get();
        m.events.emplace(*event, std::move(made));
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
    return machine_call("cudaEventDestroy", [&](machine& m, auto&) {
        m.note_event(event);
        return m.events.erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle;
    });
}

cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return stream_call("cudaEventRecord", stream, [&](machine& m, auto&, CUstream_st& s) {
        m.note_event(event);
        if (!m.events.contains(event) || event->device != s.device) {
            return cudaErrorInvalidResourceHandle;
        }
        if (s.captured != nullptr && !s.captured->intact) {
            return cudaErrorStreamCaptureInvalidated;
        }
        event->recorded = true;
        event->in_graph = s.captured != nullptr;
        event->graph    = s.captured;
        event->on       = &s;
        event->stream   = s.view.id();
        event->frees    = m.frees;
        if (!event->in_graph) { event->place.record(s.view); }
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
    return machine_call("cudaEventQuery", [&](machine& m, auto&) {
        m.note_event(event);
        if (!m.events.contains(event)) { return cudaErrorInvalidResourceHandle; }
        cudaError_t const refused = unsafe(m);
        if (event->in_graph) { return stale(*event); }
        if (refused != cudaSuccess) { return refused; }
        return event->place.done() ? cudaSuccess : cudaErrorNotReady;
    });
}

cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
    return machine_call("cudaEventSynchronize", [&](machine& m, auto& held) {
        m.note_event(event);
        if (!m.events.contains(event)) { return cudaErrorInvalidResourceHandle; }
        cudaError_t const refused = unsafe(m);
        if (event->in_graph) { return stale(*event); }
        if (refused != cudaSuccess) { return refused; }
        vram::sim_event const& place  = event->place;
        std::uint64_t const    stream = event->stream;
        std::uint64_t const    frees  = event->frees;
        held.unlock();
        place.synchronize();
        held.lock();
        m.see_frees(
            [&](unseen_free const& each) { return each.stream == stream && each.number <= frees; });
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                           cudaEvent_t end) {
    return machine_call("cudaEventElapsedTime", [&](machine& m, auto&) {
        for (cudaEvent_t const each : {start, end}) {
            bool const known = m.events.contains(each);
            if (!known || !each->recorded || (each->flags & cudaEventDisableTiming) != 0) {
                return cudaErrorInvalidResourceHandle;
            }
            if (!each->place.done()) { return cudaErrorNotReady; }
        }
        *milliseconds =
            static_cast<float>((end->place.time() - start->place.time()).count()) / 1e6F;
        return cudaSuccess;
    });
}

// Captures

cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    return stream_call("cudaStreamBeginCapture", stream, [&](machine& m, auto&, CUstream_st& s) {
        bool const legacy = s.view == vram::sim_stream_view::legacy(m.device(s.device));
        if (legacy || s.captured != nullptr) { return cudaErrorStreamCaptureUnsupported; }
        s.captured = std::make_shared<capture>(capture{mode, std::this_thread::get_id()});
        s.origin   = true;
        m.captures.emplace_back(s.captured);
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    return stream_call("cudaStreamEndCapture", stream, [&](machine& m, auto&, CUstream_st& s) {
        *graph = nullptr;
        if (s.captured == nullptr) { return cudaErrorIllegalState; }
        if (!s.origin) {
            s.captured->intact = false;
            return cudaErrorStreamCaptureUnmatched;
        }
        auto const ended = std::exchange(s.captured, nullptr);
        end_capture(m, ended);
        bool const relaxed = ended->mode == cudaStreamCaptureModeRelaxed;
        if (!relaxed && ended->thread != std::this_thread::get_id()) {
            return cudaErrorStreamCaptureWrongThread;
        }
        if (!ended->intact) { return cudaErrorStreamCaptureInvalidated; }
        if (!ended->joined.empty()) { return cudaErrorStreamCaptureUnjoined; }
        auto made = std::make_unique<CUgraph_st>();
        *graph    = made.get();
        m.graphs.insert(std::move(made));
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    return stream_call("cudaStreamIsCapturing", stream, [&](machine& m, auto&, CUstream_st& s) {
        if (blocked_by_capture(m, s)) { return cudaErrorStreamCaptureImplicit; }
        *status = s.captured == nullptr ? cudaStreamCaptureStatusNone
                  : s.captured->intact  ? cudaStreamCaptureStatusActive
                                        : cudaStreamCaptureStatusInvalidated;
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                               unsigned long long* id, cudaGraph_t*,
                                               cudaGraphNode_t const**,
#if CUDART_VERSION >= 13000
                                               cudaGraphEdgeData const**,
#endif
                                               std::size_t*) {
    return stream_call("cudaStreamGetCaptureInfo", stream, [&](machine& m, auto&, CUstream_st& s) {
        if (blocked_by_capture(m, s)) { return cudaErrorStreamCaptureImplicit; }
        *status = s.captured == nullptr ? cudaStreamCaptureStatusNone
                  : s.captured->intact  ? cudaStreamCaptureStatusActive
                                        : cudaStreamCaptureStatusInvalidated;
        *id     = reinterpret_cast<std::uintptr_t>(s.captured.get());
        return cudaSuccess;
    });
}

cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
    return machine_call("cudaGraphDestroy", [&](machine& m, auto&) {
        auto const erased =
            std::erase_if(m.graphs, [&](auto const& each) { return each.get() == graph; });
        return erased == 1 ? cudaSuccess : cudaErrorInvalidValue;
    });
}

} // extern "C"
