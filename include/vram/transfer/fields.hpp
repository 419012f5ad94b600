// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fields` lays several fields of a batch, such as images and labels, into one slot and one copy.

#include <vram/base/align.hpp>            // align, default_alignment, unsatisfiable
#include <vram/base/contract.hpp>         // expects
#include <vram/transfer/layout_error.hpp> // layout_error

#include <algorithm>   // max, min
#include <cstddef>     // size_t, byte
#include <span>        // span
#include <tuple>       // tuple, tuple_element_t
#include <type_traits> // remove_all_extents_t, is_trivially_copyable_v, is_same_v, type_identity
#include <utility>     // index_sequence, make_index_sequence

namespace vram {

/// The layout of batches of up to `samples` samples, each of which has one of every `Field`: a
/// number, a struct, an array. All images stand together, then all labels, ...
///
///     fields<float[3][224][224], int> const layout{256};
///     auto [images, labels] = layout.in(to, n);        // where a source writes n samples
///     return layout.bytes(n);                          // and how many bytes that makes
///     auto [images, labels] = layout.of(batch);        // what a kernel is given
///
/// The elements of an array field come as one span: n * 3 * 224 * 224 floats. Fields are also asked
/// for one by one, by their number, or by their type where no other has it: `get<1>(batch)`,
/// `get<label>(batch)`.
///
/// A field begins at the same place in every batch, aligned to 256 bytes, also where there are
/// fewer samples: then there is room after each. So kernels and graphs may know the places, and the
/// bytes of a batch tell its samples. What a short batch costs is that the room is copied with it.
///
/// Failure   `layout_error{too_large}` where the bytes cannot be counted, `{empty}` where there are
///           no samples to be, `{wrong_size}` where memory is too small for them, `{not_whole}`
///           where the bytes of a batch are none of this layout's
/// Threads   any; it is a value
/// Cost      a few additions
template <class... Field>
    requires(sizeof...(Field) > 0 && (std::is_trivially_copyable_v<Field> && ...))
class fields {
    template <std::size_t Index>
    using field = std::tuple_element_t<Index, std::tuple<std::type_identity<Field>...>>::type;

public:
    static constexpr std::size_t count = sizeof...(Field); ///< of fields

    /// What a span of field `Index` has: the field, or its elements where it is an array.
    template <std::size_t Index>
    using element = std::remove_all_extents_t<field<Index>>;
    /// How many of those a sample has.
    template <std::size_t Index>
    static constexpr std::size_t per_sample = sizeof(field<Index>) / sizeof(element<Index>);

    explicit fields(std::size_t samples, std::size_t alignment = default_alignment)
        : samples_{samples} {
        using why = layout_error::reason;
        expects(valid_alignment(alignment), "fields: an alignment is a power of two");
        if (samples == 0) { throw layout_error{why::empty}; }
        constexpr std::size_t sizes[]      = {sizeof(Field)...};
        constexpr std::size_t alignments[] = {alignof(Field)...};
        std::size_t           end          = 0;
        for (std::size_t f = 0; f < count; ++f) {
            offsets_[f]            = align(end, std::max(alignment, alignments[f]));
            std::size_t const room = unsatisfiable - 1 - std::min(offsets_[f], unsatisfiable - 1);
            if (samples > room / sizes[f]) {
                throw layout_error{why::too_large, samples, room / sizes[f], f};
            }
            end = offsets_[f] + samples * sizes[f];
        }
    }

    /// Samples that a batch has at most.
    [[nodiscard]] std::size_t samples() const noexcept { return samples_; }
    /// Bytes of a batch of `n` samples, and of the largest. None has none.
    [[nodiscard]] std::size_t bytes(std::size_t n) const {
        if (n > samples_) { throw layout_error{layout_error::reason::wrong_size, n, samples_}; }
        return n == 0 ? 0 : offsets_[count - 1] + n * sizeof(field<count - 1>);
    }
    [[nodiscard]] std::size_t batch_bytes() const { return bytes(samples_); }
    /// Where field `Index` begins, in bytes from the begin of a batch.
    template <std::size_t Index>
    [[nodiscard]] std::size_t offset() const noexcept {
        return offsets_[Index];
    }
    /// Samples of a batch of so many bytes.
    [[nodiscard]] std::size_t samples_in(std::size_t bytes) const {
        constexpr std::size_t last = sizeof(field<count - 1>);
        if (bytes == 0) { return 0; }
        std::size_t const past = bytes - offsets_[count - 1]; // wraps where it begins after them
        if (bytes <= offsets_[count - 1] || past % last != 0 || past / last > samples_) {
            throw layout_error{layout_error::reason::not_whole, bytes, batch_bytes()};
        }
        return past / last;
    }

    /// Field `Index` of `n` samples in memory of that much or more.
    template <std::size_t Index>
    [[nodiscard]] std::span<element<Index>> in(std::span<std::byte> to, std::size_t n) const {
        if (to.size() < bytes(n)) {
            throw layout_error{layout_error::reason::wrong_size, to.size(), bytes(n), Index};
        }
        return {reinterpret_cast<element<Index>*>(to.data() + offsets_[Index]),
                n * per_sample<Index>};
    }
    /// All fields, to be bound to names.
    [[nodiscard]] auto in(std::span<std::byte> to, std::size_t n) const {
        return all([&]<std::size_t Index>() { return in<Index>(to, n); });
    }

    /// Field `Index` of a batch: of anything that has `data()` and `size()`, in bytes.
    template <std::size_t Index, class Batch>
    [[nodiscard]] std::span<element<Index>> get(Batch const& batch) const {
        std::span<std::byte> const bytes{batch.data(), batch.size()};
        return in<Index>(bytes, samples_in(bytes.size()));
    }
    /// The field of this type, which one field has.
    template <class F, class Batch>
    [[nodiscard]] auto get(Batch const& batch) const {
        return get<index_of<F>>(batch);
    }
    /// All fields of a batch, to be bound to names.
    template <class Batch>
    [[nodiscard]] auto of(Batch const& batch) const {
        return all([&]<std::size_t Index>() { return get<Index>(batch); });
    }

    /// The number of the field of a type.
    template <class F>
        requires((0 + ... + (std::is_same_v<F, Field> ? 1 : 0)) == 1)
    static constexpr std::size_t index_of = [] {
        std::size_t at = 0;
        (void)((std::is_same_v<F, Field> || (++at, false)) || ...);
        return at;
    }();

private:
    template <class Get>
    static auto all(Get get) {
        return [&]<std::size_t... Index>(std::index_sequence<Index...>) {
            return std::tuple { get.template operator()<Index>()... };
        }(std::make_index_sequence<count>{});
    }

    std::size_t samples_;
    std::size_t offsets_[count]{};
};

} // namespace vram
