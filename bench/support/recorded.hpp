// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The measured footprints of the peers for the traces in bench/traces: peak reserved over peak
/// live on one H200, 2026-11-20, RMM 26.08 and PyTorch 2.11; with five digits 2026-11-22, RMM
/// 26.10. The reserved bytes of a pool do not depend on the host, and those of the driver hardly,
/// so these values replace a peer that is missing in the run.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

/// Returns the names of all peers whose footprint is compared.
inline std::vector<std::string> footprint_peers() {
    return {"cudaMallocAsync", "rmm::pool", "rmm::pool_at_once",
            "rmm::arena",      "torch",     "torch_expandable"};
}

/// Returns nothing for a trace or a peer that was not measured.
inline std::optional<double> recorded_footprint(std::string_view trace, std::string_view peer) {
    struct row {
        std::string_view trace;
        double           async, pool, pool_at_once, arena, torch, expandable;
    };
    static constexpr row rows[] = {
        {"gpt2", 1.076, 1.20484, 1.026, 1.033, 1.10106, 1.02807},
        {"bert_checkpoint", 1.131, 2.06025, 1.169, 1.064, 1.87242, 1.06728},
        {"mask_rcnn", 1.094, 2.08689, 1.078, 1.077, 1.94169, 1.07542},
        {"unet3d_patches", 1.485, 1.72231, 1.125, 1.108, 1.24533, 1.09385},
        {"multi_stream", 1.107, 2.1167, 1.829, 1.094, 2.73136, 1.78393},
    };
    for (row const& r : rows) {
        if (r.trace != trace) { continue; }
        if (peer == "cudaMallocAsync") { return r.async; }
        if (peer == "rmm::pool") { return r.pool; }
        if (peer == "rmm::pool_at_once") { return r.pool_at_once; }
        if (peer == "rmm::arena") { return r.arena; }
        if (peer == "torch") { return r.torch; }
        if (peer == "torch_expandable") { return r.expandable; }
    }
    return {};
}

} // namespace bench
