// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/buffer.hpp> // first: the header stands alone

#include "../laws/resource.hpp"

#include <vram/handle/any_resource.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/null_resource.hpp>

#include <cstring>  // memset
#include <optional> // optional

using namespace vram;

namespace {

using full     = doubles::archetype<>;
using counting = doubles::counting_resource<full>;

/// A platform whose copies fail on request.
struct brittle_platform : host_platform {
    using device_resource     = null_resource<brittle_platform>;
    static inline bool broken = false;
    static void        copy(stream, void* to, void const* from, std::size_t bytes) {
        if (broken) { throw doubles::machine_failure{}; }
        if (bytes != 0) { std::memcpy(to, from, bytes); }
    }
};

/// Host memory on that machine.
struct brittle_resource : host_resource {
    using platform = brittle_platform;
};

} // namespace

template class vram::buffer<full>;
template class vram::buffer<full&>;
template class vram::buffer<shared<full>>;
template class vram::buffer<any_resource_of<full>>;

static_assert(!std::copyable<buffer<shared<full>>> && std::movable<buffer<shared<full>>>);

TEST_CASE("buffer: it allocates once, and frees with the same size and alignment") {
    doubles::ledger book;
    counting        mr{full{}, book};
    {
        buffer const scratch{mr, {}, 1000, 4096};
        CHECK(scratch.size() == 1000);
        CHECK(scratch.capacity() == 1000);
        CHECK(scratch.alignment() == 4096);
        CHECK_FALSE(scratch.empty());
        CHECK(vram::is_aligned(scratch.data(), 4096));
        CHECK(book.out() == 1000);
    }
    CHECK(book.blocks() == 0);
    CHECK(book.allocations() == 1);
    CHECK(*book.broken() == '\0');
}

TEST_CASE("buffer: the resource is stored by value if it can be copied, else by reference") {
    full   lonely;
    shared handle{full{}};
    CHECK(std::is_same_v<decltype(buffer{lonely, {}, 10}), buffer<full&>>);
    CHECK(std::is_same_v<decltype(buffer{lonely}), buffer<full&>>);
    CHECK(std::is_same_v<decltype(buffer{handle, {}, 10}), buffer<shared<full>>>);
    CHECK(std::is_same_v<decltype(buffer{full{}, {}, 10, 16}), buffer<full>>);
    buffer const scratch{handle, {}, 10};
    CHECK(handle.holders() == 2);
    CHECK(scratch.upstream() == handle);
}

TEST_CASE("buffer: a buffer of zero bytes has no memory, and can grow") {
    doubles::ledger book;
    counting        mr{full{}, book};
    {
        buffer scratch{mr};
        CHECK(scratch.data() == nullptr);
        CHECK(scratch.empty());
        scratch.resize(0);
        scratch.shrink_to_fit();
        CHECK(book.allocations() == 0);
        scratch.resize(10);
        CHECK(scratch.data() != nullptr);
        scratch.resize(0);
        CHECK(scratch.empty());
        CHECK(scratch.capacity() == 10);
        scratch.shrink_to_fit();
        CHECK(scratch.data() == nullptr);
        CHECK(book.blocks() == 0);
    }
    CHECK(*book.broken() == '\0');
}

TEST_CASE("buffer: contents are kept when it grows and shrinks") {
    buffer scratch{full{}, {}, 100};
    std::memset(scratch.data(), 0x5a, 100);
    void const* const before = scratch.data();
    scratch.resize(50);
    CHECK(scratch.data() == before); // within the capacity nothing moves
    scratch.resize(100);
    CHECK(scratch.data() == before);
    scratch.reserve(5000);
    CHECK(scratch.size() == 100);
    CHECK(scratch.capacity() == 5000);
    CHECK(static_cast<unsigned char const*>(scratch.data())[99] == 0x5a);
    scratch.resize(7);
    scratch.shrink_to_fit();
    CHECK(scratch.capacity() == 7);
    CHECK(static_cast<unsigned char const*>(scratch.data())[6] == 0x5a);
}

TEST_CASE("buffer: a failure of the upstream leaves it unchanged") {
    laws::survives_every_failure([](auto up) { return std::optional{std::move(up)}; },
                                 [](auto& mr) {
                                     buffer scratch{*mr, {}, 100};
                                     scratch.resize(1000);
                                     scratch.shrink_to_fit();
                                     scratch.reserve(5000);
                                 },
                                 [](auto& mr) { return mr->usage().live; });

    limiting    mr{full{}, 1000};
    buffer      scratch{mr, {}, 600};
    void* const before = scratch.data();
    CHECK_THROWS_AS(scratch.resize(601), over_limit);
    CHECK_THROWS_AS(scratch.resize(unsatisfiable), out_of_memory);
    CHECK(scratch.data() == before);
    CHECK(scratch.size() == 600);
    CHECK(mr.used() == 600);
    CHECK_THROWS_AS((buffer{mr, {}, 601}), over_limit);
    CHECK(mr.used() == 600);
}

TEST_CASE("buffer: a copy that fails while it grows leaves it unchanged") {
    limiting    mr{brittle_resource{}, 10'000};
    buffer      scratch{mr, {}, 100};
    void* const before       = scratch.data();
    brittle_platform::broken = true;
    CHECK_THROWS_AS(scratch.resize(200), doubles::machine_failure);
    brittle_platform::broken = false;
    CHECK(scratch.data() == before);
    CHECK(scratch.size() == 100);
    CHECK(scratch.capacity() == 100);
    CHECK(mr.used() == 100);
}

TEST_CASE("buffer: after destroy it is empty and can be used again") {
    limiting mr{full{}, 1000};
    buffer   scratch{mr, {}, 600};
    scratch.destroy(host_platform::stream{});
    CHECK(scratch.data() == nullptr);
    CHECK(scratch.size() == 0);
    CHECK(mr.used() == 0);
    scratch.destroy();
    scratch.resize(10);
    CHECK(mr.used() == 10);
}

TEST_CASE("buffer: a move transfers the memory, also onto itself, and swap exchanges it") {
    doubles::ledger book;
    {
        shared mr{counting{full{}, book}};
        buffer a{mr, {}, 100};
        buffer b{mr, {}, 200, 512};
        auto*  in_a = a.data();
        auto*  in_b = b.data();
        std::swap(a, b);
        CHECK(a.data() == in_b);
        CHECK(a.alignment() == 512);
        CHECK(b.data() == in_a);
        auto& same = a;
        a          = std::move(same);
        CHECK(a.data() == in_b);
        CHECK(a.size() == 200);
        a = std::move(b);
        CHECK(a.data() == in_a);
        CHECK(book.out() == 100); // the former memory of a was freed
        CHECK(b.data() == nullptr);
        CHECK(b.empty());
        buffer c = std::move(a);
        CHECK(c.data() == in_a);
        CHECK(book.out() == 100);
    }
    CHECK(book.blocks() == 0);
    CHECK(*book.broken() == '\0');
}

TEST_CASE(
    "buffer: on a device it grows behind the kernel that fills it, and is freed behind the last") {
    using namespace std::chrono_literals;
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        stream_ordered mr{sim_resource{}};
        sim_stream     s;
        {
            buffer          scratch{mr, s, 1000};
            auto* const     first = static_cast<unsigned char*>(scratch.data());
            sim_range const all{first, 1000};
            sim_launch(s, {.name = "fill", .writes = {all}, .duration = 50us},
                       [=] { std::memset(sim_view(first), 0x5a, 1000); });
            scratch.resize(3000); // the host does not wait
            CHECK(node.now() < 50us);
            auto* const     grown = static_cast<unsigned char*>(scratch.data());
            sim_range const kept{grown, 1000};
            sim_launch(s, {.name = "use", .reads = {kept}, .duration = 50us});
            scratch.shrink_to_fit();
            s.synchronize();
            CHECK(sim_view(grown)[999] == 0x5a);
            sim_launch(s, {.name = "use again", .reads = {kept}, .duration = 50us});
        }
        CHECK(mr.usage().pending ==
              4000); // the first block, 1000 bytes, went when the stream was waited for;
        mr.retire(s);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("buffer: a free on a stream that is not ordered after the last use is reported") {
    using namespace std::chrono_literals;
    for (bool const ordered : {true, false}) {
        sim_node node{{.on_report = sim_on_report::collect}};
        {
            sim_async_resource mr;
            sim_stream         a, b;
            {
                buffer          scratch{mr, a, 1000};
                sim_range const all{scratch.data(), 1000};
                sim_launch(a, {.name = "use", .writes = {all}, .duration = 50us});
                if (ordered) {
                    sim_event last;
                    sim_platform::record(last, a);
                    sim_platform::wait(b, last);
                }
                scratch.destroy(b);
                CHECK(scratch.data() == nullptr);
            }
            a.synchronize();
            b.synchronize();
        }
        CHECK(node.reports().empty() == ordered);
    }
}
