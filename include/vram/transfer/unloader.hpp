// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader` copies results from the device to the host while the next results are computed.

#include <vram/base/call_site.hpp>
#include <vram/base/core/what_text.hpp>          // naming
#include <vram/concepts/core/diagnosed.hpp>      // check_pinned
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
/// memory, valid until the function returns; `index` counts the results from 0. The function throws
/// if it fails.
template <class F>
concept result_sink = std::invocable<F&, std::span<std::byte const>, std::size_t>;

/// The reverse of a loader: copies results from the device to the host on a separate stream, and
/// passes them in order to `sink` on a separate thread. The destructor waits until the sink has
/// received all results or has failed.
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
///           `finish`.
/// Threads   One thread of the caller; the sink runs on the unloader's thread.
/// Streams   The copy of a result waits, on the device, for the streams that write the result.
/// Cost      The constructor allocates all memory.
template <class Sink, class Platform, class Device = typename Platform::device_resource,
          class Pinned = typename Platform::pinned_resource>
    requires result_sink<Sink>
class unloader {
    using core = detail::unloader_core<Platform, Device, Pinned, Sink>;

    static_assert(detail::check_pinned<Pinned, Platform>::value);
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

    /// Allocates the blocks from the resources `device` and `pinned`, which the unloader then owns.
    /// To share one, pass a handle such as `shared`.
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

    /// Returns device memory for the next result. Waits for a free block; throws
    /// `loader_error{all_held}` if the program holds all blocks.
    [[nodiscard]] result next(call_site at = call_site::current()) {
        detail::user_line<Platform> const here{at};
        auto&                             slot = detail::naming<loader_error>(
            at, [&]() -> typename core::slot& { return core_->take(producer_); });
        return result{core_, slot, producer_};
    }

    /// Sends a copy of the device memory `from` as the next result. Work enqueued later on
    /// `producer`, the unloader's stream, may overwrite `from`.
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

    /// Waits until the sink has returned for all results that were sent. Throws the exception if
    /// the sink or a copy has failed.
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
/// unloader. If the object is destroyed without `send`, the destructor waits for the work, and no
/// result is sent. If the wait fails, the memory is not used again, and counts as held.
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
    /// Returns the result's device memory as a span of whole elements, without bytes left over at
    /// the end; empty after `send` or a move.
    template <class Element>
        requires std::is_trivially_copyable_v<Element>
    [[nodiscard]] std::span<Element> span() const noexcept {
        return {reinterpret_cast<Element*>(data()), size() / sizeof(Element)};
    }

    /// Adds a stream that writes the result: the copy to the host waits for the work enqueued on
    /// `s` before `send`.
    void record_stream(stream s, call_site at = call_site::current()) {
        detail::user_line<Platform> const here{at};
        if (slot_ == nullptr || s == stream_) { return; }
        if (detail::captures<Platform>(s)) {
            auto const why = loader_error::reason::capturing;
            throw loader_error{loader_error{why, core_->sent()}.from(at)};
        }
        slot_->add_user(s);
    }
    /// Sends the first `bytes` bytes (0 is allowed) as the next result. The copy to the host waits
    /// for the work enqueued so far on the unloader's stream and on those of `record_stream`.
    /// Throws `loader_error{capturing}` if one of these streams is being captured.
    void send(std::size_t bytes, call_site at = call_site::current()) {
        if (slot_ == nullptr) { return; }
        detail::user_line<Platform> const here{at};
        detail::naming<loader_error>(at, [&] { core_->send(slot_, bytes, stream_); });
    }
    /// Sends all `size()` bytes of the memory as the next result; this object then has no memory. A
    /// second call does nothing.
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
