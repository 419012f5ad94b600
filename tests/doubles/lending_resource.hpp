// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `lending_resource` has ready memory or none, as the test says, and runs a function of the test
/// in between.

#include "archetype.hpp" // archetype

#include <vram/base/align.hpp>      // default_alignment
#include <vram/concepts/powers.hpp> // reusing_resource

#include <cstddef>    // size_t
#include <functional> // function
#include <new>        // bad_alloc
#include <utility>    // exchange

namespace doubles {

/// `Base` with its own result for `try_allocate_ready`.
template <class Base = archetype<>>
struct lending_resource : Base {
    using typename Base::stream;
    using Base::Base;

    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t n,
                                           std::size_t a = vram::default_alignment) {
        ++asked;
        if (auto const once = std::exchange(meanwhile, nullptr)) { once(); }
        if (fails) { throw std::bad_alloc{}; }
        return lends ? Base::allocate(s, n, a) : nullptr;
    }
    void deallocate(stream s, void* p, std::size_t n,
                    std::size_t a = vram::default_alignment) noexcept {
        ++came_in_order;
        Base::deallocate(s, p, n, a);
    }

    std::function<void()> meanwhile; ///< called once, in place of another thread
    int                   asked         = 0;
    int                   came_in_order = 0; ///< stream-ordered frees
    bool                  lends         = false;
    bool                  fails         = false; ///< true: it fails for lack of host memory
};

static_assert(vram::reusing_resource<lending_resource<>>);

} // namespace doubles
