// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `retrying` is a layer that applies policies after a refusal and asks its upstream again.

#include <vram/base/call_site.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/concepts/core/diagnosed.hpp>   // refuse_copy
#include <vram/concepts/core/observation.hpp> // observation, program_call
#include <vram/concepts/observer.hpp>         // memory_event_kind
#include <vram/concepts/powers.hpp>           // fallible_resource, reusing_resource
#include <vram/concepts/retry.hpp>            // retry, failed_attempt
#include <vram/concepts/sited.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::layer_of

#include <atomic>   // atomic_ref
#include <concepts> // same_as
#include <cstddef>
#include <cstdint>
#include <tuple> // tuple, get
#include <utility>

namespace vram {

namespace detail {
/// While this object exists, `is_in(layer)` is true on its thread: the thread runs a retry policy
/// of that layer.
class policy_call {
public:
    explicit policy_call(void const* layer) noexcept : layer_{layer}, outer_{innermost} {
        innermost = this;
    }
    policy_call(policy_call&&) = delete;
    ~policy_call() { innermost = outer_; }

    /// Returns true if the calling thread is running one of the retry policies of `layer`.
    [[nodiscard]] static bool is_in(void const* layer) noexcept {
        policy_call const* at = innermost;
        while (at != nullptr && at->layer_ != layer) { at = at->outer_; }
        return at != nullptr;
    }

private:
    static inline constinit thread_local policy_call* innermost = nullptr;

    void const*  layer_;
    policy_call* outer_;
};
} // namespace detail

/// A layer that calls retry policies if its upstream refuses a request, and then asks again.
///
///     retrying mr{pool{cuda_resource{}}, trim_upstream{}, wait_backoff{}};
///
/// The layer calls the policies in the order in which they are listed. If a policy returns true,
/// the layer asks the upstream again. If the upstream refuses again, the layer calls the same
/// policy again, up to `max_tries` calls for one request. If the policy returns false or has no
/// tries left, the layer goes on to the next policy. If no policy is left, the last exception of
/// the upstream is rethrown unchanged.
///
/// A policy may allocate through the layer. No policy is called for such a request.
///
/// Failure   `out_of_memory` of the upstream is rethrown after every policy was tried. Any other
///           exception of the upstream, and any exception of a policy, is rethrown at once.
///           `try_allocate` calls the policies each time the upstream returns null for more than 0
///           bytes. It returns null if no policy is left or a policy throws.
/// Threads   The rules are those of the upstream and of the policies, which all threads share. The
///           layer holds no lock.
/// Cost      None if the upstream does not refuse.
template <synchronous_resource Upstream, retry<Upstream>... Policies>
class retrying : public layer_base<Upstream> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    /// Creates the layer over `upstream`, with its retry policies in call order.
    explicit retrying(Upstream upstream, Policies... policies)
        : base{std::move(upstream)}, policies_{std::move(policies)...} {}

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<retrying> Same>
    retrying(Same& other) : retrying{detail::refuse_copy(other)} {}
    template <std::same_as<retrying> Same>
    retrying& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        return insist(bytes, alignment, &s, at,
                      [&] { return sited{this->upstream_, at}.allocate(s, bytes, alignment); });
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        return insist(bytes, alignment, nullptr, at,
                      [&] { return sited{this->upstream_, at}.allocate_sync(bytes, alignment); });
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        return try_insist(bytes, alignment, &s, at, [&] {
            return sited{this->upstream_, at}.try_allocate(s, bytes, alignment);
        });
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        return try_insist(bytes, alignment, nullptr, at, [&] {
            return sited{this->upstream_, at}.try_allocate_sync(bytes, alignment);
        });
    }

    /// Returns memory that the stream may use without a wait, or null. Calls no policy.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        return sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    /// Returns how often the layer has repeated a request to the upstream because a retry policy
    /// returned true.
    [[nodiscard]] std::uint64_t retries() const noexcept {
        return std::atomic_ref{retries_}.load(std::memory_order_relaxed);
    }
    /// Returns the retry policy with the index `Index`, counted from 0, so that the caller can read
    /// what the policy has counted.
    template <std::size_t Index>
    [[nodiscard]] auto& policy() noexcept {
        return std::get<Index>(policies_);
    }

private:
    static constexpr std::size_t count = sizeof...(Policies);

    /// The progress of one refused request. Policies get its description `failed` as argument.
    struct progress {
        std::size_t    at = 0; ///< index of the retry policy to call next
        failed_attempt failed;
    };

    template <class Ask>
    void* insist(std::size_t bytes, std::size_t alignment, stream const* on, call_site at,
                 Ask ask) {
        progress now{.failed = {.bytes = bytes, .alignment = alignment}};
        for (;;) {
            try {
                return ask();
            } catch (out_of_memory const& e) {
                now.failed.numbers = e.numbers();
                if (!again(now, on, at)) { throw; }
            }
        }
    }

    template <class Ask>
    void* try_insist(std::size_t bytes, std::size_t alignment, stream const* on, call_site at,
                     Ask ask) noexcept {
        if (bytes == 0) { return nullptr; }
        progress now{.failed = {.bytes     = bytes,
                                .alignment = alignment,
                                .numbers   = {.asked = bytes, .alignment = alignment}}};
        try {
            do {
                if (void* const p = ask()) { return p; }
            } while (again(now, on, at));
        } catch (...) {} // a policy threw an exception: the request is refused
        return nullptr;
    }

    /// Called after the upstream refused a request. Calls the remaining retry policies until one
    /// returns true. Returns true if the caller must repeat the request. Returns false if no policy
    /// is left, or if a policy of this layer made the request.
    bool again(progress& now, stream const* on, call_site at) {
        if (detail::policy_call::is_in(this)) { return false; }
        detail::policy_call const call{this};
        while (now.at < count) {
            if (ask_policy(now, std::make_index_sequence<count>{})) {
                std::atomic_ref{retries_}.fetch_add(1, std::memory_order_relaxed);
                detail::observation<Upstream>{this->upstream_, "retrying", this}.notify_request(
                    memory_event_kind::retried, now.failed.bytes, on, at);
                return true;
            }
            ++now.at;
            now.failed.tries = 0;
        }
        return false;
    }

    template <std::size_t... Index>
    bool ask_policy(progress& now, std::index_sequence<Index...>) {
        return ((now.at == Index && ask_one(std::get<Index>(policies_), now.failed)) || ...);
    }
    template <class Policy>
    bool ask_one(Policy& policy, failed_attempt& failed) {
        if (failed.tries >= Policy::max_tries) { return false; }
        ++failed.tries;
        // In the checks of the simulated device, waits in the policy count as waits of the program,
        // and not as waits of this resource.
        detail::program_call<typename base::platform> const program;
        return policy(this->upstream_, std::as_const(failed));
    }

    [[no_unique_address]] std::tuple<Policies...> policies_;
    /// Number of repeated requests; accessed by `std::atomic_ref`, because several threads may
    /// change it.
    mutable std::uint64_t retries_ = 0;
};

namespace with {
/// Puts a `retrying` layer over a resource, with these policies: `source |
/// with::retrying(trim_upstream{}, wait_backoff{})`.
template <class... Policies>
[[nodiscard]] auto retrying(Policies... policies) {
    return layer_of<vram::retrying, Policies...>(std::move(policies)...);
}
} // namespace with

} // namespace vram
