// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `refusing` is a layer that refuses the requests that `survives_oom` selects.

#include <vram/base/call_site.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/powers.hpp>         // fallible_resource, reusing_resource
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::word
#include <vram/probe/core/refusal_plan.hpp>

#include <concepts> // default_initializable, same_as
#include <cstddef>
#include <memory> // unique_ptr, make_unique
#include <utility>

namespace vram {

/// A layer that refuses allocation requests while `survives_oom` tests a piece of code. At other
/// times the layer only forwards calls to its upstream.
///
///     statistics<refusing<pool<stream_ordered<sim_resource>>>> memory;
///     CHECK(survives_oom(memory, [&] { return serve(memory); }));
///
/// If a stack has no such layer, `survives_oom` puts a temporary one over it. Put the layer into
/// the stack itself if the tested code needs the type of the stack. Put the layer under a pool to
/// refuse the pool's requests for chunks (the large blocks that the pool divides).
///
/// Failure   A refused request throws `out_of_memory`, or returns null from `try_allocate`.
///           `try_allocate_ready` is never refused. While `survives_oom` runs, the layer does not
///           pass the second free of a block to its upstream.
/// Threads   The rules are those of the upstream.
/// Cost      One load and one branch per call; a lock while `survives_oom` runs.
template <class Upstream>
class refusing : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    refusing()
        requires std::default_initializable<Upstream>
        : refusing{Upstream{}} {}
    /// Creates the layer over `upstream`.
    explicit refusing(Upstream upstream) : base{std::move(upstream)} {}
    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<refusing> Same>
    refusing(Same& other) : refusing{detail::refuse_copy(other)} {}
    template <std::same_as<refusing> Same>
    refusing& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        throw_if_refused(bytes, alignment, at);
        void* const p = sited{this->upstream_, at}.allocate(s, bytes, alignment);
        return noted(p, bytes, alignment, at);
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        throw_if_refused(bytes, alignment, at);
        return noted(sited{this->upstream_, at}.allocate_sync(bytes, alignment), bytes, alignment,
                     at);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        if (refuses(bytes, alignment, at)) { return nullptr; }
        void* const p = sited{this->upstream_, at}.try_allocate(s, bytes, alignment);
        return noted(p, bytes, alignment, at);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        if (refuses(bytes, alignment, at)) { return nullptr; }
        return noted(sited{this->upstream_, at}.try_allocate_sync(bytes, alignment), bytes,
                     alignment, at);
    }
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        void* const p = sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
        return noted(p, bytes, alignment, at);
    }

    // Records the free before the block returns to the upstream. Otherwise another thread could
    // allocate the same memory before the free is recorded.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        if (!frees(p, bytes, alignment, at)) { return; }
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (!frees(p, bytes, alignment, at)) { return; }
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    /// Returns the plan by which `survives_oom` selects the requests to refuse. The functions of
    /// its class are internal.
    [[nodiscard]] detail::refusal_plan<>& plan() { return plan_.made(); }

private:
    [[nodiscard]] bool refuses(std::size_t bytes, std::size_t alignment, call_site at) noexcept {
        detail::refusal_plan<>* const plan = plan_.active();
        return plan != nullptr && plan->refuses(bytes, alignment, at);
    }
    void throw_if_refused(std::size_t bytes, std::size_t alignment, call_site at) {
        if (!refuses(bytes, alignment, at)) { return; }
        throw out_of_memory{{.asked     = bytes,
                             .rounded   = detail::rounded_size(this->upstream_, bytes, alignment),
                             .alignment = alignment}};
    }
    void* noted(void* p, std::size_t bytes, std::size_t alignment, call_site at) noexcept {
        if (detail::refusal_plan<>* const plan = plan_.active()) {
            plan->allocated(p, bytes, alignment, at);
        }
        return p;
    }
    [[nodiscard]] bool frees(void* p, std::size_t& bytes, std::size_t& alignment,
                             call_site at) noexcept {
        detail::refusal_plan<>* const plan = plan_.active();
        return plan == nullptr || plan->freeing(p, bytes, alignment, at);
    }

    detail::owned_refusal_plan<> plan_;
};

namespace with {
/// Adds the layer `refusing`, which refuses requests for `survives_oom`:
/// `source | with::pool | with::refusing`.
inline constexpr word<vram::refusing> refusing{};
} // namespace with

} // namespace vram
