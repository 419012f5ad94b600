// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `resource_calls` is a table of the functions of a resource type, for type erasure.

#include <vram/base/call_site.hpp>
#include <vram/base/contract.hpp> // broken_contract
#include <vram/base/core/null_if_thrown.hpp>
#include <vram/base/core/type_name.hpp>
#include <vram/base/error.hpp>      // error_kind
#include <vram/concepts/powers.hpp> // resource and its powers
#include <vram/concepts/sited.hpp>
#include <vram/handle/core/layer_facts.hpp> // layer_visitor, visit_layers
#include <vram/pool/free_pieces.hpp>

#include <concepts> // same_as
#include <cstddef>
#include <optional>    // optional
#include <string_view> // string_view

namespace vram {
namespace detail {

/// A table of pointers to the functions of one resource type. Each function takes the address of
/// the resource as `mr`. If the type lacks an optional function, the pointer is null. This does not
/// apply to `try_allocate` and `try_allocate_sync`: if the type lacks them, the table has functions
/// that call `allocate` and `allocate_sync`.
template <class Platform>
struct resource_calls {
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    // clang-format off
    void* (*allocate)         (void* mr, stream, std::size_t bytes, std::size_t align, call_site);
    void* (*allocate_sync)    (void* mr, std::size_t bytes, std::size_t align, call_site);
    void* (*try_allocate)     (void* mr, stream, std::size_t bytes, std::size_t align,
                               call_site) noexcept;
    void* (*try_allocate_sync)(void* mr, std::size_t bytes, std::size_t align, call_site) noexcept;
    void  (*deallocate)       (void* mr, stream, void* p, std::size_t bytes,
                               std::size_t align, call_site) noexcept;
    void  (*deallocate_sync)  (void* mr, void* p, std::size_t bytes, std::size_t align,
                               call_site) noexcept;

    bool         (*owns)  (void const* mr, void const* p);
    memory_usage (*usage) (void const* mr);
    std::size_t  (*trim)  (void* mr, std::size_t keep);
    void         (*retire)(void* mr, stream);

    void*        (*try_allocate_ready)(void* mr, stream, std::size_t bytes, std::size_t align,
                                       call_site);
    std::size_t  (*rounded_size)(void const* mr, std::size_t bytes, std::size_t align) noexcept;
    std::optional<device> (*device_of)(void const* mr);
    std::size_t  (*trim_no_wait)(void* mr);
    free_pieces  (*free_memory) (void const* mr);
    memory_usage (*reset_peaks) (void* mr);
    void         (*raise_peaks) (void* mr, memory_usage const& before);
    void         (*forget_captures)(void* mr);

    void (*visit)(void const* mr, layer_visitor& to, std::size_t depth);
    bool (*equal)(void const* mr, void const* other);
    // clang-format on

    std::string_view name; ///< name of the class, for reports
};

/// Functions that take the untyped address `mr` of a resource of type `R`, and call the function of
/// the resource with the same purpose. `table` returns pointers to them.
template <resource R>
struct calls_to {
    using platform = typename R::platform;
    using stream   = typename platform::stream;

    static R&       at(void* mr) noexcept { return *static_cast<R*>(mr); }
    static R const& at(void const* mr) noexcept { return *static_cast<R const*>(mr); }

    static void* allocate(void* mr, stream s, std::size_t bytes, std::size_t alignment,
                          call_site from) {
        return sited{at(mr), from}.allocate(s, bytes, alignment);
    }
    static void* allocate_sync(void* mr, std::size_t bytes, std::size_t alignment, call_site from) {
        return sited{at(mr), from}.allocate_sync(bytes, alignment);
    }
    static void* try_allocate(void* mr, stream s, std::size_t bytes, std::size_t alignment,
                              call_site from) noexcept {
        if constexpr (fallible_resource<R>) {
            return sited{at(mr), from}.try_allocate(s, bytes, alignment);
        } else {
            auto const ask = [&] { return sited{at(mr), from}.allocate(s, bytes, alignment); };
            return null_if_thrown(nullptr, bytes, ask, from);
        }
    }
    static void* try_allocate_sync(void* mr, std::size_t bytes, std::size_t alignment,
                                   call_site from) noexcept {
        if constexpr (fallible_resource<R>) {
            return sited{at(mr), from}.try_allocate_sync(bytes, alignment);
        } else {
            auto const ask = [&] { return sited{at(mr), from}.allocate_sync(bytes, alignment); };
            return null_if_thrown(nullptr, bytes, ask, from);
        }
    }
    static void deallocate(void* mr, stream s, void* p, std::size_t bytes, std::size_t alignment,
                           call_site from) noexcept {
        sited{at(mr), from}.deallocate(s, p, bytes, alignment);
    }
    static void deallocate_sync(void* mr, void* p, std::size_t bytes, std::size_t alignment,
                                call_site from) noexcept {
        sited{at(mr), from}.deallocate_sync(p, bytes, alignment);
    }

    static bool         owns(void const* mr, void const* p) { return at(mr).owns(p); }
    static memory_usage usage(void const* mr) { return at(mr).usage(); }
    static std::size_t  trim(void* mr, std::size_t keep) { return at(mr).trim(keep); }
    static void         retire(void* mr, stream s) { at(mr).retire(s); }

    static void* try_allocate_ready(void* mr, stream s, std::size_t bytes, std::size_t alignment,
                                    call_site from) {
        return sited{at(mr), from}.try_allocate_ready(s, bytes, alignment);
    }
    static std::size_t rounded_size(void const* mr, std::size_t bytes,
                                    std::size_t alignment) noexcept {
        return at(mr).rounded_size(bytes, alignment);
    }
    static std::optional<typename platform::device> device_of(void const* mr) {
        return at(mr).device();
    }
    static std::size_t  trim_no_wait(void* mr) { return at(mr).trim_no_wait(); }
    static free_pieces  free_memory(void const* mr) { return at(mr).free_memory(); }
    static memory_usage reset_peaks(void* mr) { return at(mr).reset_peaks(); }
    static void raise_peaks(void* mr, memory_usage const& before) { at(mr).raise_peaks(before); }
    static void forget_captures(void* mr) { at(mr).forget_captures(); }

    static void visit(void const* mr, layer_visitor& to, std::size_t depth) {
        detail::visit_layers(at(mr), to, depth);
    }
    static bool equal(void const* mr, void const* other) { return at(mr) == at(other); }

    // Returns the table by which a type-erased handle calls a resource of type `R`. Entries of
    // optional functions may be null.
    static constexpr resource_calls<platform> table() noexcept {
        resource_calls<platform> calls{.allocate           = allocate,
                                       .allocate_sync      = allocate_sync,
                                       .try_allocate       = try_allocate,
                                       .try_allocate_sync  = try_allocate_sync,
                                       .deallocate         = deallocate,
                                       .deallocate_sync    = deallocate_sync,
                                       .owns               = nullptr,
                                       .usage              = nullptr,
                                       .trim               = nullptr,
                                       .retire             = nullptr,
                                       .try_allocate_ready = nullptr,
                                       .rounded_size       = nullptr,
                                       .device_of          = nullptr,
                                       .trim_no_wait       = nullptr,
                                       .free_memory        = nullptr,
                                       .reset_peaks        = nullptr,
                                       .raise_peaks        = nullptr,
                                       .forget_captures    = nullptr,
                                       .visit              = visit,
                                       .equal              = equal,
                                       .name               = type_name<R>()};
        if constexpr (owning_resource<R>) { calls.owns = owns; }
        if constexpr (measured_resource<R>) { calls.usage = usage; }
        if constexpr (trimmable_resource<R>) { calls.trim = trim; }
        if constexpr (retiring_resource<R>) { calls.retire = retire; }
        if constexpr (reusing_resource<R>) { calls.try_allocate_ready = try_allocate_ready; }
        if constexpr (rounding_resource<R>) { calls.rounded_size = rounded_size; }
        if constexpr (names_device<R>) { calls.device_of = device_of; }
        if constexpr (promptly_trimmable_resource<R>) { calls.trim_no_wait = trim_no_wait; }
        if constexpr (surveyed_resource<R>) { calls.free_memory = free_memory; }
        if constexpr (peaking_resource<R>) {
            calls.reset_peaks = reset_peaks;
            calls.raise_peaks = raise_peaks;
        }
        if constexpr (forgetting_resource<R>) { calls.forget_captures = forget_captures; }
        return calls;
    }
};

/// The functions of a type-erased handle that was moved from. Those that allocate or free call
/// `broken_contract`, which throws or ends the program.
template <class Platform>
struct calls_to_nothing {
    using stream = typename Platform::stream;

    [[noreturn]] static void refuse(call_site at) {
        broken_contract("the handle must hold a resource; it was moved from", at);
    }

    static constexpr resource_calls<Platform> table() noexcept {
        return {.allocate = [](void*, stream, std::size_t, std::size_t, call_site at) -> void* {
                    refuse(at);
                },
                .allocate_sync = [](void*, std::size_t, std::size_t, call_site at) -> void* {
                    refuse(at);
                },
                .try_allocate       = [](void*, stream, std::size_t, std::size_t,
                                   call_site at) noexcept -> void* { refuse(at); },
                .try_allocate_sync  = [](void*, std::size_t, std::size_t,
                                        call_site at) noexcept -> void* { refuse(at); },
                .deallocate         = [](void*, stream, void*, std::size_t, std::size_t,
                                 call_site at) noexcept { refuse(at); },
                .deallocate_sync    = [](void*, void*, std::size_t, std::size_t,
                                      call_site at) noexcept { refuse(at); },
                .owns               = nullptr,
                .usage              = nullptr,
                .trim               = nullptr,
                .retire             = nullptr,
                .try_allocate_ready = nullptr,
                .rounded_size       = nullptr,
                .device_of          = nullptr,
                .trim_no_wait       = nullptr,
                .free_memory        = nullptr,
                .reset_peaks        = nullptr,
                .raise_peaks        = nullptr,
                .forget_captures    = nullptr,
                .visit              = [](void const*, layer_visitor& to,
                            std::size_t depth) { to.visit({.name = "nothing", .depth = depth}); },
                .equal              = [](void const*, void const*) { return true; },
                .name               = "nothing"};
    }
};

/// The function table of a type-erased handle that was moved from. Functions that allocate or free
/// call `broken_contract`, which throws or ends the program. Pointers to optional functions are
/// null.
template <class Platform>
inline constexpr resource_calls<Platform> no_calls = detail::calls_to_nothing<Platform>::table();

/// Table of functions of the resource type `R`. Its address identifies the type.
template <resource R>
inline constexpr resource_calls<typename R::platform> calls_of = detail::calls_to<R>::table();

} // namespace detail
} // namespace vram
