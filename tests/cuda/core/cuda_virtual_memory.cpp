// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_virtual_memory.hpp> // first: the header stands alone

#include "../../doubles/contracts_throw.hpp"
#include "../machine.hpp"

#include <vram/base/bytes.hpp>
#include <vram/source/core/address_range.hpp>
#include <vram/source/core/physical_page.hpp>

#include <unistd.h> // close

#include <optional>
#include <vector>

using namespace vram;
using namespace vram::detail;
using tests::machine;

template class vram::detail::address_range<cuda_virtual_memory>;
template class vram::detail::physical_page<cuda_virtual_memory>;

static_assert(std::is_trivially_copyable_v<cuda_virtual_memory>);

namespace {

/// One page, mapped as long as this lives.
struct mapped_page {
    explicit mapped_page(cuda_virtual_memory const& of)
        : memory{of}, range{of, of.granularity(), of.granularity()}, page{of, of.granularity()} {
        memory.map(range.base(), page.get(), page.bytes());
        try {
            memory.set_access(range.base(), page.bytes());
        } catch (...) {
            memory.unmap(range.base(), page.bytes());
            throw;
        }
    }
    mapped_page(mapped_page&&) = delete;
    ~mapped_page() { memory.unmap(range.base(), page.bytes()); }

    cuda_virtual_memory                memory;
    address_range<cuda_virtual_memory> range;
    physical_page<cuda_virtual_memory> page;
};

std::byte byte_at(void const* p) {
    std::byte         value{};
    cuda_stream const s;
    cuda_copy(s, &value, p, 1);
    s.synchronize();
    return value;
}

} // namespace

TEST_CASE(
    "cuda_virtual_memory: mapped memory can be used, and contents belong to the physical memory") {
    machine const             here;
    cuda_virtual_memory const memory;
    std::size_t const         unit = memory.granularity();
    CHECK(unit >= 4096);
    address_range const range{memory, 4 * unit, unit};
    physical_page const page{memory, unit};
    auto* const         base = static_cast<std::byte*>(range.base());
    cuda_stream const   s;
    memory.map(base, page.get(), unit);
    memory.set_access(base, unit);
    cuda_fill(s, base, std::byte{42}, unit);
    s.synchronize();
    memory.unmap(base, unit);
    memory.map(base + 3 * unit, page.get(), unit);
    memory.set_access(base + 3 * unit, unit);
    CHECK(byte_at(base + 3 * unit) == std::byte{42});
    CHECK(byte_at(base + 4 * unit - 1) == std::byte{42});
    memory.unmap(base + 3 * unit, unit);
}

TEST_CASE("cuda_virtual_memory: access to consecutive mappings is one call") {
    machine const             here;
    cuda_virtual_memory const memory;
    std::size_t const         unit = memory.granularity();
    address_range const       range{memory, 3 * unit, unit};
    physical_page const       first{memory, unit}, second{memory, unit}, third{memory, unit};
    auto* const               base = static_cast<std::byte*>(range.base());
    memory.map(base, first.get(), unit);
    memory.map(base + unit, second.get(), unit);
    memory.map(base + 2 * unit, third.get(), unit);
    memory.set_access(base, 3 * unit);
    cuda_stream const s;
    cuda_fill(s, base, std::byte{7}, 3 * unit);
    s.synchronize();
    CHECK(byte_at(base + 2 * unit) == std::byte{7});
    for (std::size_t i = 0; i < 3; ++i) { memory.unmap(base + i * unit, unit); }
}

TEST_CASE("cuda_virtual_memory: a refusal has the numbers of the device") {
    machine const             here;
    cuda_virtual_memory const memory;
    CHECK(memory.memory().total == cuda_memory_info().total);
    try {
        (void)memory.create(std::size_t{1} << 44);
        FAIL("nobody has that much");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == std::size_t{1} << 44);
        CHECK(e.numbers().device_total == cuda_memory_info().total);
    }
}

TEST_CASE("cuda_virtual_memory: a call that breaks a rule is refused, and no error stays latched") {
    machine const             here;
    doubles::mishaps const    told;
    cuda_virtual_memory const memory;
    std::size_t const         unit = memory.granularity();
    address_range const       range{memory, 2 * unit, unit};
    CHECK_THROWS_AS(memory.set_access(range.base(), unit), cuda_error); // nothing is mapped there
#ifdef VRAM_CUDART_DOUBLE // a driver takes this for done (580.159, CUDA 13.0)
    CHECK_THROWS_AS(memory.unmap(range.base(), unit), cuda_error);
#endif
    CHECK_THROWS_AS((void)memory.create(unit / 2), cuda_error);
    CHECK_THROWS_AS((void)memory.reserve(0, unit), cuda_error);
    memory.release(range.base(), unit); // half of it
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(told.pointer() == range.base());
    CHECK_THROWS_AS(cuda_virtual_memory{cuda_device{99}}, cuda_error);
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((cuda_virtual_memory{cuda_device{0}, cudaMemHandleTypeFabric}),
                    doubles::broken_contract);
}

TEST_CASE("cuda_virtual_memory: an error of the program stays latched if the driver refuses") {
    machine const             here;
    cuda_virtual_memory const memory;
    CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice); // the program's own
    CHECK_THROWS_AS((void)memory.create(1), cuda_error);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("cuda_virtual_memory: memory for other processes is a file descriptor") {
    machine const             here;
    cuda_virtual_memory const memory{cuda_device::current(), cudaMemHandleTypePosixFileDescriptor};
    physical_page const       page{memory, memory.granularity()};
    int const                 file = memory.export_handle(page.get());
    CHECK(file >= 0);
    CHECK(::close(file) == 0);
    cuda_virtual_memory const own;
    CHECK(own != memory);
    physical_page const kept{own, own.granularity()};
    CHECK_THROWS_AS((void)own.export_handle(kept.get()), cuda_error);
}

TEST_CASE("cuda_virtual_memory: pages are mapped and unmapped during a capture") {
    machine const             here;
    cuda_virtual_memory const memory;
    cuda_stream const         s;
    cudaGraph_t               graph = nullptr;
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal));
    { mapped_page const brief{memory}; }
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
}

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("cuda_virtual_memory: it allocates on its device, with any current device") {
    machine const             here;
    cuda_virtual_memory const memory{cuda_device{1}};
    std::size_t const         before = cuda_memory_info(cuda_device{1}).free;
    mapped_page const         one{memory};
    CHECK(memory.device() == cuda_device{1});
    CHECK(cuda_memory_info(cuda_device{1}).free == before - memory.granularity());
    CHECK(cuda_device::current() == cuda_device{0});
    for (char const* const call : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
        CHECK(doubles::cudart::device_of_last(call) == 1);
    }
    cuda_device_guard const on{cuda_device{1}};
    cuda_stream const       s;
    cuda_fill(s, one.range.base(), std::byte{1}, 100);
    s.synchronize();
    CHECK(doubles::cudart::out() ==
          doubles::cudart::census{.streams = 1, .ranges = 1, .pages = 1, .mappings = 1});
}

TEST_CASE("cuda_virtual_memory: a failure of any call leaves nothing behind") {
    machine const                      here;
    std::optional<cuda_virtual_memory> made;
    (void)cuda_virtual_calls::here();
    // Numbers: get, set the device, query; granularity: get, set, query. Failures of restoring
    // calls are reported.
    CHECK(tests::walk_failures([&] { made.emplace(cuda_device{1}); }, [&] { made.reset(); }) == 12);
    cuda_virtual_memory const  memory;
    std::optional<mapped_page> one;
    CHECK(tests::walk_failures([&] { one.emplace(memory); }, [&] { one.reset(); }) ==
          2 * 4 * 2); // reserve, create, map, access: the device, the call
    doubles::mishaps const told;
    // Functions that must not throw.
    for (char const* const call : {"cuMemRelease", "cuMemAddressFree"}) {
        auto const before = told.count(error_kind::platform_error);
        one.emplace(memory);
        doubles::cudart::fail(call, cudaErrorUnknown);
        one.reset();
        CHECK(doubles::cudart::forgive());
        CHECK(told.count(error_kind::platform_error) == before + 1);
    }
    one.emplace(memory);
    doubles::cudart::fail("cuMemUnmap", cudaErrorUnknown);
    CHECK_THROWS_AS(memory.unmap(one->range.base(), memory.granularity()), cuda_error);
    CHECK(doubles::cudart::forgive());
    one.reset();
    CHECK(told.count() == 2);
}
#endif
