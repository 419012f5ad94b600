// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_set` owns some streams of a platform, and orders them as a careful caller does.

#include <cstddef> // size_t
#include <vector>  // vector

namespace laws {

/// Owns `count` streams. The default stream of the device is not one of them.
template <class Platform>
class stream_set {
public:
    using stream = typename Platform::stream;

    explicit stream_set(std::size_t count) {
        owners_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) { owners_.emplace_back(); }
    }

    [[nodiscard]] std::size_t size() const noexcept { return owners_.size(); }
    [[nodiscard]] stream      operator[](std::size_t i) const { return owners_[i].view(); }

    /// Orders later work of `second` after the present work of `first`.
    static void order(stream first, stream second) {
        if (first == second) { return; }
        typename Platform::event place{Platform::device_of(first)};
        Platform::record(place, first);
        Platform::wait(second, place);
    }

    void synchronize() const {
        for (auto const& each : owners_) { Platform::synchronize(each.view()); }
    }

    /// Retires all streams from `resource`, if it has `retire`.
    template <class R>
    void retire_from(R& resource) const {
        if constexpr (requires { resource.retire((*this)[0]); }) {
            for (auto const& each : owners_) { resource.retire(each.view()); }
        }
    }

private:
    std::vector<typename Platform::own_stream> owners_;
};

} // namespace laws
