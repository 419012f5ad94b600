// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/array.hpp> // first: the header stands alone

#include "../doubles/archetype.hpp"
#include "../doubles/contracts_throw.hpp"
#include "../doubles/counting_resource.hpp"

#include <vram/base/contract.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <numeric>     // iota
#include <span>        // span
#include <stdexcept>   // logic_error
#include <string_view> // string_view
#include <vector>      // vector

using namespace vram;

namespace {

using full = doubles::archetype<>;

/// Has no default constructor and a large alignment.
struct alignas(512) wide {
    explicit wide(int n) : number{n} {}
    int number;
};

template <class R>
concept array_of_strings = requires { typename array<std::vector<int>, R>; };

static_assert(!array_of_strings<full>, "only what may be copied as bytes can live on a device");

} // namespace

template class vram::array<int, full>;
template class vram::array<wide, full&>;
template class vram::array<float, shared<full>>;

TEST_CASE("array: elements that are copied in come out unchanged") {
    full             mr;
    std::vector<int> numbers(1000);
    std::iota(numbers.begin(), numbers.end(), 7);
    auto device = make_array<int>(mr, {}, numbers.size());
    CHECK(device.size() == 1000);
    CHECK(device.span().size() == 1000);
    device.copy_from(numbers);
    std::vector<int> back(1000);
    device.copy_to(back);
    CHECK(back == numbers);

    array<int, full&> const second{mr, {}, std::span<int const>{numbers}};
    CHECK(second.get(999) == 1006);
    CHECK(second.span()[3] == 10);
}

TEST_CASE("array: single elements are read and written, with or without a default constructor") {
    array<wide, full> device{full{}, {}, 3};
    CHECK(vram::is_aligned(device.data(), 512));
    device.set(2, wide{42});
    CHECK(device.get(2).number == 42);
    device.fill(std::byte{});
    CHECK(device.get(2).number == 0);
}

TEST_CASE("array: resize grows the capacity, and shrink_to_fit frees the surplus") {
    limiting mr{full{}, 100'000};
    auto     device = make_array<int>(mr, {}, 10);
    device.set(9, 5);
    device.resize(100);
    CHECK(device.get(9) == 5);
    device.reserve(1000);
    CHECK(device.capacity() == 1000);
    device.resize(10);
    device.shrink_to_fit();
    CHECK(mr.used() == 10 * sizeof(int));
    CHECK(device.get(9) == 5);
    device.destroy();
    CHECK(device.empty());
    CHECK(mr.used() == 0);
}

TEST_CASE("array: an element count that overflows is an out_of_memory, and changes nothing") {
    limiting mr{full{}, 1000};
    auto     device = make_array<double>(mr, {}, 2);
    CHECK_THROWS_AS(device.resize(unsatisfiable / 4), out_of_memory);
    CHECK_THROWS_AS(device.resize(unsatisfiable / 8 + 1), out_of_memory);
    CHECK(device.size() == 2);
    CHECK_THROWS_AS((void)make_array<double>(mr, {}, unsatisfiable / 8 + 2), out_of_memory);
}

TEST_CASE("array: operations on zero elements do nothing") {
    array<int, full> device{full{}};
    CHECK(device.empty());
    device.copy_from({});
    device.copy_to({});
    device.fill(std::byte{1});
    CHECK(device.data() == nullptr);
}

TEST_CASE("array: an index out of range, or a span of another length, is a broken contract") {
    doubles::contracts_throw const throws;
    array<int, full>               device{full{}, {}, 2};
    std::vector<int>               three(3);
    CHECK_THROWS_AS((void)device.get(2), doubles::broken_contract);
    CHECK_THROWS_AS(device.set(2, 0), doubles::broken_contract);
    CHECK_THROWS_AS(device.copy_from(three), doubles::broken_contract);
    CHECK_THROWS_AS(device.copy_to(three), doubles::broken_contract);
}

TEST_CASE("array: the report of a broken contract has the line of the caller") {
    doubles::contracts_throw const throws;
    array<int, full>               device{full{}, {}, 2};
    std::vector<int>               three(3);
    auto const                     line_of = [](auto call) {
        try {
            call();
        } catch (doubles::broken_contract const& b) { return b.line; }
        return 0U;
    };
    unsigned const here = __LINE__;
    CHECK(line_of([&] { (void)device.get(2); }) == here + 1);
    CHECK(line_of([&] { device.set(2, 0); }) == here + 2);
    CHECK(line_of([&] { device.copy_from(three); }) == here + 3);
    CHECK(line_of([&] { device.copy_to(three); }) == here + 4);
}

TEST_CASE("array: a report about the copy of the constructor has the line of the caller") {
    sim_node                     node{{.on_report = sim_on_report::collect}};
    sim_stream const             s;
    sim_pinned_resource          pinned;
    stream_ordered<sim_resource> mr;
    auto* const                  freed = static_cast<int*>(pinned.allocate_sync(4 * sizeof(int)));
    pinned.deallocate_sync(freed, 4 * sizeof(int));
    unsigned const                            here = __LINE__ + 1;
    array<int, stream_ordered<sim_resource>&> device{mr, s, std::span<int const>{freed, 4}};
    s.synchronize();
    REQUIRE(node.reports().size() == 1);
    CHECK(node.reports()[0].second.where.line() == here);
    CHECK(std::string_view{node.reports()[0].second.where.file_name()} == __FILE__);
}

TEST_CASE("array: the resource is stored by value if it can be copied, else by reference") {
    full   lonely;
    shared handle{full{}};
    CHECK(std::is_same_v<decltype(make_array<int>(lonely, {}, 1)), array<int, full&>>);
    CHECK(std::is_same_v<decltype(make_array<int>(handle, {}, 1)), array<int, shared<full>>>);
    auto a = make_array<int>(handle, {}, 1);
    a.set_stream({});
    CHECK(a.get_stream() == host_platform::stream{});
    CHECK(a.upstream() == handle);
    auto b = std::move(a);
    CHECK(a.empty());
    CHECK(b.size() == 1);
    b.destroy({});
}

TEST_CASE("array: on a device, copies are stream-ordered and single elements wait") {
    using namespace std::chrono_literals;
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        shared           mr{sim_async_resource{}};
        sim_stream       s;
        std::vector<int> numbers(100, 3);
        array            device{mr, s, std::span<int const>{numbers}};
        std::span<int>   all = device.span();
        sim_range const  range{all.data(), all.size_bytes()};
        sim_launch(s, {.name = "add", .reads = {range}, .writes = {range}, .duration = 50us}, [=] {
            for (auto& each : sim_view(all)) { each += 4; }
        });
        CHECK(device.get(99) == 7); // after the kernel
        device.set(0, 1);
        device.resize(200);
        device.resize(100);
        device.copy_to(numbers);
        s.synchronize();
        CHECK(numbers[0] == 1);
        CHECK(numbers[99] == 7);
    }
    CHECK(node.reports().empty());
}
