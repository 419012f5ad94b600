// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `user_line` tells a platform which line of the program called a part of vram, and its purpose.

#include <vram/base/call_site.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// The part of vram that makes a call of the platform, or the program itself. A *handle* is a
/// `buffer` or another owner of memory.
enum class part_kind : unsigned char { program, handle, loader, unloader, staging };

/// The purpose of a call of the platform, for reports: the part of vram that makes it, such as a
/// loader, a text, and the number of the loader's batch or of the unloader's result.
struct part_work {
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    part_kind   part = part_kind::program;
    char const* name = nullptr; ///< text for reports, such as "loader copy of batch"
    /// Number of the loader's batch or the unloader's result that the call serves, or `none`.
    std::size_t item = none;
    /// Number of the batch or result for which the device block was used before, or `none`.
    std::size_t before = none;
    /// Id of the stream that used the device block for `before`; 0 if it is not known.
    std::uint64_t stream = 0;
};

/// A call of vram that a thread is executing: the line of the program that made the call, the
/// purpose of the platform calls in it, and the call of vram within which it was made, or null.
struct part_call {
    call_site        at{};
    part_work        work{};
    part_call const* outer = nullptr;
};

/// A platform that names lines of the program in reports. `P::calling_part()` returns a reference
/// to a pointer of the calling thread. The pointer refers to the `part_call` (line and purpose) of
/// the innermost call of vram that the thread executes; it is null while the thread executes code
/// of the program.
template <class P>
concept knows_callers = requires {
    { P::calling_part() } noexcept -> std::same_as<part_call const*&>;
};

/// While this object exists, reports of the platform (such as the simulated device's) about calls
/// by this thread name the line `at` of the program. If the thread already has a `user_line` with a
/// known line, because one function of vram called another, reports name that earlier line.
///
///     user_line<Platform> const here{at};
///     user_line<Platform> const copying{at, {part_kind::loader, "loader copy of batch", index}};
///
/// Failure   Never throws.
/// Threads   One thread uses the object. It must be destroyed by this thread, the newest first.
/// Cost      None if the platform names no lines in reports: there are no members, and no code.
template <class P>
class [[maybe_unused]] user_line {
public:
    [[gnu::always_inline]] constexpr explicit user_line(call_site) noexcept {}
    [[gnu::always_inline]] constexpr user_line(call_site, part_work const&) noexcept {}
    user_line(user_line const&) = delete;

    /// Returns the program's line; unknown if the platform does not name lines in reports.
    [[nodiscard]] static constexpr call_site caller() noexcept { return {}; }
};

template <knows_callers P>
class [[maybe_unused]] user_line<P> {
public:
    explicit user_line(call_site at) noexcept : call_{at, {}, P::calling_part()} { enter(); }
    user_line(call_site at, part_work const& work) noexcept : call_{at, work, P::calling_part()} {
        enter();
    }
    user_line(user_line const&)            = delete;
    user_line& operator=(user_line const&) = delete;
    ~user_line() { P::calling_part() = call_.outer; }

    [[nodiscard]] static call_site caller() noexcept {
        part_call const* const call = P::calling_part();
        return call != nullptr ? call->at : call_site{};
    }

private:
    void enter() noexcept {
        if (part_call const* const outer = call_.outer) {
            if (outer->at.known()) { call_.at = outer->at; }
            if (call_.work.part == part_kind::program) { call_.work = outer->work; }
        }
        P::calling_part() = &call_;
    }

    part_call call_;
};

/// While this object exists, the thread runs a function of the program that vram called, such as
/// the source of a loader. A report about a platform call in that function names the line of the
/// call there, not the line that called vram. The object does nothing unless `P` is
/// `knows_callers`.
template <class P>
class [[maybe_unused]] user_code {
public:
    [[gnu::always_inline]] constexpr user_code() noexcept {}
    user_code(user_code const&) = delete;
};

template <knows_callers P>
class [[maybe_unused]] user_code<P> {
public:
    user_code() noexcept : outer_{P::calling_part()} { P::calling_part() = nullptr; }
    user_code(user_code const&)            = delete;
    user_code& operator=(user_code const&) = delete;
    ~user_code() { P::calling_part() = outer_; }

private:
    part_call const* outer_;
};

/// Stores a line of the program, so that reports about later calls of the platform can name the
/// line. The default constructor stores the line that made the present call of vram. Unless `P` is
/// `knows_callers`, nothing is stored, and `at()` is an unknown line.
template <class P>
class remembered_line {
public:
    constexpr remembered_line() noexcept = default;
    constexpr explicit remembered_line(call_site) noexcept {}
    [[nodiscard]] static constexpr call_site at() noexcept { return {}; }
};

template <knows_callers P>
class remembered_line<P> {
public:
    remembered_line() noexcept : at_{user_line<P>::caller()} {}
    explicit remembered_line(call_site at) noexcept : at_{at} {}
    [[nodiscard]] call_site at() const noexcept { return at_; }

private:
    call_site at_;
};

/// For a device block of a loader or unloader: stores which stream used the block last, and for
/// which batch or result. Reports about a copy to or from the block name both.
template <class P>
struct last_use {
    constexpr void                           note(std::size_t, typename P::stream) noexcept {}
    [[nodiscard]] static constexpr part_work work(part_kind, char const*, std::size_t) noexcept {
        return {};
    }
};

template <knows_callers P>
struct last_use<P> {
    /// Records that the stream `s` has used the block for the batch (of a loader) or the result (of
    /// an unloader) with the number `item`.
    void note(std::size_t item, typename P::stream s) {
        before = item;
        stream = P::id(s);
    }
    /// Returns the purpose of a copy, for reports: it copies the batch (of a loader) or the result
    /// (of an unloader) with the number `item`. The last use of the block is added.
    [[nodiscard]] part_work work(part_kind part, char const* name,
                                 std::size_t item) const noexcept {
        return {part, name, item, before, stream};
    }
    std::size_t   before = part_work::none;
    std::uint64_t stream = 0;
};

/// Gives the stream `s`, which vram made, the name `name` for reports. Does nothing if the platform
/// does not name streams.
template <class P>
void name_stream([[maybe_unused]] typename P::stream s,
                 [[maybe_unused]] char const*        name) noexcept {
    if constexpr (requires { P::name_stream(s, name); }) { P::name_stream(s, name); }
}

} // namespace detail
} // namespace vram
