// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader` brings the next batch while this one is used.

#include <vram/concepts/platform_of.hpp>    // platform_of
#include <vram/transfer/batch.hpp>          // batch
#include <vram/transfer/home_process.hpp>   // delete_at_home
#include <vram/transfer/loader_core.hpp>    // loader_core
#include <vram/transfer/loader_options.hpp> // loader_options

#include <concepts> // default_initializable
#include <cstddef>  // ptrdiff_t
#include <iterator> // input_iterator_tag, default_sentinel_t
#include <memory>   // shared_ptr
#include <optional> // optional
#include <ranges>   // views::all_t
#include <utility>  // move, exchange

namespace vram {

/// A range of batches on the device, filled and copied ahead by a thread and a stream of its own.
///
///     auto fill = [&](std::span<std::byte> to, std::size_t i) { return file.read(to, i); };
///     for (auto& batch : loader{fill, stream, {.batch_bytes = 64_MiB, .depth = 2}}) {
///         auto const x = batch.span<float>();
///         train<<<grid, block, 0, stream>>>(x.data(), x.size());
///     }
///
/// A source writes into pinned memory in place (`filling_source`), or is a range of spans or
/// vectors that is copied there. Batches come in the source's order. All memory is taken when the
/// loader is made, nothing afterwards. `++` gives the batch back and does not wait for the next
/// one; asking for that does.
///
/// Failure   a failure of the source or of a copy is thrown at its batch, after all before it; then
///           the range has ended. What the source throws is the `cause()` of a `loader_error` that
///           names the batch; an error of the platform stays one, and names the batch in its text.
///           `loader_error` for mistakes of the loop itself. The constructor throws what the
///           resources throw, or `over_limit` where the budget is too small, and keeps nothing
/// Threads   the source runs on the producers', the loop on one of the user's, batches may end on
///           any; it ends with a join
/// Streams   the given stream waits for each copy, the copies for the last use of a slot; the
///           host waits for neither. Moving a loader leaves its iterators behind
/// Cost      a step of the loop takes a lock twice, records an event and makes a stream wait
template <class Source, class Platform, class Device = typename Platform::device_resource,
          class Pinned = typename Platform::pinned_resource>
class loader {
    using core = loader_core<Platform, Device, Pinned, Source>;

public:
    using platform = Platform;
    using stream   = typename Platform::stream;
    using batch    = vram::batch<Platform>;

    /// Memory from the platform's own resources, on the device of `consumer`.
    explicit loader(Source source, stream consumer, loader_options options = {})
        requires std::default_initializable<Device> && std::default_initializable<Pinned>
        : loader{std::move(source), consumer, make<Device>(consumer), make<Pinned>(consumer),
                 options} {}

    /// Memory from resources of the user's: owned, or handles such as `shared` and `resource_ref`.
    loader(Source source, stream consumer, Device device, Pinned pinned,
           loader_options options = {})
        : core_{new core(std::move(source), consumer, std::move(device), std::move(pinned),
                         options),
                delete_at_home{}},
          consumer_{consumer} {}

    /// The same with the copies on the stream `copies` of the user's, which does not block and
    /// outlives the loader and its batches.
    loader(Source source, stream consumer, stream copies, loader_options options = {})
        requires std::default_initializable<Device> && std::default_initializable<Pinned>
        : core_{new core(std::move(source), consumer, make<Device>(consumer),
                         make<Pinned>(consumer), options, copies),
                delete_at_home{}},
          consumer_{consumer} {}

    loader(loader&&) noexcept = default;
    loader& operator=(loader&& other) noexcept {
        if (this == &other) { return *this; }
        finish();
        core_     = std::move(other.core_);
        current_  = std::move(other.current_);
        consumer_ = other.consumer_;
        state_    = other.state_;
        begun_    = other.begun_;
        return *this;
    }
    ~loader() { finish(); }

    class iterator;

    /// The range is read once, until `restart`; a second `begin` is `loader_error{already_begun}`.
    [[nodiscard]] iterator begin() {
        if (std::exchange(begun_, true)) {
            throw loader_error{loader_error::reason::already_begun};
        }
        return iterator{*this};
    }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

    /// No more batches are produced; the range has ended. Batches in use stay what they are. On the
    /// loop's thread.
    void stop() noexcept {
        core_->request_stop();
        current_.release();
        state_ = state::ended;
    }

    /// After the end, or a `stop`: the range is there once more, from the source's beginning. Where
    /// batches are shuffled, in the order of the next epoch. `loader_error{not_ended}` elsewhere.
    void restart()
        requires restartable_source<Source>
    {
        core_->restart();
        state_ = state::asking;
        begun_ = false;
    }

    /// The number of batches of the epoch, of this loader's shard. Nothing if it is only known at
    /// the end: if the source has no `size()`, or if `last_batch::drop` leaves out batches of a
    /// source without `batch_bytes(index)`.
    [[nodiscard]] std::optional<std::size_t> batches() const noexcept { return core_->batches(); }

    /// Where the time went so far.
    [[nodiscard]] loader_statistics statistics() const { return core_->statistics(); }
    /// Where every block is at this moment.
    [[nodiscard]] slot_states states() const { return core_->states(); }

private:
    enum class state { asking, there, ended }; ///< of the batch that the iterator is at

    /// A resource on the device of a stream.
    template <class Resource>
    static Resource make(stream consumer) {
        typename Platform::device_guard const on{Platform::device_of(consumer)};
        return Resource{};
    }

    void fetch() {
        if (state_ != state::asking) { return; }
        auto* const s = core_->take(consumer_);
        state_        = s == nullptr ? state::ended : state::there;
        if (s != nullptr) { current_ = batch{core_, *s, consumer_}; }
    }
    void advance() noexcept {
        current_.release();
        if (state_ == state::there) { state_ = state::asking; }
    }
    void finish() noexcept {
        current_.release();
        if (core_ != nullptr) { core_->shut_down(); }
    }

    std::shared_ptr<core> core_;
    batch                 current_;
    stream                consumer_;
    state                 state_ = state::asking;
    bool                  begun_ = false;
};

/// At one batch; the next is asked for when it is looked at.
template <class Source, class Platform, class Device, class Pinned>
class loader<Source, Platform, Device, Pinned>::iterator {
public:
    using iterator_concept = std::input_iterator_tag;
    using value_type       = batch;
    using difference_type  = std::ptrdiff_t;

    iterator()                      = default;
    iterator(iterator&&)            = default;
    iterator& operator=(iterator&&) = default;

    [[nodiscard]] batch& operator*() const {
        of_->fetch();
        return of_->current_;
    }
    [[nodiscard]] batch* operator->() const { return &**this; }

    iterator& operator++() {
        of_->fetch(); // a batch that nobody looked at is passed over, not the one before it
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
/// A range is referred to, or moved in; a callable is copied or moved in.
template <class Source>
struct kept_source {
    using type = std::decay_t<Source>; // a function is a pointer
};
template <class Source>
    requires copied_source<std::remove_cvref_t<Source>>
struct kept_source<Source> {
    using type = std::views::all_t<Source>;
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
