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

/// Limits the reserved bytes of a pool of virtual memory. They may exceed the peak of the live
/// bytes by the fraction `pool_options::slack`. Beyond this limit, the pool maps pages of free
/// blocks to new addresses instead of reserving more memory.
///
/// Threads   The pool's lock must be held, except for `applies` and `query_device`.
class slack_limit {
public:
    template <class Core>
    [[nodiscard]] static bool applies(Core const& core) noexcept {
        return core.options_.slack < std::numeric_limits<double>::infinity();
    }
    /// Returns the total memory, in bytes, of the device on which the request `r` gets memory.
    /// Returns 0 if `excess` does not need this number, or if the query fails.
    template <class Core>
    [[nodiscard]] static std::size_t query_device(Core const&                   core,
                                                  typename Core::request const& r) noexcept {
        if (core.options_.remap || !applies(core)) { return 0; }
        try {
            return core.device_memory(r.on).total;
        } catch (...) { return 0; } // an allocation from the device reports the error
    }
    /// Stores the total memory of the device, in bytes. Ignores 0, which means unknown.
    void set_device(std::size_t bytes) noexcept {
        if (bytes != 0) { device_ = bytes; }
    }

    /// Called before the pool grows by `fresh` bytes for the request `r`. Returns how many of these
    /// bytes would exceed the limit on reserved bytes. For these, the pool maps pages of free
    /// blocks instead of new memory. Returns 0 if the limit is not exceeded or does not apply.
    template <class Core>
    [[nodiscard]] std::size_t excess(Core const& core, std::size_t fresh,
                                     typename Core::request const& r) const noexcept {
        std::size_t const out   = saturating_add(core.heap_.live_bytes(), r.bytes);
        std::size_t const most  = out > core.heap_.most_live() ? out : core.heap_.most_live();
        double const      bound = (1 + core.options_.slack) * static_cast<double>(most);
        std::size_t const then  = saturating_add(core.budget_.usage.reserved, fresh);
        std::size_t const floor = core.options_.slack == 0 ? 0 : sharing_threshold();
        if (then <= floor || !(static_cast<double>(then) > bound)) { return 0; }
        // The limit does not apply if the pool has reserved very many addresses, because mapping
        // pages of free blocks to new addresses would use up even more.
        std::size_t const addresses = core.heap_.blocks().reserved();
        bool const        beyond    = device_ != 0 && addresses > device_;
        if (beyond || addresses / most_addresses > most) { return 0; }
        auto const        within = static_cast<std::size_t>(bound);
        std::size_t const over   = then - (within > floor ? within : floor);
        return over < fresh ? over : fresh;
    }

private:
    /// If the reserved addresses exceed this multiple of the peak of live bytes, the limit does not
    /// apply. Mapping pages to new addresses would then use up too many addresses.
    static constexpr std::size_t most_addresses = 6;

    /// Returns the number of reserved bytes up to which a limit with a `slack` above 0 does not
    /// apply. In such a small pool, the memory saved is not worth the time for mapping pages.
    [[nodiscard]] std::size_t sharing_threshold() const noexcept {
        constexpr std::size_t most = std::size_t{9} << 28;
        return device_ / 32 < most ? device_ / 32 : most;
    }

    /// Total memory of the device in bytes, or 0 if unknown. If it is known and more bytes of
    /// addresses than this are reserved, the limit does not apply.
    std::size_t device_ = 0;
};

} // namespace detail
} // namespace vram
