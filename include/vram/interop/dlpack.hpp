// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `dlpack` uses a tensor of another library without a copy; `to_dlpack` gives an array to one.

#include <vram/base/align.hpp>              // is_aligned, unsatisfiable
#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/concepts/memory_kind.hpp>      // memory_kind, knows_memory
#include <vram/concepts/platform_of.hpp>
#include <vram/concepts/powers.hpp>            // device_of_resource
#include <vram/interop/core/dlpack_export.hpp> // dlpack_export, gives_memory
#include <vram/interop/core/dlpack_tensor.hpp> // dlpack_versioned, dlpack_unversioned
#include <vram/interop/dlpack_error.hpp>

#include <algorithm> // find
#include <concepts>  // constructible_from
#include <cstddef>
#include <cstdint>
#include <memory>      // make_unique
#include <span>        // span
#include <type_traits> // is_const_v
#include <utility>
#include <vector> // vector

namespace vram {

/// DLPack's structure since 1.0 (capsule "dltensor_versioned"). The structures of the program's own
/// `dlpack.h` can be used instead.
using dlpack_versioned = detail::dlpack_versioned;
/// DLPack's structure before 1.0, in a Python capsule named "dltensor".
using dlpack_unversioned = detail::dlpack_unversioned;

/// Gives the memory of a buffer or an array to another library, without a copy. The library calls
/// the deleter of the tensor, which frees the memory.
///
///     auto* tensor = to_dlpack(std::move(weights), stream, {64, 128});   // dlpack_versioned*
///     auto* old    = to_dlpack<dlpack_unversioned>(std::move(bias), stream);
///
/// `Managed` can also be a structure of the program's `dlpack.h`. Without a shape, the tensor has
/// one dimension. The bytes of a buffer are `uint8` elements.
///
/// Failure   Throws `layout_error` for a shape of another size, `std::bad_alloc`, or the platform's
///           error; `data` is unchanged then.
/// Threads   The library may call the deleter on any thread. The resource must permit that.
/// Streams   The library uses the tensor on `consumer`, which waits for the stream of `data`; the
///           deleter frees on `consumer`. A raw stream must outlive the tensor.
/// Cost      Two host allocations, and one event if the streams differ.
template <detail::dlpack_managed Managed = dlpack_versioned, detail::gives_memory Data>
    requires detail::dlpack_element<typename detail::element_of<Data>::type>
[[nodiscard]] Managed* to_dlpack(Data&&                                         data,
                                 typename Data::resource_type::platform::stream consumer,
                                 std::vector<std::int64_t>                      shape = {}) {
    using exported = detail::dlpack_export<Managed, Data>;
    if (shape.empty()) { shape.push_back(static_cast<std::int64_t>(data.size())); }
    shape = detail::with_strides(std::move(shape), data.size());
    // The device of the memory, which becomes current below: the handle of a default stream means
    // the default stream of the current device.
    auto const device = detail::device_of_resource(data.upstream());
    typename exported::platform::device_guard const on{device};
    auto const                                      place = exported::device_of(data);
    detail::order_streams<typename exported::platform>(data.get_stream(), consumer);
    auto made = std::make_unique<exported>(std::move(data), std::move(shape), device);
    made->data.set_stream(consumer);
    made->describe(place);
    return &made.release()->managed;
}

/// A tensor of another library, whose memory the program uses without a copy. Owns the tensor and
/// calls its deleter. Move-only.
///
///     dlpack     input{tensor, stream};           // a dlpack_versioned* or dlpack_unversioned*
///     auto const values = input.as<float const>(); // a span; dlpack_error for other elements
///
/// Failure   Throws `dlpack_error` for another major version, an impossible shape, or memory that
///           `stream` cannot access; the tensor then still belongs to the caller.
/// Threads   One thread at a time.
/// Streams   The owner of the tensor must have ordered `stream` after its own work. The destructor
///           blocks the host until the work of `stream` (in a capture: of its device) is complete.
template <class Platform>
class dlpack {
public:
    using platform = Platform;
    using stream   = typename Platform::stream;

    /// Takes ownership of `tensor`, unless the constructor throws. The destructor waits for the
    /// work of `s` and calls the tensor's deleter.
    template <detail::dlpack_managed Managed>
    explicit dlpack(Managed* tensor, stream s = {})
        : stream_{s}, held_{detail::hold_stream<Platform>(s)} {
        if constexpr (detail::dlpack_with_version<Managed>) {
            if (tensor->version.major != 1) {
                throw dlpack_error{"vram: a DLPack tensor has a major version that is not 1",
                                   static_cast<long long>(tensor->version.major)};
            }
            read_only_ = (tensor->flags & dlpack_versioned::read_only) != 0;
        }
        auto const& t = tensor->dl_tensor;
        if (t.ndim < 0) {
            throw dlpack_error{"vram: a DLPack tensor has an impossible number of dimensions",
                               static_cast<long long>(t.ndim)};
        }
        if (t.ndim > 0 && t.shape == nullptr) {
            throw dlpack_error{"vram: a DLPack tensor has no shape; its number of dimensions is",
                               static_cast<long long>(t.ndim)};
        }
        read(static_cast<std::int32_t>(t.device.device_type),
             {t.shape, static_cast<std::size_t>(t.ndim)}, t.strides);
        device_id_ = static_cast<int>(t.device.device_id);
        if (far_from_stream()) {
            throw dlpack_error{"vram: a DLPack tensor is on another device than its stream; the "
                               "device of the tensor is",
                               device_id_};
        }
        type_   = {static_cast<std::uint8_t>(t.dtype.code), static_cast<std::uint8_t>(t.dtype.bits),
                   static_cast<std::uint16_t>(t.dtype.lanes)};
        data_   = static_cast<std::byte*>(t.data) + (t.data != nullptr ? t.byte_offset : 0);
        tensor_ = tensor;
        delete_ = [](void* p) {
            auto* const mine = static_cast<Managed*>(p);
            if (mine->deleter != nullptr) { mine->deleter(mine); }
        };
    }
    dlpack(dlpack&& other) noexcept
        : stream_{other.stream_},
          held_{other.held_},
          tensor_{std::exchange(other.tensor_, nullptr)},
          delete_{other.delete_},
          data_{std::exchange(other.data_, nullptr)},
          size_{std::exchange(other.size_, 0)},
          shape_{std::exchange(other.shape_, {})},
          strides_{std::exchange(other.strides_, {})},
          type_{other.type_},
          kind_{other.kind_},
          device_id_{other.device_id_},
          read_only_{other.read_only_} {}
    dlpack& operator=(dlpack&& other) noexcept {
        if (this != &other) {
            give_back();
            stream_    = other.stream_;
            held_      = other.held_;
            tensor_    = std::exchange(other.tensor_, nullptr);
            delete_    = other.delete_;
            data_      = std::exchange(other.data_, nullptr);
            size_      = std::exchange(other.size_, 0);
            shape_     = std::exchange(other.shape_, {});
            strides_   = std::exchange(other.strides_, {});
            type_      = other.type_;
            kind_      = other.kind_;
            device_id_ = other.device_id_;
            read_only_ = other.read_only_;
        }
        return *this;
    }
    ~dlpack() { give_back(); }

    /// Returns the elements. Throws `dlpack_error` for another element type, gaps, too little
    /// alignment, or a read-only tensor without `const`.
    template <detail::dlpack_element Element>
    [[nodiscard]] std::span<Element> as() const {
        constexpr detail::dlpack_type wanted = detail::dlpack_type_of<Element>;
        if (type_ != wanted) {
            throw dlpack_error{"vram: a DLPack tensor has another element type", type_, wanted};
        }
        if (read_only_ && !std::is_const_v<Element>) {
            throw dlpack_error{"vram: a DLPack tensor is read-only: write as<Element const>()"};
        }
        if (!contiguous()) {
            throw dlpack_error{"vram: a DLPack tensor has gaps between its elements; its owner can "
                               "copy it, or use data(), shape() and strides()"};
        }
        if (!is_aligned(data_, alignof(Element))) {
            throw dlpack_error{"vram: a DLPack tensor is not aligned to its elements, but to less "
                               "than",
                               static_cast<long long>(alignof(Element))};
        }
        return {static_cast<Element*>(static_cast<void*>(data_)), size_};
    }

    /// Returns the address of the first element.
    [[nodiscard]] void* data() const noexcept { return data_; }
    /// Returns the number of elements of the tensor, in all dimensions.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Returns the number of elements in each dimension.
    [[nodiscard]] std::span<std::int64_t const> shape() const noexcept { return shape_; }
    /// Returns the stride of each dimension in elements. Empty if the tensor has none: the elements
    /// lie row by row without gaps.
    [[nodiscard]] std::span<std::int64_t const> strides() const noexcept { return strides_; }
    /// Returns true if the elements lie row by row without gaps, so that they form one array.
    [[nodiscard]] bool contiguous() const noexcept {
        std::int64_t next = 1;
        for (std::size_t i = strides_.size(); size_ > 1 && i-- > 0;) {
            if (shape_[i] != 1 && strides_[i] != next) { return false; }
            next *= shape_[i];
        }
        return true;
    }
    /// Returns true if the library that exported the tensor has declared that the memory must not
    /// be written.
    [[nodiscard]] bool read_only() const noexcept { return read_only_; }
    /// Returns the kind of the memory.
    [[nodiscard]] memory_kind kind() const noexcept { return kind_; }
    /// Returns the number of the device of the tensor's memory, as the tensor states it. DLPack
    /// prescribes 0 for memory of the host.
    [[nodiscard]] int device_id() const noexcept { return device_id_; }
    /// Returns the stream for which the destructor waits.
    [[nodiscard]] stream get_stream() const noexcept { return stream_; }
    /// Makes `s` the stream for which the destructor waits. The caller must have ordered `s` after
    /// the work that uses the tensor.
    void set_stream(stream s) noexcept {
        stream_ = s;
        held_   = detail::hold_stream<Platform>(s);
    }

private:
    void read(std::int32_t device_type, std::span<std::int64_t const> shape,
              std::int64_t const* strides) {
        switch (device_type) {
        case detail::dlpack_device::cpu: kind_ = memory_kind::pageable; break;
        case detail::dlpack_device::pinned: kind_ = memory_kind::pinned; break;
        case detail::dlpack_device::managed: kind_ = memory_kind::managed; break;
        case detail::dlpack_device::cuda: kind_ = memory_kind::device; break;
        default:
            throw dlpack_error{"vram: a DLPack tensor is on a device of the type", device_type};
        }
        if (kind_ == memory_kind::device && !knows_memory<Platform>) {
            throw dlpack_error{"vram: a DLPack tensor of the host is needed, and this one is on a "
                               "device of the type",
                               device_type};
        }
        shape_ = shape;
        strides_ =
            strides != nullptr ? std::span{strides, shape.size()} : std::span<std::int64_t const>{};
        // The other extents of an empty tensor may have a product of any size.
        size_ = std::ranges::find(shape, 0) != shape.end() ? 0 : 1;
        for (std::int64_t const extent : shape) {
            bool const fits =
                extent <= 0 || size_ <= unsatisfiable / static_cast<std::uint64_t>(extent);
            if (extent < 0 || !fits) {
                throw dlpack_error{"vram: a DLPack tensor has an impossible extent", extent};
            }
            size_ *= static_cast<std::size_t>(extent);
        }
    }
    void give_back() noexcept {
        if (tensor_ == nullptr) { return; }
        try {
            wait();
        } catch (...) { detail::report_failed_call("waiting for the stream of a DLPack tensor"); }
        delete_(std::exchange(tensor_, nullptr));
    }
    /// Waits for the work of `stream_`. If it is being captured, waits for its device instead.
    void wait() const {
        auto                                  where = device_of_streams();
        typename Platform::device_guard const on{where};
        if (!Platform::capturing(stream_)) { return Platform::synchronize(stream_); }
        try {
            where = Platform::device_of(stream_);
        } catch (...) {} // unknown because of the capture: probably that of the tensor
        detail::await_device<Platform>(where);
    }
    /// Returns true if the tensor has memory of another device than that of `stream_`. Returns
    /// false for other memory, and during a capture, when the stream's device may be unknown.
    [[nodiscard]] bool far_from_stream() const {
        if (kind_ != memory_kind::device || Platform::capturing(stream_)) { return false; }
        auto const                            there = device_of_streams();
        typename Platform::device_guard const on{there};
        return !(Platform::device_of(stream_) == there);
    }
    /// Returns the device that must be current in calls with `stream_`: for device or managed
    /// memory the device of the tensor, for host memory the device that is current now.
    [[nodiscard]] typename Platform::device device_of_streams() const {
        if constexpr (std::constructible_from<typename Platform::device, int>) {
            bool const there = kind_ == memory_kind::device || kind_ == memory_kind::managed;
            if (there) { return typename Platform::device{device_id_}; }
        }
        return Platform::current_device();
    }

    stream stream_;
    /// Keeps the stream's handle valid, because the stream may be destroyed before the tensor.
    [[no_unique_address]] detail::stream_hold<Platform> held_;
    void*                                               tensor_ = nullptr;
    void (*delete_)(void*)                                      = nullptr;
    std::byte*                    data_                         = nullptr;
    std::size_t                   size_                         = 0;
    std::span<std::int64_t const> shape_{};   ///< the tensor owns the array
    std::span<std::int64_t const> strides_{}; ///< the tensor owns the array; empty without strides
    detail::dlpack_type           type_{};
    memory_kind                   kind_      = memory_kind::pageable;
    int                           device_id_ = 0;
    bool                          read_only_ = false;
};

template <class Managed, class Stream>
dlpack(Managed*, Stream const&) -> dlpack<platform_of<Stream>>;

} // namespace vram
