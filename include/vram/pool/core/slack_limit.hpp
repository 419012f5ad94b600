// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slack_limit` computes how much new memory a pool of pages may reserve under
/// `pool_options::slack`.

#include <vram/base/align.hpp> // saturating_add

#include <cstddef>
#include <limits> // numeric_limits

namespace vram {
namespace detail {

/// Computes how much of a request must come from free pages, so that the reserved bytes of a pool
/// do not exceed its peak of live bytes by more than the share `pool_options::slack`. Such pages
/// are mapped to a second address.
///
/// Threads   The pool's lock must be held, except for `applies` and `query_device`.
class slack_limit {
public:
    template <class Core>
    [[nodiscard]] static bool applies(Core const& core) noexcept {
        return core.options_.slack < std::numeric_limits<double>::infinity();
    }
    /// Returns the total memory, in bytes, of the device of the request `r`. Returns 0 if it is not
    /// needed (with `remap`, or without a slack limit) or if the query fails.
    template <class Core>
    [[nodiscard]] static std::size_t query_device(Core const&                   core,
                                                  typename Core::request const& r) noexcept {
        if (core.options_.remap || !applies(core)) { return 0; }
        try {
            return core.device_memory(r.on).total;
        } catch (...) { return 0; } // an allocation from the device reports the error
    }
    /// Stores a result of `query_device`, unless it is 0.
    void set_device(std::size_t bytes) noexcept {
        if (bytes != 0) { device_ = bytes; }
    }

    /// A growth for `r` would reserve `fresh` bytes. Returns how many of these must come from free
    /// pages instead to keep the slack limit, or 0 if the limit does not apply.
    template <class Core>
    [[nodiscard]] std::size_t excess(Core const& core, std::size_t fresh,
                                     typename Core::request const& r) const noexcept {
        std::size_t const out   = saturating_add(core.heap_.live_bytes(), r.bytes);
        std::size_t const most  = out > core.heap_.most_live() ? out : core.heap_.most_live();
        double const      bound = (1 + core.options_.slack) * static_cast<double>(most);
        std::size_t const then  = saturating_add(core.budget_.usage.reserved, fresh);
        std::size_t const floor = core.options_.slack == 0 ? 0 : sharing_threshold();
        if (then <= floor || !(static_cast<double>(then) > bound)) { return 0; }
        // The slack limit does not apply if the reserved addresses exceed `most_addresses` times
        // the peak of live bytes or, if known, the device's total memory: second addresses use up
        // more.
        std::size_t const addresses = core.heap_.blocks().reserved();
        bool const        beyond    = device_ != 0 && addresses > device_;
        if (beyond || addresses / most_addresses > most) { return 0; }
        auto const        within = static_cast<std::size_t>(bound);
        std::size_t const over   = then - (within > floor ? within : floor);
        return over < fresh ? over : fresh;
    }

private:
    /// The slack limit does not apply while the reserved addresses exceed this multiple of the peak
    /// of live bytes: mapping pages to second addresses would use up more addresses.
    static constexpr std::size_t most_addresses = 6;

    /// Returns how many bytes may be reserved before a slack limit above 0 applies: for so little
    /// memory, mapping pages to second addresses is not worth the time.
    [[nodiscard]] std::size_t sharing_threshold() const noexcept {
        constexpr std::size_t most = std::size_t{9} << 28;
        return device_ / 32 < most ? device_ / 32 : most;
    }

    /// The total memory of the device, in bytes, that `set_device` last stored; 0 if unknown.
    /// Limits the reserved addresses, if known.
    std::size_t device_ = 0;
};

} // namespace detail
} // namespace vram
