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

/// The caller of a platform function: a part of vram, or the program. `handle` stands for a
/// `buffer` or an `array`.
enum class part_kind : unsigned char { program, handle, loader, unloader, staging };

/// The purpose of a call of a platform function, for reports of the platform: the part of vram that
/// makes the call, and the index of the loader's batch or unloader's result concerned.
struct part_work {
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    part_kind   part = part_kind::program;
    char const* name = nullptr; ///< text for reports, such as "loader copy of batch"
    /// Index of the loader's batch or the unloader's result for which the call is made; `none` if
    /// the call belongs to neither.
    std::size_t item = none;
    /// Index of the loader's batch or the unloader's result that used the same device block before;
    /// `none` if there is none.
    std::size_t before = none;
    /// Id of the stream that used the device block for the batch or result with the index `before`.
    /// The id is 0 if it is not known.
    std::uint64_t stream = 0;
};

/// A call of vram that a thread is executing, for reports of the platform. `at`: line of the
/// program that called vram. `work`: purpose of the call. `outer`: the enclosing call of vram, or
/// null.
struct part_call {
    call_site        at{};
    part_work        work{};
    part_call const* outer = nullptr;
};

/// A platform whose reports name lines of the program. `P::calling_part()` returns a reference to a
/// thread-local pointer to the innermost call of vram that the thread is executing; it is null in
/// code of the program.
template <class P>
concept knows_callers = requires {
    { P::calling_part() } noexcept -> std::same_as<part_call const*&>;
};

/// While this object exists, reports of the platform (such as the simulated device) about calls of
/// this thread name the line `at` of the program. If an enclosing `user_line` has a known line,
/// they name that line instead. A `user_code` object hides the `user_line` objects around it.
///
///     user_line<Platform> const here{at};
///     user_line<Platform> const copying{at, {part_kind::loader, "loader copy of batch", index}};
///
/// Threads   The thread must destroy its objects in reverse order.
template <class P>
class [[maybe_unused]] user_line {
public:
    [[gnu::always_inline]] constexpr explicit user_line(call_site) noexcept {}
    [[gnu::always_inline]] constexpr user_line(call_site, part_work const&) noexcept {}
    user_line(user_line const&) = delete;

    /// Returns the line of the program that called vram. The result is an unknown line if the
    /// thread executes no call of vram, or if `P` does not satisfy `knows_callers`.
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
/// the source of a loader. Reports name lines in that function, not the line that called vram.
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

/// Stores a line of the program for reports about later calls of the platform. The default
/// constructor stores the line that called vram in the present call. If `P` does not satisfy
/// `knows_callers`, the class stores nothing.
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

/// Remembers, for reports, which stream used a device block of a loader or unloader last, and for
/// which batch or result.
template <class P>
struct last_use {
    constexpr void                           note(std::size_t, typename P::stream) noexcept {}
    [[nodiscard]] static constexpr part_work work(part_kind, char const*, std::size_t) noexcept {
        return {};
    }
};

template <knows_callers P>
struct last_use<P> {
    /// Stores, for reports, that the stream `s` uses the device block. `item`: index of the
    /// loader's batch or the unloader's result for which `s` uses the block.
    void note(std::size_t item, typename P::stream s) {
        before = item;
        stream = P::id(s);
    }
    /// Returns the description of a copy by a loader or unloader, for reports. `name`: text such as
    /// "loader copy of batch". `item`: index of the batch or result. The description also contains
    /// the last use of the device block.
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
