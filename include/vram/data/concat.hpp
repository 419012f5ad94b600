// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `concat` combines several sources of a loader into one, which returns their batches in sequence.

#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/requirements.hpp>

#include <concepts> // convertible_to
#include <cstddef>
#include <span>       // span
#include <stop_token> // stop_token
#include <utility>
#include <vector> // vector

namespace vram {

/// A loader's source that concatenates several sources: it returns all batches of the first source,
/// then all of the second, and so on.
///
///     std::vector<file_chunks<file>> shards;
///     for (auto const& path : paths) { shards.emplace_back(file{path}, 64_MiB); }
///     loader{concat{std::move(shards)}, stream};
///
/// No batch contains data of two sources. With `loader_options::shuffle`, the batches of all
/// sources are shuffled together.
///
/// Failure   Throws the exceptions of the sources.
/// Threads   Several threads may call `fill` or `enqueue` if all sources permit it.
/// Cost      Finding the source of a batch is O(log sources).
template <class Source>
    requires requires(Source const& s) {
        { s.size() } -> std::convertible_to<std::size_t>;
        { s.batch_bytes() } -> std::convertible_to<std::size_t>;
    }
class concat {
public:
    /// Concatenates `sources` and queries the size of each.
    explicit concat(std::vector<Source> sources) : sources_{std::move(sources)} {
        ends_.resize(sources_.size());
        count();
    }

    /// Returns the sum of the numbers of batches of all sources.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Returns the largest `batch_bytes()` of the sources, at least 1.
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return bytes_; }

    /// Index of a source in `sources()`, and index of a batch in that source.
    struct place {
        std::size_t source = 0;
        std::size_t index  = 0;

        friend bool operator==(place const&, place const&) = default;
    };
    /// Returns the source of batch `index`, and the index of the batch in that source. `index` must
    /// be less than `size()`.
    [[nodiscard]] place operator[](std::size_t index) const noexcept {
        // Binary search: `s` becomes the index of the source that contains batch `index`.
        std::size_t s    = 0;
        std::size_t last = ends_.size();
        while (s < last) {
            std::size_t const middle = s + (last - s) / 2;
            if (ends_[middle] <= index) {
                s = middle + 1;
            } else {
                last = middle;
            }
        }
        return {s, s == 0 ? index : index - ends_[s - 1]};
    }
    [[nodiscard]] std::vector<Source> const& sources() const noexcept { return sources_; }

    /// Returns the bytes of batch `index`, which must be less than `size()`.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const
        requires requires(Source const& s) { s.batch_bytes(index); }
    {
        auto const [source, at] = (*this)[index];
        return sources_[source].batch_bytes(at);
    }
    /// Returns true if batch `index` is smaller than a full batch of its source, according to
    /// `is_short` of that source. `index` must be less than `size()`.
    [[nodiscard]] bool is_short(std::size_t index) const
        requires requires(Source const& s) { s.is_short(index); }
    {
        auto const [source, at] = (*this)[index];
        return sources_[source].is_short(at);
    }

    /// Fills `to` with batch `index`: calls `fill` of the source that contains this batch. Returns
    /// the result of that call, or 0 if there is no batch `index`.
    auto fill(std::span<std::byte> to, std::size_t index, std::stop_token const& stop = {})
        requires requires(Source& s) { s.fill(to, index, stop); }
    {
        using count = decltype(std::declval<Source&>().fill(to, index, stop));
        if (index >= size_) { return count{0}; }
        auto const [source, at] = (*this)[index];
        return sources_[source].fill(to, at, stop);
    }

    /// Enqueues the copies of batch `index` to `device`: calls `enqueue` of the source that
    /// contains this batch. Returns the result of that call, or 0 if there is no batch `index`.
    template <class Stream>
    auto enqueue(std::span<std::byte> device, std::size_t index, Stream const& copies)
        requires requires(Source& s) { s.enqueue(device, index, copies); }
    {
        using count = decltype(std::declval<Source&>().enqueue(device, index, copies));
        if (index >= size_) { return count{0}; }
        auto const [source, at] = (*this)[index];
        return sources_[source].enqueue(device, at, copies);
    }

    /// Calls `restart` of each source, and queries the sizes again. Called by that of a loader.
    void restart()
        requires requires(Source& s) { s.restart(); }
    {
        for (Source& s : sources_) { s.restart(); }
        count();
    }

private:
    void count() {
        size_  = 0;
        bytes_ = 1;
        for (std::size_t i = 0; i < sources_.size(); ++i) {
            size_ += sources_[i].size();
            bytes_   = detail::larger_of<std::size_t>(bytes_, sources_[i].batch_bytes());
            ends_[i] = size_;
        }
    }

    std::vector<Source> sources_;
    /// `ends_[s]` is the total number of batches of the sources with the indices 0 to `s`.
    std::vector<std::size_t> ends_;
    std::size_t              size_  = 0;
    std::size_t              bytes_ = 1;
};

} // namespace vram
