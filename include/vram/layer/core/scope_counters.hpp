// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `scope_counters` has the counters of a `statistics` layer and of its nested scopes.

#include <vram/base/contract.hpp>           // expects
#include <vram/layer/core/count_shards.hpp> // count_shard, count_shards

#include <cstddef>
#include <cstdint>
#include <vector> // vector

namespace vram {
namespace detail {

/// Takes the place of `histograms` in a `statistics` layer without histograms. Counts nothing.
struct no_histograms {
    static constexpr void allocated(void const*, std::size_t) noexcept {}
    static constexpr bool freed(void const*) noexcept { return true; }
};

/// The counters of a `statistics` layer and of its open scopes.
///
/// Failure   `pop` and `now` end the program if the scope is not open. `push` throws
///           `std::bad_alloc`.
/// Threads   Any thread may call any function, unless `Lock` is `no_lock`.
/// Cost      One lock for each allocation, free and refusal. `push`, `pop`, `now`, `overall`, and
///           an allocation that may raise the peak take the locks of all threads' counters.
template <class Counters, class Lock, class Histograms>
class scope_counters {
public:
    [[gnu::always_inline]] void allocated(void* p, std::size_t bytes) noexcept {
        if (!shards_.alone([&] { add(p, bytes); })) { add_with_others(p, bytes); }
    }
    [[gnu::always_inline]] void freed(void* p, std::size_t bytes) noexcept {
        if (p == nullptr) { return; }
        if (!shards_.alone([&] { sub(p, bytes); })) { sub_with_others(p, bytes); }
    }
    /// Called after `freed` if the upstream has refused the free: the block counts as live again.
    [[gnu::cold, gnu::noinline]] void not_freed(std::size_t bytes) noexcept {
        auto const held = hold_all();
        now_.bytes.add(bytes);
        now_.blocks.add(1);
        now_.bytes.total -= bytes;
        --now_.blocks.total;
    }
    [[gnu::noinline]] void refused() noexcept {
        if (shard* const mine = shards_.mine([&] { ++now_.refusals; })) {
            auto const held = mine->lock.hold();
            ++mine->refusals;
        }
    }

    std::uint64_t push() {
        auto const held = hold_all(true);
        scopes_.push_back({++last_, now_});
        now_ = {};
        return last_;
    }
    Counters pop() {
        auto const held = hold_all(true);
        expects(!scopes_.empty(), "statistics: pop() must follow a push()");
        return close(scopes_.size() - 1);
    }
    Counters pop(std::uint64_t scope_number) {
        auto const held = hold_all(true);
        return close(place(scope_number));
    }

    [[nodiscard]] Counters now() const {
        auto const held = hold_all();
        return now_;
    }
    [[nodiscard]] Counters now(std::uint64_t scope_number) const {
        auto const held = hold_all();
        return since(place(scope_number));
    }
    [[nodiscard]] Counters overall() const {
        auto const held = hold_all();
        return scopes_.empty() ? now_ : merged(scopes_.front().before, since(0));
    }

    [[nodiscard]] Histograms histograms() const {
        auto const held = shards_.hold();
        auto const all  = shards_.hold_shards();
        Histograms sum  = histograms_;
        all.for_each([&](shard const& each) { sum.merge(each.histograms); });
        return sum;
    }

private:
    using shard = count_shard<Histograms>;

    void add(void* p, std::size_t bytes) noexcept {
        histograms_.allocated(p, bytes);
        now_.bytes.add(bytes);
        now_.blocks.add(1);
    }
    void sub(void* p, std::size_t bytes) noexcept {
        histograms_.freed(p);
        now_.bytes.sub(bytes);
        now_.blocks.sub(1);
    }
    [[gnu::noinline]] void add_with_others(void* p, std::size_t bytes) noexcept {
        shard* const mine = shards_.mine([&] { add(p, bytes); });
        if (mine == nullptr) { return; }
        {
            auto const held = mine->lock.hold();
            mine->histograms.allocated(p, bytes);
            if (mine->try_add(bytes)) { return; }
        }
        auto const held = shards_.hold();
        shards_.add(now_, *mine, bytes);
    }
    [[gnu::noinline]] void sub_with_others(void* p, std::size_t bytes) noexcept {
        shard* const mine = shards_.mine([&] { sub(p, bytes); });
        if (mine == nullptr) { return; }
        {
            auto const held = mine->lock.hold();
            mine->sub(bytes);
            if (mine->histograms.freed(p)) { return; }
        }
        // The shard of this thread does not know when the block was allocated. Looks for the time
        // in the shards of the other threads, and then in the common histograms.
        bool found = false;
        shards_.for_each([&](shard& each) {
            if (found || &each == mine) { return; }
            auto const held = each.lock.hold();
            found           = each.histograms.freed(p);
        });
        if (found) { return; }
        auto const held = shards_.hold();
        histograms_.freed(p);
    }
    /// Takes the common lock and adds the counters of all threads to `now_`. Returns the guard of
    /// the lock. `anew`: true if a scope begins or ends.
    [[nodiscard]] auto hold_all(bool anew = false) const {
        auto held = shards_.hold();
        shards_.fold(now_, anew);
        return held;
    }

    [[nodiscard]] static Counters merged(Counters outer, Counters const& inner) noexcept {
        outer.bytes.merge(inner.bytes);
        outer.blocks.merge(inner.blocks);
        outer.refusals += inner.refusals;
        return outer;
    }

    /// An open scope. `before`: the counters of the enclosing scope until the `push` of this scope,
    /// or those of the layer if there is no enclosing scope.
    struct scope {
        std::uint64_t number;
        Counters      before;
    };

    [[nodiscard]] std::size_t place(std::uint64_t scope_number) const {
        std::size_t at = scopes_.size();
        while (at != 0 && scopes_[at - 1].number != scope_number) { --at; }
        expects(at != 0, "statistics: the scope must be open");
        return at - 1;
    }
    [[nodiscard]] Counters since(std::size_t at) const noexcept {
        Counters sum = now_;
        for (std::size_t i = scopes_.size(); --i > at;) { sum = merged(scopes_[i].before, sum); }
        return sum;
    }
    Counters close(std::size_t at) noexcept {
        Counters const answer = since(at);
        Counters&      piece  = at + 1 == scopes_.size() ? now_ : scopes_[at + 1].before;
        // The end of the scope removes the border at its `push`. The counters before and after this
        // border are merged: both belong to the enclosing scope.
        piece = merged(scopes_[at].before, piece);
        scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(at));
        return answer;
    }

    /// The counters of each thread. Their common lock also guards the members below.
    [[no_unique_address]] mutable count_shards<Histograms, Lock> shards_;
    /// Histograms of the calls that were not counted in a thread's own counters, such as all calls
    /// before a second thread used the layer.
    [[no_unique_address]] Histograms histograms_;
    /// The counters of the innermost open scope, or of the layer if no scope is open. They do not
    /// contain what is still in the threads' own counters, `shards_`.
    mutable Counters   now_;
    std::vector<scope> scopes_;
    std::uint64_t      last_ = 0;
};

} // namespace detail
} // namespace vram
