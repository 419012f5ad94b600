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

/// The limit of `pool_options::slack`: the share by which the reserved bytes of a pool may exceed
/// its peak of live bytes. Computes how much of the memory for a request exceeds the limit
/// (`excess`). For that much, the pool shares free pages, if it has some: it maps their physical
/// memory to a second address, and reserves no new memory. `Core` is the `pool_core`, whose lock
/// must be held except for `applies` (true if there is a limit) and `query_device`.
///
/// Failure   None. If the memory size of the device is not known, no pages are shared.
/// Threads   One thread at a time, except for `applies` and `query_device`.
/// Cost      A few additions; `query_device` queries the device.
class slack_limit {
public:
    template <class Core>
    [[nodiscard]] static bool applies(Core const& core) noexcept {
        return core.options_.slack < std::numeric_limits<double>::infinity();
    }
    /// Returns the total memory of the request's device. Returns 0, without a query, if `remap` is
    /// set or `slack` is infinite, and also if the query fails: the memory of free pages is then
    /// not mapped to second addresses.
    template <class Core>
    [[nodiscard]] static std::size_t query_device(Core const&                   core,
                                                  typename Core::request const& r) noexcept {
        if (core.options_.remap || !applies(core)) { return 0; }
        try {
            return core.device_memory(r.on).total;
        } catch (...) { return 0; } // an allocation from the device reports the error
    }
    void set_device(std::size_t bytes) noexcept { device_ = bytes; }

    /// Returns how many of `fresh` bytes of new memory would exceed the limit
    /// `pool_options::slack`, if the request `r` counts as live. Returns 0 if the limit is kept, or
    /// if at most `sharing_threshold()` bytes would be reserved (except with a slack of 0). Also
    /// returns 0 if no further page may get a second address: the reserved addresses exceed
    /// `most_addresses` times the peak of live bytes, or the memory of the device (0 if unknown).
    template <class Core>
    [[nodiscard]] std::size_t excess(Core const& core, std::size_t fresh,
                                     typename Core::request const& r) const noexcept {
        std::size_t const out   = saturating_add(core.heap_.live_bytes(), r.bytes);
        std::size_t const most  = out > core.heap_.most_live() ? out : core.heap_.most_live();
        double const      bound = (1 + core.options_.slack) * static_cast<double>(most);
        std::size_t const then  = saturating_add(core.budget_.usage.reserved, fresh);
        std::size_t const floor = core.options_.slack == 0 ? 0 : sharing_threshold();
        if (then <= floor || !(static_cast<double>(then) > bound)) { return 0; }
        // Sharing pages (mapping the memory of free pages to further addresses) needs new
        // addresses, and ever more of them if a program requests ever new sizes. So no page is
        // shared once the reserved addresses exceed `most_addresses` times the peak of live bytes,
        // or the size of the device's memory.
        std::size_t const addresses = core.heap_.blocks().reserved();
        if (addresses / most_addresses > most || addresses > device_) { return 0; }
        auto const        within = static_cast<std::size_t>(bound);
        std::size_t const over   = then - (within > floor ? within : floor);
        return over < fresh ? over : fresh;
    }

private:
    /// No further memory of free pages is mapped to second addresses once the reserved address
    /// space exceeds the peak of live bytes times this number.
    static constexpr std::size_t most_addresses = 6;

    /// Returns the number of reserved bytes up to which sharing pages between addresses is not
    /// worth its time: a 32nd of the device's memory, at most 2.25 GiB. (A recorded trace that
    /// reserves less takes three times as long with shared pages.)
    [[nodiscard]] std::size_t sharing_threshold() const noexcept {
        constexpr std::size_t most = std::size_t{9} << 28;
        return device_ / 32 < most ? device_ / 32 : most;
    }

    /// Total memory in bytes of the device of the last request; 0 if it was not needed, or if the
    /// query failed.
    std::size_t device_ = 0;
};

} // namespace detail
} // namespace vram
