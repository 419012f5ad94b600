// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/current_resource_guard.hpp> // first: the header stands alone

#include <vram/base/core/gate.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <stdexcept> // runtime_error

using namespace vram;

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
