// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `batch_plan` decides which batches a loader requests from its source, and what becomes of short
/// ones.

#include <vram/transfer/core/batch_source.hpp>
#include <vram/transfer/core/index_order.hpp>
#include <vram/transfer/loader_error.hpp>
#include <vram/transfer/loader_options.hpp> // loader_options, last_batch

#include <cstddef>
#include <cstdint>
#include <optional> // optional
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Plans one pass over a loader's source by the options `shuffle`, `shard`, `shards` and `last`:
/// the number and order of the batches, and which are delivered, padded or left out.
///
/// Failure   Throws `loader_error` if the source ends early, or if a batch planned as full is
///           short.
/// Threads   No other function may be called during `begin`; any number of threads may call the
///           others.
template <class Source>
class batch_plan {
    using source_type = batch_source<Source>;

public:
    static constexpr std::size_t unknown = source_type::unknown;

    /// Creates the plan for `source`; both arguments must outlive the plan. The defaults (0) in
    /// `options` must have been replaced.
    batch_plan(source_type const& source, loader_options const& options)
        : source_{source}, options_{options} {
        std::size_t const given = source.batch_bytes();
        full_ = given == 0 || given > options.batch_bytes ? options.batch_bytes : given;
    }

    /// The batches that a pass requests from the source: their number, or `unknown`, and the order
    /// of their indices.
    struct pass {
        std::size_t batches = unknown;
        index_order order;
    };

    /// Plans pass number `epoch` (from 0; each is shuffled differently). May call `produce(index)`,
    /// which makes the source write a batch and returns its bytes.
    template <class Produce>
    [[nodiscard]] pass begin(std::uint64_t epoch, Produce const& produce) {
        loader_options const& o = options_;
        pass                  next;
        total_ = source_.size();
        batches_.reset();
        if (total_ == unknown) {
            next.order.part(o.shard, o.shards);
            return next;
        }
        bool const        drop = o.last == last_batch::drop;
        std::size_t const n    = drop ? choose_full(next.order, produce) : total_;
        if (o.shuffle && next.order.size() != 0) {
            next.order.shuffle(o.seed + epoch);
            // With `drop`, a last batch of unknown size stays last: only the batches before it are
            // shuffled.
        } else if (o.shuffle) {
            bool const all = !drop || exact() || n == 0;
            next.order     = index_order{all ? n : n - 1, o.seed + epoch};
        }
        next.order.part(o.shard, o.shards);
        // The loaders divide `n` batches: the first `rest` of them get one more. With `drop`, all
        // get equally many, and the remainder is not requested.
        std::size_t const rest = drop ? 0 : n % o.shards;
        next.batches           = n / o.shards + (rest > o.shard);
        if (!drop || exact()) { batches_ = next.batches; }
        return next;
    }
    /// Returns the number of batches of this pass, if it is known before its end.
    [[nodiscard]] std::optional<std::size_t> batches() const noexcept { return batches_; }

    /// What becomes of a batch: it is delivered to the loop, or left out because it is short, or
    /// the loop ends before it.
    enum class verdict { batch, left_out, end };

    /// Returns whether a batch of `bytes` bytes (0: none) is delivered, left out, or ends the loop.
    /// Throws `loader_error` if it is missing or shorter than planned, unless `stopping`.
    [[nodiscard]] verdict judge(std::size_t bytes, bool stopping) const {
        if (bytes == 0) {
            if (total_ == unknown || stopping) { return verdict::end; }
            throw ends_early();
        }
        // With `drop`, `begin` has excluded the batches for which the source's `is_short` is true.
        // The others count as full, however few bytes they have.
        if constexpr (source_type::decides) { return verdict::batch; }
        if (options_.last != last_batch::drop || bytes >= full_) { return verdict::batch; }
        if (total_ == unknown || !exact()) { return verdict::left_out; }
        if (stopping) { return verdict::end; }
        throw loader_error{loader_error::reason::short_batch, 0, bytes, full_};
    }

    /// Returns true if the block must be filled with `loader_options::pad_with` before the source
    /// writes batch `asked` (its index), which may be shorter than the block.
    [[nodiscard]] bool pads(std::size_t asked) const {
        if (options_.last != last_batch::pad) { return false; }
        if constexpr (source_type::measured) {
            return source_.bytes_of(asked) < options_.batch_bytes;
        } else {
            (void)asked;
            return true;
        }
    }
    /// Returns the size of a batch of which the source wrote `bytes` bytes: with `last_batch::pad`,
    /// `loader_options::batch_bytes`, otherwise `bytes`.
    [[nodiscard]] std::size_t padded(std::size_t bytes) const noexcept {
        return options_.last == last_batch::pad ? options_.batch_bytes : bytes;
    }

private:
    /// For a source with `size()`: returns true if `begin` already excludes the batches that
    /// `last_batch::drop` leaves out. If false, `judge` finds them when they are filled.
    [[nodiscard]] bool exact() const noexcept {
        return source_type::measured || options_.shards > 1;
    }
    /// For `last_batch::drop`: returns the number `n` of batches that the loaders of all shards
    /// divide. Sets `order` to their indices, unless these are 0 to `n - 1`.
    template <class Produce>
    std::size_t choose_full([[maybe_unused]] index_order&   order,
                            [[maybe_unused]] Produce const& produce) {
        if constexpr (source_type::measured) {
            std::vector<std::size_t> full;
            for (std::size_t i = 0; i < total_; ++i) {
                if (!source_.is_short(i, full_)) { full.push_back(i); }
            }
            std::size_t const n = full.size();
            if (n != 0 && full.back() != n - 1) { order = index_order{std::move(full)}; }
            return n;
        } else {
            // Each of several loaders (`shards`) must find the same number of batches, so each
            // excludes the source's last batch if it is short.
            return total_ - (options_.shards > 1 && total_ != 0 && last_is_short(produce));
        }
    }
    /// Returns true if the source's last batch is short. Calls `produce(index)` to learn its size,
    /// unless an earlier pass tested it.
    template <class Produce>
    bool last_is_short(Produce const& produce) {
        if (asked_of_ == total_) { return last_short_; }
        std::size_t const last  = total_ - 1;
        std::size_t const bytes = produce(last);
        if (bytes == 0) { throw ends_early().at(last, last); }
        asked_of_          = total_;
        return last_short_ = bytes < full_;
    }
    [[nodiscard]] loader_error ends_early() const noexcept {
        return loader_error{loader_error::reason::ends_early, 0, 0, total_};
    }

    source_type const&    source_;
    loader_options const& options_;
    std::size_t           full_ = 0; ///< bytes of a full batch; a batch with fewer is short
    /// The source's `size()` at the beginning of this pass; `unknown` if the source is a range or
    /// has no such function.
    std::size_t total_ = unknown;
    /// The source's `size()` when `last_is_short` set `last_short_`; `unknown` before. The result
    /// is valid while `size()` is the same.
    std::size_t asked_of_   = unknown;
    bool        last_short_ = false;
    /// Number of batches in this pass over the source, if known before its end.
    std::optional<std::size_t> batches_;
};

} // namespace detail
} // namespace vram
