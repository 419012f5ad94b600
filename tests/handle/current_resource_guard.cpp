// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/current_resource_guard.hpp> // first: the header stands alone

#include <vram/base/core/gate.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <stdexcept> // runtime_error

using namespace vram;

namespace {

struct unsure_platform;

/// Memory that may be unavailable when a default resource is made.
struct unsure_memory : host_resource {
    using platform = unsure_platform;

    unsure_memory() {
        if (fails) { throw std::runtime_error{"no memory"}; }
        ++made;
    }
    friend bool operator==(unsure_memory const&, unsure_memory const&) = default;

    static inline bool fails = false;
    static inline int  made  = 0;
};
struct unsure_platform : host_platform {
    using device_resource = unsure_memory;
};

} // namespace

template class vram::current_resource_guard<host_platform>;

static_assert(!std::movable<current_resource_guard<host_platform>>);

TEST_CASE("current_resource_guard: guards nest, and restore the resource also after an exception") {
    using guard        = current_resource_guard<host_platform>;
    auto const outside = current<host_platform>::get();
    shared     a{limiting{host_resource{}, 100}};
    shared     b{limiting{host_resource{}, 200}};
    try {
        guard const one{host_platform::device{}, a};
        CHECK(current<host_platform>::get() == resource_ref{a});
        {
            guard const two{b};
            CHECK(current<host_platform>::get() == resource_ref{b});
        }
        CHECK(current<host_platform>::get() == resource_ref{a});
        throw std::runtime_error{"out"};
    } catch (std::runtime_error const&) {}
    CHECK(current<host_platform>::get() == outside);
    CHECK(a.holders() == 1);
    CHECK(b.holders() == 1);
}

TEST_CASE("current_resource_guard: its destructor makes no default resource after `forget`") {
    using now = current<unsure_platform>;
    shared a{limiting{unsure_memory{}, 100}};
    {
        current_resource_guard<unsure_platform> const scope{a};
        CHECK(unsure_memory::made == 2);
        CHECK(a.holders() == 2);
        now::forget({});
        CHECK(a.holders() == 1);
        unsure_memory::fails = true;
    }
    unsure_memory::fails = false;
    CHECK(unsure_memory::made == 2);
    CHECK(now::get() != resource_ref{a});
    CHECK(unsure_memory::made == 3);
}
