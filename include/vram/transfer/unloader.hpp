// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader` takes results off the device while the next are computed.

#include <vram/concepts/platform_of.hpp>      // platform_of
#include <vram/transfer/home_process.hpp>     // delete_at_home
#include <vram/transfer/unloader_core.hpp>    // unloader_core
#include <vram/transfer/unloader_options.hpp> // unloader_options

#include <concepts>    // default_initializable, invocable
#include <cstddef>     // size_t, byte
#include <memory>      // shared_ptr
#include <span>        // span
#include <type_traits> // is_trivially_copyable_v, is_void_v, invoke_result_t
#include <utility>     // move, exchange

namespace vram {

/// Writes a result: `sink(bytes, index)`. The bytes are pinned memory, and the sink's until it
/// returns. It returns nothing, and throws if it fails.
template <class F>
concept result_sink = std::invocable<F&, std::span<std::byte const>, std::size_t>;

/// A loader the other way round: results are copied to the host by a stream of their own, and given
/// to `sink` in their order, on a thread of their own.
///
///     unloader out{[&](std::span<std::byte const> r, std::size_t) { file.write(r); }, stream};
///     for (auto& batch : loader) {
///         auto result = out.next();                      // device memory, at once
///         auto const from = batch.span<float>(), to = result.span<float>();
///         infer<<<grid, block, 0, stream>>>(from.data(), to.data(), to.size());
///         result.send();                                 // goes once the stream got here
///     }
///     out.finish();                                      // everything is written
///
/// Failure   what the sink or a copy throws is thrown by every later `next`, `push` and `finish`;
///           nothing is written after it. `loader_error` for what the program itself does wrong.
///           The destructor waits for all results that were sent. If no call was left that could
///           throw, it reports the exception to the error sink, with the index of the result
/// Threads   one; the sink runs on the unloader's. `next` waits in the host where the sink is so
///           far behind that every slot is full
/// Streams   the given stream waits for the copy of what a slot held before, the copies for the
///           results; the host waits for neither
/// Cost      everything is taken when it is made; a result is two events and two stream waits
template <class Sink, class Platform, class Device = typename Platform::device_resource,
          class Pinned = typename Platform::pinned_resource>
    requires result_sink<Sink>
class unloader {
    using core = unloader_core<Platform, Device, Pinned, Sink>;

    static_assert(
        std::is_void_v<std::invoke_result_t<Sink&, std::span<std::byte const>, std::size_t>>,
        "an unloader's sink returns nothing: what it returns would be lost; it throws if it fails");

public:
    using platform = Platform;
    using stream   = typename Platform::stream;

    class result;

    /// Memory from the platform's own resources, on the device of `producer`.
    explicit unloader(Sink sink, stream producer, unloader_options options = {})
        requires std::default_initializable<Device> && std::default_initializable<Pinned>
        : unloader{std::move(sink), producer, make<Device>(producer), make<Pinned>(producer),
                   options} {}

    /// Memory from resources of the user's: owned, or handles such as `shared` and `resource_ref`.
    unloader(Sink sink, stream producer, Device device, Pinned pinned,
             unloader_options options = {})
        : core_{new core(std::move(sink), producer, std::move(device), std::move(pinned), options),
                delete_at_home{}},
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

    /// Device memory for the next result.
    [[nodiscard]] result next() { return result{core_, core_->take(producer_), producer_}; }

    /// Copies what `from`, memory of the device, holds once the stream got here; it may be used
    /// again after that in the stream. An empty `from` is a result of 0 bytes.
    void push(std::span<std::byte const> from) {
        if (from.size() > core_->batch_bytes()) {
            throw loader_error{loader_error::reason::too_large, core_->sent(), from.size(),
                               core_->batch_bytes()};
        }
        result r = next();
        if (!from.empty()) { Platform::copy(producer_, r.data(), from.data(), from.size()); }
        r.send(from.size());
    }

    /// The host waits until the sink has had everything that was sent.
    void finish() { core_->finish(); }

    /// Results so far.
    [[nodiscard]] std::size_t sent() const noexcept { return core_->sent(); }
    /// Blocks that should be pinned and are not.
    [[nodiscard]] std::size_t pageable() const noexcept { return core_->pageable(); }

private:
    /// A resource on the device of a stream.
    template <class Resource>
    static Resource make(stream producer) {
        typename Platform::device_guard const on{Platform::device_of(producer)};
        return Resource{};
    }
    void shut_down() noexcept {
        if (core_ != nullptr) { core_->shut_down(); }
    }

    std::shared_ptr<core> core_;
    stream                producer_;
};

/// A slot on loan, to be written by the device. One that ends without `send` is no result: it goes
/// back when the work that may write there is over, for which the host waits.
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

    /// Device memory, aligned to 256 bytes; null once sent.
    [[nodiscard]] std::byte* data() const noexcept {
        return slot_ != nullptr ? slot_->memory : nullptr;
    }
    /// Bytes that there is room for.
    [[nodiscard]] std::size_t size() const noexcept {
        return slot_ != nullptr ? core_->batch_bytes() : 0;
    }
    /// The room as elements, as many as fit.
    template <class Element>
        requires std::is_trivially_copyable_v<Element>
    [[nodiscard]] std::span<Element> span() const noexcept {
        return {reinterpret_cast<Element*>(data()), size() / sizeof(Element)};
    }

    /// Work on `s` writes the result too: `s` waits for the slot here, and the copy for `s`.
    void record_stream(stream s) {
        if (slot_ != nullptr && s != stream_) { slot_->add_user(s); }
    }
    /// The first `bytes` bytes are the result, once the stream and those named got here. A result
    /// of 0 bytes has an index too: the sink gets an empty span.
    void send(std::size_t bytes) {
        if (slot_ == nullptr) { return; }
        core_->send(slot_, bytes, stream_);
    }
    void send() { send(size()); }

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
unloader(Sink, Stream const&, unloader_options = {}) -> unloader<Sink, platform_of<Stream>>;
template <class Sink, class Stream, class Device, class Pinned>
unloader(Sink, Stream const&, Device, Pinned, unloader_options = {})
    -> unloader<Sink, platform_of<Stream>, Device, Pinned>;

} // namespace vram
