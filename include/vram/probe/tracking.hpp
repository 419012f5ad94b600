// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tracking` is a layer that knows each live block: its tag, its line, its stream and its age.

#include <vram/base/call_site.hpp>
#include <vram/base/call_stack.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/owning_process.hpp>
#include <vram/concepts/powers.hpp> // fallible_resource, reusing_resource, ...
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::word
#include <vram/probe/core/block_books.hpp>
#include <vram/probe/core/owner_lists.hpp>
#include <vram/probe/core/owner_table.hpp>
#include <vram/probe/tracked_block.hpp> // tracked_block, tracked_order
#include <vram/probe/tracked_owner.hpp>
#include <vram/probe/tracking_options.hpp>

#include <concepts> // default_initializable, same_as
#include <cstddef>
#include <memory> // unique_ptr, make_unique
#include <new>    // bad_alloc
#include <string> // string
#include <utility>
#include <vector> // vector

namespace vram {

/// A layer that records each live block. It finds leaks and wrong frees, and names the owners of
/// memory.
///
///     tracking memory{pool{stream_ordered{cuda_resource{}}}, {.frames = 8}};
///     { tagged const scope{"optimizer"}; state = memory.allocate(stream, bytes); }
///     std::puts(memory.text().c_str());        // live bytes, peaks, allocations by tag and line
///     memory.blocks(tracked_order::largest_first);
///
/// A wrong free has a pointer that is not a live block of the layer, or another size or alignment
/// than the allocation. It is reported to the error sink, and is not passed to the upstream. The
/// destructor reports the live blocks as leaks. If the upstream refuses a request, `out_of_memory`
/// gets the tags or lines with the most live bytes, which `explain` prints.
///
/// Failure   As the upstream. Without host memory for a record, an allocation throws
///           `std::bad_alloc` or returns null.
/// Threads   The rules are those of the upstream. Any thread may read the lists at any time.
/// Cost      About 50 ns for an allocation and its free, 40 ns more with call stacks of 8 frames,
///           and 150 bytes of host memory for each live block.
template <class Upstream>
class tracking : public layer_base<detail::checked_upstream<Upstream>> {
    using base  = layer_base<Upstream>;
    using books = detail::block_books<typename Upstream::platform>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    tracking()
        requires std::default_initializable<Upstream>
        : tracking{Upstream{}} {}
    /// Creates the layer over `upstream`, which must have no live block.
    explicit tracking(Upstream upstream, tracking_options options = {})
        : base{std::move(upstream)}, books_{std::make_unique<books>(options)} {}

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<tracking> Same>
    tracking(Same& other) : tracking{detail::refuse_copy(other)} {}
    template <std::same_as<tracking> Same>
    tracking& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    tracking(tracking&&) = default;
    tracking& operator=(tracking&& other) noexcept {
        if (this == &other) { return *this; }
        finish();
        base::operator=(std::move(other));
        books_ = std::move(other.books_);
        owner_ = other.owner_;
        return *this;
    }
    ~tracking() { finish(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        return counted(bytes, alignment, &s, at,
                       [&](auto up) { return up.allocate(s, bytes, alignment); });
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        return counted(bytes, alignment, nullptr, at,
                       [&](auto up) { return up.allocate_sync(bytes, alignment); });
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        void* const p = sited{this->upstream_, at}.try_allocate(s, bytes, alignment);
        return kept(p, bytes, alignment, &s, at) ? p : nullptr;
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        void* const p = sited{this->upstream_, at}.try_allocate_sync(bytes, alignment);
        return kept(p, bytes, alignment, nullptr, at) ? p : nullptr;
    }

    /// Returns memory that the stream `s` may use without a wait. Returns null if the upstream has
    /// no such memory, or if there is no host memory for the record of the block.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        void* const p = sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
        return kept(p, bytes, alignment, &s, at) ? p : nullptr;
    }

    // Removes the record of the block first, and then frees the block. In the reverse order,
    // another thread could get a block at the same address while the old record still exists.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        if (p != nullptr && !removed(p, bytes, alignment, &s, at)) { return; }
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (p != nullptr && !removed(p, bytes, alignment, nullptr, at)) { return; }
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    /// Returns the live blocks.
    [[nodiscard]] std::vector<tracked_block>
    blocks(tracked_order order = tracked_order::oldest_first) const {
        return books_->blocks(order);
    }
    /// Returns the figures of each tag. The tag with the most live bytes is first.
    [[nodiscard]] std::vector<tracked_owner> by_tag() const { return books_->by_tag(); }
    /// Returns the figures of each pair of a program line and a tag. The pair with the most live
    /// bytes is first.
    [[nodiscard]] std::vector<tracked_owner> by_site() const { return books_->by_site(); }
    /// Returns the figures of each thread that has allocated. The thread with the most live bytes
    /// is first.
    [[nodiscard]] std::vector<tracked_owner> by_thread() const { return books_->by_thread(); }

    /// Returns the figures of each pair of a tag and a thread. The pair with the most live bytes is
    /// first. The peaks are exact.
    [[nodiscard]] std::vector<tracked_owner> by_tag_and_thread() const {
        return books_->by_tag_and_thread();
    }

    /// Returns the lists of owners and blocks for `report`. The class of the result is internal.
    [[nodiscard]] detail::owner_lists const& owners() const noexcept { return *books_; }

    /// Returns two tables as text: the figures of the tags, and those of the lines of the program,
    /// each with at most `rows` rows.
    [[nodiscard]] std::string text(std::size_t rows = 20) const {
        return detail::owner_table(by_tag(), detail::owner_kind::tag, rows) + "\n" +
               detail::owner_table(by_site(), detail::owner_kind::site, rows);
    }

    /// Reports the live blocks to the error sink as leaks, by tag and line. Returns the number of
    /// live blocks.
    std::size_t report_leaks() const noexcept { return books_->report_leaks(); }
    /// Removes the records of all blocks. To be called after the upstream has freed all without
    /// `deallocate`, as `monotonic::reset()` does.
    void forget_blocks() { books_->forget(); }

    /// Returns the usage of the upstream if it has `usage`, otherwise the live bytes, peak and
    /// allocations that this layer has counted.
    [[nodiscard]] memory_usage usage() const {
        if constexpr (measured_resource<Upstream>) {
            return base::usage();
        } else {
            detail::owner_sums const all = books_->sums();
            return {.live        = all.live,
                    .requested   = all.live,
                    .peak_live   = all.peak,
                    .allocations = all.allocations};
        }
    }

private:
    template <class Call>
    void* counted(std::size_t bytes, std::size_t alignment, stream const* s, call_site at,
                  Call const& call) {
        void* p = nullptr;
        try {
            p = call(sited{this->upstream_, at});
        } catch (out_of_memory& e) {
            books_->name_holders(e.numbers());
            throw;
        }
        if (p != nullptr && !kept(p, bytes, alignment, s, at)) { throw std::bad_alloc{}; }
        return p;
    }
    /// Adds a record of the block at `p`. Returns false if `p` is null, or if there is no host
    /// memory for the record; the block is then freed.
    [[nodiscard]] bool kept(void* p, std::size_t bytes, std::size_t alignment, stream const* s,
                            call_site at) noexcept {
        if (p == nullptr) { return false; }
        unsigned const   frames = books_->options().frames;
        call_stack const stack  = frames != 0 ? call_stack::current(frames) : call_stack{};
        if (books_->add(p, bytes, alignment, s, at, stack)) [[likely]] { return true; }
        if constexpr (resource<Upstream>) {
            if (s != nullptr) {
                sited{this->upstream_, at}.deallocate(*s, p, bytes, alignment);
                return false;
            }
        }
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
        return false;
    }
    [[nodiscard]] bool removed(void* p, std::size_t bytes, std::size_t alignment, stream const* s,
                               call_site at) noexcept {
        return books_->remove(p, bytes, alignment, s, at,
                              [this](void const* q) { return upstream_owns(q); });
    }
    [[nodiscard]] bool upstream_owns([[maybe_unused]] void const* q) const noexcept {
        if constexpr (owning_resource<Upstream>) {
            try {
                return this->upstream_.owns(q);
            } catch (...) {} // the report then says that the address is foreign
        }
        return false;
    }
    void finish() noexcept {
        if (books_ == nullptr || !books_->options().report_leaks) { return; }
        if (!owner_.is_current() || detail::is_ending<typename Upstream::platform>()) { return; }
        books_->report_leaks();
    }

    std::unique_ptr<books> books_;
    detail::owning_process owner_;
};

namespace with {
/// Adds the layer `tracking`, which records each live block:
/// `source | with::pool | with::tracking`, or with options `with::tracking({.frames = 8})`.
inline constexpr word<vram::tracking, tracking_options> tracking{};
} // namespace with

} // namespace vram
