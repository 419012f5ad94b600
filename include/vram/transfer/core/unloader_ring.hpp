// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader_ring` records the states of an unloader's blocks, and enqueues its copies.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error_kind.hpp>
#include <vram/concepts/core/owning_process.hpp>
#include <vram/transfer/core/copy_channel.hpp> // copy_channel, copy_owner
#include <vram/transfer/core/pinned_slot.hpp>
#include <vram/transfer/core/slot.hpp>
#include <vram/transfer/core/slot_order.hpp>
#include <vram/transfer/core/slot_queue.hpp>
#include <vram/transfer/core/staged_wait.hpp>
#include <vram/transfer/loader_error.hpp>
#include <vram/transfer/unloader_options.hpp>

#include <cstddef>
#include <cstdio>    // snprintf
#include <exception> // exception_ptr, rethrow_exception
#include <optional>  // nullopt
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The blocks of an unloader, and their copies. Device blocks are in turn free, held by the
/// program, and full; pinned blocks are empty, copying and copied.
///
/// Failure   An exception of the sink or of a copy is thrown by each later `take` and `finish`.
/// Threads   No stream or event is used with the lock held, because a callback may need the lock.
template <class Platform>
class unloader_ring : private copy_owner<Platform> {
public:
    using slot   = detail::slot<Platform>;
    using pinned = pinned_slot<Platform>;
    using stream = typename Platform::stream;
    using device = typename Platform::device;

    unloader_ring(unloader_ring const&)            = delete;
    unloader_ring& operator=(unloader_ring const&) = delete;

    [[nodiscard]] bool in_owning_process() const noexcept {
        return owner_.is_current() && !threads_stand_still<Platform>();
    }

    /// Waits for a free device block for the next result and returns it. Makes the stream `s` wait
    /// for the last copy out of the block. Throws if the sink or a copy has failed, or if the
    /// program holds all device blocks.
    slot& take(stream s) {
        expect_owning_process();
        if (Platform::capturing(s)) { throw loader_error{loader_error::reason::capturing, index_}; }
        slot* got = nullptr;
        {
            auto held = threads_.hold();
            rethrow();
            if (held_ == slots_.size()) {
                throw loader_error{loader_error::reason::all_held, index_, held_, slots_.size()};
            }
            threads_.wait(held, [&] { return problem_ != nullptr || !free_.empty(); });
            rethrow();
            got = free_.pop();
            ++held_;
        }
        try {
            got->await_copy(s);
        } catch (...) {
            give_back(*got);
            throw;
        }
        got->size = 0;
        return *got;
    }

    /// Queues the device block `from` as the next result, of `bytes` bytes, and sets `from` to
    /// null. The copy to the host waits for the stream `on`, which writes the block. If this
    /// function throws, `from` is unchanged.
    void send(slot*& from, std::size_t bytes, stream on) {
        expect_owning_process();
        if (bytes > options_.batch_bytes) {
            throw loader_error{loader_error::reason::too_large, index_, bytes,
                               options_.batch_bytes};
        }
        if (stopping_) { throw loader_error{loader_error::reason::ended, index_}; }
        slot& s = *from;
        if (s.captured(on)) { throw loader_error{loader_error::reason::capturing, index_}; }
        s.record_users(on);
        from    = nullptr;
        s.size  = bytes;
        s.index = index_++;
        {
            auto const held = threads_.hold();
            --held_;
            full_.push(s);
        }
        copy_all();
    }
    /// Makes the device block `s` of an unsent result free. No stream may still write to the block.
    void give_back(slot& s) noexcept {
        {
            auto const held = threads_.hold();
            --held_;
            free_.push(s);
        }
        threads_.notify();
    }
    /// Makes the device block `s` of an unsent result free. First blocks the calling thread until
    /// the streams that write the block are done: `on`, and those added by `record_stream`. If a
    /// wait fails, the block is not used again, and counts as held by the program.
    void drop(slot& s, stream on) noexcept {
        // Does nothing in a forked child process, because the block and its streams belong to the
        // parent process.
        if (!in_owning_process()) { return; }
        if (s.finish_users(on)) { give_back(s); }
    }

    /// Blocks the calling thread until the sink has received all results that were sent. Throws if
    /// the sink or a copy has failed.
    void finish() {
        expect_owning_process();
        auto held = threads_.hold();
        threads_.wait(held, [&] { return problem_ != nullptr || idle(); });
        rethrow();
    }
    [[nodiscard]] std::size_t sent() const noexcept { return index_; }
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return options_.batch_bytes; }

protected:
    /// Creates the device and pinned blocks, their events, and the copy stream; memory is attached
    /// later. The depths in `options` must not be 0.
    unloader_ring(unloader_options const& options, device where)
        : options_{options},
          channel_{*this, threads_,     pinned_,
                   where, std::nullopt, {.downloads = true, .priority = options.priority}},
          copied_{options.pinned_depth, true} {
        slots_.reserve(options.device_depth);
        pinned_.reserve(options.pinned_depth);
        for (std::size_t i = 0; i < options.device_depth; ++i) {
            free_.push(slots_.emplace_back(where));
        }
        for (std::size_t i = 0; i < options.pinned_depth; ++i) {
            empty_.push(pinned_.emplace_back(where, false));
        }
    }
    ~unloader_ring() = default;

    /// Waits until the sink has received all results, or until the sink or a copy has failed. Then
    /// tells the sink's thread to end, and does not wait for that. If there was a failure, and
    /// neither `take` nor `finish` has thrown its exception, reports it to the error sink.
    void stop() noexcept {
        bool lost = false;
        {
            auto held = threads_.hold();
            threads_.wait(held, [&] { return problem_ != nullptr || idle(); });
            stopping_ = true;
            lost      = problem_ != nullptr && !thrown_;
        }
        threads_.notify();
        if (lost) { report_lost(); }
    }

    /// Called on the sink's thread: waits for the next result in order and returns its pinned
    /// block. Returns null after `stop`.
    pinned* await_copied() {
        auto held = threads_.hold();
        threads_.wait_for_copies(held, channel_, [&] {
            return stopping_ || problem_ != nullptr || copied_.front() != nullptr;
        });
        if (problem_ != nullptr) { // after a failure, only `stop` ends the wait
            threads_.wait(held, [&] { return stopping_; });
        }
        return stopping_ ? nullptr : copied_.pop();
    }
    /// Makes the pinned block `p` empty after the sink has returned. `problem`: exception of the
    /// sink, or null. The first such exception is thrown by each later call of `take` and `finish`.
    void written(pinned& p, std::exception_ptr problem) noexcept {
        {
            auto const held = threads_.hold();
            --in_flight_;
            empty_.push(p);
            if (problem != nullptr) { fail(std::move(problem), "the sink", p.index); }
        }
        threads_.notify();
        copy_all();
    }

    unloader_options       options_;
    std::vector<slot>      slots_;
    std::vector<pinned>    pinned_;
    staged_wait<Platform>  threads_;
    copy_channel<Platform> channel_;

private:
    /// Throws `loader_error{forked}` in a forked child process, or if the process is ending and its
    /// threads are simulated. Takes no lock, because the child never gets a lock that another
    /// thread held during the fork.
    void expect_owning_process() const {
        if (!in_owning_process()) { throw loader_error{loader_error::reason::forked, index_}; }
    }

    /// Enqueues copies of sent results into empty pinned blocks, as long as both exist. Returns at
    /// once if another thread is enqueueing a copy, or after a failure.
    void copy_all() noexcept {
        for (;;) {
            slot*   from = nullptr;
            pinned* to   = nullptr;
            {
                auto const held = threads_.hold();
                if (copying_ || problem_ != nullptr || full_.empty() || empty_.empty()) { return; }
                from     = full_.pop();
                to       = empty_.pop();
                copying_ = true;
                ++in_flight_;
                channel_.begin(*to);
            }
            std::exception_ptr problem = channel_.download(*from, *to);
            {
                auto const held = threads_.hold();
                copying_        = false;
                if (problem == nullptr) {
                    (void)channel_.enqueued(*to);
                } else {
                    fail(std::move(problem), "the copy", to->index);
                    --in_flight_;
                }
                if (!from->end_unknown) { free_.push(*from); }
            }
            threads_.notify();
        }
    }
    void copy_ended(pinned& p) noexcept final { copied_.push(p); }
    void device_failed(std::exception_ptr why) noexcept final {
        fail(std::move(why), "a copy", none);
    }

    /// Stores the exception `why`, unless an exception is stored already. `what`: the part that
    /// failed, such as "the sink". `index`: index of the result that failed. The lock must be held.
    void fail(std::exception_ptr why, char const* what, std::size_t index) noexcept {
        if (problem_ != nullptr) { return; }
        problem_ = std::move(why);
        failed_  = what;
        at_      = index;
    }
    /// Reports the stored exception to the program's error sink (`set_error_sink`). Called when the
    /// unloader ends, because no later call can throw the exception.
    void report_lost() noexcept {
        char what[64];
        if (at_ == none) {
            std::snprintf(what, sizeof what, "%s", failed_);
        } else {
            std::snprintf(what, sizeof what, "%s of result %zu", failed_, at_);
        }
        try {
            std::rethrow_exception(problem_);
        } catch (...) {
            report_caught(
                {.kind = error_kind::lost_exception, .resource = "unloader", .call = what});
        }
    }

    [[nodiscard]] bool idle() const noexcept { return full_.empty() && in_flight_ == 0; }
    /// Throws the stored exception of the sink or of a copy, if any. The lock must be held.
    void rethrow() {
        if (problem_ == nullptr) { return; }
        thrown_ = true;
        std::rethrow_exception(problem_);
    }

    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    owning_process   owner_;
    slot_queue<slot> free_;
    /// Device blocks with a result that was sent; the oldest is first. The copies of these results
    /// to the host are not enqueued yet.
    slot_queue<slot>   full_;
    slot_queue<pinned> empty_;
    slot_order<pinned> copied_; ///< pinned blocks with results that wait for the sink, in order
    std::exception_ptr problem_;
    /// Text for the report of `problem_`: "the sink" or "the copy" if the result that failed is
    /// known, otherwise "a copy".
    char const* failed_ = "";
    std::size_t at_     = none; ///< index of the result that failed; `none` if unknown
    std::size_t index_  = 0;
    std::size_t held_   = 0; ///< number of device blocks that the program got and still holds
    /// Number of results for which a copy has begun and the sink has not returned yet.
    std::size_t in_flight_ = 0;
    bool        copying_   = false;
    bool        stopping_  = false;
    bool        thrown_    = false;
};

} // namespace detail
} // namespace vram
