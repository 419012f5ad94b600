// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `statistics` counts bytes and blocks: now, at most, in all, and for nested scopes.

#include <vram/base/call_site.hpp>       // call_site
#include <vram/base/contract.hpp>        // expects
#include <vram/base/counter.hpp>         // counter
#include <vram/base/lock.hpp>            // lock
#include <vram/concepts/diagnosed.hpp>   // refuse_copy, checked_upstream
#include <vram/concepts/sited.hpp>       // sited
#include <vram/layer/layer_base.hpp>     // layer_base
#include <vram/layer/with.hpp>           // with::word
#include <vram/source/null_resource.hpp> // the stand-in of the proofs below

#include <concepts> // default_initializable
#include <cstddef>  // size_t, ptrdiff_t
#include <cstdint>  // uint64_t
#include <utility>  // move, exchange
#include <vector>   // vector

namespace vram {

/// What has happened since a question was asked.
struct counters {
    counter       bytes;        ///< as they were asked for
    counter       blocks;       ///< those of zero bytes are none
    std::uint64_t refusals = 0; ///< requests that were not met

    friend bool operator==(counters const&, counters const&) = default;
};

/// A resource that counts, with questions inside questions.
///
///     statistics mr{pool{cuda_resource{}}};
///     mr.push();
///     train_step(mr);
///     auto const step = mr.pop();   // step.bytes.peak: the high water of this step alone
///
/// Over a pool it counts what clients ask, under a pool what the pool takes.
///
/// Failure   a request that is not met is counted as a refusal, and what the upstream threw goes on
/// Threads   as safe as the upstream (with `no_lock`: one); a question is about all of them
/// Cost      one short lock per call, the same at any depth of questions; `push` may allocate, an
///           answer costs the questions within it
template <class Upstream, class Lock = lock>
class statistics : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;

    statistics()
        requires std::default_initializable<Upstream>
        : statistics{Upstream{}} {}
    explicit statistics(Upstream upstream) : base{std::move(upstream)} {}

    /// A copy is a compile error that says what to write.
    template <std::same_as<statistics> Same>
    statistics(Same& other) : statistics{detail::refuse_copy(other)} {}

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.allocate_sync(bytes, alignment));
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.try_allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        attempt made{*this, bytes};
        return made.got(sited{this->upstream_, at}.try_allocate_sync(bytes, alignment));
    }

    /// Counted if there is a block; null is not a refusal.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment)
        requires reusing_resource<Upstream>
    {
        void* const p = this->upstream_.try_allocate_ready(s, bytes, alignment);
        if (p == nullptr) { return p; }
        attempt made{*this, bytes};
        return made.got(p);
    }

    // Struck off first: once the memory is back, another thread may be counted for the same bytes.
    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        came_back(p, bytes);
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        came_back(p, bytes);
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    /// Asks a new question: everything counts from zero until it is answered. The number names the
    /// question where questions do not nest, as those of several threads.
    std::uint64_t push() {
        auto const held = lock_.hold();
        asked_.push_back({++last_, now_});
        now_ = {};
        return last_;
    }
    /// Answers the innermost question.
    counters pop() {
        auto const held = lock_.hold();
        expects(!asked_.empty(), "statistics: every pop has its push");
        return close(asked_.size() - 1);
    }
    /// Answers this question, whichever others are open.
    counters pop(std::uint64_t asked) {
        auto const held = lock_.hold();
        return close(place(asked));
    }

    /// The answer so far to the innermost question.
    [[nodiscard]] counters now() const {
        auto const held = lock_.hold();
        return now_;
    }
    /// The answer so far to this one.
    [[nodiscard]] counters now(std::uint64_t asked) const {
        auto const held = lock_.hold();
        return since(place(asked));
    }
    /// Everything since the layer was made.
    [[nodiscard]] counters overall() const {
        auto const held = lock_.hold();
        return asked_.empty() ? now_ : merged(asked_.front().before, since(0));
    }

    /// The upstream's own figures where it has some, else those of this layer.
    [[nodiscard]] memory_usage usage() const {
        if constexpr (measured_resource<Upstream>) {
            return base::usage();
        } else {
            counters const all  = overall();
            auto const     live = static_cast<std::size_t>(all.bytes.value);
            return {.live        = live,
                    .requested   = live,
                    .peak_live   = static_cast<std::size_t>(all.bytes.peak),
                    .allocations = all.blocks.total};
        }
    }

private:
    /// A request under way: a refusal, until the upstream has delivered.
    class attempt {
    public:
        attempt(statistics& owner, std::size_t bytes) noexcept : owner_{owner}, bytes_{bytes} {}
        attempt(attempt&&) = delete;
        ~attempt() {
            if (bytes_ == 0) { return; }
            auto const held = owner_.lock_.hold();
            ++owner_.now_.refusals;
        }

        void* got(void* p) noexcept {
            if (p == nullptr) { return p; }
            auto const held = owner_.lock_.hold();
            owner_.now_.bytes.add(std::exchange(bytes_, 0));
            owner_.now_.blocks.add(1);
            return p;
        }

    private:
        statistics& owner_;
        std::size_t bytes_;
    };

    void came_back(void* p, std::size_t bytes) noexcept {
        if (p == nullptr) { return; }
        auto const held = lock_.hold();
        now_.bytes.sub(bytes);
        now_.blocks.sub(1);
    }

    [[nodiscard]] static counters merged(counters outer, counters const& inner) noexcept {
        outer.bytes.merge(inner.bytes);
        outer.blocks.merge(inner.blocks);
        outer.refusals += inner.refusals;
        return outer;
    }

    /// A question, and what was counted between the one before it and itself: the questions cut the
    /// time into pieces, and an answer is the sum of the pieces since.
    struct question {
        std::uint64_t number;
        counters      before;
    };

    [[nodiscard]] std::size_t place(std::uint64_t asked) const {
        std::size_t at = asked_.size();
        while (at != 0 && asked_[at - 1].number != asked) { --at; }
        expects(at != 0, "statistics: the question is open");
        return at - 1;
    }
    [[nodiscard]] counters since(std::size_t at) const noexcept {
        counters sum = now_;
        for (std::size_t i = asked_.size(); --i > at;) { sum = merged(asked_[i].before, sum); }
        return sum;
    }
    counters close(std::size_t at) noexcept {
        counters const answer = since(at);
        counters&      piece  = at + 1 == asked_.size() ? now_ : asked_[at + 1].before;
        piece                 = merged(asked_[at].before, piece); // two pieces become one
        asked_.erase(asked_.begin() + static_cast<std::ptrdiff_t>(at));
        return answer;
    }

    [[no_unique_address]] Lock lock_;
    counters                   now_; ///< since the innermost question
    std::vector<question>      asked_;
    std::uint64_t              last_ = 0;
};

namespace with {
/// `source | with::statistics`
inline constexpr word<vram::statistics> statistics{};
} // namespace with

// A layer adds behaviour, never removes capability.
static_assert(powers<statistics<null_resource<>>>::include<null_resource<>>);
static_assert(measured_resource<statistics<null_resource<>>>);

} // namespace vram
