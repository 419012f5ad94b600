// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader` copies results from the device to the host while the next results are computed.

#include <vram/base/call_site.hpp>
#include <vram/base/core/what_text.hpp>          // naming
#include <vram/concepts/core/owning_process.hpp> // delete_in_owning_process
#include <vram/concepts/core/user_line.hpp>      // user_line, part_kind
#include <vram/concepts/platform_of.hpp>
#include <vram/transfer/core/kept_by_value.hpp>
#include <vram/transfer/core/unloader_core.hpp>
#include <vram/transfer/unloader_options.hpp>

#include <concepts> // default_initializable, invocable
#include <cstddef>
#include <memory>      // shared_ptr
#include <span>        // span
#include <type_traits> // is_trivially_copyable_v, is_reference_v, is_void_v, ...
#include <utility>

namespace vram {

/// A function that receives the results of an unloader: `sink(bytes, index)`. `bytes` is host
/// memory (pinned, unless pinning failed) that is valid until the function returns, and `index` the
/// number of the result, from 0. The function returns nothing, and throws if it fails.
template <class F>
concept result_sink = std::invocable<F&, std::span<std::byte const>, std::size_t>;

/// The reverse of a loader: copies results from the device to the host on a separate stream, and
/// passes them in order to `sink` on a separate thread.
///
///     unloader out{[&](std::span<std::byte const> r, std::size_t) { file.write(r); }, stream};
///     for (auto& batch : loader) {
///         auto result = out.next();                      // device memory, usable at once
///         auto const from = batch.span<float>(), to = result.span<float>();
///         infer<<<grid, block, 0, stream>>>(from.data(), to.data(), to.size());
///         result.send();                                 // copied after the kernel above
///     }
///     out.finish();                                      // the sink has received all results
///
/// Failure   An exception of the sink or of a copy is thrown by every later `next`, `push` and
///           `finish`, and the sink receives no further result. Mistakes of the program throw
///           `loader_error`. The destructor waits until the sink has received all results, or has
///           failed. If no call has thrown the exception, the destructor reports it to the error
///           sink.
/// Threads   One thread of the caller. The sink runs on the unloader's thread. `next` blocks the
///           calling thread while the results in all device blocks wait for the sink.
/// Streams   Before the stream that writes the results overwrites a device block, it waits for the
///           copy of the previous result. The copy stream waits for the work that writes a result.
///           No host thread waits for either.
/// Cost      The constructor allocates all memory. With completion flags, a result costs two events
///           and at most two stream waits.
template <class Sink, class Platform, class Device = typename Platform::device_resource,
          class Pinned = typename Platform::pinned_resource>
    requires result_sink<Sink>
class unloader {
    using core = detail::unloader_core<Platform, Device, Pinned, Sink>;

    static_assert(!std::is_reference_v<Sink>,
                  "an unloader owns its sink, and this one cannot be copied: write "
                  "unloader{std::move(sink), ...}, or unloader{std::ref(sink), ...} if the sink "
                  "outlives the unloader");
    static_assert(
        std::is_void_v<std::invoke_result_t<Sink&, std::span<std::byte const>, std::size_t>>,
        "an unloader's sink returns void, because a result would be lost; it throws if it fails");

public:
    using platform = Platform;
    using stream   = typename Platform::stream;

    class result;

    /// Allocates the unloader's blocks from a default-constructed `Device` and `Pinned` resource on
    /// the device of the stream `producer`, which writes the results.
    explicit unloader(Sink sink, stream producer, unloader_options options = {},
                      call_site at = call_site::current())
        requires std::default_initializable<Device> && std::default_initializable<Pinned>
        : unloader{std::move(sink),        producer, make<Device>(producer),
                   make<Pinned>(producer), options,  at} {}

    /// Allocates the unloader's blocks from the resources `device` and `pinned`, which the unloader
    /// then owns. To share a resource, pass a handle such as `shared` or `resource_ref`.
    unloader(Sink sink, stream producer, Device device, Pinned pinned,
             unloader_options options = {}, call_site at = call_site::current())
        : core_{make_core(at, std::move(sink), producer, std::move(device), std::move(pinned),
                          options)},
          producer_{producer} {}

    unloader(unloader&&) noexcept = default;
    unloader& operator=(unloader&& other) noexcept {
        if (this == &other) { return *this; }
        shut_down();
        core_     = std::move(other.core_);
        producer_ = other.producer_;
        return *this;
    }
    ~unloader() { shut_down(); }

    /// Returns device memory for the next result. Work on the stream that was passed to the
    /// constructor may write it at once. Waits while no device block is free; throws
    /// `loader_error{all_held}` if the program holds all.
    [[nodiscard]] result next(call_site at = call_site::current()) {
        detail::user_line<Platform> const here{at};
        auto&                             slot = detail::naming<loader_error>(
            at, [&]() -> typename core::slot& { return core_->take(producer_); });
        return result{core_, slot, producer_};
    }

    /// Sends a copy of the device memory `from` as the next result. The copy waits for the work
    /// enqueued so far on the stream that was passed to the constructor. Later work on that stream
    /// may overwrite `from`. An empty `from` is a result of 0 bytes.
    void push(std::span<std::byte const> from, call_site at = call_site::current()) {
        if (from.size() > core_->batch_bytes()) {
            throw loader_error{loader_error{loader_error::reason::too_large, core_->sent(),
                                            from.size(), core_->batch_bytes()}
                                   .from(at)};
        }
        detail::user_line<Platform> const here{
            at, {detail::part_kind::unloader, "unloader push of result", core_->sent()}};
        result r = next(at);
        if (!from.empty()) { Platform::copy(producer_, r.data(), from.data(), from.size()); }
        r.send(from.size(), at);
    }

    /// Blocks the calling thread until the sink has returned for all results that were sent. If the
    /// sink or a copy has failed, throws the exception at once.
    void finish(call_site at = call_site::current()) {
        detail::user_line<Platform> const here{at};
        detail::naming<loader_error>(at, [&] { core_->finish(); });
    }

    /// Returns the number of results sent so far.
    [[nodiscard]] std::size_t sent() const noexcept { return core_->sent(); }
    /// Returns the number of the unloader's host blocks that are pageable, because they could not
    /// be pinned (see `unloader_options::pageable_fallback`).
    [[nodiscard]] std::size_t pageable() const noexcept { return core_->pageable(); }

private:
    /// Returns a default-constructed `Resource`, created while the device of the stream `producer`
    /// is current, so that its memory belongs to this device.
    template <class Resource>
    static Resource make(stream producer) {
        typename Platform::device_guard const on{Platform::device_of(producer)};
        return Resource{};
    }
    template <class... Arguments>
    static std::shared_ptr<core> make_core(call_site at, Arguments&&... arguments) {
        detail::user_line<Platform> const here{at};
        return {new core(std::forward<Arguments>(arguments)...),
                detail::delete_in_owning_process{}};
    }
    void shut_down() noexcept {
        if (core_ != nullptr) { core_->shut_down(); }
    }

    std::shared_ptr<core> core_;
    stream                producer_;
};

/// Device memory for one result. Work on the device writes the result, and `send` passes it to the
/// unloader. If the object is destroyed without `send`, there is no result: the destructor waits
/// for the work that may write the memory, and the block can then be used again.
template <class Sink, class Platform, class Device, class Pinned>
    requires result_sink<Sink>
class unloader<Sink, Platform, Device, Pinned>::result {
public:
    result(result&& other) noexcept
        : core_{std::move(other.core_)},
          slot_{std::exchange(other.slot_, nullptr)},
          stream_{other.stream_} {}
    result& operator=(result&& other) noexcept {
        if (this == &other) { return *this; }
        drop();
        core_   = std::move(other.core_);
        slot_   = std::exchange(other.slot_, nullptr);
        stream_ = other.stream_;
        return *this;
    }
    ~result() { drop(); }

    /// Returns the device memory for the result, aligned to 256 bytes; null after `send`, or if
    /// moved from.
    [[nodiscard]] std::byte* data() const noexcept {
        return slot_ != nullptr ? slot_->memory : nullptr;
    }
    /// Returns the bytes of the device memory, the largest size of the result; 0 after `send`, or
    /// if moved from.
    [[nodiscard]] std::size_t size() const noexcept {
        return slot_ != nullptr ? core_->batch_bytes() : 0;
    }
    /// Returns the device memory for the result as elements, as many as fit; empty after `send`, or
    /// if moved from.
    template <class Element>
        requires std::is_trivially_copyable_v<Element>
    [[nodiscard]] std::span<Element> span() const noexcept {
        return {reinterpret_cast<Element*>(data()), size() / sizeof(Element)};
    }

    /// Adds a stream `s` that writes the result. Later work on `s` waits until the block's previous
    /// result is copied, and the copy of this result waits for the work enqueued on `s` before
    /// `send`.
    void record_stream(stream s, call_site at = call_site::current()) {
        detail::user_line<Platform> const here{at};
        if (slot_ != nullptr && s != stream_) { slot_->add_user(s); }
    }
    /// Sends the first `bytes` bytes of the memory as the next result. The copy to the host waits
    /// for the work enqueued so far on the unloader's stream and on the streams added by
    /// `record_stream`. A result of 0 bytes also has an index: the sink receives an empty span.
    /// Does nothing if the result was sent already.
    void send(std::size_t bytes, call_site at = call_site::current()) {
        if (slot_ == nullptr) { return; }
        detail::user_line<Platform> const here{at};
        detail::naming<loader_error>(at, [&] { core_->send(slot_, bytes, stream_); });
    }
    /// Sends all `size()` bytes of the memory as the next result: the sink receives them after
    /// their copy to the host. This object then has no memory (see `data`). Does nothing if the
    /// result was sent already.
    void send(call_site at = call_site::current()) { send(size(), at); }

private:
    friend class unloader;

    result(std::shared_ptr<core> of, typename core::slot& which, stream s) noexcept
        : core_{std::move(of)}, slot_{&which}, stream_{s} {}

    void drop() noexcept {
        if (slot_ != nullptr) { core_->drop(*std::exchange(slot_, nullptr), stream_); }
    }

    std::shared_ptr<core> core_;
    typename core::slot*  slot_ = nullptr;
    stream                stream_{};
};

template <class Sink, class Stream>
unloader(Sink&&, Stream const&, unloader_options = {})
    -> unloader<detail::kept_by_value<Sink>, platform_of<Stream>>;
template <class Sink, class Stream, class Device, class Pinned>
unloader(Sink&&, Stream const&, Device, Pinned, unloader_options = {})
    -> unloader<detail::kept_by_value<Sink>, platform_of<Stream>, Device, Pinned>;

} // namespace vram
