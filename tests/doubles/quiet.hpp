// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `quiet` is the allocator of the doubles' own containers: `bombing` does not see it.

#include <cstddef> // size_t
#include <cstdlib> // malloc, free
#include <functional>
#include <map> // map
#include <new> // bad_alloc

namespace doubles {

/// Uses malloc directly, so that an injected failure of `operator new` hits the tested code and not
/// the test.
template <class T>
struct quiet {
    using value_type = T;

    quiet() = default;
    template <class U>
    quiet(quiet<U> const&) noexcept {}

    [[nodiscard]] T* allocate(std::size_t n) {
        void* const p = std::malloc(n * sizeof(T));
        if (p == nullptr) { throw std::bad_alloc{}; }
        return static_cast<T*>(p);
    }
    void deallocate(T* p, std::size_t) noexcept { std::free(p); }

    template <class U>
    friend bool operator==(quiet const&, quiet<U> const&) noexcept {
        return true;
    }
};

template <class Key, class Value>
using quiet_map = std::map<Key, Value, std::less<Key>, quiet<std::pair<Key const, Value>>>;

} // namespace doubles
