// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_memory` is an interface that reserves addresses and maps physical memory to them.

#include <vram/concepts/memory_info.hpp>
#include <vram/concepts/resource.hpp> // detail::sees_noexcept

#include <concepts> // same_as, copyable, default_initializable
#include <cstddef>

namespace vram {

/// An object that reserves addresses, creates pieces of physical memory, and maps pieces to
/// addresses, as `cuMemAddressReserve`, `cuMemCreate` and `cuMemMap` do. All sizes are multiples of
/// `granularity()`. No function waits for a stream: unmap memory only after all its uses.
///
///     void* const at   = memory.reserve(1_GiB, memory.granularity());
///     auto const  page = memory.create(memory.granularity());
///     memory.map(at, page, memory.granularity());
///     memory.set_access(at, memory.granularity());
///
/// Functions that throw change nothing. `release` and `destroy` report errors to the error sink.
template <class M>
concept virtual_memory =
    std::copyable<M> && std::copyable<typename M::handle> &&
    std::default_initializable<typename M::handle> &&
    requires(M const& m, void* p, std::size_t n, typename M::handle h) {
        typename M::platform;
        { m.granularity() } -> std::same_as<std::size_t>;
        { m.memory() } -> std::same_as<memory_info>;
        { m.reserve(n, n) } -> std::same_as<void*>;
        m.release(p, n); // frees addresses of `reserve`
        // Creates a piece of `n` bytes. If the device has too little memory, throws `out_of_memory`
        // with the free and total bytes of the device.
        { m.create(n) } -> std::same_as<typename M::handle>;
        m.destroy(h, n);
        m.map(p, h, n); // maps the whole physical memory `h` at `p`; accessible after `set_access`
        m.set_access(p, n);
        m.unmap(p, n); // unmaps one range that `map` mapped, or several adjacent ones
        requires(noexcept(m.release(p, n)) && noexcept(m.destroy(h, n))) || !detail::sees_noexcept;
    };

/// A `virtual_memory` with physical memory that other processes can map.
template <class M>
concept exportable_memory =
    virtual_memory<M> && requires(M const& m, typename M::handle h) { m.export_handle(h); };

} // namespace vram
