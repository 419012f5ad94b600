// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fallback` is an *or* between two resources.

#include <vram/base/call_site.hpp>       // call_site
#include <vram/base/lock.hpp>            // lock
#include <vram/base/out_of_memory.hpp>   // out_of_memory
#include <vram/concepts/diagnosed.hpp>   // check_pair, refuse_copy
#include <vram/concepts/sited.hpp>       // sited
#include <vram/layer/address_set.hpp>    // address_set
#include <vram/layer/pair_base.hpp>      // pair_base
#include <vram/layer/with.hpp>           // with::layer_of
#include <vram/source/null_resource.hpp> // the stand-in of the proofs below

#include <algorithm> // max
#include <concepts>  // same_as
#include <cstddef>   // size_t
#include <utility>   // move

namespace vram {

/// Asks the primary and, where that has no memory, the secondary.
///
///     fallback mr{limiting{cuda_resource{}, 4_GiB}, managed_resource{}};
///
/// What the secondary gave is written down, so every block goes home whatever the two know of their
/// memory; while nothing of it is out, the record costs one lock.
///
/// Failure   what the secondary throws; an error of the primary that is not `out_of_memory` goes on
///           as it is, where the primary cannot say no without throwing
/// Threads   as the less safe of the two
/// Cost      a lock per free; an exception per refusal where the primary has no `try_allocate`
template <class Primary, class Secondary>
class fallback
    : public pair_base<typename detail::check_pair<detail::checked_upstream<Primary>,
                                                   detail::checked_upstream<Secondary>>::type,
                       Secondary> {
    using base = pair_base<Primary, Secondary>;

    static constexpr bool ordered  = resource<Primary> && resource<Secondary>;
    static constexpr bool fallible = fallible_resource<Primary> && fallible_resource<Secondary>;

public:
    using typename base::stream;

    fallback(Primary primary, Secondary secondary)
        : base{std::move(primary), std::move(secondary)} {}

    /// A copy is a compile error that says what to write.
    template <std::same_as<fallback> Same>
    fallback(Same& other) : fallback{detail::refuse_copy(other)} {}

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires ordered
    {
        if constexpr (fallible_resource<Primary>) {
            if (void* const p = sited{primary(), at}.try_allocate(s, bytes, alignment)) {
                return p;
            }
        } else {
            try {
                return sited{primary(), at}.allocate(s, bytes, alignment);
            } catch (out_of_memory const&) {}
        }
        if (bytes == 0) { return nullptr; }
        note second{*this};
        return second.of(sited{secondary(), at}.allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        if constexpr (fallible_resource<Primary>) {
            if (void* const p = sited{primary(), at}.try_allocate_sync(bytes, alignment)) {
                return p;
            }
        } else {
            try {
                return sited{primary(), at}.allocate_sync(bytes, alignment);
            } catch (out_of_memory const&) {}
        }
        if (bytes == 0) { return nullptr; }
        note second{*this};
        return second.of(sited{secondary(), at}.allocate_sync(bytes, alignment));
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires ordered && fallible
    {
        if (void* const p = sited{primary(), at}.try_allocate(s, bytes, alignment)) { return p; }
        return bytes == 0 ? nullptr : or_null([&] {
            note second{*this};
            return second.of(sited{secondary(), at}.try_allocate(s, bytes, alignment));
        });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible
    {
        if (void* const p = sited{primary(), at}.try_allocate_sync(bytes, alignment)) { return p; }
        return bytes == 0 ? nullptr : or_null([&] {
            note second{*this};
            return second.of(sited{secondary(), at}.try_allocate_sync(bytes, alignment));
        });
    }

    /// Of the primary, then of the secondary.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment)
        requires ordered && (reusing_resource<Primary> || reusing_resource<Secondary>)
    {
        if constexpr (reusing_resource<Primary>) {
            if (void* const p = primary().try_allocate_ready(s, bytes, alignment)) { return p; }
        }
        if constexpr (reusing_resource<Secondary>) {
            if (bytes == 0) { return nullptr; }
            note second{*this};
            return second.of(secondary().try_allocate_ready(s, bytes, alignment));
        } else {
            return nullptr;
        }
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires ordered
    {
        if (was_second(p)) { return sited{secondary(), at}.deallocate(s, p, bytes, alignment); }
        sited{primary(), at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (was_second(p)) { return sited{secondary(), at}.deallocate_sync(p, bytes, alignment); }
        sited{primary(), at}.deallocate_sync(p, bytes, alignment);
    }

    /// The larger size: nobody knows which one will serve.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes, std::size_t alignment) const noexcept
        requires rounding_resource<Primary> || rounding_resource<Secondary>
    {
        return std::max(detail::rounded_size(primary(), bytes, alignment),
                        detail::rounded_size(secondary(), bytes, alignment));
    }

    /// How many blocks of the secondary are out.
    [[nodiscard]] std::size_t fallen_back() const {
        auto const held = lock_.hold();
        return from_second_.size();
    }

    [[nodiscard]] Primary&         primary() noexcept { return this->first_; }
    [[nodiscard]] Primary const&   primary() const noexcept { return this->first_; }
    [[nodiscard]] Secondary&       secondary() noexcept { return this->second_; }
    [[nodiscard]] Secondary const& secondary() const noexcept { return this->second_; }

private:
    /// A place in the record, made before there is a block to lose.
    class note {
    public:
        explicit note(fallback& owner) : owner_{owner} {
            auto const held = owner_.lock_.hold();
            owner_.from_second_.reserve(owner_.asking_ + 1);
            ++owner_.asking_;
        }
        note(note&&) = delete;
        ~note() {
            auto const held = owner_.lock_.hold();
            --owner_.asking_;
            if (p_ != nullptr) { owner_.from_second_.insert(p_); }
        }

        void* of(void* p) noexcept { return p_ = p; }

    private:
        fallback& owner_;
        void*     p_ = nullptr;
    };

    template <class Ask>
    static void* or_null(Ask ask) noexcept {
        try {
            return ask();
        } catch (...) { return nullptr; } // no host memory to write it down
    }

    // Struck off before it goes back: afterwards the primary may be given the same address.
    [[nodiscard]] bool was_second(void const* p) noexcept {
        auto const held = lock_.hold();
        return from_second_.erase(p);
    }

    lock        lock_;
    address_set from_second_;
    std::size_t asking_ = 0; ///< requests that are with the secondary, each with a place made
};

namespace with {
/// `source | with::fallback(other)`
template <synchronous_resource Secondary>
[[nodiscard]] auto fallback(Secondary secondary) {
    return layer_of<vram::fallback, Secondary>(std::move(secondary));
}
} // namespace with

// A layer adds behaviour, never removes capability.
static_assert(powers<fallback<null_resource<>, null_resource<>>>::include<null_resource<>>);

} // namespace vram
