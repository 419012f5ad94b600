// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `scope_counters` has the counters of a `statistics` layer and of its nested scopes.

#include <vram/base/contract.hpp> // expects
#include <vram/base/core/biased_lock.hpp>
#include <vram/layer/core/count_shards.hpp> // count_shards, late_count_shards

#include <cstddef>
#include <cstdint>
#include <type_traits> // conditional_t, is_same_v
#include <vector>      // vector

namespace vram {
namespace detail {

/// Takes the place of `histograms` in a `statistics` layer without histograms. Counts nothing.
struct no_histograms {
    static constexpr void allocated(void const*, std::size_t) noexcept {}
    static constexpr void freed(void const*) noexcept {}
};
/// Takes the place of `late_count_shards` (counters for each thread) in a `statistics` layer in
/// which all threads share one set of counters.
struct no_count_shards {};

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
    [[gnu::always_inline]] void allocated([[maybe_unused]] void* p, std::size_t bytes) noexcept {
        if constexpr (divides) {
            if (!counted_by_bias([&] { add(bytes); })) { add_with_others(bytes); }
        } else {
            auto const held = lock_.hold();
            histograms_.allocated(p, bytes);
            add(bytes);
        }
    }
    [[gnu::always_inline]] void freed([[maybe_unused]] void* p, std::size_t bytes) noexcept {
        if (p == nullptr) { return; }
        if constexpr (divides) {
            if (!counted_by_bias([&] { sub(bytes); })) { sub_with_others(bytes); }
        } else {
            auto const held = lock_.hold();
            histograms_.freed(p);
            sub(bytes);
        }
    }
    [[gnu::noinline]] void refused() noexcept {
        if constexpr (divides) {
            with_others([&] { ++now_.refusals; }, [](auto& shards) { shards.refuse(); });
        } else {
            auto const held = lock_.hold();
            ++now_.refusals;
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
        auto const held = lock_.hold();
        return histograms_;
    }

private:
    /// True if each thread gets its own counters once a second thread uses the layer.
    static constexpr bool divides =
        std::is_same_v<Lock, biased_lock> && std::is_same_v<Histograms, no_histograms>;

    void add(std::size_t bytes) noexcept {
        now_.bytes.add(bytes);
        now_.blocks.add(1);
    }
    void sub(std::size_t bytes) noexcept {
        now_.bytes.sub(bytes);
        now_.blocks.sub(1);
    }
    /// Calls `count()` under `lock_` and returns true if `lock_` is biased to this thread and no
    /// thread has counters of its own. Otherwise only returns false.
    template <class Count>
    [[nodiscard, gnu::always_inline]] bool counted_by_bias(Count const& count) noexcept {
        if (shards_.get() != nullptr) [[unlikely]] { return false; }
        auto const held = lock_.hold_by_bias();
        if (!held.owns_lock()) [[unlikely]] { return false; }
        count();
        return true;
    }
    [[gnu::noinline]] void add_with_others(std::size_t bytes) noexcept {
        with_others([&] { add(bytes); },
                    [&](auto& shards) {
                        if (shards.try_add(bytes)) { return; }
                        auto const held = lock_.hold();
                        shards.add(now_, bytes);
                    });
    }
    [[gnu::noinline]] void sub_with_others(std::size_t bytes) noexcept {
        with_others([&] { sub(bytes); }, [&](auto& shards) { shards.sub(bytes); });
    }
    /// Calls `apart(shards)` with the counters for each thread, created if necessary. Calls
    /// `together()` instead if there are none and `lock_` is biased to this thread, or without host
    /// memory.
    template <class Together, class Apart>
    void with_others(Together const& together, Apart const& apart) noexcept {
        auto* shards = shards_.get();
        if (shards == nullptr) {
            auto const held = lock_.hold();
            if (held.by_bias()) { return together(); }
            shards = shards_.make();
            // There is no host memory for the counters for each thread: all threads count in the
            // common counters `now_`.
            if (shards == nullptr) { return together(); }
        }
        apart(*shards);
    }
    /// Locks `lock_`, adds the threads' own counts to `now_`, and returns the guard. `anew` must be
    /// true if a scope begins or ends (see `count_shards::fold`).
    [[nodiscard]] auto hold_all(bool anew = false) const {
        auto held = lock_.hold();
        if constexpr (divides) {
            if (auto* const shards = shards_.get()) { shards->fold(now_, anew); }
        }
        return held;
    }

    [[nodiscard]] static Counters merged(Counters outer, Counters const& inner) noexcept {
        outer.bytes.merge(inner.bytes);
        outer.blocks.merge(inner.blocks);
        outer.refusals += inner.refusals;
        return outer;
    }

    /// An open scope. `before` has the counts from the begin of the scope around it, or of the
    /// layer, to its own begin.
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
        // Merges the counts before and after the begin of the ended scope: both now belong to the
        // scope around it, or to the layer.
        piece = merged(scopes_[at].before, piece);
        scopes_.erase(scopes_.begin() + static_cast<std::ptrdiff_t>(at));
        return answer;
    }

    [[no_unique_address]] Lock       lock_;
    [[no_unique_address]] Histograms histograms_; ///< accessed with the lock held
    /// Counters since the innermost open scope began, or the layer was created. `hold_all` adds the
    /// counts that threads still have in `shards_`.
    mutable Counters                                                                      now_;
    std::vector<scope>                                                                    scopes_;
    std::uint64_t                                                                         last_ = 0;
    [[no_unique_address]] std::conditional_t<divides, late_count_shards, no_count_shards> shards_;
};

} // namespace detail
} // namespace vram
