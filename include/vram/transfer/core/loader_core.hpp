// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_core` is the state of a loader that exists until its last batch is released.

#include <vram/base/contract.hpp>                // expects
#include <vram/base/core/smaller_of.hpp>         // larger_of, smaller_of
#include <vram/base/core/worker.hpp>             // the thread of platforms where time is real
#include <vram/concepts/core/stream_hold.hpp>    // stream_hold, hold_stream
#include <vram/concepts/powers.hpp>              // synchronous_resource
#include <vram/transfer/core/batch_source.hpp>   // batch_source
#include <vram/transfer/core/copy_problem.hpp>   // source_problem
#include <vram/transfer/core/index_order.hpp>    // index_order
#include <vram/transfer/core/kept_for_good.hpp>  // kept_for_good
#include <vram/transfer/core/numa_local.hpp>     // numa_local
#include <vram/transfer/core/profiler_range.hpp> // profiler_range
#include <vram/transfer/core/slot_copier.hpp>    // slot_copier
#include <vram/transfer/core/slot_memory.hpp>    // slot_memory
#include <vram/transfer/loader_options.hpp>      // loader_options

#include <cstddef>    // size_t
#include <cstdint>    // uint64_t
#include <cstring>    // memset
#include <exception>  // current_exception, rethrow_exception
#include <memory>     // shared_ptr
#include <optional>   // optional
#include <span>       // span
#include <stop_token> // stop_source
#include <utility>    // move
#include <vector>     // vector

namespace vram {
namespace detail {

/// The state of a loader that exists until its last batch has been released: the source, the
/// producers (threads that fill batches), the blocks for batches, and their memory.
///
/// Failure   The constructor throws an exception of the resources, or `over_limit` if the budget is
///           too small. It then frees everything that it allocated. A later exception of the source
///           or of a copy is stored, and thrown when the loop asks for the batch that failed.
/// Threads   `run` executes on the threads of the producers. The loop's thread calls all others.
/// Streams   Copies are enqueued on a non-blocking stream of the loader, or on the caller's stream
///           if one is given.
template <class Platform, synchronous_resource Device, synchronous_resource Pinned, class Source>
class loader_core final : public slot_copier<Platform> {
    using base = slot_copier<Platform>;

public:
    using typename base::clock;
    using typename base::device;
    using typename base::pinned;
    using typename base::slot;
    using typename base::stream;

    static_assert(
        batch_source<Source>::fills || enqueueing_source<source_itself<Source>, stream> ||
            !(callable_source<source_itself<Source>> ||
              callable_enqueueing_source<source_itself<Source>, stream>),
        "a loader's source returns the number of bytes of the batch: std::size_t (0 is the "
        "end), a signed integer that is negative if the source failed, or a bool (true is "
        "a whole batch, false the end)");
    static_assert(
        batch_source<Source>::fills || enqueueing_source<source_itself<Source>, stream>,
        "a loader's source is a callable or a class with std::size_t "
        "fill(std::span<std::byte> to, std::size_t index); write typed<float>(fill) if it "
        "fills a std::span<float>. It may also have enqueue(span, index, stream), or be a "
        "range of spans or vectors");

    loader_core(Source source, stream consumer, Device on_device, Pinned on_host,
                loader_options options, std::optional<stream> copies = std::nullopt)
        : loader_core{batch_source<Source>{std::move(source)},
                      consumer,
                      std::move(on_device),
                      std::move(on_host),
                      options,
                      copies} {}

    ~loader_core() { shut_down(); }

    /// Requests the producers (threads that fill batches) to stop: no further batch is filled.
    void request_stop() noexcept {
        if (!this->in_owning_process()) { return; }
        // Stop assigning batches first: if the stop token makes a source return, its producer
        // thread then finds that no further batch is wanted.
        this->stop();
        if (stop_) { stop_->request_stop(); }
    }
    /// Stops the producers, joins their threads, and waits for copies that are being enqueued. The
    /// stop token requests a source that takes long to return.
    void shut_down() noexcept {
        if (!this->in_owning_process()) { return; } // a forked child has none of these threads
        request_stop();
        if (std::exchange(down_, true)) { return; }
        for (auto& t : threads_) { t.join(); }
        threads_.clear();
        this->await_copier();
        // If no wait proves that all callbacks have run and all completion flags are written, the
        // memory that they access must stay allocated.
        bool const over = this->channel_.drain(memory_.has_flags());
        if (!over) { kept_.keep(this->weak_from_this().lock()); }
    }

    /// Returns the number of batches in the current pass over the source, if known before its end.
    [[nodiscard]] std::optional<std::size_t> batches() const noexcept { return batches_; }

    /// Starts the next pass over the source, from its beginning.
    void restart()
        requires restartable_source<Source>
    {
        this->expect_owning_process();
        if (!this->at_end()) { throw loader_error{loader_error::reason::not_ended}; }
        shut_down();
        source_.restart();
        ++epoch_;
        start();
    }

private:
    using source_type = batch_source<Source>;
    using memory      = slot_memory<Platform, Device, Pinned>;
    using thread      = typename Platform::thread;

    static constexpr std::size_t usual_bytes = std::size_t{4} << 20;
    static constexpr std::size_t unknown     = source_type::unknown;

    loader_core(batch_source<Source> source, stream consumer, Device on_device, Pinned on_host,
                loader_options const& asked, std::optional<stream> copies)
        : base{complete(asked, source), Platform::device_of(consumer), copies},
          source_{std::move(source)},
          where_{Platform::device_of(consumer)},
          held_{hold_stream<Platform>(consumer)},
          memory_{std::move(on_device), std::move(on_host), this->slots_, this->pinned_,
                  this->channel_.view()},
          inline_{asked.depth == 0} {
        loader_options const& o     = this->options_;
        std::size_t const     given = source_.batch_bytes();
        full_                       = given == 0 ? o.batch_bytes : smaller_of(given, o.batch_bytes);
        {
            numa_local<Platform> const here{where_, o.numa_local};
            std::size_t const          pageable =
                memory_.take(o.batch_bytes, o.pageable_fallback, o.completion_flags ? o.budget : 0);
            this->note([&](auto& f) {
                f.allocations = o.pinned_depth + o.device_depth + (memory_.has_flags() ? 1 : 0);
                f.pageable    = pageable;
                f.producers   = o.producers;
            });
        }
        start();
    }

    /// Returns the options `o` with each 0 that means a default replaced by a number. Throws if the
    /// budget is too small, or if the source lacks a function that the options need. Nothing has
    /// been allocated yet.
    static loader_options complete(loader_options o, batch_source<Source> const& source) {
        if (o.batch_bytes == 0) { o.batch_bytes = source.batch_bytes(); }
        if (o.batch_bytes == 0) { o.batch_bytes = usual_bytes; }
        bool const alone = o.depth == 0 || !batch_source<Source>::concurrent;
        o.producers      = alone ? 1 : larger_of<std::size_t>(o.producers, 1);
        auto const depth = larger_of<std::size_t>(o.depth, 1);
        if (o.device_depth == 0 || o.depth == 0) { o.device_depth = depth; }
        if (o.pinned_depth == 0 || o.depth == 0) { o.pinned_depth = depth - 1 + o.producers; }
        o.producers = smaller_of(o.producers, o.pinned_depth);
        if (!batch_source<Source>::fills) { o.pinned_depth = 0; }
        expects(o.shard < o.shards, "loader_options: shard must be less than shards");
        if (o.shards > 1 && !batch_source<Source>::indexed) {
            throw loader_error{loader_error::reason::no_index};
        }
        if (o.shuffle && source.size() == batch_source<Source>::unknown) {
            throw loader_error{loader_error::reason::no_size};
        }
        memory::expect_within(o.pinned_depth + o.device_depth, o.batch_bytes, o.budget);
        return o;
    }

    void start() {
        stop_.emplace(); // in place, because g++ 12 warns of an uninitialised temporary
        std::size_t const mine = share();
        this->begin(mine, std::move(order_));
        down_ = false;
        try {
            threads_.reserve(this->options_.producers);
            for (std::size_t i = 0; !inline_ && i < this->options_.producers; ++i) {
                threads_.emplace_back(where_, [this] { run(); });
            }
        } catch (...) {
            shut_down();
            throw;
        }
    }

    /// Determines the order in which this loader requests batches from the source in the new pass.
    /// Returns the number of these batches, or `none` if it is not known.
    std::size_t share() {
        loader_options const& o = this->options_;
        total_                  = source_.size();
        order_                  = {};
        batches_.reset();
        if (total_ == unknown) {
            order_.part(o.shard, o.shards);
            return base::none;
        }
        bool const        drop = o.last == last_batch::drop;
        std::size_t const n    = drop ? choose_full() : total_;
        if (o.shuffle && order_.size() != 0) {
            order_.shuffle(o.seed + epoch_);
            // If the last batch may be short, it is not shuffled and stays the last.
        } else if (o.shuffle) {
            bool const all = !drop || exact() || n == 0;
            order_         = index_order{all ? n : n - 1, o.seed + epoch_};
        }
        order_.part(o.shard, o.shards);
        // The first `rest` loaders that share the source get one batch more.
        std::size_t const rest = drop ? 0 : n % o.shards;
        std::size_t const mine = n / o.shards + (rest > o.shard);
        if (!drop || exact()) { batches_ = mine; }
        return mine;
    }
    /// Returns true if it is known in advance which batches `last_batch::drop` leaves out.
    [[nodiscard]] bool exact() const noexcept {
        return source_type::measured || this->options_.shards > 1;
    }
    /// Returns the number of batches that are not known to be short. If these are not the first
    /// batches of the source, lists their indices in `order_`.
    std::size_t choose_full() {
        if constexpr (source_type::measured) {
            std::vector<std::size_t> full;
            for (std::size_t i = 0; i < total_; ++i) {
                if (source_.bytes_of(i) >= full_) { full.push_back(i); }
            }
            std::size_t const n = full.size();
            if (n != 0 && full.back() != n - 1) { order_ = index_order{std::move(full)}; }
            return n;
        } else {
            return total_ - (this->options_.shards > 1 && total_ != 0 && last_is_short());
        }
    }
    /// Returns true if the source's last batch is short. Makes a source without
    /// `batch_bytes(index)` produce this batch, because all loaders that share the source must
    /// leave out the same batches. Must be called while no batch is being filled or copied.
    bool last_is_short() {
        if (asked_of_ == total_) { return last_short_; }
        std::size_t const last = total_ - 1;
        std::size_t       bytes;
        if constexpr (source_type::fills) {
            pinned& p = this->pinned_.front();
            this->clear(p);
            bytes = answer(last, last, [&] {
                return source_.fill({p.memory, this->options_.batch_bytes}, last, {});
            });
        } else {
            slot&        s  = this->slots_.front();
            stream const on = this->channel_.view();
            s.await_users(on);
            s.end_unknown = true;
            bytes         = answer(last, last, [&] {
                return source_.enqueue({s.memory, this->options_.batch_bytes}, last, on);
            });
            s.end_unknown = !this->channel_.finish();
        }
        if (bytes == 0) { throw ends_early().at(last, last); }
        asked_of_          = total_;
        return last_short_ = bytes < full_;
    }

    void run() {
        profiler_range<Platform>::name_thread("vram loader");
        numa_local<Platform> const here{where_, this->options_.numa_local};
        if constexpr (batch_source<Source>::fills) {
            while (pinned* const p = this->await_pinned()) { produce(*p); }
        } else {
            while (slot* const s = this->await_slot()) { produce(*s); }
        }
    }
    void produce_inline() override {
        if (!inline_) { return; }
        if constexpr (batch_source<Source>::fills) { // repeats while batches are left out
            while (pinned* const p = this->pinned_now()) { produce(*p); }
        } else {
            while (slot* const s = this->slot_now()) { produce(*s); }
        }
    }

    /// Calls the source to fill the pinned block `p` with the batch assigned to it. The batch is
    /// copied to the device later, in order, once a device block is free.
    void produce(pinned& p) noexcept
        requires(batch_source<Source>::fills)
    {
        // Moved to `ended` below, so that this thread keeps no reference to the exception.
        std::exception_ptr why;
        try {
            this->clear(p);
            std::size_t const   room  = this->options_.batch_bytes;
            std::uint64_t const since = clock::now();
            {
                profiler_range<Platform> const shown{"vram fill"};
                if (pads(p.asked)) { std::memset(p.memory, padding(), room); }
                p.filled = answer(p.index, p.asked, [&] {
                    return source_.fill({p.memory, room}, p.asked, stop_->get_token());
                });
            }
            switch (judge(p.filled)) {
            case verdict::batch:
                p.size = size(p.filled);
                if (p.size != p.filled) {
                    std::memset(p.memory + p.filled, padding(), p.size - p.filled);
                }
                return this->filled(p, clock::now() - since);
            case verdict::left_out: return this->left_out(p, clock::now() - since);
            case verdict::end: break;
            }
        } catch (loader_error& e) {
            e.at(p.index, p.asked);
            why = std::current_exception();
        } catch (...) { why = std::current_exception(); }
        this->ended(p, std::move(why));
    }
    /// Calls a source that enqueues its own copies to fill the device block `s` with its batch.
    void produce(slot& s) noexcept
        requires(!batch_source<Source>::fills)
    {
        stream const       on       = this->channel_.view();
        bool               enqueued = false;
        std::exception_ptr why;
        try {
            std::size_t const   room  = this->options_.batch_bytes;
            std::uint64_t const since = clock::now();
            s.await_users(on);
            // If the source throws, some of its copies may already be enqueued.
            enqueued = true;
            profiler_range<Platform> const shown{"vram copy"};
            if (pads(s.asked)) { Platform::fill(on, s.memory, this->options_.pad_with, room); }
            s.filled = answer(s.index, s.asked,
                              [&] { return source_.enqueue({s.memory, room}, s.asked, on); });
            switch (judge(s.filled)) {
            case verdict::batch:
                s.size = size(s.filled);
                if (s.size != s.filled) {
                    Platform::fill(on, s.memory + s.filled, this->options_.pad_with,
                                   s.size - s.filled);
                }
                Platform::record(s.copied, on);
                return this->posted(s, clock::now() - since);
            case verdict::left_out: return this->left_out(s, clock::now() - since);
            case verdict::end: break;
            }
        } catch (loader_error& e) {
            e.at(s.index, s.asked);
            why = std::current_exception();
        } catch (...) { why = std::current_exception(); }
        if (why != nullptr && enqueued) { s.end_unknown = !this->channel_.finish(); }
        this->ended(s, std::move(why));
    }

    /// Returns the bytes of the batch that `call` obtains from the source. An exception of the
    /// source is rethrown as a `loader_error` with the numbers of the batch.
    template <class Call>
    std::size_t answer(std::size_t index, std::size_t asked, Call const& call) {
        auto const count = [&] {
            try {
                return call();
            } catch (...) { std::rethrow_exception(source_problem<Platform>(index, asked)); }
        }();
        return source_type::checked(count, this->options_.batch_bytes, asked);
    }

    enum class verdict { batch, left_out, end };

    /// Returns the treatment of a batch of `bytes` bytes: the loop gets it, it is left out because
    /// it is short, or the loop ends. Throws `loader_error` if the source ends early, or if the
    /// batch is short but cannot be left out.
    [[nodiscard]] verdict judge(std::size_t bytes) const {
        loader_options const& o = this->options_;
        if (bytes == 0) {
            if (total_ == unknown || stop_->stop_requested()) { return verdict::end; }
            throw ends_early();
        }
        if (o.last != last_batch::drop || bytes >= full_) { return verdict::batch; }
        if (total_ == unknown || !exact()) { return verdict::left_out; }
        if (stop_->stop_requested()) { return verdict::end; }
        throw loader_error{loader_error::reason::short_batch, 0, bytes, full_};
    }
    [[nodiscard]] loader_error ends_early() const noexcept {
        return loader_error{loader_error::reason::ends_early, 0, 0, total_};
    }

    /// Returns true if the block of batch `asked` is filled with `pad_with` before the source
    /// writes into it. The source may write a short batch with gaps (see `fields`).
    [[nodiscard]] bool pads(std::size_t asked) const {
        if (this->options_.last != last_batch::pad) { return false; }
        if constexpr (source_type::measured) {
            return source_.bytes_of(asked) < this->options_.batch_bytes;
        } else {
            (void)asked;
            return true;
        }
    }
    [[nodiscard]] int padding() const noexcept { return static_cast<int>(this->options_.pad_with); }
    [[nodiscard]] std::size_t size(std::size_t bytes) const noexcept {
        loader_options const& o = this->options_;
        return o.last == last_batch::pad ? o.batch_bytes : bytes;
    }

    batch_source<Source> source_;
    device               where_;
    /// Keeps the loop's stream handle valid: the stream may be destroyed before its batches are.
    stream_hold<Platform>           held_;
    memory                          memory_;
    std::optional<std::stop_source> stop_; ///< its token requests the source to return
    std::uint64_t                   epoch_ = 0;
    /// Order in which batches are requested from the source, until `start` moves it away.
    index_order order_;
    /// The source's `size()`, or `unknown`.
    std::size_t total_ = unknown;
    std::size_t full_  = 0; ///< bytes of a full batch; one with fewer is short
    /// Value of `total_` when `last_short_` was computed.
    std::size_t asked_of_   = unknown;
    bool        last_short_ = false;
    /// Number of batches in this pass over the source, if known before its end.
    std::optional<std::size_t> batches_;
    bool                       inline_;
    bool                       down_ = true;
    kept_for_good              kept_;
    std::vector<thread>        threads_;
};

} // namespace detail
} // namespace vram
