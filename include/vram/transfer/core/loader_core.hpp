// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_core` is the state of a loader that exists until its last batch is released.

#include <vram/base/contract.hpp>             // expects
#include <vram/base/core/smaller_of.hpp>      // larger_of, smaller_of
#include <vram/base/core/worker.hpp>          // the thread of platforms where time is real
#include <vram/base/tag.hpp>                  // tagged
#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/concepts/core/user_line.hpp>   // user_line, user_code, remembered_line
#include <vram/concepts/powers.hpp>           // synchronous_resource
#include <vram/transfer/core/batch_plan.hpp>
#include <vram/transfer/core/batch_source.hpp>
#include <vram/transfer/core/copy_problem.hpp> // source_problem
#include <vram/transfer/core/leak_on_purpose.hpp>
#include <vram/transfer/core/numa_local.hpp>
#include <vram/transfer/core/profiler_range.hpp>
#include <vram/transfer/core/slot_memory.hpp>
#include <vram/transfer/core/slot_ring.hpp>
#include <vram/transfer/loader_options.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>    // memset
#include <exception>  // current_exception, rethrow_exception
#include <memory>     // shared_ptr
#include <optional>   // optional
#include <span>       // span
#include <stop_token> // stop_source
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The state of a loader: the source, the producers (threads that fill batches), and the blocks.
/// The state exists until the loader is destroyed and the last batch is released.
///
/// Failure   An exception of the source or of a copy is thrown when the loop asks for that batch.
///           The constructor and `restart` may call the source to learn the size of the last batch.
///           They throw the exceptions of this call.
/// Threads   Any thread may release a batch; the loop's thread calls all other functions.
template <class Platform, synchronous_resource Device, synchronous_resource Pinned, class Source>
class loader_core final : public slot_ring<Platform> {
    using base = slot_ring<Platform>;

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
        "range of spans or vectors; write memory_chunks{std::as_bytes(std::span{values}), "
        "batch_bytes} to divide one vector of values into batches");

    loader_core(Source source, stream consumer, Device on_device, Pinned on_host,
                loader_options options, std::optional<stream> copies = std::nullopt)
        : loader_core{batch_source<Source>{std::move(source)},
                      consumer,
                      std::move(on_device),
                      std::move(on_host),
                      options,
                      copies} {}

    ~loader_core() { shut_down(); }

    /// Requests the producers (threads that fill batches) to stop, and does not wait for them. If
    /// the source takes a stop token, also requests a running call of the source to return early.
    void request_stop() noexcept {
        if (!this->in_owning_process()) { return; }
        // Stops the producers first, and only then tells the source to return early. In the other
        // order, a producer could request one more batch from the source.
        this->stop();
        if (stop_) { stop_->request_stop(); }
    }
    /// Ends the current pass over the source. Waits for callbacks and completion flags (words that
    /// the device writes after copies). If this wait fails, keeps this object alive until the
    /// process ends, because a late callback may access the object.
    void shut_down() noexcept {
        if (!end_pass()) { kept_.keep(this->weak_from_this().lock()); }
    }

    /// Returns the number of batches of the current pass over the source, or nothing if the number
    /// is known only at the end.
    [[nodiscard]] std::optional<std::size_t> batches() const noexcept { return plan_.batches(); }

    /// Starts the next pass over the source. Throws `loader_error{not_ended}` if the program's loop
    /// has not reached the end of the current pass, unless the loader was stopped.
    void restart()
        requires restartable_source<Source>
    {
        this->expect_owning_process();
        if (!this->at_end()) { throw loader_error{loader_error::reason::not_ended}; }
        if (!end_pass() || this->copies_unknown()) {
            this->await_copies();
            copies_over_ = true;
        }
        source_.restart();
        start();
    }

private:
    using source_type = batch_source<Source>;
    using verdict     = typename batch_plan<Source>::verdict;
    using memory      = slot_memory<Platform, Device, Pinned>;
    using thread      = typename Platform::thread;

    static constexpr std::size_t usual_bytes = std::size_t{4} << 20;

    loader_core(batch_source<Source> source, stream consumer, Device on_device, Pinned on_host,
                loader_options const& asked, std::optional<stream> copies)
        : base{complete(asked, source), Platform::device_of(consumer), copies},
          source_{std::move(source)},
          plan_{source_, this->options_},
          held_{hold_stream<Platform>(consumer)},
          memory_{std::move(on_device), std::move(on_host), this->slots_, this->pinned_,
                  this->channel_.view()},
          inline_{asked.depth == 0} {
        loader_options const& o = this->options_;
        {
            numa_local<Platform> const here{this->where_, o.numa_local};
            tagged const               purpose{"loader"};
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

    /// Returns the options `o` with actual values in place of zeros that mean a default. Adapts the
    /// depths and the number of producers to the source. Throws if `o.budget` is too small, or if
    /// shards or shuffling need a function that the source lacks.
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

    /// Stops and joins the producers, then waits for all callbacks and completion flags of copies.
    /// Returns false if the last wait failed.
    bool end_pass() noexcept {
        // The producers' threads do not exist in a forked child process.
        if (!this->in_owning_process()) { return true; }
        request_stop();
        if (std::exchange(down_, true)) { return copies_over_; }
        for (auto& t : threads_) { t.join(); }
        threads_.clear();
        this->await_copier();
        return copies_over_ = this->channel_.drain(memory_.has_flags());
    }

    void start() {
        stop_.emplace(); // constructed in place, because g++ 12 warns of an uninitialised temporary
        auto pass = plan_.begin(epoch_, [this](std::size_t last) { return produce_only(last); });
        this->begin(pass.batches, std::move(pass.order));
        down_ = false;
        try {
            threads_.reserve(this->options_.producers);
            for (std::size_t i = 0; !inline_ && i < this->options_.producers; ++i) {
                threads_.emplace_back(this->where_, [this] { run(); });
            }
        } catch (...) {
            (void)end_pass();
            throw;
        }
        ++epoch_;
    }

    /// Returns a block into which the source writes a batch only to learn the batch's size. This is
    /// a pinned block or, if the source enqueues its own copies, a free device block.
    [[nodiscard]] auto& begin_spare([[maybe_unused]] std::size_t index) {
        if constexpr (source_type::fills) {
            return this->pinned_.front();
        } else {
            return this->take_spare(index);
        }
    }
    void end_spare(pinned&) noexcept {}
    void end_spare(slot& s) noexcept {
        abandon(s);
        this->put_spare(s);
    }

    void run() {
        profiler_range<Platform>::name_thread("vram loader");
        user_line<Platform> const  from{made_.at()};
        numa_local<Platform> const here{this->where_, this->options_.numa_local};
        if constexpr (batch_source<Source>::fills) {
            while (pinned* const p = this->await_pinned()) { produce(*p); }
        } else {
            while (slot* const s = this->await_slot()) { produce(*s); }
        }
    }
    void produce_inline() override {
        if (!inline_) { return; }
        // One call of `produce` may not suffice, because its batch may be left out. `pinned_now`
        // and `slot_now` return null once a batch is available or none is left.
        if constexpr (batch_source<Source>::fills) {
            while (pinned* const p = this->pinned_now()) { produce(*p); }
        } else {
            while (slot* const s = this->slot_now()) { produce(*s); }
        }
    }

    // Parts of `produce`. Each has a version for pinned blocks and a version for device blocks.
    // `prepare` makes sure that the block is written only after its last use.
    void prepare(pinned& p) { this->clear(p); }
    void prepare(slot& s) { s.await_users(this->channel_.view()); }

    [[nodiscard]] std::size_t request(pinned& p, std::size_t index, std::size_t asked)
        requires(source_type::fills)
    {
        return answer(index, asked, [&] {
            return source_.fill({p.memory, this->options_.batch_bytes}, asked, stop_->get_token());
        });
    }
    [[nodiscard]] std::size_t request(slot& s, std::size_t index, std::size_t asked)
        requires(!source_type::fills)
    {
        return answer(index, asked, [&] {
            return source_.enqueue({s.memory, this->options_.batch_bytes}, asked,
                                   this->channel_.view());
        });
    }
    void pad(pinned& p, std::size_t from, std::size_t to) {
        std::memset(p.memory + from, static_cast<int>(this->options_.pad_with), to - from);
    }
    void pad(slot& s, std::size_t from, std::size_t to) {
        Platform::fill(this->channel_.view(), s.memory + from, this->options_.pad_with, to - from);
    }
    void deliver(pinned& p, std::uint64_t ns) { this->filled(p, ns); }
    void deliver(slot& s, std::uint64_t ns) {
        Platform::record(s.copied, this->channel_.view());
        this->posted(s, ns);
    }
    /// Called if a batch failed or is not needed. For a device block, waits for copies that the
    /// source may have enqueued into the block. For a pinned block, no wait is necessary.
    void abandon(pinned&) noexcept {}
    void abandon(slot& s) noexcept { s.end_unknown = !this->channel_.finish(); }

    /// Makes the source produce a batch in the block `b`. Then delivers this batch to the loop,
    /// leaves it out, or ends the loop before this batch.
    template <class Block>
    void produce(Block& b) noexcept {
        bool requested = false;
        // The exception of the source or the platform, or null. It is moved into `ended`, and then
        // belongs to the loop's thread alone.
        std::exception_ptr why;
        try {
            prepare(b);
            std::uint64_t const since = clock::now();
            requested                 = true;
            {
                profiler_range<Platform> const shown{source_type::fills ? "vram fill"
                                                                        : "vram copy"};
                bool const pads = ask(b.index, b.asked, [&] { return plan_.pads(b.asked); });
                if (pads) { pad(b, 0, this->options_.batch_bytes); }
                b.filled = request(b, b.index, b.asked);
            }
            switch (plan_.judge(b.filled, stop_->stop_requested())) {
            case verdict::batch:
                b.size = plan_.padded(b.filled);
                if (b.size != b.filled) { pad(b, b.filled, b.size); }
                return deliver(b, clock::now() - since);
            case verdict::left_out: return this->left_out(b, clock::now() - since);
            case verdict::end: break;
            }
        } catch (loader_error& e) {
            e.at(b.index, b.asked);
            why = std::current_exception();
        } catch (...) { why = std::current_exception(); }
        if (why != nullptr && requested) { abandon(b); }
        this->ended(b, std::move(why));
    }
    /// Makes the source write batch `index`, only to learn its size, and returns the number of
    /// bytes. Called before the pass begins, while no batch is filled or copied.
    std::size_t produce_only(std::size_t index) {
        auto&       b     = begin_spare(index);
        std::size_t bytes = 0;
        try {
            prepare(b);
            bytes = request(b, index, index);
        } catch (...) {
            end_spare(b);
            throw;
        }
        end_spare(b);
        return bytes;
    }

    /// Requests batch `index` (source index `asked`) by `call` and returns its bytes. If the source
    /// throws or its result is invalid, throws an error that names the batch.
    template <class Call>
    std::size_t answer(std::size_t index, std::size_t asked, Call const& call) {
        auto const count = ask(index, asked, call);
        return source_type::checked(count, this->options_.batch_bytes, asked);
    }
    /// Returns the result of `call`, which calls the source for batch `index` (source index
    /// `asked`). If the source throws, throws an error that names the batch.
    template <class Call>
    static auto ask(std::size_t index, std::size_t asked, Call const& call) {
        user_code<Platform> const theirs;
        try {
            return call();
        } catch (...) { std::rethrow_exception(source_problem<Platform>(index, asked)); }
    }

    source_type        source_;
    batch_plan<Source> plan_;
    /// Keeps the handle of the loop's stream valid until the last batch is released, even if its
    /// owner (such as a `cuda_stream`) is destroyed before. Empty if vram did not create the
    /// stream. Without effect after a release of the handle, or a reset of the device.
    stream_hold<Platform>           held_;
    memory                          memory_;
    std::optional<std::stop_source> stop_;      ///< asks a running call of the source to return
    std::uint64_t                   epoch_ = 0; ///< number of passes over the source begun so far
    bool                            inline_;
    bool                            down_ = true;
    /// False if the wait for callbacks and completion flags (words that the device writes) failed
    /// at the end of a pass. `restart` then waits again. `shut_down` then keeps this object until
    /// the process ends.
    bool copies_over_ = true;
    /// The line of the program that made the loader, for reports.
    [[no_unique_address]] remembered_line<Platform> made_;
    leak_on_purpose                                 kept_;
    std::vector<thread>                             threads_;
};

} // namespace detail
} // namespace vram
