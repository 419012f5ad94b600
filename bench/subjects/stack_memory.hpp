// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stack_memory` is a stack of vram, with the interface of the benchmarks.

#include "../support/subject.hpp" // set_up

#include <vram/base/memory_usage.hpp> // memory_usage
#include <vram/pool/pool_options.hpp> // pool_options
#include <vram/pool/slab.hpp>         // slab
#include <vram/probe/layer_name.hpp>  // layer_name

#include <concepts> // constructible_from
#include <cstddef>  // size_t
#include <string>
#include <type_traits> // remove_cvref_t
#include <vector>

namespace bench {

/// Returns the type of a stack as its user writes it, without default arguments.
template <class Stack>
std::string type_name() {
    std::string name{vram::layer_name<Stack>()};
    if constexpr (requires { typename Stack::upstream_type; }) {
        name += "<" + type_name<typename Stack::upstream_type>() + ">";
    }
    return name;
}

template <class Stack>
inline constexpr bool is_slab = false;
template <class Upstream>
inline constexpr bool is_slab<vram::slab<Upstream>> = true;

/// Creates a stack whose pools reserve `ample` bytes from the start.
template <class Stack>
Stack make_stack(set_up const& how) {
    if constexpr (std::constructible_from<Stack, vram::pool_options>) {
        return Stack{vram::pool_options{.initial_size = how.ample}};
    } else if constexpr (is_slab<Stack>) {
        return Stack{how.block};
    } else if constexpr (requires { typename Stack::upstream_type; }) {
        return Stack{make_stack<typename Stack::upstream_type>(how)};
    } else {
        return Stack{};
    }
}

template <class Stack>
concept is_pool = requires(Stack const& s) { s.free_memory(); };

/// Returns the usage of a stack. For a pool over a pool, the reserved bytes are those of the lower
/// one.
template <class Stack>
vram::memory_usage usage_of(Stack const& s) {
    vram::memory_usage now = s.usage();
    if constexpr (is_pool<Stack> && is_pool<std::remove_cvref_t<decltype(s.upstream())>>) {
        vram::memory_usage const beneath = usage_of(s.upstream());
        now.reserved                     = beneath.reserved;
        now.peak_reserved                = beneath.peak_reserved;
        now.upstream                     = beneath.upstream;
        now.events += beneath.events;
        now.waits += beneath.waits;
    }
    return now;
}

/// Returns the bytes of idle chunks, of a pool and of the pool below it.
template <class Stack>
std::size_t releasable_of(Stack const& s) {
    std::size_t bytes = s.free_memory().releasable;
    if constexpr (is_pool<std::remove_cvref_t<decltype(s.upstream())>>) {
        bytes += releasable_of(s.upstream());
    }
    return bytes;
}

/// The streams, and the stack over them.
template <class Stack>
class stack_memory {
    using platform = typename Stack::platform;

public:
    using stream                        = typename platform::stream;
    static constexpr bool counts_events = true;

    explicit stack_memory(set_up const& how) : stack_{make_stack<Stack>(how)} {
        for (unsigned i = 0; i < how.streams; ++i) {
            streams_.emplace_back(platform::current_device());
        }
    }
    stack_memory(stack_memory&&) = delete;

    [[nodiscard]] stream stream_at(unsigned i) const { return streams_[i].view(); }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes) { return stack_.allocate(s, bytes); }
    void deallocate(stream s, void* p, std::size_t bytes) { stack_.deallocate(s, p, bytes); }

    [[nodiscard]] vram::memory_usage usage() const
        requires requires(Stack const& s) { s.usage(); }
    {
        return usage_of(stack_);
    }
    [[nodiscard]] std::size_t releasable() const
        requires is_pool<Stack>
    {
        return releasable_of(stack_);
    }
    void trim()
        requires requires(Stack& s) { s.trim(); }
    {
        stack_.trim();
    }

private:
    std::vector<typename platform::own_stream> streams_; // streams outlive the stack
    Stack                                      stack_;
};

} // namespace bench
