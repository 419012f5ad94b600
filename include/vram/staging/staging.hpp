// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `staging` copies pageable host memory and files to the device and back, at nearly the speed of
/// pinned memory.

#include <vram/base/call_site.hpp>
#include <vram/base/core/range_concepts.hpp>
#include <vram/concepts/core/diagnosed.hpp> // check_pinned
#include <vram/concepts/platform_of.hpp>
#include <vram/staging/core/host_end.hpp> // host_end, readable_at, fills_device
#include <vram/staging/core/staging_core.hpp>

#include <concepts> // default_initializable
#include <cstddef>
#include <span>        // span, as_bytes
#include <type_traits> // is_trivially_copyable_v
#include <utility>

namespace vram {

/// Fast copies between pageable host memory or files and the device, through chunks of pinned
/// memory. Host threads fill or empty some chunks while the device copies others. Create a
/// `staging` once and keep it.
///
///     staging stage{stream};
///     stage.upload(stream, device, weights);              // a vector, a span
///     stage.upload(stream, device, file{path}, offset, bytes);
///     auto const how = stage.download(stream, results, device);
///     puts(how.reason());                                 // "many bytes of pageable memory ..."
///
/// Pinned or managed memory and small amounts are copied directly (see `path_for`).
///
/// Failure   A call throws `staging_error` with the number of complete bytes and the cause.
/// Threads   Any thread may call. Calls run one at a time, except small direct copies.
/// Streams   A call is ordered in its stream, and uses host memory only until it returns.
/// Cost      Waking the threads takes 50 us. With 8 threads on an H200's host, 0.93 to 0.96 of the
///           link's rate.
template <class Platform, synchronous_resource Pinned = typename Platform::pinned_resource>
class staging : public detail::staging_core<Platform, Pinned> {
    using core = detail::staging_core<Platform, Pinned>;
    using ends = detail::host_end<Platform>;

    static_assert(detail::check_pinned<Pinned, Platform>::value);
    template <class R>
    static constexpr bool trivial = std::is_trivially_copyable_v<std::ranges::range_value_t<R>>;

public:
    using typename core::stream;

    /// Creates a `staging` for the device of the stream `s`, with a default-constructed `Pinned`
    /// resource.
    explicit staging(stream s, staging_options const& options = {})
        requires std::default_initializable<Pinned>
        : staging{s, make_pinned(s), options} {}

    /// Creates a `staging` that allocates its pinned memory from the resource `pinned` and owns
    /// this resource. To share a resource, pass a handle to it, such as a `shared`.
    staging(stream s, Pinned pinned, staging_options const& options = {})
        : core{s, std::move(pinned), options} {}

    /// Copies `from` to the device memory at `to`. After the return, `from` may be changed, and
    /// later work on `s` may use the copy.
    staging_result upload(stream s, void* to, std::span<std::byte const> from,
                          call_site at = call_site::current()) {
        return core::moved(from.size(), at, [&](transfer_path& way) {
            way = this->path_for(from.data(), from.size());
            this->validate(s, to, from.data(), from.size());
            if (core::is_direct(way)) { return this->copied(s, way, to, from.data(), from.size()); }
            typename ends::source_memory const end{from.data(),
                                                   this->uploads_past_caches(from.size())};
            return this->staged(s, way, to, from.size(), end);
        });
    }
    /// Fills `to` from the device memory at `from`. `to` is filled when the call returns.
    staging_result download(stream s, std::span<std::byte> to, void const* from,
                            call_site at = call_site::current()) {
        return core::moved(to.size(), at, [&](transfer_path& way) {
            way = this->path_for(to.data(), to.size());
            this->validate(s, from, to.data(), to.size());
            if (core::is_direct(way)) { return this->copied(s, way, to.data(), from, to.size()); }
            typename ends::target_memory const end{to.data(),
                                                   this->downloads_past_caches(to.size())};
            auto* const                        only_read = const_cast<void*>(from);
            return this->staged(s, way, only_read, to.size(), end);
        });
    }

    /// Copies the elements of an array, vector or span `from` to the device memory at `to`, like
    /// the `upload` of bytes. The `download` below does the same in the other direction.
    template <std::ranges::contiguous_range R>
        requires std::ranges::sized_range<R> && trivial<R>
    staging_result upload(stream s, void* to, R const& from, call_site at = call_site::current()) {
        return upload(s, to, std::as_bytes(std::span{from}), at);
    }
    template <std::ranges::contiguous_range R>
        requires std::ranges::sized_range<R> && trivial<R>
    staging_result download(stream s, R&& to, void const* from,
                            call_site at = call_site::current()) {
        return download(s, std::as_writable_bytes(std::span{to}), from, at);
    }

    /// Reads `bytes` bytes of the file `from`, beginning at `offset`, into the device memory at
    /// `to`. Returns when all bytes are in device memory.
    template <detail::readable_at File>
    staging_result upload(stream s, void* to, File const& from, std::size_t offset,
                          std::size_t bytes, call_site at = call_site::current()) {
        return core::moved(bytes, at, [&](transfer_path& way) {
            way = this->path_for(bytes, from);
            this->validate(s, to, bytes);
            if constexpr (detail::fills_device<File>) {
                if (way == transfer_path::gds) {
                    auto const read = [&](std::size_t place, std::size_t n) {
                        from.read_device(static_cast<std::byte*>(to) + place, n, offset + place);
                    };
                    return this->through_storage(s, bytes, read);
                }
            }
            typename ends::template source_file<File> const end{from, offset};
            return this->staged(s, way, to, bytes, end);
        });
    }
    /// Writes `bytes` bytes of the device memory at `from` into the file `to`, beginning at
    /// `offset`. Returns when all bytes are written.
    template <detail::writable_at File>
    staging_result download(stream s, File& to, std::size_t offset, void const* from,
                            std::size_t bytes, call_site at = call_site::current()) {
        return core::moved(bytes, at, [&](transfer_path& way) {
            way = this->path_for(bytes, to);
            this->validate(s, from, bytes);
            if constexpr (detail::empties_device<File>) {
                if (way == transfer_path::gds) {
                    auto const write = [&](std::size_t place, std::size_t n) {
                        to.write_device(static_cast<std::byte const*>(from) + place, n,
                                        offset + place);
                    };
                    return this->through_storage(s, bytes, write);
                }
            }
            typename ends::template target_file<File> const end{to, offset};
            auto* const                                     only_read = const_cast<void*>(from);
            return this->staged(s, way, only_read, bytes, end);
        });
    }

private:
    static Pinned make_pinned(stream s) {
        typename Platform::device_guard const on{Platform::device_of(s)};
        return Pinned{};
    }
};

template <class Stream>
staging(Stream const&, staging_options = {}) -> staging<platform_of<Stream>>;
template <class Stream, synchronous_resource Pinned>
staging(Stream const&, Pinned, staging_options = {}) -> staging<platform_of<Stream>, Pinned>;

} // namespace vram
