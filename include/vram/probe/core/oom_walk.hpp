// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `oom_walk` makes the runs of `survives_oom`.

#include <vram/base/contract.hpp>             // expects
#include <vram/base/core/trial_of_thread.hpp> // trial_scope
#include <vram/concepts/powers.hpp>           // measured_resource, trimmable_resource
#include <vram/concepts/resource.hpp>         // synchronous_resource
#include <vram/probe/core/refusal_plan.hpp>
#include <vram/probe/error_count.hpp>
#include <vram/probe/oom_survival.hpp>
#include <vram/probe/survives_oom_options.hpp>

#include <concepts> // equality_comparable, invocable
#include <cstddef>
#include <cstdint>
#include <exception>   // exception
#include <optional>    // optional
#include <string>      // string
#include <type_traits> // conditional_t, is_void_v, remove_cvref_t
#include <utility>

namespace vram {
namespace detail {

/// Stands for the value of a function that returns `void`.
struct no_value {
    friend bool operator==(no_value, no_value) = default;
};

/// A handle, such as `shared`, with a function `get()` that returns the resource with its own type.
template <class R>
concept handle_of_stack =
    requires(R& r) { requires synchronous_resource<std::remove_cvref_t<decltype(r.get())>>; };

/// Returns `memory.get()` if `memory` is a handle that knows the type of its resource, such as
/// `shared`. Otherwise returns `memory` itself.
template <class R>
[[nodiscard]] auto& stack_of(R& memory) noexcept {
    if constexpr (handle_of_stack<R>) {
        return memory.get();
    } else {
        return memory;
    }
}

/// Calls `work(memory)`, or `work()` if it takes no argument.
template <class R, class Work>
decltype(auto) call_with(R& memory, Work& work) {
    if constexpr (std::invocable<Work&, R&>) {
        return work(memory);
    } else {
        static_assert(std::invocable<Work&>,
                      "survives_oom calls work(memory) or work(): over a stack without the layer "
                      "refusing, `memory` is a refusing<resource_ref<...>>, so write "
                      "[&](auto& memory) { ... }");
        return work();
    }
}

/// Makes the runs of `survives_oom`, each of which calls `work`. Refuses the requests of `work` in
/// turn. After each run with a refusal, makes a run without refusals. `Top` is true if `memory`
/// itself is the layer `refusing`.
template <class R, class Work, bool Top>
class oom_walk {
    using result = decltype(detail::call_with(std::declval<R&>(), std::declval<Work&>()));
    using value = std::conditional_t<std::is_void_v<result>, no_value, std::remove_cvref_t<result>>;
    static_assert(std::equality_comparable<value>,
                  "survives_oom compares the values of its runs: let the function return a value "
                  "with operator==, such as a checksum, or nothing");

public:
    oom_walk(refusal_plan<>& plan, R& memory, Work& work, survives_oom_options const& options)
        : plan_{plan}, memory_{memory}, work_{work}, options_{options} {}

    [[nodiscard]] oom_survival walk() {
        expects(!options_.for_good || options_.most_refusals > 1,
                "survives_oom: most_refusals must be at least 2");
        trial const open{plan_};
        number_ = open.number;
        // The first run may fill caches of the tested code, so what it leaves live is no leak.
        std::optional<value> const expected = run_first();
        std::size_t const          before   = live();
        if (!repeats(expected, before)) { return std::move(found_); }
        found_.requests = plan_.requests();
        if (found_.requests > options_.most_requests) {
            fail(oom_fault::too_many_requests);
            return std::move(found_);
        }
        steady_ = live();
        for (std::uint64_t k = options_.only != 0 ? options_.only : 1;; ++k) {
            bool hit = false;
            if (!survives(k, 1, expected, hit)) { return std::move(found_); }
            if (hit && options_.for_good && !survives(k, options_.most_refusals, expected, hit)) {
                return std::move(found_);
            }
            if (!hit || options_.only != 0) {
                return {.refused  = options_.only != 0 ? found_.refused : 0,
                        .requests = found_.requests,
                        .runs     = found_.runs,
                        .only     = options_.only};
            }
        }
    }

private:
    /// Begins a trial (one call of `survives_oom`) in the constructor, ends it in the destructor.
    struct trial {
        explicit trial(refusal_plan<>& p) : plan{p}, number{p.begin_trial()} {}
        trial(trial&&) = delete;
        ~trial() { plan.end_trial(); }

        refusal_plan<>& plan;
        std::uint64_t   number;
    };
    struct outcome {
        std::optional<value> got{};   ///< value that `work` returned; empty if it threw
        std::string          what{};  ///< text of the exception that `work` threw
        std::string          error{}; ///< text of the first error that the run reported
    };

    [[nodiscard]] value call() {
        trial_scope const in{number_};
        if constexpr (std::is_void_v<result>) {
            call_with(memory_, work_);
            return {};
        } else {
            return call_with(memory_, work_);
        }
    }
    void prepare(std::uint64_t refused, std::uint64_t most) {
        // Releases the unused memory of the pools. Otherwise a pool could serve a request that then
        // does not reach the layer `refusing` below the pool.
        if constexpr (!Top && trimmable_resource<R>) { (void)memory_.trim(0); }
        plan_.forget_freed();
        plan_.begin_run(refused, most);
        ++found_.runs;
    }
    [[nodiscard]] value run_first() {
        prepare(0, 0);
        return call();
    }
    [[nodiscard]] outcome run(std::uint64_t refused, std::uint64_t most) {
        prepare(refused, most);
        outcome     out;
        error_count errors;
        try {
            out.got.emplace(call());
        } catch (std::exception const& e) { out.what = e.what(); } catch (...) {
            out.what = "not a std::exception";
        }
        if (errors.count() != 0) { out.error = errors.first(); }
        return out;
    }

    /// Returns the live bytes that `memory_.usage()` counts. If `memory_` has no `usage()`, or is
    /// itself the layer `refusing` (`Top` is true), returns the bytes of the blocks that `work_`
    /// has allocated in this trial and not freed.
    [[nodiscard]] std::size_t live() const {
        if constexpr (!Top && measured_resource<R>) {
            return memory_.usage().live;
        } else {
            return plan_.live_bytes();
        }
    }

    bool fail(oom_fault fault, std::string cause = {}) {
        found_.fault = fault;
        found_.cause = std::move(cause);
        return false;
    }
    bool fail_by_leak(std::size_t bytes, std::uint64_t run_number) {
        tried_block const first = plan_.live_of(run_number);
        found_.leaked           = bytes;
        found_.block_bytes      = first.bytes;
        found_.block_owner      = first.owner;
        found_.allocated_at     = first.at;
        return fail(oom_fault::leak);
    }
    /// Returns true if the run with the outcome `o` reported no error, freed no block twice, and
    /// freed none with a wrong size. Otherwise stores the mistake in `found_` and returns false.
    [[nodiscard]] bool frees_correctly(outcome const& o) {
        tried_free const wrong = plan_.wrong_free();
        if (wrong.what != tried_free::mistake::none) {
            found_.block_bytes  = wrong.block.bytes;
            found_.block_owner  = wrong.block.owner;
            found_.allocated_at = wrong.block.at;
            found_.freed_at     = wrong.block.freed_at;
            found_.wrong_at     = wrong.at;
            found_.wrong_bytes  = wrong.bytes;
            return fail(wrong.what == tried_free::mistake::twice ? oom_fault::double_free
                                                                 : oom_fault::wrong_size);
        }
        return o.error.empty() || fail(oom_fault::error_reported, o.error);
    }

    /// Makes the second run, which refuses nothing. Returns true if `work_` returns the value
    /// `expected` again, frees correctly, and leaves at most `before` bytes live. Otherwise stores
    /// the mistake in `found_` and returns false.
    [[nodiscard]] bool repeats(std::optional<value> const& expected, std::size_t before) {
        outcome o = run(0, 0);
        if (!o.got) { return fail(oom_fault::unsteady, o.what); }
        if (!frees_correctly(o)) { return false; }
        if (!(*o.got == *expected)) { return fail(oom_fault::unsteady); }
        o.got.reset();
        std::size_t const now = live();
        return now <= before || fail_by_leak(now - before, plan_.run());
    }

    /// Makes a run in which request `k` and later ones are refused, at most `most` of them. Sets
    /// `hit` to whether a request was refused. If so, makes a second run without refusals. If a run
    /// has a mistake, stores the mistake in `found_` and returns false.
    [[nodiscard]] bool survives(std::uint64_t k, std::uint64_t most,
                                std::optional<value> const& expected, bool& hit) {
        outcome             o     = run(k, most);
        tried_block const   first = plan_.first_refused();
        std::uint64_t const tried = plan_.run();
        hit                       = plan_.refusals() != 0;
        found_.refused            = hit ? k : 0;
        found_.for_good           = most != 1;
        found_.bytes              = first.bytes;
        found_.owner              = first.owner;
        found_.at                 = first.at;
        if (most != 1 && plan_.refusals() == most) { return fail(oom_fault::endless_retry); }
        if (plan_.requests() > options_.most_requests) {
            return fail(oom_fault::too_many_requests);
        }
        if (!frees_correctly(o)) { return false; }
        if (!o.got && !hit) { return fail(oom_fault::unsteady, o.what); }
        if (o.got && !(*o.got == *expected)) {
            return fail(hit ? oom_fault::swallowed : oom_fault::unsteady);
        }
        o.got.reset();
        if (!hit) { return true; }

        found_.afterwards = true;
        outcome later     = run(0, 0);
        if (!later.got) { return fail(oom_fault::damaged, later.what); }
        if (!frees_correctly(later)) { return false; }
        if (!(*later.got == *expected)) { return fail(oom_fault::damaged); }
        later.got.reset();
        found_.afterwards     = false;
        std::size_t const now = live();
        if (now > steady_) { return fail_by_leak(now - steady_, tried); }
        return true;
    }

    refusal_plan<>&             plan_;
    R&                          memory_;
    Work&                       work_;
    survives_oom_options const& options_;
    oom_survival                found_{};
    std::uint64_t               number_ = 0;
    /// Live bytes after the second run. If a later run leaves more live bytes, they are a leak.
    std::size_t steady_ = 0;
};

} // namespace detail
} // namespace vram
