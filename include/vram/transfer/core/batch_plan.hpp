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

/// Plans one pass over a loader's source: the number and order of the batches, and which of them
/// are delivered, padded or left out. The plan follows the options `shuffle`, `shard`, `shards` and
/// `last`.
///
/// Failure   Throws `loader_error` if the source ends early, or if a batch planned as full is
///           short.
/// Threads   No other function may be called during `begin`. Any number of threads may call the
///           others.
template <class Source>
class batch_plan {
    using source_type = batch_source<Source>;

public:
    static constexpr std::size_t unknown = source_type::unknown;

    /// Creates a plan for the source `source` by the options `options`; both must outlive the plan.
    /// In `options`, each 0 that means a default must already be replaced by the actual value.
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

    /// Plans the next pass over the source. `epoch`: number of the pass, from 0; each pass is
    /// shuffled differently. `produce(index)`: makes the source write batch `index` and returns the
    /// number of bytes; called only if the size of the last batch must be known.
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
            // With `drop`, the last batch is not shuffled if it is not known to be full.
        } else if (o.shuffle) {
            bool const all = !drop || exact() || n == 0;
            next.order     = index_order{all ? n : n - 1, o.seed + epoch};
        }
        next.order.part(o.shard, o.shards);
        // Each of the first `rest` loaders (shards) gets one batch more than the others. With
        // `drop`, all loaders get the same number, and the remaining batches are not requested.
        std::size_t const rest = drop ? 0 : n % o.shards;
        next.batches           = n / o.shards + (rest > o.shard);
        if (!drop || exact()) { batches_ = next.batches; }
        return next;
    }
    /// Returns the number of batches of this pass, if it is known before its end.
    [[nodiscard]] std::optional<std::size_t> batches() const noexcept { return batches_; }

    /// What happens to a requested batch: it is delivered to the loop (`batch`), it is left out
    /// because it is short (`left_out`), or the loop ends before this batch (`end`).
    enum class verdict { batch, left_out, end };

    /// Decides what happens to a batch of `bytes` bytes from the source. If `bytes` is 0, the
    /// source has no such batch. Throws `loader_error` if a batch that was planned for this pass is
    /// missing or too short. If the loader is stopping (`stopping`), returns `verdict::end`
    /// instead.
    [[nodiscard]] verdict judge(std::size_t bytes, bool stopping) const {
        if (bytes == 0) {
            if (total_ == unknown || stopping) { return verdict::end; }
            throw ends_early();
        }
        // If the source has `is_short`, each requested batch is delivered, whatever its size. With
        // `drop`, `begin` did not request the short batches.
        if constexpr (source_type::decides) { return verdict::batch; }
        if (options_.last != last_batch::drop || bytes >= full_) { return verdict::batch; }
        if (total_ == unknown || !exact()) { return verdict::left_out; }
        if (stopping) { return verdict::end; }
        throw loader_error{loader_error::reason::short_batch, 0, bytes, full_};
    }

    /// Returns true if the block of a batch must first be filled with `loader_options::pad_with`.
    /// This is necessary for `last_batch::pad`, if the batch may be shorter than the block.
    /// `asked`: index of the batch in the source.
    [[nodiscard]] bool pads(std::size_t asked) const {
        if (options_.last != last_batch::pad) { return false; }
        if constexpr (source_type::measured) {
            return source_.bytes_of(asked) < options_.batch_bytes;
        } else {
            (void)asked;
            return true;
        }
    }
    /// Returns the size of a batch with its padding. With `last_batch::pad`, this is
    /// `loader_options::batch_bytes`; otherwise it is `bytes`, the number of bytes from the source.
    [[nodiscard]] std::size_t padded(std::size_t bytes) const noexcept {
        return options_.last == last_batch::pad ? options_.batch_bytes : bytes;
    }

private:
    /// Called for a source with `size()`. Returns true if `begin` finds the short batches that
    /// `last_batch::drop` leaves out. If false, `judge` finds them after the source has filled
    /// them.
    [[nodiscard]] bool exact() const noexcept {
        return source_type::measured || options_.shards > 1;
    }
    /// Called for `last_batch::drop`. Returns the number `n` of batches that can be requested from
    /// the source. The loaders that share the source (shards) later divide these batches. If the
    /// indices of the batches are not 0 to `n - 1`, stores the indices in `order`.
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
            // If several loaders (`shards`) share the source, a short last batch is not requested,
            // because all loaders must plan the same number of batches.
            return total_ - (options_.shards > 1 && total_ != 0 && last_is_short(produce));
        }
    }
    /// Returns true if the source's last batch has fewer bytes than a full batch. To learn its
    /// size, calls `produce(index)`, unless an earlier pass did so with the same `size()`.
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
    /// Value of the source's `size()` for which `last_short_` was determined; `unknown` before. If
    /// `size()` changes, `last_is_short` determines `last_short_` again.
    std::size_t asked_of_   = unknown;
    bool        last_short_ = false;
    /// Number of batches in this pass over the source, if known before its end.
    std::optional<std::size_t> batches_;
};

} // namespace detail
} // namespace vram
