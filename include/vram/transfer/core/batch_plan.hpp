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

/// The batches of one pass over a loader's source, by the options `shuffle`, `shard`, `shards` and
/// `last`: their number and order, and whether a batch of some size is delivered, padded or left
/// out.
///
/// Failure   Throws `loader_error` if the source ends early, or if a batch is short but cannot be
///           left out. `begin` also throws the exceptions of the source and `std::bad_alloc`.
/// Threads   One thread calls `begin`, while no other thread calls any function.
/// Cost      `begin` allocates if the batches are shuffled. If short ones are left out and the
///           source has `batch_bytes(index)`, it also allocates, and examines the size of each
///           batch.
template <class Source>
class batch_plan {
    using source_type = batch_source<Source>;

public:
    static constexpr std::size_t unknown = source_type::unknown;

    /// Creates the plan for `source`. Both arguments must outlive it. In `options`, each 0 that
    /// means a default must have been replaced by a number.
    batch_plan(source_type const& source, loader_options const& options)
        : source_{source}, options_{options} {
        std::size_t const given = source.batch_bytes();
        full_ = given == 0 || given > options.batch_bytes ? options.batch_bytes : given;
    }

    /// The number of batches that a pass requests from the source, or `unknown`, and their order.
    struct pass {
        std::size_t batches = unknown;
        index_order order;
    };

    /// Plans the pass over the source with the number `epoch`, from 0. If the size of the source's
    /// last batch must be known and the source has no `batch_bytes(index)`, calls `produce(index)`,
    /// which must make the source produce that batch and return its bytes.
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
            // With `last_batch::drop`, the source's last batch is left out if it turns out to be
            // short. So it stays the last one, and only the batches before it are shuffled.
        } else if (o.shuffle) {
            bool const all = !drop || exact() || n == 0;
            next.order     = index_order{all ? n : n - 1, o.seed + epoch};
        }
        next.order.part(o.shard, o.shards);
        // The first `rest` of the loaders that share the source get one batch more than the others.
        std::size_t const rest = drop ? 0 : n % o.shards;
        next.batches           = n / o.shards + (rest > o.shard);
        if (!drop || exact()) { batches_ = next.batches; }
        return next;
    }
    /// Returns the number of batches of this pass, if it is known before its end.
    [[nodiscard]] std::optional<std::size_t> batches() const noexcept { return batches_; }

    /// The treatment of a batch: the loop gets it (`batch`), does not get it because it is too
    /// short (`left_out`), or ends before it (`end`).
    enum class verdict { batch, left_out, end };

    /// Returns the treatment of a batch for which the source returned `bytes`; 0 means that the
    /// source has no such batch. Throws `loader_error` if a source with `size()` ends early, or if
    /// a short batch cannot be left out. If `stopping` is true (the loader has requested the source
    /// to stop), returns `verdict::end` instead of throwing.
    [[nodiscard]] verdict judge(std::size_t bytes, bool stopping) const {
        if (bytes == 0) {
            if (total_ == unknown || stopping) { return verdict::end; }
            throw ends_early();
        }
        // A source with `is_short(index)` has decided before: no short batch was requested.
        if constexpr (source_type::decides) { return verdict::batch; }
        if (options_.last != last_batch::drop || bytes >= full_) { return verdict::batch; }
        if (total_ == unknown || !exact()) { return verdict::left_out; }
        if (stopping) { return verdict::end; }
        throw loader_error{loader_error::reason::short_batch, 0, bytes, full_};
    }

    /// Returns true if the whole block must be filled with `loader_options::pad_with` before the
    /// source writes the batch with the index `asked` into it: a batch that may be short may also
    /// have gaps, which the source does not write (see `fields`).
    [[nodiscard]] bool pads(std::size_t asked) const {
        if (options_.last != last_batch::pad) { return false; }
        if constexpr (source_type::measured) {
            return source_.bytes_of(asked) < options_.batch_bytes;
        } else {
            (void)asked;
            return true;
        }
    }
    /// Returns the bytes that a batch of `bytes` bytes has after padding: `bytes`, if the loader
    /// does not pad.
    [[nodiscard]] std::size_t padded(std::size_t bytes) const noexcept {
        return options_.last == last_batch::pad ? options_.batch_bytes : bytes;
    }

private:
    /// Returns true if, for a source with `size()`, `last_batch::drop` knows before the batches are
    /// filled which ones it leaves out: because the source has `batch_bytes(index)`, or because
    /// several loaders share the source and `begin` has tested its last batch.
    [[nodiscard]] bool exact() const noexcept {
        return source_type::measured || options_.shards > 1;
    }
    /// Returns the number of batches to request with `last_batch::drop`: all that are not known in
    /// advance to be short. Stores their indices in `order`, unless they are the first batches of
    /// the source. `last_is_short` may call `produce(index)` to learn the size of the last batch.
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
            return total_ - (options_.shards > 1 && total_ != 0 && last_is_short(produce));
        }
    }
    /// Used with `last_batch::drop` if several loaders share the source: all of them must leave out
    /// the same batch. Returns true if the source's last batch has fewer bytes than a full one. To
    /// find out, calls `produce(index)`, which makes the source write that batch into a block of
    /// the loader and returns its bytes, unless an earlier pass with as many batches has tested it.
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
    /// The source's `size()` at the beginning of this pass; `unknown` if the source has no such
    /// function.
    std::size_t total_ = unknown;
    /// The source's `size()` when `last_is_short` tested its last batch, so that a later pass of
    /// equal size uses the result `last_short_` again; `unknown` before the first test.
    std::size_t asked_of_   = unknown;
    bool        last_short_ = false;
    /// Number of batches in this pass over the source, if known before its end.
    std::optional<std::size_t> batches_;
};

} // namespace detail
} // namespace vram
