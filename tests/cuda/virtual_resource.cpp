// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/virtual_resource.hpp> // first: the header stands alone

#include "../laws/resource.hpp"
#include "machine.hpp"

#include <vram/cuda/cuda_copy.hpp>
#include <vram/cuda/cuda_fill.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/source/core/address_range.hpp>
#include <vram/source/core/physical_page.hpp>

#include <unistd.h> // close

#include <optional>

using namespace vram;
using namespace vram::detail;
using tests::machine;

template class vram::virtual_source<cuda_virtual_memory>;
template class vram::limiting<virtual_resource>;
template class vram::stream_ordered<virtual_resource>;

namespace {

virtual_options small_handles(std::size_t keep = 0) {
    return {.reserve = 2_GiB, .handle_size = 2_MiB, .keep = keep};
}

/// The device writes the whole range.
void write_all(void* p, std::size_t bytes) {
    cuda_stream const s;
    cuda_fill(s, p, std::byte{5}, bytes);
    s.synchronize();
}

std::byte* take_virtual(virtual_resource& mr, std::size_t pages) {
    return static_cast<std::byte*>(mr.allocate_sync(pages * mr.page_size()));
}

} // namespace

TEST_CASE("virtual_resource: it keeps the laws of a resource") {
    machine const here;
    laws::source([] { return virtual_resource{small_handles()}; },
                 {.room = 64_MiB, .largest_alignment = 4_MiB, .operations = 300});
}

TEST_CASE("virtual_resource: stream_ordered over it keeps the laws, and waits before it unmaps") {
    machine const here;
    laws::source([] { return stream_ordered{virtual_resource{small_handles(8_MiB)}}; },
                 {.room = 64_MiB, .operations = 300});
}

TEST_CASE("virtual_resource: many threads use it concurrently") {
    machine const    here;
    virtual_resource mr{small_handles()};
    {
        std::vector<cuda_thread> threads;
        for (unsigned i = 0; i < 4; ++i) {
            threads.emplace_back(cuda_device::current(), [&mr, i] {
                laws::model_heap<virtual_resource>{mr, {.operations = 50, .seed = i + 1}, false}
                    .run();
            });
        }
    }
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("virtual_resource: a block grows in place, and its bytes are kept") {
    machine const     here;
    virtual_resource  mr{small_handles()};
    std::size_t const unit = mr.page_size();
    std::byte* const  p    = take_virtual(mr, 1);
    write_all(p, unit);
    CHECK(mr.extend(p, unit, 9 * unit));
    std::byte         first{};
    cuda_stream const s;
    cuda_copy(s, &first, p + unit - 1, 1);
    s.synchronize();
    CHECK(first == std::byte{5});
    write_all(p, 10 * unit);
    CHECK(mr.shrink(p, 10 * unit, 4 * unit) == 4 * unit);
    write_all(p, 6 * unit);
    CHECK(mr.usage().reserved == 6 * unit);
    mr.deallocate_sync(p, 6 * unit);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("virtual_resource: free pages are remapped for a request that no free range could meet") {
    machine const     here;
    virtual_resource  mr{small_handles()};
    std::size_t const unit = mr.page_size();
    std::byte* const  p    = take_virtual(mr, 8);
    write_all(p, 8 * unit);
    auto const held = mr.usage().upstream;
    CHECK(mr.widen(p, 8 * unit, 3 * unit));
    CHECK(mr.remap(p + unit, unit, p + 8 * unit, 3 * unit) == unit);
    CHECK(mr.remap(p + 3 * unit, 3 * unit, p + 8 * unit, 3 * unit) == 2 * unit);
    CHECK(mr.mapped(p, 11 * unit) == 8 * unit);
    CHECK(mr.usage().upstream == held); // no physical memory was created or destroyed
    write_all(p + 8 * unit, 3 * unit);
    write_all(p + 5 * unit, 6 * unit);
    CHECK(mr.fill(p, 11 * unit));
    write_all(p, 11 * unit);
    CHECK(mr.drop(p + 2 * unit, 6 * unit) == 6 * unit);
    std::size_t runs = 0;
    mr.for_each_mapped([&](void*, std::size_t) { ++runs; });
    CHECK(runs == 2);
    mr.deallocate_sync(p, 11 * unit);
}

TEST_CASE("virtual_resource: memory that is remapped away and back keeps its contents") {
    machine const     here;
    virtual_resource  mr{small_handles()};
    std::size_t const unit = mr.page_size();
    std::byte* const  p    = take_virtual(mr, 4);
    cuda_stream const s;
    cuda_fill(s, p, std::byte{1}, 4 * unit);
    s.synchronize();
    CHECK(mr.widen(p, 4 * unit, 4 * unit));
    CHECK(mr.remap(p, 4 * unit, p + 4 * unit, 4 * unit) == 4 * unit);
    CHECK(mr.moved_to(p + unit) == p + 5 * unit);
    cuda_fill(s, p + 4 * unit, std::byte{2}, 2 * unit); // both mappings, in the order of one stream
    CHECK(mr.remap(p + 4 * unit, 4 * unit, p, 4 * unit) == 4 * unit);
    cuda_fill(s, p + 3 * unit, std::byte{3}, unit);
    std::byte seen[4]{};
    for (std::size_t i = 0; i < 4; ++i) { cuda_copy(s, seen + i, p + (i + 1) * unit - 1, 1); }
    s.synchronize();
    CHECK(seen[0] == std::byte{2});
    CHECK(seen[1] == std::byte{2});
    CHECK(seen[2] == std::byte{1});
    CHECK(seen[3] == std::byte{3});
    mr.deallocate_sync(p, 8 * unit);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("virtual_resource: kept pages are used for the next block, and are trimmed") {
    machine const     here;
    virtual_resource  mr{{.handle_size = 2_MiB, .keep = 8_MiB}};
    std::size_t const unit = mr.page_size();
    CHECK(mr.device() == cuda_device::current());
    mr.deallocate_sync(take_virtual(mr, 6), 6 * unit);
    CHECK(mr.usage().reserved == 8_MiB);
    auto const calls = mr.usage().upstream;
    mr.deallocate_sync(take_virtual(mr, 4), 4 * unit);
    CHECK(mr.usage().upstream == calls);
    CHECK(mr.trim(2 * unit) == 8_MiB - 2 * unit);
    CHECK(mr.trim() == 2 * unit);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("virtual_resource: a refusal has the numbers of the device, and changes nothing") {
    machine const     here;
    std::size_t const total = cuda_memory_info().total;
    virtual_resource  mr{{.handle_size = 2 * total}}; // no device has that much memory
    CHECK(mr.try_allocate_sync(100) == nullptr);
    try {
        (void)mr.allocate_sync(100);
        FAIL("twice the device's memory");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 100);
        CHECK(e.numbers().rounded >= 2 * total);
        CHECK(e.numbers().device_total == total);
    }
    CHECK(mr.usage() == memory_usage{});
}

TEST_CASE("virtual_resource: pages are exported one by one, if requested") {
    machine const    here;
    virtual_resource mr{small_handles(), cuda_device::current(),
                        cudaMemHandleTypePosixFileDescriptor};
    std::byte* const p      = take_virtual(mr, 2);
    int const        first  = mr.export_page(p);
    int const        second = mr.export_page(p + mr.page_size());
    CHECK(first >= 0);
    CHECK(second >= 0);
    CHECK(first != second);
    ::close(first);
    ::close(second);
    mr.deallocate_sync(p, 2 * mr.page_size());
}

TEST_CASE("virtual_resource: stream_ordered over it allocates and frees during a capture") {
    machine const     here;
    cuda_stream const s;
    cudaGraph_t       graph = nullptr;
    stream_ordered    memory{virtual_resource{small_handles()}};
    cuda_check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal));
    memory.deallocate(s, memory.allocate(s, 100), 100);
    cuda_check(cudaStreamEndCapture(s.get(), &graph));
    cuda_check(cudaGraphDestroy(graph));
    memory.forget_captures();
}

#ifndef VRAM_CUDART_DOUBLE // the files of the double are empty
namespace {

/// Maps the page of a file descriptor at an address of its own, as another process would do. Unmaps
/// it at the end of the scope.
class imported_page {
public:
    imported_page(int file, std::size_t bytes)
        : page_{memory_, import(file), bytes},
          range_{memory_, bytes, bytes},
          mapped_{memory_, range_.base(), page_.get(), bytes} {
        memory_.set_access(range_.base(), bytes);
    }

    [[nodiscard]] std::byte* at() const { return static_cast<std::byte*>(range_.base()); }

private:
    struct mapping {
        mapping(cuda_virtual_memory& m, void* p, cuda_virtual_memory::handle h, std::size_t n)
            : memory{m}, at{p}, bytes{n} {
            memory.map(at, h, bytes);
        }
        mapping(mapping&&) = delete;
        ~mapping() { CHECK_NOTHROW(memory.unmap(at, bytes)); }

        cuda_virtual_memory& memory;
        void*                at;
        std::size_t          bytes;
    };

    static cuda_virtual_memory::handle import(int file) {
        void*                           found = nullptr;
        cudaDriverEntryPointQueryResult how{};
        cuda_check(cudaGetDriverEntryPointByVersion("cuMemImportFromShareableHandle", &found, 10020,
                                                    cudaEnableDefault, &how));
        REQUIRE(found != nullptr);
        auto* const call   = reinterpret_cast<decltype(&::cuMemImportFromShareableHandle)>(found);
        auto* const handed = reinterpret_cast<void*>(static_cast<std::uintptr_t>(file));
        cuda_virtual_memory::handle made = 0;
        auto const status = call(&made, handed, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        REQUIRE(cuda_virtual_calls::status(status) == cudaSuccess);
        return made;
    }

    cuda_virtual_memory                memory_;
    physical_page<cuda_virtual_memory> page_;
    address_range<cuda_virtual_memory> range_;
    mapping                            mapped_;
};

/// The page at `p`, for the importing process.
struct exported_page {
    exported_page(virtual_resource const& mr, void const* p) : file{mr.export_page(p)} {}
    exported_page(exported_page&&) = delete;
    ~exported_page() { ::close(file); }

    int file;
};

} // namespace

TEST_CASE("virtual_resource: an exported page is the same memory in the importing process") {
    machine const     here;
    virtual_resource  mr{small_handles(), cuda_device::current(),
                        cudaMemHandleTypePosixFileDescriptor};
    std::size_t const unit = mr.page_size();
    std::byte* const  p    = take_virtual(mr, 2);
    cuda_stream const s;
    {
        exported_page const shared{mr, p + unit};
        imported_page const there{shared.file, unit};
        CHECK(!mr.owns(there.at()));
        std::byte seen[4]{};
        cuda_fill(s, p, std::byte{1}, 2 * unit);
        cuda_copy(s, &seen[0], there.at() + unit - 1, 1);
        cuda_fill(s, there.at(), std::byte{2}, unit); // after the read, in the order of one stream
        cuda_copy(s, &seen[1], p + unit - 1, 1);
        cuda_copy(s, &seen[2], p + unit, 1);
        cuda_copy(s, &seen[3], p + 2 * unit - 1, 1);
        s.synchronize();
        CHECK(seen[0] == std::byte{1});
        CHECK(seen[1] == std::byte{1}); // the page before it was not exported
        CHECK(seen[2] == std::byte{2});
        CHECK(seen[3] == std::byte{2});
    }
    write_all(p, 2 * unit); // the memory stays mapped after the export and the import have ended
    mr.deallocate_sync(p, 2 * unit);
}
#endif

#ifdef VRAM_CUDART_DOUBLE
TEST_CASE("virtual_resource: a driver without virtual memory is a clear error") {
    machine const here;
    doubles::cudart::fail("cuMemGetAllocationGranularity", cudaErrorNotSupported);
    try {
        virtual_resource const mr;
        FAIL("it throws");
    } catch (cuda_error const& e) { CHECK(e.status() == cudaErrorNotSupported); }
    CHECK(doubles::cudart::forgive());
}

TEST_CASE("virtual_resource: a failure of any call changes nothing") {
    machine const                   here;
    std::optional<virtual_resource> made;
    CHECK(tests::walk_failures([&] { made.emplace(small_handles()); }, [&] { made.reset(); }) > 5);

    virtual_resource  mr{small_handles()};
    std::size_t const unit = mr.page_size();
    std::byte*        p    = nullptr;
    CHECK(tests::walk_failures([&] { p = take_virtual(mr, 3); },
                               [&] { mr.deallocate_sync(p, 3 * unit); }) == 2 * 2 * (3 + 3 + 1));
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().reserved == 0);

    p          = take_virtual(mr, 3);
    bool grown = false;
    CHECK(tests::walk_failures([&] { grown = mr.extend(p, 3 * unit, 2 * unit); },
                               [&] {
                                   if (grown) { mr.shrink(p, 5 * unit, 2 * unit); }
                               }) == 0);
    mr.drop(p + unit, unit);
    CHECK(tests::walk_failures([&] { (void)mr.fill(p, 3 * unit); },
                               [&] { mr.drop(p + unit, unit); }) == 0);
    CHECK(tests::walk_failures([&] { mr.remap(p, unit, p + unit, unit); },
                               [&] { // the page would stay mapped at both addresses
                                   mr.drop(p + unit, unit);
                                   (void)mr.fill(p, unit);
                               }) == 0);
    CHECK(mr.mapped(p, 3 * unit) == 2 * unit);
    mr.deallocate_sync(p, 3 * unit);
    CHECK(mr.usage().reserved == 0);
}

TEST_CASE("virtual_resource: a failure during a free is reported, and the memory is kept") {
    machine const     here;
    virtual_resource  mr{small_handles()};
    std::size_t const unit = mr.page_size();
    std::byte*        p    = nullptr;
    tests::walk_reports([&] { p = take_virtual(mr, 3); }, [&] { mr.deallocate_sync(p, 3 * unit); });
    mr.trim(); // frees the memory that could not be freed before
    CHECK(mr.usage().reserved == 0);
    CHECK(doubles::cudart::out().pages == 0);
    CHECK(doubles::cudart::out().mappings == 0);
}
#endif
