// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `binned` allocates blocks of a few dozen size classes, and passes larger requests to its
/// upstream.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp>           // expects
#include <vram/base/error.hpp>              // report_error
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_ordered_upstream
#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/observer.hpp> // memory_event_kind
#include <vram/concepts/powers.hpp>   // fallible_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/with.hpp> // with::word
#include <vram/pool/binned_options.hpp>
#include <vram/pool/core/large_blocks.hpp>
#include <vram/pool/core/slab_base.hpp>

#include <concepts> // default_initializable, assignable_from
#include <cstddef>
#include <utility>

namespace vram {

/// Allocates blocks of a few dozen sizes (size classes), four for each power of two. Larger
/// requests are passed to the upstream, a stream-ordered resource.
///
///     binned<stream_ordered<cuda_resource>> memory;
///     auto mr = cuda_resource{} | with::stream_ordered | with::binned({.largest = 4_MiB});
///
/// Nothing is reserved before the first request. Bookkeeping is never written into the managed
/// memory.
///
/// Failure   Before `out_of_memory`, idle chunks are returned and the host waits for freed blocks,
///           except during a capture. Invalid frees are rejected and reported to the error sink
///           (the function for errors that cannot be thrown).
/// Threads   Any number of threads may call concurrently. The lock is not held during calls of the
///           upstream.
/// Streams   A small request waits for no stream except the last user of its block. A large request
///           is served in the stream order of the upstream.
/// Cost      A small request costs a few instructions more than with `slab` (a resource with blocks
///           of one size). A large request costs a call of the upstream.
template <class Upstream>
class binned : public detail::slab_base<detail::checked_ordered_upstream<Upstream>> {
    using base = detail::slab_base<Upstream>;

public:
    using typename base::platform;
    using typename base::stream;

    /// Creates a `binned` over a default-constructed upstream.
    explicit binned(binned_options options = {})
        requires std::default_initializable<Upstream>
        : binned{Upstream{}, options} {}

    /// Creates a `binned` over `upstream`. Allocates no memory from it yet.
    explicit binned(Upstream upstream, binned_options options = {})
        : base{"binned", std::move(upstream), options.max_size, options.events, options.graphs} {
        expects(options.largest != 0 && options.largest <= detail::slab_heap::largest,
                "binned: `largest` must be from 1 to 2^56 bytes");
        this->heaps_.add_classes(options.largest);
    }
    /// A size as the only argument does not compile: the error message says which option to write.
    template <detail::size_alone<Upstream> Size>
    explicit binned(Size) : binned{detail::refuse_size(*this)} {}
    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<binned> Same>
    binned(Same& other) : binned{detail::refuse_copy(other)} {}
    template <std::same_as<binned> Same>
    binned& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }
    /// Requires that no other thread and no `resource_ref` uses the source of the move. Afterwards,
    /// the source can only be destroyed or assigned to.
    binned(binned&&) = default;
    binned& operator=(binned&& other) noexcept
        requires std::assignable_from<Upstream&, Upstream>
    {
        if (this == &other) { return *this; }
        give_large_back();
        this->give_everything_back();
        base::operator=(std::move(other));
        large_ = std::move(other.large_);
        return *this;
    }
    /// Waits for the streams that may still use the memory, reports live blocks as leaks, and
    /// returns all memory to the upstream.
    ~binned() { give_large_back(); }

    /// Allocates a block for use on the stream `s`. Returns null for 0 bytes.
    // Only an observer (an object that is notified of each allocation) uses `at`. The function is
    // inlined so that other calls need not pass it.
    [[nodiscard, gnu::always_inline]] void* allocate(stream s, std::size_t bytes,
                                                     std::size_t alignment = default_alignment,
                                                     call_site   at        = call_site::current()) {
        auto const seen = this->seen();
        return seen.allocate(bytes, &s, at, [&] { return get_on(s, bytes, alignment); });
    }
    /// Allocates memory that any stream may use without a wait. The host may wait for earlier
    /// users.
    [[nodiscard, gnu::always_inline]] void* allocate_sync(std::size_t bytes,
                                                          std::size_t alignment = default_alignment,
                                                          call_site   at = call_site::current()) {
        auto const seen = this->seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return get_any<true>({bytes, bytes, alignment, nullptr}); });
    }

    /// Allocates like `allocate`, but returns null instead of throwing. Errors other than
    /// `std::bad_alloc` go to the error sink (the function for errors that cannot be thrown).
    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = this->seen();
        return seen.allocate(bytes, &s, at, [&] { return try_any({bytes, bytes, alignment, &s}); });
    }
    /// Allocates like `allocate_sync`, but returns null instead of throwing. Errors other than
    /// `std::bad_alloc` go to the error sink (the function for errors that cannot be thrown).
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        auto const seen = this->seen();
        return seen.allocate(bytes, nullptr, at,
                             [&] { return try_any({bytes, bytes, alignment, nullptr}); });
    }

    /// Frees a block in the order of the stream `s`: earlier work of `s` may still use the block.
    /// If the free is invalid, the report names `at`, the caller's file and line.
    // Inlined, so that a free passes `at` only if it is needed: for an observer (an object that is
    // notified of each free), or if the free is invalid.
    [[gnu::always_inline]] void deallocate(stream s, void* p, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current()) noexcept {
        auto const seen = this->seen();
        seen.notify(memory_event_kind::freed, p, bytes, &s, at);
        if (!put_on(s, p, bytes, alignment)) [[unlikely]] { refuse_on(s, p, bytes, alignment, at); }
    }
    /// Frees a block that no stream uses any more: the program has waited for all of its uses.
    [[gnu::always_inline]] void deallocate_sync(void* p, std::size_t bytes,
                                                std::size_t alignment = default_alignment,
                                                call_site   at = call_site::current()) noexcept {
        auto const seen = this->seen();
        seen.notify(memory_event_kind::freed, p, bytes, nullptr, at);
        if (!put_any(p, bytes, alignment, nullptr)) [[unlikely]] {
            refuse(p, bytes, alignment, nullptr, at);
        }
    }

    /// Returns true if `p` lies in a chunk of a size class or in a live large block. Cost: a walk
    /// over large blocks.
    [[nodiscard]] bool owns(void const* p) const {
        auto const held = this->lock_.hold();
        return this->heaps_.owns(p) || large_.owns(p);
    }
    /// Returns the size above which a request is passed to the upstream.
    [[nodiscard]] std::size_t largest() const noexcept { return this->heaps_.largest(); }

    /// Returns the bytes that a block takes: those of the size class, or, for a large request,
    /// those that the upstream allocates.
    [[nodiscard]] std::size_t rounded_size(std::size_t bytes,
                                           std::size_t alignment) const noexcept {
        if (bytes == 0) { return 0; }
        detail::slab_heap const* const heap = this->heaps_.for_request(bytes, alignment);
        return heap != nullptr ? heap->stride()
                               : detail::rounded_size(this->upstream_, bytes, alignment);
    }

private:
    using typename base::request;

    void* get_on(stream s, std::size_t bytes, std::size_t alignment) {
        return get_any<true>({bytes, bytes, alignment, &s});
    }
    void* try_any(request const& r) noexcept {
        return this->or_null(r.asked, [&] { return get_any<false>(r); });
    }
    template <bool Throwing>
    void* get_any(request r) {
        expects(valid_alignment(r.alignment), "binned: the alignment must be a power of two");
        if (r.asked == 0) { return nullptr; }
        detail::slab_heap* const heap = this->heaps_.for_request(r.asked, r.alignment);
        if (heap == nullptr) { return get_large<Throwing>(r); }
        r.rounded = heap->stride();
        return this->template get<Throwing>(*heap, r);
    }
    template <bool Throwing>
    void* get_large(request const& r) {
        if (void* const p = pass_on<false>(r)) { return p; }
        // The host may wait in `trim`. CUDA forbids that while the request's stream is being
        // captured.
        if (!detail::is_captured<platform>(r.on) && this->trim() != 0) {
            if (void* const p = pass_on<false>(r)) { return p; }
        }
        if constexpr (Throwing) {
            return this->or_throw(
                r, [&] { return pass_on<true>(r); }, [&] { return this->heaps_.largest_free(); });
        } else {
            return nullptr;
        }
    }
    template <bool Throwing>
    void* pass_on(request const& r) {
        // Registers the stream in this resource. If the block leaks, the destructor waits for the
        // devices of all registered streams.
        if (r.on != nullptr) {
            auto const held = this->lock_.hold();
            this->streams_.register_stream(*r.on);
        }
        return this->template grow<Throwing>(r.asked, r.alignment, r.on, [&](void* at) {
            large_.reserve();
            large_.insert(at, r.asked, r.alignment);
            this->count_out(r.asked, r.asked);
            return at;
        });
    }

    /// Frees the block at `p`. `on`: the stream that may still use the block, or null if none does.
    /// Returns false if the free is invalid: no live block has this address, size and alignment.
    [[nodiscard]] bool put_any(void* p, std::size_t bytes, std::size_t alignment,
                               stream const* on) noexcept {
        if (p == nullptr) { return true; }
        auto                     held = this->lock_.hold();
        detail::slab_heap* const heap = this->heaps_.for_request(bytes, alignment);
        if (heap != nullptr && this->put(*heap, p, bytes, alignment, on)) { return true; }
        auto const* const n = large_.find(p);
        if (n == nullptr || n->bytes != bytes || n->alignment != alignment) { return false; }
        // Removes the block from the table of large blocks first: after the upstream has freed it,
        // another thread may get the same address.
        large_.erase(p);
        this->count_back(bytes, bytes);
        this->budget_.give_back(bytes, held, [&] {
            this->seen().notify(memory_event_kind::chunk_removed, p, bytes, on);
            if (on != nullptr) {
                sited{this->upstream_}.deallocate(*on, p, bytes, alignment);
            } else {
                sited{this->upstream_}.deallocate_sync(p, bytes, alignment);
            }
        });
        return true;
    }
    [[nodiscard]] bool put_on(stream s, void* p, std::size_t bytes,
                              std::size_t alignment) noexcept {
        return put_any(p, bytes, alignment, &s);
    }
    /// Reports a free that was rejected, and the reason.
    [[gnu::cold, gnu::noinline]] void refuse(void* p, std::size_t bytes, std::size_t alignment,
                                             stream const* on, call_site at) noexcept {
        this->report_refusal(p, bytes, alignment, on, at, [&](auto& e) {
            if (this->heaps_.explain_refusal(e)) { return; }
            auto const* const n = large_.around(p);
            if (n != nullptr) { e.found_live(n->at, n->bytes, n->alignment); }
        });
    }
    [[gnu::cold, gnu::noinline]] void refuse_on(stream s, void* p, std::size_t bytes,
                                                std::size_t alignment, call_site at) noexcept {
        refuse(p, bytes, alignment, &s, at);
    }
    /// If large blocks are live, waits for the devices of all streams that used this resource,
    /// returns these blocks to the upstream, and reports them as leaks.
    void give_large_back() noexcept {
        if (detail::is_ending<platform>() || large_.size() == 0) { return; }
        auto const seen  = this->seen();
        auto const waits = seen.watch();
        {
            auto held = this->lock_.hold();
            // Which streams use these blocks is unknown, so the host waits for devices (`true`).
            this->streams_.wait_for_all(true, held);
        }
        this->await_memory();
        std::size_t const blocks = large_.size();
        std::size_t       out    = 0;
        large_.drain([&](detail::large_blocks::entry const& gone) {
            this->count_back(gone.bytes, gone.bytes);
            seen.notify(memory_event_kind::chunk_removed, gone.at, gone.bytes);
            sited{this->upstream_}.deallocate_sync(gone.at, gone.bytes, gone.alignment);
            out += gone.bytes;
        });
        report_error(
            {.kind = error_kind::leak, .bytes = out, .blocks = blocks, .resource = "binned"});
    }

    detail::large_blocks large_;
};

namespace with {
/// Puts a `binned` over the resource on the left of `|`. Options may follow in parentheses:
/// `source | with::stream_ordered | with::binned({.largest = 4_MiB})`.
inline constexpr word<vram::binned, binned_options> binned{};
} // namespace with

} // namespace vram
