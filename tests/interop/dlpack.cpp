// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/dlpack.hpp> // first: the header stands alone

#include "../doubles/archetype.hpp"
#include "../doubles/mishaps.hpp"

#include <vram/handle/array.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <cstring>  // memcpy
#include <numeric>  // iota
#include <optional> // optional
#include <string>   // string
#include <vector>   // vector

using namespace vram;

template class vram::dlpack<host_platform>;

namespace dlpack_tests {

/// The structures of a program's own `dlpack.h`.
enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2 };
struct DLDevice {
    DLDeviceType device_type;
    std::int32_t device_id;
};
struct DLDataType {
    std::uint8_t  code;
    std::uint8_t  bits;
    std::uint16_t lanes;
};
struct DLTensor {
    void*         data;
    DLDevice      device;
    std::int32_t  ndim;
    DLDataType    dtype;
    std::int64_t* shape;
    std::int64_t* strides;
    std::uint64_t byte_offset;
};
struct DLManagedTensor {
    DLTensor dl_tensor;
    void*    manager_ctx;
    void (*deleter)(DLManagedTensor*);
};
struct DLPackVersion {
    std::uint32_t major;
    std::uint32_t minor;
};
struct DLManagedTensorVersioned {
    DLPackVersion version;
    void*         manager_ctx;
    void (*deleter)(DLManagedTensorVersioned*);
    std::uint64_t flags;
    DLTensor      dl_tensor;
};

/// A tensor of another library: its own memory, and a count of deletions.
template <class Managed>
struct foreign {
    std::vector<float>        data    = std::vector<float>(24, 1.0F);
    std::vector<std::int64_t> shape   = {4, 6};
    std::vector<std::int64_t> strides = {6, 1};
    int                       deleted = 0;
    Managed                   managed{};

    foreign() {
        if constexpr (requires { managed.version.major; }) { managed.version = {1, 1}; }
        auto& t             = managed.dl_tensor;
        t.data              = data.data();
        t.device            = {decltype(t.device.device_type)(1), 0};
        t.ndim              = 2;
        t.dtype             = {2, 32, 1};
        t.shape             = shape.data();
        t.strides           = strides.data();
        managed.manager_ctx = this;
        managed.deleter     = [](Managed* m) { ++static_cast<foreign*>(m->manager_ctx)->deleted; };
    }
    foreign(foreign&&) = delete;
};

using on_host   = dlpack<host_platform>;
using versioned = foreign<dlpack_versioned>;

/// Returns the text of the error with which a tensor is refused, after `change` to it.
template <class Change>
std::string refusal(Change change) {
    versioned theirs;
    change(theirs);
    try {
        on_host const mine{&theirs.managed};
        (void)mine.as<float>();
    } catch (dlpack_error const& e) {
        std::string const text = e.what();
        // The constructor leaves the tensor to its owner; the destructor gives it back.
        return (theirs.deleted == 0 ? "constructor: " : "as: ") + text;
    }
    return "";
}

TEST_CASE("dlpack: an exported array is a tensor of its memory, until the deleter frees it") {
    limiting memory{doubles::archetype<>{}, 1_MiB};
    auto     numbers = make_array<float>(memory, {}, 24);
    float*   address = numbers.data();
    address[23]      = 5.0F;

    dlpack_versioned* const tensor = to_dlpack(std::move(numbers), {}, {2, 3, 4});
    CHECK(numbers.empty());
    CHECK(tensor->version.major == 1);
    CHECK(tensor->flags == 0);
    CHECK(tensor->dl_tensor.data == address);
    CHECK(tensor->dl_tensor.byte_offset == 0);
    CHECK(tensor->dl_tensor.device.device_type == 1);
    CHECK(tensor->dl_tensor.dtype == detail::dlpack_type{2, 32, 1});
    CHECK(tensor->dl_tensor.ndim == 3);
    CHECK(std::vector(tensor->dl_tensor.shape, tensor->dl_tensor.shape + 3) ==
          std::vector<std::int64_t>{2, 3, 4});
    CHECK(std::vector(tensor->dl_tensor.strides, tensor->dl_tensor.strides + 3) ==
          std::vector<std::int64_t>{12, 4, 1});
    CHECK(memory.used() == 96);
    tensor->deleter(tensor);
    CHECK(memory.used() == 0);
}

TEST_CASE("dlpack: the structures of DLPack before 1.0, and of a program's dlpack.h, serve too") {
    limiting memory{doubles::archetype<>{}, 1_MiB};
    {
        auto* const t = to_dlpack<dlpack_unversioned>(make_array<int>(memory, {}, 3), {});
        CHECK(t->dl_tensor.dtype == detail::dlpack_type{0, 32, 1});
        on_host const back{t};
        CHECK(back.as<int>().size() == 3);
    }
    {
        auto* const t = to_dlpack<DLManagedTensor>(make_array<double>(memory, {}, 3), {});
        CHECK(t->dl_tensor.device.device_type == kDLCPU);
        on_host const back{t};
        CHECK(back.as<double const>().data() == t->dl_tensor.data);
    }
    {
        auto* const t = to_dlpack<DLManagedTensorVersioned>(make_array<bool>(memory, {}, 3), {});
        CHECK(t->version.major == 1);
        CHECK(t->dl_tensor.dtype.code == 6);
        on_host const back{t};
        CHECK(back.as<bool>().size() == 3);
    }
    CHECK(memory.used() == 0);
}

TEST_CASE("dlpack: a buffer is exported as bytes, an empty array without memory") {
    limiting memory{doubles::archetype<>{}, 1_MiB};
    auto*    bytes = to_dlpack(buffer{memory, {}, 100}, {}, {10, 10});
    CHECK(bytes->dl_tensor.dtype == detail::dlpack_type{1, 8, 1});
    bytes->deleter(bytes);
    auto*         nothing = to_dlpack(make_array<float>(memory, {}, 0), {}, {0, 7});
    on_host const back{nothing};
    CHECK(back.size() == 0);
    CHECK(back.as<float>().empty());
    CHECK(back.contiguous());
}

TEST_CASE("dlpack: an array is unchanged if its size is not that of the shape") {
    limiting memory{doubles::archetype<>{}, 1_MiB};
    auto     numbers = make_array<float>(memory, {}, 24);
    auto     none    = make_array<float>(memory, {}, 0);
    for (std::vector<std::int64_t> const& shape : std::vector<std::vector<std::int64_t>>{
             {5, 5}, {23}, {24, 0}, {-4, -6}, {-24}, {std::int64_t{1} << 62, 4, 24}, {0}}) {
        CHECK_THROWS_AS((void)to_dlpack(std::move(numbers), {}, shape), layout_error);
        CHECK(numbers.size() == 24);
    }
    CHECK_THROWS_AS((void)to_dlpack(std::move(none), {}, {3}), layout_error);
    CHECK_THROWS_AS(
        (void)to_dlpack(std::move(none), {}, {std::int64_t{1} << 32, std::int64_t{1} << 32}),
        layout_error);
    CHECK_THROWS_AS((void)to_dlpack(std::move(none), {}, {0, -1}), layout_error);
}

TEST_CASE("dlpack: an imported tensor is read in place, and its deleter is called once") {
    versioned theirs;
    {
        on_host first{&theirs.managed};
        CHECK(first.as<float>().data() == theirs.data.data());
        CHECK(first.size() == 24);
        CHECK(first.shape()[1] == 6);
        CHECK(first.kind() == memory_kind::pageable);
        CHECK(first.device_id() == 0);
        CHECK_FALSE(first.read_only());
        on_host   second{std::move(first)};
        versioned other;
        {
            on_host third{&other.managed};
            third = std::move(second);
            CHECK(other.deleted == 1);
            CHECK(third.as<float const>().size() == 24);
            CHECK(theirs.deleted == 0);
        }
        CHECK(theirs.deleted == 1);
    }
    CHECK(theirs.deleted == 1);

    foreign<DLManagedTensor> old;
    old.managed.dl_tensor.strides     = nullptr;
    old.managed.dl_tensor.byte_offset = 8;
    old.managed.dl_tensor.shape[0]    = 3;
    {
        on_host const mine{&old.managed};
        CHECK(mine.strides().empty());
        CHECK(mine.as<float>().data() == old.data.data() + 2);
        CHECK(mine.size() == 18);
    }
    CHECK(old.deleted == 1);
}

TEST_CASE("dlpack: a tensor that cannot be used is refused, and stays with its owner") {
    using detail::dlpack_versioned;
    CHECK(refusal([](versioned&) {}) == "");
    CHECK(refusal([](versioned& t) { t.managed.version.major = 2; }) ==
          "constructor: vram: a DLPack tensor has a major version that is not 1: 2");
    CHECK(refusal([](versioned& t) { t.managed.dl_tensor.device.device_type = 7; }) ==
          "constructor: vram: a DLPack tensor is on a device of the type: 7");
    CHECK(refusal([](versioned& t) {
              t.managed.dl_tensor.device.device_type = 2;
          }).starts_with("constructor: vram: a DLPack tensor of the host is needed"));
    CHECK(refusal([](versioned& t) { t.shape[0] = -1; }) ==
          "constructor: vram: a DLPack tensor has an impossible extent: -1");
    CHECK(refusal([](versioned& t) {
              t.shape                   = {std::int64_t{1} << 40, std::int64_t{1} << 40};
              t.managed.dl_tensor.shape = t.shape.data();
          }).starts_with("constructor: vram: a DLPack tensor has an impossible extent"));
    CHECK(refusal([](versioned& t) { // the product of an empty tensor's other extents is no size
              t.shape                   = {std::int64_t{1} << 40, std::int64_t{1} << 40, 0};
              t.managed.dl_tensor.shape = t.shape.data();
              t.managed.dl_tensor.ndim  = 3;
          }) == "");
    CHECK(refusal([](versioned& t) { t.managed.dl_tensor.ndim = -1; }) ==
          "constructor: vram: a DLPack tensor has an impossible number of dimensions: -1");
    CHECK(refusal([](versioned& t) { t.managed.dl_tensor.shape = nullptr; }) ==
          "constructor: vram: a DLPack tensor has no shape; its number of dimensions is: 2");
    CHECK(refusal([](versioned& t) { t.managed.dl_tensor.dtype.bits = 64; }) ==
          "as: vram: a DLPack tensor has another element type: float64, not float32");
    CHECK(refusal([](versioned& t) { t.managed.dl_tensor.dtype.lanes = 2; }).starts_with("as:"));
    CHECK(refusal([](versioned& t) { t.managed.flags = dlpack_versioned::read_only; }) ==
          "as: vram: a DLPack tensor is read-only: write as<Element const>()");
    CHECK(refusal([](versioned& t) {
              t.strides                   = {8, 1};
              t.managed.dl_tensor.strides = t.strides.data();
          }).starts_with("as: vram: a DLPack tensor has gaps"));
    CHECK(refusal([](versioned& t) {
              t.managed.dl_tensor.byte_offset = 2;
          }).starts_with("as: vram: a DLPack tensor is not aligned"));

    versioned theirs;
    theirs.managed.flags = dlpack_versioned::read_only;
    on_host const mine{&theirs.managed};
    CHECK(mine.as<float const>().size() == 24); // reading is permitted
}

TEST_CASE("dlpack: memory goes to another stream and is freed on it") {
    sim_node                           node;
    sim_stream const                   producer, consumer;
    pool<stream_ordered<sim_resource>> memory;
    std::byte*                         block = nullptr;
    {
        auto numbers = make_array<float>(memory, producer, 1000);
        block        = reinterpret_cast<std::byte*>(numbers.data());
        sim_launch(producer,
                   {.name = "fill", .writes = {{block, 4000}}, .duration = sim_time{5000}});
        auto* const tensor = to_dlpack(std::move(numbers), consumer);
        CHECK(tensor->dl_tensor.device.device_type == 2);
        CHECK(tensor->dl_tensor.device.device_id == 0);
        sim_launch(consumer,
                   {.name = "read", .reads = {{block, 4000}}, .duration = sim_time{9000}});
        tensor->deleter(tensor);
    }
    CHECK(memory.usage().live == 0);
    void* const next = memory.allocate(consumer, 4000); // the stream order of the consumer suffices
    CHECK(next == block);
    sim_launch(consumer, {.name = "again", .writes = {{block, 4000}}});
    memory.deallocate(consumer, next, 4000);
    consumer.synchronize();
    CHECK(node.reports().empty());
}

TEST_CASE("dlpack: a tensor may be used on, and freed to, a stream of another device") {
    sim_node                           node{{.devices = 2, .peer_access = true}};
    sim_stream const                   producer, consumer{sim_device{1}};
    pool<stream_ordered<sim_resource>> memory; // of device 0
    auto                               numbers = make_array<float>(memory, producer, 1000);
    void*                              block   = numbers.data();
    sim_launch(producer, {.name = "fill", .writes = {{block, 4000}}, .duration = sim_time{5000}});
    auto* const tensor = to_dlpack(std::move(numbers), consumer);
    CHECK(tensor->dl_tensor.device.device_id == 0); // the device of the memory
    sim_launch(consumer, {.name = "read", .reads = {{block, 4000}}, .duration = sim_time{9000}});
    tensor->deleter(tensor);
    void* const next = memory.allocate(producer, 4000);
    sim_launch(producer, {.name = "again", .writes = {{next, 4000}}});
    memory.deallocate(producer, next, 4000);
    consumer.synchronize();
    producer.synchronize();
    CHECK(memory.usage().live == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("dlpack: default streams are those of the device of the array, on any thread") {
    sim_node node{{.devices = 2, .compute_slots = 2, .on_report = sim_on_report::collect}};
    {
        sim_device const                   far{1};
        sim_stream const                   producer{far}, consumer{far};
        pool<stream_ordered<sim_resource>> memory{stream_ordered{sim_resource{far}}};
        pool<stream_ordered<sim_resource>> other{stream_ordered{sim_resource{far}}};
        auto const                         work = [](sim_stream_view s, void* p) {
            sim_launch(s, {.name = "use", .writes = {{p, 4000}}, .duration = sim_time{9000}});
        };
        std::optional<sim_device_guard> on{far};
        auto                            first = make_array<float>(memory, sim_stream_view{}, 1000);
        work({}, first.data());
        on.reset();
        CHECK(sim_device::current() != far);
        auto* const from_default = to_dlpack(std::move(first), consumer);
        CHECK(sim_device::current() != far); // unchanged
        work(consumer,
             from_default->dl_tensor.data); // after the work of the default stream of `far`
        from_default->deleter(from_default);

        auto second = make_array<float>(other, producer, 1000);
        work(producer, second.data());
        auto* const to_default = to_dlpack(std::move(second), {});
        void* const block      = to_default->dl_tensor.data;
        work(sim_stream_view::legacy(far), block);
        sim_thread{sim_device{0}, [&] { to_default->deleter(to_default); }};
        CHECK(other.usage().live == 0);
        (void)other.trim(); // not before the work of the default stream of `far`
        far.synchronize();
    }
    for (auto const& r : node.reports()) { MESSAGE(r.text()); }
    CHECK(node.reports().empty());
}

TEST_CASE("dlpack: an imported tensor waits for the default stream of its device") {
    sim_node                  node{{.devices = 2}};
    sim_device const          far{1};
    foreign<dlpack_versioned> theirs;
    sim_resource              device{far};
    void* const               block = device.allocate_sync(96);
    theirs.managed.dl_tensor.device = {2, 1};
    theirs.managed.dl_tensor.data   = block;
    {
        dlpack<sim_platform> const in{&theirs.managed};
        sim_launch(sim_stream_view::legacy(far),
                   {.name = "read", .reads = {{block, 96}}, .duration = sim_time{9000}});
    }
    CHECK(theirs.deleted == 1);
    CHECK(node.now() >= sim_time{9000});
    device.deallocate_sync(block, 96);
}

TEST_CASE("dlpack: an imported tensor of another device than its stream is refused") {
    sim_node                  node{{.devices = 2}};
    sim_device const          far{1};
    sim_stream const          near_by, there{far};
    foreign<dlpack_versioned> theirs;
    sim_resource              device{far};
    void* const               block = device.allocate_sync(96);
    theirs.managed.dl_tensor.device = {2, 1};
    theirs.managed.dl_tensor.data   = block;
    try {
        dlpack<sim_platform> const in{&theirs.managed, near_by};
        FAIL("it is accepted");
    } catch (dlpack_error const& e) {
        CHECK(std::string{e.what()} == "vram: a DLPack tensor is on another device than its "
                                       "stream; the device of the tensor is: 1");
    }
    CHECK(theirs.deleted == 0); // it still belongs to the caller
    {
        dlpack<sim_platform> in{&theirs.managed, there};
        in.set_stream(near_by); // with peer access
    }
    CHECK(theirs.deleted == 1);
    CHECK(sim_device::current() != far);
    device.deallocate_sync(block, 96);
}

TEST_CASE("dlpack: the deleter of an imported tensor is called after the work of its stream") {
    sim_node                  node;
    sim_stream const          stream, other;
    foreign<dlpack_versioned> theirs;
    sim_resource              device;
    void* const               block = device.allocate_sync(96);
    theirs.managed.dl_tensor.device = {2, 0};
    theirs.managed.dl_tensor.data   = block;
    {
        dlpack in{&theirs.managed, stream};
        static_assert(std::is_same_v<decltype(in), dlpack<sim_platform>>);
        CHECK(in.kind() == memory_kind::device);
        sim_launch(other, {.name = "read", .reads = {{block, 96}}, .duration = sim_time{9000}});
        in.set_stream(other);
        CHECK(in.get_stream() == other.view());
        CHECK(theirs.deleted == 0);
    }
    CHECK(theirs.deleted == 1);
    CHECK(node.now() >= sim_time{9000});
    device.deallocate_sync(block, 96);
    CHECK(node.reports().empty());
}

TEST_CASE("dlpack: a tensor that ends during a capture waits for the work from before it") {
    doubles::mishaps const    told;
    sim_node                  node{{.devices = 2}};
    sim_device const          far{1};
    sim_stream const          stream{far};
    foreign<dlpack_versioned> theirs;
    sim_resource              device{far};
    void* const               block = device.allocate_sync(96);
    theirs.managed.dl_tensor.device = {2, 1};
    theirs.managed.dl_tensor.data   = block;
    {
        dlpack const in{&theirs.managed, stream};
        sim_launch(stream, {.name = "read", .reads = {{block, 96}}, .duration = sim_time{9000}});
        sim_graph::begin(stream);
    }
    CHECK(theirs.deleted == 1);
    CHECK(node.now() >= sim_time{9000});
    device.deallocate_sync(block, 96);
    sim_graph const graph = sim_graph::end(stream);
    CHECK(told.count() == 0);
    CHECK(node.reports().empty());
}

} // namespace dlpack_tests
