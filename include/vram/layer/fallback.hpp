// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fallback` allocates from a second resource if the first one has no memory.

#include <vram/base/call_site.hpp>
#include <vram/base/core/lock.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp>    // check_pair, refuse_copy
#include <vram/concepts/core/refused_free.hpp> // was_freed
#include <vram/concepts/powers.hpp> // fallible_resource, reusing_resource, rounding_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/core/address_set.hpp>
#include <vram/layer/core/pair_base.hpp>
#include <vram/layer/with.hpp> // with::layer_of

#include <concepts> // same_as
#include <cstddef>
#include <utility>

namespace vram {

/// Allocates from the primary resource. If the primary has no memory, allocates from the secondary.
///
///     fallback mr{limiting{cuda_resource{}, 4_GiB}, managed_resource{}};
///
/// The layer stores the addresses of all live blocks of the secondary in a table. Each block is
/// therefore freed by the resource that allocated it, even if the resources have no function
/// `owns`.
///
/// Failure   If the secondary fails too, its exception is rethrown. If the primary has
///           `try_allocate`, the secondary is asked after any failure of the primary. Otherwise the
///           secondary is asked only after `out_of_memory`. If the table cannot grow for lack of
///           host memory, the secondary is not asked: `allocate` throws `std::bad_alloc`, and
///           `try_allocate` returns null.
/// Threads   The rules are those of the less safe of the two resources.
/// Cost      One lock per free, and two per allocation from the secondary. A refusal costs an
///           exception if the primary has no `try_allocate`.
template <class Primary, class Secondary>
class fallback : public detail::pair_base<
                     typename detail::check_pair<detail::checked_upstream<Primary>,
                                                 detail::checked_upstream<Secondary>>::type,
                     Secondary> {
    using base = detail::pair_base<Primary, Secondary>;

    static constexpr bool ordered  = resource<Primary> && resource<Secondary>;
    static constexpr bool fallible = fallible_resource<Primary> && fallible_resource<Secondary>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    fallback(Primary primary, Secondary secondary)
        : base{std::move(primary), std::move(secondary)} {}

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<fallback> Same>
    fallback(Same& other) : fallback{detail::refuse_copy(other)} {}
    template <std::same_as<fallback> Same>
    fallback& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

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

    /// Returns memory that the stream may use without a wait, or null. Asks the primary resource
    /// first, and then the secondary. A resource without this function is skipped.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires ordered && (reusing_resource<Primary> || reusing_resource<Secondary>)
    {
        if constexpr (reusing_resource<Primary>) {
            if (void* const p = sited{primary(), at}.try_allocate_ready(s, bytes, alignment)) {
                return p;
            }
        }
        if constexpr (reusing_resource<Secondary>) {
            if (bytes == 0) { return nullptr; }
            note second{*this};
            return second.of(sited{secondary(), at}.try_allocate_ready(s, bytes, alignment));
        } else {
            return nullptr;
        }
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires ordered
    {
        if (was_second(p)) {
            return give_second(p,
                               [&] { sited{secondary(), at}.deallocate(s, p, bytes, alignment); });
        }
        sited{primary(), at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (was_second(p)) {
            return give_second(
                p, [&] { sited{secondary(), at}.deallocate_sync(p, bytes, alignment); });
        }
        sited{primary(), at}.deallocate_sync(p, bytes, alignment);
    }

    /// Returns the larger of the sizes that the two resources allocate for a request, because
    /// either of them may serve it.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes, std::size_t alignment) const noexcept
        requires rounding_resource<Primary> || rounding_resource<Secondary>
    {
        return detail::larger_of(detail::rounded_size(primary(), bytes, alignment),
                                 detail::rounded_size(secondary(), bytes, alignment));
    }

    /// Returns the number of live blocks that the secondary resource allocated.
    [[nodiscard]] std::size_t fallen_back() const {
        auto const held = lock_.hold();
        return from_second_.size();
    }

    /// Returns the primary resource, which gets each request first. `try_allocate_ready` skips the
    /// primary if the primary does not have that function.
    [[nodiscard]] Primary&       primary() noexcept { return this->first_; }
    [[nodiscard]] Primary const& primary() const noexcept { return this->first_; }
    /// Returns the secondary resource, which gets a request if the primary has no memory for it.
    [[nodiscard]] Secondary&       secondary() noexcept { return this->second_; }
    [[nodiscard]] Secondary const& secondary() const noexcept { return this->second_; }

private:
    /// Reserves an entry in the table `from_second_` before the secondary resource allocates a
    /// block. The destructor stores the block's address in this entry, and therefore cannot fail.
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
        } catch (...) { return nullptr; } // no host memory for an entry of the table
    }

    // Returns true if the secondary allocated `p`, and removes `p` from the table. Call it before
    // the free.
    [[nodiscard]] bool was_second(void const* p) noexcept {
        auto const held = lock_.hold();
        return from_second_.erase(p);
    }

    /// Frees the block at `p` with `free()`. If the secondary refuses the free, for example because
    /// of a wrong size, adds the block to the table again: a valid free of the block may follow.
    template <class Free>
    void give_second(void const* p, Free const& free) noexcept {
        if (detail::was_freed(p, free)) [[likely]] { return; }
        auto const held = lock_.hold();
        try { // `last_refused` is the address of `p`, which compilers take for invalid after a free
            from_second_.reserve(asking_ + 1);
            from_second_.insert(reinterpret_cast<void const*>(detail::last_refused));
        } catch (...) {} // no host memory: the primary gets the next free, and refuses it
    }

    detail::lock        lock_;
    detail::address_set from_second_;
    /// Number of requests to the secondary resource that are in progress. The table `from_second_`
    /// has a free entry for each of them.
    std::size_t asking_ = 0;
};

namespace with {
/// Adds a second resource for requests that the first one refuses: `source | with::fallback(other)`
/// creates `fallback{source, other}`.
template <synchronous_resource Secondary>
[[nodiscard]] auto fallback(Secondary secondary) {
    return layer_of<vram::fallback, Secondary>(std::move(secondary));
}
} // namespace with

} // namespace vram
