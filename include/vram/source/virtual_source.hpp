// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_source` allocates virtual memory in blocks that can grow in place.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // expects
#include <vram/base/core/lock.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp> // synchronous_only
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/expandable.hpp> // the concepts that its users ask for
#include <vram/concepts/powers.hpp>     // property_set
#include <vram/source/core/span_blocks.hpp>
#include <vram/source/core/virtual_span.hpp>
#include <vram/source/virtual_options.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {

/// Reserves one range of addresses, and allocates blocks of whole pages in the range. Maps physical
/// memory to the pages of each block. A pool over this resource can extend its chunks (large
/// blocks) in place. It can also move the physical memory of free pages to other addresses.
///
///     virtual_resource memory;                       // or sim_virtual_resource
///     void* const p = memory.allocate_sync(1_GiB);
///     if (memory.extend(p, 1_GiB, 512_MiB)) ...      // now 1.5 GiB at the same address
///
/// Failure   Throws `out_of_memory` or the error of the platform, and changes nothing.
/// Threads   Any thread may call. A lock is held during driver calls.
/// Streams   No function waits for a stream. If a stream uses freed memory, the device may fault.
/// Cost      On an H200, creating a page takes about 30 us, and moving a page about 20 us.
template <virtual_memory Memory>
class virtual_source : public detail::synchronous_only<virtual_source<Memory>> {
public:
    using platform   = typename Memory::platform;
    using properties = property_set<device_accessible>;

    /// Reserves the range of addresses, and maps no memory yet. `memory` makes the driver calls.
    explicit virtual_source(Memory memory, virtual_options const& options = {})
        : virtual_source{memory, options, page_for(memory, options)} {}
    virtual_source(virtual_source&& other) noexcept
        : span_{std::move(other.span_)},
          blocks_{std::move(other.blocks_)},
          keep_{other.keep_},
          figures_{std::exchange(other.figures_, {})} {}
    ~virtual_source() {
        if (detail::is_ending<platform>()) { return; }
        // Reports the blocks that were not freed. The destructor of `span_` releases their memory.
        blocks_.for_each([&](block const& b) {
            report_error({.kind     = error_kind::leak,
                          .pointer  = pointer(b),
                          .bytes    = b.bytes,
                          .blocks   = 1,
                          .resource = "virtual_source"});
        });
    }

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        expects(valid_alignment(alignment), "virtual_source: the alignment must be a power of two");
        if (bytes == 0) { return nullptr; }
        auto const  held = lock_.hold();
        block const b    = blocks_.place(bytes, alignment);
        if (b.empty()) { refuse(shortage{}, bytes, alignment); }
        blocks_.insert(b);
        try {
            span_.fill(b.first, b.last);
        } catch (out_of_memory const& e) {
            blocks_.erase(b);
            refuse(e.numbers(), bytes, alignment);
        } catch (...) {
            blocks_.erase(b);
            throw;
        }
        ++figures_.allocations;
        count({}, b);
        return pointer(b);
    }

    /// Returns null if the allocation fails for any reason.
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment) noexcept {
        try {
            return allocate_sync(bytes, alignment);
        } catch (...) { return nullptr; }
    }

    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (p == nullptr) { return; }
        auto const  held = lock_.hold();
        block const b    = blocks_.at(p);
        if (b.empty() || b.bytes != bytes) { return refuse_free(p, bytes, alignment, at); }
        span_.drop(b.first, b.last, keep_);
        blocks_.erase(b);
        count(b, {});
    }

    /// Returns the size of a page in bytes.
    [[nodiscard]] std::size_t page_size() const noexcept { return span_.page(); }
    /// Returns `bytes` rounded up to whole pages, the bytes that a block occupies.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes,
                                           std::size_t /* alignment */) const noexcept {
        std::size_t const page = span_.page();
        return bytes > unsatisfiable - page ? unsatisfiable : (bytes + page - 1) / page * page;
    }
    /// Returns the device of the memory.
    [[nodiscard]] auto device() const
        requires requires(Memory const& m) { m.device(); }
    {
        return span_.memory().device();
    }

    /// Extends the block at `p` by `more` bytes with physical memory, in place. If this fails,
    /// returns false and changes nothing.
    [[nodiscard]] bool extend(void* p, std::size_t bytes, std::size_t more) noexcept {
        return resize(p, bytes, saturating_add(bytes, more), [&](block const& b, block const& to) {
            // The last page may have lost its memory (`drop`), and needs it again for added bytes.
            span_.fill(more != 0 ? b.first + bytes / span_.page() : b.last, to.last);
        });
    }
    /// Extends the block at `p` by `more` bytes of addresses without memory. If this fails, returns
    /// false and changes nothing.
    [[nodiscard]] bool widen(void* p, std::size_t bytes, std::size_t more) noexcept {
        return resize(p, bytes, saturating_add(bytes, more), [](auto&, auto&) {});
    }
    /// Shortens the block at `p`, of `bytes` bytes, by `less` bytes. Returns the number of bytes of
    /// physical memory that were taken from the end of the block.
    std::size_t shrink(void* p, std::size_t bytes, std::size_t less) noexcept {
        std::size_t gone = 0;
        if (less >= bytes) {
            report_error({.kind        = error_kind::wrong_size,
                          .pointer     = p,
                          .bytes       = less,
                          .block_bytes = bytes,
                          .resource    = "virtual_source",
                          .call        = "shrink",
                          .advice      = "shrink leaves at least one byte; use deallocate_sync."});
            return 0;
        }
        resize(p, bytes, bytes - less, [&](block const& b, block const& to) {
            gone = span_.drop(to.last, b.last, keep_) * span_.page();
        });
        return gone;
    }

    /// Returns how many of the `n` bytes at `q` have physical memory. Returns 0 unless the pages of
    /// one block contain all these bytes.
    [[nodiscard]] std::size_t mapped(void const* q, std::size_t n) const noexcept {
        auto const  held = lock_.hold();
        auto const  all  = blocks_.touched(q, n);
        std::size_t sum  = 0;
        for (std::size_t i = all.first; i < all.last; ++i) {
            if (span_.mapped(i)) { sum += blocks_.share(i, q, n); }
        }
        return sum;
    }
    /// Maps physical memory to each page that overlaps [q, q + n) and has none. If this fails,
    /// returns false, and no page gets memory.
    [[nodiscard]] bool fill(void* q, std::size_t n) noexcept {
        auto const held  = lock_.hold();
        auto const pages = known(blocks_.touched(q, n), q, n);
        try {
            span_.fill(pages.first, pages.last);
        } catch (...) { return false; }
        count({}, {});
        return n == 0 || !pages.empty();
    }
    /// Takes the physical memory from the pages of a block that lie completely within [q, q + n).
    /// The unused end of the block's last page need not lie within. The resource keeps up to
    /// `virtual_options::keep` bytes of unused memory. Returns the number of bytes taken.
    std::size_t drop(void* q, std::size_t n) noexcept {
        auto const held = lock_.hold();
        known(blocks_.touched(q, n), q, n);
        auto const pages = blocks_.whole(q, n);
        return span_.drop(pages.first, pages.last, keep_) * span_.page();
    }
    /// Moves physical memory from one range of pages to another. Takes it from the pages of a block
    /// that lie completely within [from, from + n). The unused end of the last page of the block
    /// need not lie within. The pages without memory that overlap [to, to + m) get it. Returns the
    /// number of bytes moved.
    std::size_t remap(void* from, std::size_t n, void* to, std::size_t m) noexcept {
        auto const held = lock_.hold();
        known(blocks_.touched(from, n), from, n);
        auto const given = blocks_.whole(from, n);
        auto const taker = known(blocks_.touched(to, m), to, m);
        return span_.move(given.first, given.last, taker.first, taker.last) * span_.page();
    }
    /// If the physical memory that last backed the page at `q` now backs another page, returns the
    /// address of that page. Otherwise returns null.
    [[nodiscard]] void* moved_to(void const* q) const noexcept {
        auto const held = lock_.hold();
        auto const page = blocks_.touched(q, 1);
        auto const at   = page.empty() ? span_.nowhere : span_.moved_to(page.first);
        return at == span_.nowhere ? nullptr : span_.address(at);
    }
    /// Calls `visit(p, bytes)` for each range of mapped pages of each block. `visit` must not call
    /// this resource, whose lock is held.
    template <class Visit>
    void for_each_mapped(Visit const& visit) const {
        auto const held = lock_.hold();
        blocks_.for_each([&](block const& b) {
            for (std::size_t i = b.first; i < b.last; ++i) {
                std::size_t const from = i;
                while (i < b.last && span_.mapped(i)) { ++i; }
                if (i != from) { visit(span_.address(from), (i - from) * span_.page()); }
            }
        });
    }

    /// Returns a handle of the physical memory of the page at `q`, for another process. On CUDA, a
    /// file descriptor that the caller closes.
    [[nodiscard]] auto export_page(void const* q) const
        requires exportable_memory<Memory>
    {
        auto const held = lock_.hold();
        auto const page = blocks_.touched(q, 1);
        expects(!page.empty() && span_.mapped(page.first),
                "virtual_source: only mapped memory can be exported");
        return span_.memory().export_handle(span_.physical(page.first));
    }

    /// Returns true if `p` lies in the reserved range, allocated or not.
    [[nodiscard]] bool owns(void const* p) const noexcept { return span_.range().holds(p); }

    /// Releases physical memory that backs no page, until at most `keep` bytes are left. Returns
    /// the number of bytes released.
    std::size_t trim(std::size_t keep = 0) noexcept {
        auto const held = lock_.hold();
        return span_.trim(keep / span_.page()) * span_.page();
    }
    /// Returns the counters of the resource. `live` is the physical memory that backs blocks. If
    /// pages of a block have no memory, their bytes count only in `requested`.
    [[nodiscard]] memory_usage usage() const noexcept {
        auto const   held = lock_.hold();
        memory_usage now  = figures_;
        now.live          = live();
        now.reserved      = span_.held() * span_.page();
        now.largest_free  = span_.spares() * span_.page();
        now.upstream      = span_.calls();
        return now;
    }
    /// Resets the peaks of live and reserved bytes to the present values. Returns the old peaks.
    memory_usage reset_peaks() noexcept {
        auto const held   = lock_.hold();
        figures_.live     = live();
        figures_.reserved = span_.held() * span_.page();
        return figures_.restart_peaks();
    }
    /// Raises the peaks of the live and reserved bytes to at least the peaks in `before`, such as
    /// the result of `reset_peaks`.
    void raise_peaks(memory_usage const& before) noexcept {
        auto const held = lock_.hold();
        figures_.raise_peaks(before);
    }

    /// Returns the interface to the virtual memory functions of the device.
    [[nodiscard]] Memory const& memory() const noexcept { return span_.memory(); }

    /// A resource is equal only to itself.
    friend bool operator==(virtual_source const& a, virtual_source const& b) noexcept {
        return &a == &b;
    }

private:
    using block = detail::span_blocks::block;

    virtual_source(Memory const& memory, virtual_options const& options, std::size_t page)
        : span_{memory, span_for(memory, options, page), page},
          blocks_{span_.range().base(), page, span_.pages()},
          keep_{options.keep / page} {
        expects(options.keep == 0 || keep_ != 0, "virtual_options: `keep` must be 0 or at least "
                                                 "`handle_size`, because it counts whole pages");
    }

    static std::size_t page_for(Memory const& memory, virtual_options const& options) {
        std::size_t const unit = memory.granularity();
        return rounded(options.handle_size == 0 ? unit : options.handle_size, unit);
    }
    static std::size_t span_for(Memory const& memory, virtual_options const& options,
                                std::size_t page) {
        std::size_t const total = options.reserve != 0 ? 0 : memory.memory().total;
        std::size_t const bytes = options.reserve != 0 ? options.reserve : 4 * total;
        return rounded(bytes == 0 ? page : bytes, page);
    }
    static std::size_t rounded(std::size_t bytes, std::size_t unit) {
        expects(bytes <= unsatisfiable / 2,
                "virtual_options: the range must fit into the address space");
        return (bytes + unit - 1) / unit * unit;
    }

    [[nodiscard]] static void* pointer(block const& b) noexcept {
        return reinterpret_cast<void*>(b.address);
    }
    /// Returns `pages`. If `pages` is empty although `n` is not 0, no block contains the `n` bytes
    /// at `q`. Then reports `q` to the error sink as a foreign pointer.
    static detail::span_blocks::run known(detail::span_blocks::run pages, void const* q,
                                          std::size_t n) noexcept {
        if (pages.empty() && n != 0) {
            report_error({.kind     = error_kind::foreign_pointer,
                          .pointer  = q,
                          .bytes    = n,
                          .resource = "virtual_source",
                          .call     = "fill, drop or remap",
                          .advice   = "Pass bytes of one live block."});
        }
        return pages;
    }

    /// Reports to the error sink that the block at `p` cannot be freed or resized: no block of
    /// `bytes` bytes starts at `p`. `call`: null, or the functions that resize a block.
    [[gnu::cold]] void refuse_free(void* p, std::size_t bytes, std::size_t alignment, call_site at,
                                   char const* call = nullptr) const noexcept {
        detail::refused_free e{"virtual_source", p, bytes, alignment, at};
        e.what.call = call;
        if (call != nullptr) { e.what.advice = "Pass the start and the present size of a block."; }
        block const    b    = blocks_.around(p, 1);
        auto const     base = reinterpret_cast<std::uintptr_t>(span_.range().base());
        std::uintptr_t from = reinterpret_cast<std::uintptr_t>(p) - base;
        // The alignment of a block is not stored. So `alignment` is passed on without a check.
        if (!b.empty()) {
            e.found_live(pointer(b), b.bytes, alignment);
        } else if (from < span_.pages() * span_.page()) {
            e.found_free();
        }
        e.template report<platform>();
    }

    /// Changes the size of the block at `p` from `bytes` to `wanted`. Calls `act(old, new)` before,
    /// which maps or unmaps memory. Returns false and changes nothing if there is no such block, if
    /// the addresses after it are not free, or if `act` throws.
    template <class Act>
    bool resize(void* p, std::size_t bytes, std::size_t wanted, Act const& act) noexcept {
        auto const  held = lock_.hold();
        block const b    = blocks_.at(p);
        if (b.empty() || b.bytes != bytes) {
            refuse_free(p, bytes, default_alignment, {}, "extend, widen or shrink");
            return false;
        }
        block const to = blocks_.resized(b, wanted);
        if (to.empty()) { return false; }
        try {
            act(b, to);
        } catch (...) { return false; }
        blocks_.replace(to);
        count(b, to);
        return true;
    }

    /// Returns the bytes of physical memory that back pages; only pages of blocks are backed.
    [[nodiscard]] std::size_t live() const noexcept {
        return (span_.held() - span_.spares()) * span_.page();
    }
    /// Updates the counters after `to` has replaced the block `b`. For a new block, `b` is empty.
    /// For a freed block, `to` is empty. If both are empty, updates only the peaks.
    void count(block const& b, block const& to) noexcept {
        figures_.requested = figures_.requested + to.bytes - b.bytes;
        raise(live(), span_.held() * span_.page());
    }
    void raise(std::size_t out, std::size_t held) noexcept {
        if (figures_.peak_live < out) { figures_.peak_live = out; }
        if (figures_.peak_reserved < held) { figures_.peak_reserved = held; }
    }

    /// Throws `out_of_memory` with the size and alignment of the request and the live, reserved and
    /// unused bytes of this resource. `found` has the free and total bytes of the device, if known.
    [[noreturn]] void refuse(shortage found, std::size_t bytes, std::size_t alignment) const {
        std::size_t const page = span_.page();
        found.asked            = bytes;
        found.rounded          = rounded_size(bytes, alignment);
        found.alignment        = alignment;
        if (found.device_total != 0) {
            // Reads the free bytes again, because the failed `fill` has released memory meanwhile.
            try {
                memory_info const now = span_.memory().memory();
                found.device_free     = now.free;
            } catch (...) { found.device_free = found.device_total = 0; }
        }
        found.live         = live();
        found.reserved     = span_.held() * page;
        found.largest_free = span_.spares() * page;
        throw out_of_memory{found};
    }

    detail::virtual_span<Memory> span_;
    detail::span_blocks          blocks_;
    /// Largest number of pages of physical memory that stay with the resource after frees.
    std::size_t  keep_;
    memory_usage figures_{};
    detail::lock lock_;
};

} // namespace vram
