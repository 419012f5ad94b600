// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fields` is the layout of a batch with several fields, such as images and labels, in one block.

#include <vram/base/align.hpp>           // align, default_alignment, unsatisfiable
#include <vram/base/contract.hpp>        // expects
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/data/layout_error.hpp>

#include <cstddef>
#include <span>        // span
#include <tuple>       // tuple, tuple_element_t
#include <type_traits> // remove_all_extents_t, is_trivially_copyable_v, is_same_v, type_identity
#include <utility>

namespace vram {

/// The layout of a batch of up to `samples` samples. Each sample has one value of every type
/// `Field`. The batch contains all values of the first field, then all of the second, and so on.
///
///     fields<float[3][224][224], int> const layout{256};
///     auto [images, labels] = layout.in(to, n);        // spans in `to`, for a source to fill
///     return layout.bytes(n);                          // bytes of these n samples
///     auto [images, labels] = layout.of(batch);        // spans to pass to a kernel
///
/// Each field begins at the same offset in every batch, even if a batch has fewer samples.
///
/// Failure   Throws `layout_error` if a batch would be too large for any memory, or if memory or a
///           batch does not have the size that the layout needs.
/// Threads   Any thread may use a copy of the layout; a layout is a value.
/// Cost      A few additions.
template <class... Field>
    requires(sizeof...(Field) > 0 && (std::is_trivially_copyable_v<Field> && ...))
class fields {
    template <std::size_t Index>
    using field = std::tuple_element_t<Index, std::tuple<std::type_identity<Field>...>>::type;

public:
    static constexpr std::size_t count = sizeof...(Field); ///< number of fields of a sample

    /// Type of the elements in the span of field `Index`. If the field is an array such as
    /// `float[3][4]`, this is its scalar type. Otherwise it is the type of the field.
    template <std::size_t Index>
    using element = std::remove_all_extents_t<field<Index>>;
    /// Number of elements of field `Index` in one sample. If the field is an array, this is the
    /// number of its scalars. Otherwise it is 1.
    template <std::size_t Index>
    static constexpr std::size_t per_sample = sizeof(field<Index>) / sizeof(element<Index>);

    /// Computes the layout of batches of up to `samples` samples. Each field begins at a multiple
    /// of `alignment` bytes. Throws `layout_error` if `samples` is 0 or a batch would be too large.
    explicit fields(std::size_t samples, std::size_t alignment = default_alignment)
        : samples_{samples} {
        using why = layout_error::reason;
        expects(valid_alignment(alignment), "fields: the alignment must be a power of two");
        if (samples == 0) { throw layout_error{why::empty}; }
        constexpr std::size_t sizes[]      = {sizeof(Field)...};
        constexpr std::size_t alignments[] = {alignof(Field)...};
        std::size_t           end          = 0;
        for (std::size_t f = 0; f < count; ++f) {
            offsets_[f] = align(end, detail::larger_of(alignment, alignments[f]));
            std::size_t const room =
                unsatisfiable - 1 - detail::smaller_of(offsets_[f], unsatisfiable - 1);
            if (samples > room / sizes[f]) {
                throw layout_error{why::too_large, samples, room / sizes[f], f};
            }
            end = offsets_[f] + samples * sizes[f];
        }
    }

    /// Returns the largest number of samples of a batch.
    [[nodiscard]] std::size_t samples() const noexcept { return samples_; }
    /// Returns the bytes of a batch of `n` samples. Throws `layout_error{wrong_size}` if `n` is
    /// more than `samples()`.
    [[nodiscard]] std::size_t bytes(std::size_t n) const {
        if (n > samples_) { throw layout_error{layout_error::reason::wrong_size, n, samples_}; }
        return n == 0 ? 0 : offsets_[count - 1] + n * sizeof(field<count - 1>);
    }
    /// Returns the bytes of a batch with the largest number of samples.
    [[nodiscard]] std::size_t batch_bytes() const { return bytes(samples_); }
    /// Returns the number of bytes from the beginning of a batch to field `Index`, equal for all
    /// batches.
    template <std::size_t Index>
    [[nodiscard]] std::size_t offset() const noexcept {
        return offsets_[Index];
    }
    /// Returns the number of samples of a batch of `bytes` bytes. Throws `layout_error{not_whole}`
    /// if no batch of up to `samples()` samples has this size.
    [[nodiscard]] std::size_t samples_in(std::size_t bytes) const {
        constexpr std::size_t last = sizeof(field<count - 1>);
        if (bytes == 0) { return 0; }
        // Subtracts the offset of the last field. If the batch ends before that field, the result
        // wraps around, but the condition below then throws.
        std::size_t const past = bytes - offsets_[count - 1];
        if (bytes <= offsets_[count - 1] || past % last != 0 || past / last > samples_) {
            throw layout_error{layout_error::reason::not_whole, bytes, batch_bytes()};
        }
        return past / last;
    }

    /// Returns the span of field `Index` for `n` samples in the memory `to`. Throws
    /// `layout_error{wrong_size}` if `to` has fewer than `bytes(n)` bytes or `n > samples()`.
    template <std::size_t Index>
    [[nodiscard]] std::span<element<Index>> in(std::span<std::byte> to, std::size_t n) const {
        if (to.size() < bytes(n)) {
            throw layout_error{layout_error::reason::wrong_size, to.size(), bytes(n), Index};
        }
        return {reinterpret_cast<element<Index>*>(to.data() + offsets_[Index]),
                n * per_sample<Index>};
    }
    /// Returns a tuple of the spans of all fields for `n` samples in the memory `to`. Throws
    /// `layout_error{wrong_size}` if `to` has fewer than `bytes(n)` bytes or `n > samples()`.
    [[nodiscard]] auto in(std::span<std::byte> to, std::size_t n) const {
        return all([&]<std::size_t Index>() { return in<Index>(to, n); });
    }

    /// Returns the span of field `Index` of `batch`. Throws `layout_error{not_whole}` if no batch
    /// of up to `samples()` samples has the size of `batch`.
    template <std::size_t Index, class Batch>
    [[nodiscard]] std::span<element<Index>> get(Batch const& batch) const {
        std::span<std::byte> const bytes{batch.data(), batch.size()};
        return in<Index>(bytes, samples_in(bytes.size()));
    }
    /// Returns the span of the field of type `F` of a batch. Exactly one field must have this type.
    template <class F, class Batch>
    [[nodiscard]] auto get(Batch const& batch) const {
        return get<index_of<F>>(batch);
    }
    /// Returns a tuple of the spans of all fields of a batch.
    template <class Batch>
    [[nodiscard]] auto of(Batch const& batch) const {
        return all([&]<std::size_t Index>() { return get<Index>(batch); });
    }

    /// Index, from 0, of the field of type `F`. Exactly one field must have this type.
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
