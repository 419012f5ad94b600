// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `virtual_memory` is what a platform with addresses and memory apart can do.

#include <vram/concepts/memory_info.hpp> // memory_info
#include <vram/concepts/resource.hpp>    // detail::sees_noexcept

#include <concepts> // same_as, copyable, default_initializable
#include <cstddef>  // size_t

namespace vram {

/// The calls by which a span of addresses is reserved once and memory comes and goes behind it.
/// Sizes are multiples of `granularity()`. A mapping is a whole piece of physical memory, of no use
/// before `set_access`, and only whole mappings are unmapped.
///
///     void* const at   = memory.reserve(1_GiB, memory.granularity());
///     auto const  page = memory.create(memory.granularity());
///     memory.map(at, page, memory.granularity());
///     memory.set_access(at, memory.granularity());
///
/// Nothing here waits for a stream: memory is unmapped when nobody uses it any more. `create`
/// throws `out_of_memory` where there is none, with the device's figures; else each call throws the
/// platform's error, and then has changed nothing. `release` and `destroy` tell the error sink.
/// `memory()` is what the device has. A member `export_handle(handle)` is there where other
/// processes can be let in.
template <class M>
concept virtual_memory =
    std::copyable<M> && std::copyable<typename M::handle> &&
    std::default_initializable<typename M::handle> &&
    requires(M const& m, void* p, std::size_t n, typename M::handle h) {
        typename M::platform;
        { m.granularity() } -> std::same_as<std::size_t>;
        { m.memory() } -> std::same_as<memory_info>;
        { m.reserve(n, n) } -> std::same_as<void*>;
        m.release(p, n);
        { m.create(n) } -> std::same_as<typename M::handle>;
        m.destroy(h, n);
        m.map(p, h, n);
        m.set_access(p, n);
        m.unmap(p, n);
        requires(noexcept(m.release(p, n)) && noexcept(m.destroy(h, n))) || !detail::sees_noexcept;
    };

/// One whose physical memory other processes can map.
template <class M>
concept exportable_memory =
    virtual_memory<M> && requires(M const& m, typename M::handle h) { m.export_handle(h); };

} // namespace vram
