// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `dlpack_export` is a buffer or an array that another library uses as a DLPack tensor.

#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/concepts/memory_kind.hpp>    // memory_kind, knows_memory
#include <vram/concepts/powers.hpp>         // located_resource
#include <vram/concepts/property.hpp>       // has_property
#include <vram/data/layout_error.hpp>
#include <vram/interop/core/dlpack_tensor.hpp>

#include <algorithm> // find
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// A buffer or an array with memory that another library can take over.
template <class Data>
concept gives_memory = requires(Data& d) {
    typename Data::resource_type;
    d.data();
    d.size();
    d.get_stream();
    d.set_stream(d.get_stream());
    d.upstream();
};

template <class Data>
struct element_of {
    using type = std::byte;
};
template <class Data>
    requires requires { typename Data::value_type; }
struct element_of<Data> {
    using type = typename Data::value_type;
};

/// Returns the number by which a DLPack tensor names the device `d`; 0 if the platform does not
/// number its devices.
template <class Device>
[[nodiscard]] std::int32_t dlpack_device_id(Device d) {
    if constexpr (requires(Device const& x) { x.ordinal(); }) {
        return static_cast<std::int32_t>(d.ordinal());
    } else if constexpr (requires(Device const& x) { x.index(); }) {
        return static_cast<std::int32_t>(d.index());
    } else {
        return 0;
    }
}

/// Returns `shape` (the extents of a tensor), followed by the strides for rows without gaps. Throws
/// `layout_error` if an extent is negative, or the product of the extents is not `size`.
[[nodiscard]] inline std::vector<std::int64_t> with_strides(std::vector<std::int64_t> shape,
                                                            std::size_t               size) {
    std::size_t const n     = shape.size();
    bool const        none  = std::find(shape.begin(), shape.end(), 0) != shape.end();
    std::uint64_t     count = none ? 0 : 1;
    for (std::size_t i = 0; i < n; ++i) {
        if (shape[i] < 0 || (count != 0 && count > size / static_cast<std::uint64_t>(shape[i]))) {
            throw layout_error{layout_error::reason::wrong_size, size, count, i};
        }
        count *= static_cast<std::uint64_t>(shape[i]);
    }
    if (count != size) { throw layout_error{layout_error::reason::wrong_size, size, count}; }
    shape.resize(2 * n, 1);
    for (std::size_t i = n; size != 0 && i-- > 1;) { shape[n + i - 1] = shape[n + i] * shape[i]; }
    return shape;
}

/// Memory passed to another library as a DLPack tensor: `data` owns it, `managed` describes it. The
/// deleter of `managed` destroys this object.
template <class Managed, class Data>
struct dlpack_export {
    using resource = typename Data::resource_type;
    using platform = typename resource::platform;

    Managed                   managed{};
    Data                      data;
    std::vector<std::int64_t> shape; ///< extents of the tensor's dimensions, then their strides
    /// Device of the memory. `destroy` makes this device current, because the memory may be freed
    /// on a default stream, which belongs to the current device.
    typename platform::device where;

    dlpack_export(Data&& from, std::vector<std::int64_t>&& extents,
                  typename platform::device device) noexcept
        : data{std::move(from)}, shape{std::move(extents)}, where{device} {}

    static void destroy(Managed* m) noexcept {
        auto* const mine = static_cast<dlpack_export*>(m->manager_ctx);
        try {
            typename platform::device_guard const on{mine->where};
            delete mine;
            return;
        } catch (...) { report_failed_call("making the device of a DLPack tensor current"); }
        delete mine;
    }

    void describe(dlpack_device place) noexcept {
        using element = typename element_of<Data>::type;
        auto& t       = managed.dl_tensor;
        t.data        = data.data();
        t.device      = {static_cast<decltype(t.device.device_type)>(place.device_type),
                         static_cast<decltype(t.device.device_id)>(place.device_id)};
        t.ndim        = static_cast<std::int32_t>(shape.size() / 2);
        t.dtype       = {dlpack_type_of<element>.code, dlpack_type_of<element>.bits, 1};
        t.shape       = shape.data();
        t.strides     = shape.data() + shape.size() / 2;
        t.byte_offset = 0;

        managed.manager_ctx = this;
        managed.deleter     = &destroy;
        if constexpr (dlpack_with_version<Managed>) {
            managed.version = {1, 0};
            managed.flags   = 0;
        }
    }

    /// Returns the DLPack device (kind and number) of the memory. The number is 0 for host memory,
    /// otherwise that of the resource's device, or else of the stream's.
    static dlpack_device device_of(Data& of) {
        memory_kind kind = memory_kind::device;
        if constexpr (has_property<resource, host_accessible>) {
            kind = memory_kind::pageable;
            if constexpr (knows_memory<platform>) { kind = platform::memory_kind_of(of.data()); }
        }
        if (kind == memory_kind::pageable) { return {dlpack_device::cpu, 0}; }
        if (kind == memory_kind::pinned) { return {dlpack_device::pinned, 0}; }
        std::int32_t id = 0;
        if constexpr (located_resource<resource>) {
            id = dlpack_device_id(of.upstream().device());
        } else {
            id = dlpack_device_id(platform::device_of(of.get_stream()));
        }
        return {kind == memory_kind::managed ? dlpack_device::managed : dlpack_device::cuda, id};
    }
};

/// Makes later work of the stream `after` wait for the present work of `before`.
template <class Platform, class Stream>
void order_streams(Stream before, Stream after) {
    if (before == after) { return; }
    typename Platform::event here{Platform::device_of(before)};
    Platform::record(here, before);
    Platform::wait(after, here);
}

} // namespace detail
} // namespace vram
