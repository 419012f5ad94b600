// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `timed` measures the time and the memory of a scope or a function, for a `profile`.

#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/base/core/thread_number.hpp>
#include <vram/concepts/core/observation.hpp> // resource_call
#include <vram/concepts/platform.hpp>
#include <vram/concepts/powers.hpp>         // measured_resource
#include <vram/probe/core/profile_tree.hpp> // profile_tree, times_events
#include <vram/probe/memory_delta.hpp>
#include <vram/probe/profile.hpp>
#include <vram/transfer/platform_clock.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>        // optional
#include <source_location> // source_location
#include <string_view>     // string_view
#include <utility>

namespace vram {

namespace detail {

/// Type argument in place of a resource for a `timed` scope that measures no memory.
struct no_memory {};

/// Measures the memory that is allocated and freed between the start and the end of a `timed`
/// object, and writes the figures to a `profile_row`.
template <class R>
class scope_memory {
public:
    explicit scope_memory(R& memory) : delta_{memory} {}

    void read(profile_row& run) const {
        run.has_memory    = true;
        run.live          = delta_.difference();
        run.peak          = delta_.peak();
        run.peak_is_exact = delta_.peak_is_exact();
        run.allocations   = delta_.allocations();
    }

private:
    memory_delta<R> delta_;
};
template <>
class scope_memory<no_memory> {
public:
    explicit scope_memory(no_memory) noexcept {}
    void read(profile_row&) const noexcept {}
};

/// A scope of a `profile` that a thread has begun and not yet ended.
struct open_scope {
    void const* owner; ///< the `profile` to which the scope belongs
    open_scope* outer; ///< the scope of the same thread that contains this one, or null
    void*       scope; ///< pointer to the scope's data, a `profile_tree<Platform>::scope`
};
inline constinit thread_local open_scope* innermost_open_scope = nullptr;

/// Returns the name of the function in a text of `std::source_location::function_name`, without the
/// return type, the namespaces and the parameters.
[[nodiscard]] constexpr std::string_view name_of_function(std::string_view text) noexcept {
    text                    = text.substr(0, text.find('('));
    std::size_t const begin = text.find_last_of(" :*&");
    return begin == std::string_view::npos ? text : text.substr(begin + 1);
}

} // namespace detail

/// Measures a scope from the construction of this object to its destruction: the time on a stream,
/// the time on the host thread and, if a resource is given, the memory.
///
///     timed const scope{times, stream, "backward", memory};
///     timed const whole{times, stream}; // the name is that of the function
///
/// The time on the stream is that between two events. The end of the scope does not wait. During a
/// stream capture, and on a platform without events that measure time, the time on the stream is
/// not measured. On the simulated device, times are virtual (of the simulated device).
///
/// Failure   The constructor throws `std::bad_alloc` and errors of the platform; the destructor
///           reports errors to the error sink.
/// Threads   A scope belongs to one thread, and the scopes of a thread end in reverse order.
/// Streams   Two events of the stream are recorded.
/// Cost      About 1 us on a GPU. With a resource, one more call of `usage()` at each end.
template <platform Platform, class R = detail::no_memory>
class [[maybe_unused]] timed : detail::open_scope {
public:
    using stream = typename Platform::stream;

    /// Begins the scope `name`, and measures its time on the stream `s` and on the host. Measures
    /// no memory.
    timed(profile<Platform>& into, stream s, std::string_view name)
        requires std::same_as<R, detail::no_memory>
        : timed{into, s, name, detail::no_memory{}, 0} {}
    /// Begins a scope with the name of the calling function.
    timed(profile<Platform>& into, stream s,
          std::source_location where = std::source_location::current())
        requires std::same_as<R, detail::no_memory>
        : timed{into, s, detail::name_of_function(where.function_name()), detail::no_memory{}, 0} {}
    /// Begins the scope `name`, and measures its time on the stream `s` and on the host. Also
    /// measures the memory that the scope allocates from `memory`, which must outlive the scope.
    template <measured_resource Memory>
        requires std::same_as<Memory, R>
    timed(profile<Platform>& into, stream s, std::string_view name, Memory& memory)
        : timed{into, s, name, memory, 0} {}
    timed(timed&&) = delete;

    ~timed() {
        detail::innermost_open_scope = outer;
        try {
            finish();
        } catch (...) { detail::report_failed_call("the end of a timed scope"); }
    }

private:
    template <class Memory>
    timed(profile<Platform>& into, stream s, std::string_view name, Memory&& memory, int)
        : open_scope{&into, detail::innermost_open_scope, nullptr},
          tree_{into.tree()},
          stream_{s},
          memory_{memory} {
        detail::open_scope* around = outer;
        while (around != nullptr && around->owner != owner) { around = around->outer; }
        scope = &tree_.enter(around != nullptr ? in_tree(*around) : nullptr, name);
        if constexpr (detail::times_events<Platform>) {
            if (!Platform::capturing(s)) {
                events_.emplace(tree_.take_events(Platform::device_of(s)));
                detail::resource_call<Platform> const internal;
                Platform::record(events_->from, s);
            }
        }
        begin_                       = platform_clock<Platform>::now();
        detail::innermost_open_scope = this;
    }

    [[nodiscard]] static auto in_tree(open_scope const& of) noexcept {
        return static_cast<typename detail::profile_tree<Platform>::scope*>(of.scope);
    }
    void finish() {
        profile_row run{.runs = 1};
        run.host.add(platform_clock<Platform>::now() - begin_);
        memory_.read(run);
        unsigned const thread = detail::thread_number();
        tree_.add(*in_tree(*this), thread, run);
        if constexpr (detail::times_events<Platform>) {
            if (!events_) { return; }
            // A default stream is that of the device that was current at the start of the scope.
            typename Platform::device_guard const on{events_->where};
            if (Platform::capturing(stream_)) { return; }
            {
                detail::resource_call<Platform> const internal;
                Platform::record(events_->to, stream_);
            }
            tree_.add(*in_tree(*this), thread, std::move(*events_));
        }
    }

    detail::profile_tree<Platform>&                                tree_;
    stream                                                         stream_;
    detail::scope_memory<R>                                        memory_;
    std::optional<typename detail::profile_tree<Platform>::events> events_;
    std::uint64_t                                                  begin_ = 0;
};

template <platform Platform, class S>
timed(profile<Platform>&, S const&, std::string_view) -> timed<Platform>;
template <platform Platform, class S>
timed(profile<Platform>&, S const&) -> timed<Platform>;
template <platform Platform, class S, measured_resource R>
timed(profile<Platform>&, S const&, std::string_view, R&) -> timed<Platform, R>;

} // namespace vram
