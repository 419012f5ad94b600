// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `call_stack` is a call stack of the program, as raw addresses until it is printed.

#include <vram/base/core/stack_depot.hpp> // stack_node, stack_walk

#include <cstddef>
#include <cstdint>
#include <cstdio>  // snprintf
#include <cstdlib> // free
#include <cstring> // memcpy

#if __has_include(<dlfcn.h>) && __has_include(<cxxabi.h>)
#include <cxxabi.h> // abi::__cxa_demangle
#include <dlfcn.h>  // dladdr, dladdr1
#endif

namespace vram {

/// The innermost functions that were active when the object was made. An object holds one pointer
/// to addresses that live until the end of the process.
///
///     call_stack const here = call_stack::current(8);
///     for (std::size_t i = 0; i < here.size(); ++i) { std::puts(frame_text{here[i]}.c_str()); }
///
/// Failure   If the stack cannot be read or stored, the object is empty.
/// Cost      About 40 ns for 8 frames on x86-64 if the thread has made the same stack before;
///           otherwise some microseconds.
class call_stack {
public:
    /// The largest number of frames that a `call_stack` can contain.
    static constexpr unsigned most = detail::stack_walk::most;

    call_stack() = default; ///< an empty call stack

    /// Returns the innermost `frames` frames of the calling thread (at most `most`). The first is
    /// in the function that calls `current`.
    [[nodiscard, gnu::always_inline]] static call_stack current(unsigned frames = 8) noexcept {
        return call_stack{detail::stack_walk::here(frames)};
    }

    /// Returns the number of frames.
    [[nodiscard]] std::size_t size() const noexcept { return node_ != nullptr ? node_->count : 0; }
    /// Returns true if there is no frame.
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// Returns the return address of frame `i`, which must be less than `size()`.
    [[nodiscard]] void const* operator[](std::size_t i) const noexcept {
        return node_->frames()[i];
    }
    /// Two call stacks are equal if all their addresses are equal.
    friend bool operator==(call_stack, call_stack) noexcept = default;

private:
    explicit call_stack(detail::stack_node const* node) noexcept : node_{node} {}

    detail::stack_node const* node_ = nullptr;
};

/// The text of a stack frame: the function if known (link with `-rdynamic`), the file, and the
/// offset for `addr2line -e FILE OFFSET`.
///
///     train_step()+0x1f (./app+0x4a1f)
///
/// Failure   If nothing is known, the text is the address.
/// Cost      Some microseconds.
class frame_text {
public:
    /// Makes the text for a return address, such as an element of a `call_stack`: it describes the
    /// call that returns there.
    explicit frame_text(void const* address) noexcept {
#if __has_include(<dlfcn.h>) && __has_include(<cxxabi.h>)
        Dl_info info{};
        // Looks up the byte before the return address. This byte belongs to the call, but the
        // return address may already belong to the next function.
        auto const* const call  = static_cast<char const*>(address) - 1;
        std::uintptr_t    moved = 0;
        if (find(call, info, moved) && info.dli_fname != nullptr) {
            std::size_t const offset = reinterpret_cast<std::uintptr_t>(call) - moved;
            if (info.dli_sname == nullptr) {
                std::snprintf(text_, sizeof text_, "%s+0x%zx", info.dli_fname, offset);
                return;
            }
            int   status = -1;
            char* name   = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
            std::snprintf(text_, sizeof text_, "%.380s+0x%zx (%s+0x%zx)",
                          status == 0 ? name : info.dli_sname,
                          static_cast<std::size_t>(call - static_cast<char const*>(info.dli_saddr)),
                          info.dli_fname, offset);
            std::free(name);
            return;
        }
#endif
        std::snprintf(text_, sizeof text_, "%p", address);
    }

    /// Returns the text of the frame. The pointer is valid as long as this object exists.
    [[nodiscard]] char const* c_str() const noexcept { return text_; }

private:
#if __has_include(<dlfcn.h>) && __has_include(<cxxabi.h>)
    /// Finds the program or shared library that contains the address `at`. Sets `info` as `dladdr`
    /// does. Sets `moved` to the difference between the addresses in memory and those in the file.
    /// Returns false if nothing contains `at`.
    [[nodiscard]] static bool find(void const* at, Dl_info& info, std::uintptr_t& moved) noexcept {
#ifdef __GLIBC__
        void* object = nullptr;
        if (::dladdr1(at, &info, &object, RTLD_DL_LINKMAP) == 0 || object == nullptr) {
            return false;
        }
        // `link_map` begins with `l_addr`, which is the difference. The header <link.h> with
        // `link_map` is not included, because it defines hundreds of macros.
        std::memcpy(&moved, object, sizeof moved);
        return true;
#else
        if (::dladdr(at, &info) == 0) { return false; }
        moved = reinterpret_cast<std::uintptr_t>(info.dli_fbase);
        return true;
#endif
    }
#endif

    char text_[512] = "";
};

} // namespace vram
