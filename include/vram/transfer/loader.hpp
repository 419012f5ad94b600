// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader` fills batches of device memory in the background while the program uses earlier ones.

#include <vram/base/call_site.hpp>
#include <vram/base/core/range_concepts.hpp>     // input_iterator_tag, default_sentinel_t
#include <vram/base/core/what_text.hpp>          // naming
#include <vram/concepts/core/diagnosed.hpp>      // check_pinned
#include <vram/concepts/core/owning_process.hpp> // delete_in_owning_process
#include <vram/concepts/core/user_line.hpp>
#include <vram/concepts/platform_of.hpp>
#include <vram/transfer/batch.hpp>
#include <vram/transfer/core/kept_by_value.hpp>
#include <vram/transfer/core/loader_core.hpp>
#include <vram/transfer/core/referred_range.hpp>
#include <vram/transfer/loader_options.hpp>

#include <concepts> // default_initializable
#include <cstddef>
#include <memory>      // shared_ptr
#include <optional>    // optional
#include <type_traits> // conditional_t, is_reference_v, remove_cvref_t
#include <utility>

namespace vram {

/// A range of batches in device memory. Background threads (*producers*) fill the batches, and a
/// stream of the loader copies them to the device, ahead of the loop that uses them.
///
///     auto fill = [&](std::span<std::byte> to, std::size_t i) { return file.read(to, i); };
///     for (auto& batch : loader{fill, stream, {.batch_bytes = 64_MiB, .depth = 2}}) {
///         auto const x = batch.span<float>();
///         train<<<grid, block, 0, stream>>>(x.data(), x.size());
///     }
///
/// A source writes into pinned memory (`filling_source`), enqueues its own copies
/// (`enqueueing_source`), or is a range of spans or vectors. Moving a loader invalidates its
/// iterators.
///
/// Failure   An exception of the source or of a copy is thrown at the batch that failed, after all
///           batches before it.
/// Threads   The source runs on the producers' threads, or with `depth` 0 on the loop's thread; a
///           batch may be released on any thread.
/// Streams   The consumer's stream, not the host, waits for the copy of each batch.
/// Cost      The constructor allocates the memory of all batches; no step of the loop allocates.
template <class Source, class Platform, class Device = typename Platform::device_resource,
          class Pinned = typename Platform::pinned_resource>
class loader {
    using core = detail::loader_core<Platform, Device, Pinned, Source>;

    static_assert(detail::check_pinned<Pinned, Platform>::value);
    static_assert(!std::is_reference_v<Source>,
                  "a loader owns its source, and this one cannot be copied: write "
                  "loader{std::move(source), ...}, or loader{std::ref(source), ...} if the source "
                  "outlives the loader");

public:
    using platform = Platform;
    using stream   = typename Platform::stream;
    using batch    = vram::batch<Platform>;

    /// Allocates the blocks by default-constructed `Device` and `Pinned` resources on the device of
    /// the loop's stream `consumer`. Starts the producers.
    explicit loader(Source source, stream consumer, loader_options options = {},
                    call_site at = call_site::current())
        requires std::default_initializable<Device> && std::default_initializable<Pinned>
        : loader{std::move(source),      consumer, make<Device>(consumer),
                 make<Pinned>(consumer), options,  at} {}

    /// Allocates the blocks from the resources `device` and `pinned`, which the loader then owns.
    /// To share one, pass a handle such as `shared`.
    loader(Source source, stream consumer, Device device, Pinned pinned,
           loader_options options = {}, call_site at = call_site::current())
        : core_{make_core(at, std::move(source), consumer, std::move(device), std::move(pinned),
                          options)},
          consumer_{consumer},
          at_{at} {}

    /// Enqueues the copies on the caller's stream `copies`, which must be non-blocking
    /// (cudaStreamNonBlocking) and must outlive the loader and its batches.
    loader(Source source, stream consumer, stream copies, loader_options options = {},
           call_site at = call_site::current())
        requires std::default_initializable<Device> && std::default_initializable<Pinned>
        : core_{make_core(at, std::move(source), consumer, make<Device>(consumer),
                          make<Pinned>(consumer), options, copies)},
          consumer_{consumer},
          at_{at} {}

    loader(loader&&) noexcept = default;
    loader& operator=(loader&& other) noexcept {
        if (this == &other) { return *this; }
        finish();
        core_     = std::move(other.core_);
        current_  = std::move(other.current_);
        consumer_ = other.consumer_;
        state_    = other.state_;
        begun_    = other.begun_;
        at_       = other.at_;
        return *this;
    }
    ~loader() { finish(); }

    class iterator;

    /// Returns an iterator at the next batch. A second call throws `loader_error{already_begun}`,
    /// unless `restart` was called in between.
    [[nodiscard]] iterator begin(call_site at = call_site::current()) {
        if (std::exchange(begun_, true)) {
            throw loader_error{loader_error{loader_error::reason::already_begun}.from(at)};
        }
        at_ = at;
        return iterator{*this};
    }
    /// Returns the sentinel that an iterator equals after the last batch.
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

    /// Ends the loop and releases the current batch; batches moved out of the loop stay valid. Must
    /// be called on the loop's thread.
    void stop() noexcept {
        core_->request_stop();
        current_.release(consumer_, at_);
        state_ = state::ended;
    }

    /// Lets a loop read all batches again, after a loop has ended or after `stop`; throws
    /// `loader_error` otherwise. A failed call can be repeated.
    void restart(call_site at = call_site::current())
        requires detail::restartable_source<Source>
    {
        detail::user_line<Platform> const here{at};
        detail::naming<loader_error>(at, [&] { core_->restart(); });
        state_ = state::asking;
        begun_ = false;
    }

    /// Returns the number of batches of the current pass over the source, or nothing if the number
    /// is known only at the end.
    [[nodiscard]] std::optional<std::size_t> batches() const noexcept { return core_->batches(); }

    /// Returns counters and times of this loader since its construction. Must be called on the
    /// thread that runs the loop.
    [[nodiscard]] loader_statistics statistics() const { return core_->statistics(); }
    /// Returns how many blocks of the loader are in each state at this moment.
    [[nodiscard]] slot_states states() const { return core_->states(); }

private:
    /// State of the loop's current batch. `asking`: the loop has not taken the batch from the
    /// loader yet. `there`: the loop has taken the batch. `ended`: there is no further batch.
    enum class state { asking, there, ended };

    /// Creates a default-constructed resource on the device of the stream `consumer`.
    template <class Resource>
    static Resource make(stream consumer) {
        typename Platform::device_guard const on{Platform::device_of(consumer)};
        return Resource{};
    }

    template <class... Arguments>
    static std::shared_ptr<core> make_core(call_site at, Arguments&&... arguments) {
        detail::user_line<Platform> const here{at};
        return detail::naming<loader_error>(at, [&] {
            return std::shared_ptr<core>{new core(std::forward<Arguments>(arguments)...),
                                         detail::delete_in_owning_process{}};
        });
    }

    void fetch() {
        if (state_ != state::asking) { return; }
        detail::user_line<Platform> const here{at_};
        auto* const s = detail::naming<loader_error>(at_, [&] { return core_->take(consumer_); });
        state_        = s == nullptr ? state::ended : state::there;
        if (s != nullptr) { current_ = batch{core_, *s, consumer_}; }
    }
    void advance() noexcept {
        current_.release(consumer_, at_);
        if (state_ == state::there) { state_ = state::asking; }
    }
    void finish() noexcept {
        current_.release(consumer_, at_);
        if (core_ != nullptr) { core_->shut_down(); }
    }

    std::shared_ptr<core> core_;
    batch                 current_;
    stream                consumer_;
    state                 state_ = state::asking;
    bool                  begun_ = false;
    /// Line of the program that called `begin` or, before that, the constructor. Errors name it.
    call_site at_;
};

/// The iterator of a loader. The first dereference, comparison or increment waits for the batch at
/// the iterator.
template <class Source, class Platform, class Device, class Pinned>
class loader<Source, Platform, Device, Pinned>::iterator {
public:
    using iterator_concept = std::input_iterator_tag;
    using value_type       = batch;
    using difference_type  = std::ptrdiff_t;

    iterator()                      = default;
    iterator(iterator&&)            = default;
    iterator& operator=(iterator&&) = default;

    /// Returns the batch at the iterator. The first access waits for the batch, and throws the
    /// exception if the batch failed.
    [[nodiscard]] batch& operator*() const {
        of_->fetch();
        return of_->current_;
    }
    [[nodiscard]] batch* operator->() const { return &**this; }

    /// Releases the batch at the iterator and advances to the next batch. Does not wait for the
    /// next batch. If the loop has not accessed the batch at the iterator yet, first waits for that
    /// batch.
    iterator& operator++() {
        // `advance` moves only past a batch that was taken from the loader. `fetch` takes it.
        of_->fetch();
        of_->advance();
        return *this;
    }
    void operator++(int) { ++*this; }

    friend bool operator==(iterator const& at, std::default_sentinel_t) { return at.ended(); }

private:
    friend class loader;
    explicit iterator(loader& of) noexcept : of_{&of} {}

    [[nodiscard]] bool ended() const {
        of_->fetch();
        return of_->state_ == state::ended;
    }

    loader* of_ = nullptr;
};

namespace detail {
/// The type in which a loader stores its source: by reference for an lvalue range that is no view,
/// otherwise by value.
template <class Source>
struct kept_source {
    using type = kept_by_value<Source>;
};
template <class Source>
    requires copied_source<std::remove_cvref_t<Source>>
struct kept_source<Source> {
    using range = std::remove_reference_t<Source>;
    using type  = std::conditional_t<std::is_lvalue_reference_v<Source> &&
                                         !std::ranges::view<std::remove_cvref_t<Source>>,
                                     referred_range<range>, std::remove_cvref_t<Source>>;
};
} // namespace detail

template <class Source, class Stream>
loader(Source&&, Stream const&, loader_options = {})
    -> loader<typename detail::kept_source<Source>::type, platform_of<Stream>>;
template <class Source, class Stream, class Copies>
    requires std::same_as<platform_of<Stream>, platform_of<Copies>>
loader(Source&&, Stream const&, Copies const&, loader_options = {})
    -> loader<typename detail::kept_source<Source>::type, platform_of<Stream>>;
template <class Source, class Stream, class Device, class Pinned>
loader(Source&&, Stream const&, Device, Pinned, loader_options = {})
    -> loader<typename detail::kept_source<Source>::type, platform_of<Stream>, Device, Pinned>;

} // namespace vram
