// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/nvtx_heap_books.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"
#include "../../doubles/forked.hpp"
#include "../../doubles/nvtx/tool.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace nvtx_heap_books_tests {

using namespace vram;
using doubles::nvtx_tool;
using kind    = memory_event_kind;
using regions = doubles::quiet_map<std::uintptr_t, std::size_t>;

/// A stream that is captured or not.
struct stream {
    bool               captured = false;
    [[nodiscard]] bool capturing() const { return captured; }
};

/// Books, and functions that send them events.
struct books_at_work {
    detail::nvtx_heap_books books;
    int                     identity = 0;

    void send(kind k, std::uintptr_t at, std::size_t bytes, char const* name = "pool",
              bool captured = false, bool until_reset = false) {
        memory_event<stream> e{};
        e.kind        = k;
        e.name        = name;
        e.resource    = name == std::string{"pool"} ? &identity : nullptr;
        e.memory      = reinterpret_cast<void*>(at);
        e.bytes       = bytes;
        e.stream      = stream{captured};
        e.until_reset = until_reset;
        books.follow(e);
    }
};

/// Returns the regions of all heaps of the tool.
regions all() {
    regions sum;
    for (auto const& [at, h] : nvtx_tool::get().heaps) {
        sum.insert(h.regions.begin(), h.regions.end());
    }
    return sum;
}

TEST_CASE("nvtx_heap_books: a block is a region of its chunk, with the name of its tag") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    {
        books_at_work b;
        b.send(kind::allocated, 0x1000, 10); // before the first chunk: it is not known
        b.send(kind::chunk_added, 0x1000, 0x1000);
        CHECK(b.books.active());
        b.send(kind::allocated, 0x1000, 100);
        {
            tagged const scope{"nvtx weights"};
            b.send(kind::allocated, 0x1200, 200);
        }
        CHECK((all() == regions{{0x1000, 100}, {0x1200, 200}}));
        CHECK((tool.names ==
               doubles::quiet_map<std::uintptr_t, std::string>{{0x1200, "nvtx weights"}}));
        b.send(kind::freed, 0x1000, 100);
        CHECK((all() == regions{{0x1200, 200}}));
        b.send(kind::allocated, 0x1000, 40); // the same address
        CHECK((all() == regions{{0x1000, 40}, {0x1200, 200}}));
        b.send(kind::chunk_removed, 0x1000, 0x1000); // with live blocks
        CHECK(tool.heaps.empty());
        CHECK_FALSE(b.books.active());
        b.send(kind::chunk_added, 0x1000, 0x1000);
        b.send(kind::allocated, 0x1100, 100);
    }
    CHECK(tool.heaps.empty()); // the end of the books removes what is left
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: a refused free leaves the region, and a free of no block none") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    books_at_work b;
    b.send(kind::chunk_added, 0x1000, 0x1000);
    b.send(kind::allocated, 0x1000, 100);
    b.send(kind::freed, 0x1000, 50); // another size
    CHECK(all().empty());
    b.send(kind::freed, 0x1000, 60);
    b.send(kind::free_refused, 0x1000, 60);
    CHECK(all().empty());
    b.send(kind::free_refused, 0x1000, 50);
    CHECK((all() == regions{{0x1000, 100}}));
    b.send(kind::freed, 0x1000, 100); // with another alignment
    CHECK(all().empty());
    b.send(kind::free_refused, 0x1000, 100);
    CHECK((all() == regions{{0x1000, 100}}));
    b.send(kind::freed, 0x1010, 50); // within the block
    b.send(kind::free_refused, 0x1010, 50);
    b.send(kind::freed, 0x1000, 100, "slab"); // of another resource
    b.send(kind::free_refused, 0x1000, 100, "slab");
    CHECK((all() == regions{{0x1000, 100}}));
    b.send(kind::freed, 0x1000, 90); // accepted
    b.send(kind::allocated, 0x1040, 10);
    CHECK((all() == regions{{0x1040, 10}}));
    b.send(kind::free_refused, 0x1000, 90); // of memory that is allocated again
    CHECK((all() == regions{{0x1040, 10}}));
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: the chunk of an upper resource is no heap, and the block no region") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    books_at_work b;
    b.send(kind::chunk_added, 0x1000, 0x1000, "stream_ordered");
    b.send(kind::allocated, 0x1000, 0x1000, "stream_ordered");
    CHECK((all() == regions{{0x1000, 0x1000}}));
    b.send(kind::chunk_added, 0x1000, 0x1000);
    CHECK(all().empty());
    b.send(kind::allocated, 0x1000, 100);
    b.send(kind::allocated, 0x1800, 100);
    CHECK((all() == regions{{0x1000, 100}, {0x1800, 100}}));
    CHECK(tool.heaps.size() == 1);
    b.send(kind::freed, 0x1000, 100);
    b.send(kind::chunk_removed, 0x1000, 0x1000);
    CHECK(all().empty());
    CHECK(tool.heaps.size() == 1);
    b.send(kind::freed, 0x1000, 0x1000, "stream_ordered");
    b.send(kind::chunk_removed, 0x1000, 0x1000, "stream_ordered");
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: a block across the border of two chunks is a region in each") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    books_at_work b;
    b.send(kind::chunk_added, 0x1000, 0x1000);
    b.send(kind::allocated, 0x1000, 0x800);
    b.send(kind::chunk_added, 0x2000, 0x1000);
    b.send(kind::allocated, 0x1c00, 0x1000);
    CHECK((all() == regions{{0x1000, 0x800}, {0x1c00, 0x400}, {0x2000, 0xc00}}));
    b.send(kind::freed, 0x1c00, 0x1000);
    CHECK((all() == regions{{0x1000, 0x800}}));
    b.send(kind::allocated, 0x1c00, 0x1000);
    b.send(kind::chunk_removed, 0x1000, 0x2000); // at once
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: a chunk that the tool refuses is tried again when it has pages") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    tool.refuses = [](std::uintptr_t, std::size_t) { return true; };
    books_at_work b;
    b.send(kind::chunk_added, 0x1000, 0x3000);
    CHECK_FALSE(b.books.active());
    b.send(kind::allocated, 0x1000, 100);
    tool.refuses = nullptr;
    b.send(kind::pages_mapped, 0x2000, 0x1000);
    b.send(kind::pages_mapped, 0x1000, 0x3000);
    CHECK(tool.heaps.size() == 3);
    b.send(kind::pages_mapped, 0x1000, 0x3000);
    b.send(kind::allocated, 0x2000, 100);
    CHECK((all() == regions{{0x2000, 100}}));
    b.send(kind::chunk_removed, 0x1000, 0x3000);
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: memory that a capture frees stays a region for the graph") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    books_at_work b;
    b.send(kind::chunk_added, 0x1000, 0x1000);
    b.send(kind::allocated, 0x1000, 100, "pool", true);
    b.send(kind::allocated, 0x1080, 100, "pool", true);
    b.send(kind::freed, 0x1000, 100, "pool", true);
    CHECK((all() == regions{{0x1000, 100}, {0x1080, 100}}));
    // The capture uses the memory again: the graph accesses both blocks.
    b.send(kind::allocated, 0x1010, 40, "pool", true);
    CHECK((all() == regions{{0x1000, 100}, {0x1080, 100}}));
    b.send(kind::freed, 0x1080, 100, "pool", true);
    b.send(kind::allocated, 0x1060, 0x40, "pool", true); // in both, and between them
    CHECK((all() == regions{{0x1000, 0xe4}}));
    b.send(kind::freed, 0x1010, 40, "pool", true);
    b.send(kind::freed, 0x1060, 0x40);
    CHECK((all() == regions{{0x1000, 0xe4}}));
    // After the captures are forgotten, the memory is allocated for other work.
    b.send(kind::allocated, 0x1040, 0x10); // the rest may belong to other graphs
    CHECK((all() == regions{{0x1000, 0x40}, {0x1040, 0x10}, {0x1050, 0x94}}));
    b.send(kind::allocated, 0x1050, 0x94);
    b.send(kind::allocated, 0x1000, 0x40);
    b.send(kind::freed, 0x1000, 0x40);
    CHECK((all() == regions{{0x1040, 0x10}, {0x1050, 0x94}}));
    b.send(kind::allocated, 0x1100, 10, "pool", true);
    b.send(kind::freed, 0x1100, 10, "pool", true);
    b.send(kind::all_freed, 0x1000, 0x1000);
    CHECK((all() == regions{{0x1100, 10}}));
    b.send(kind::chunk_removed, 0x1000, 0x1000);
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: a block of a capture stays a region after a reset") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    books_at_work b;
    b.send(kind::chunk_added, 0x1000, 0x1000);
    b.send(kind::allocated, 0x1000, 100);
    b.send(kind::allocated, 0x1100, 100, "pool", true);
    b.send(kind::allocated, 0x1200, 100, "pool", true);
    b.send(kind::allocated, 0x1300, 100, "pool", true);
    b.send(kind::freed, 0x1200, 100, "pool", false, true);
    b.send(kind::freed, 0x1300, 100); // the resource may allocate the memory again
    CHECK((all() == regions{{0x1000, 100}, {0x1100, 100}, {0x1200, 100}}));
    b.send(kind::all_freed, 0x1000, 0x1000);
    CHECK((all() == regions{{0x1100, 100}, {0x1200, 100}}));
    b.send(kind::allocated, 0x1000, 0x180);
    CHECK((all() == regions{{0x1000, 0x180}, {0x1200, 100}}));
    b.send(kind::all_freed, 0x1000, 0x1000);
    CHECK((all() == regions{{0x1200, 100}}));
    b.send(kind::chunk_removed, 0x1000, 0x1000);
    CHECK(tool.heaps.empty());
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE(
    "nvtx_heap_books: nothing is sent in a forked child, and after the process began to end") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    auto const more = [](books_at_work& b) {
        b.send(kind::allocated, 0x1100, 10);
        b.send(kind::freed, 0x1000, 10);
        b.send(kind::chunk_added, 0x2000, 0x1000);
        b.send(kind::chunk_removed, 0x1000, 0x1000);
    };
    auto made = std::make_unique<books_at_work>();
    made->send(kind::chunk_added, 0x1000, 0x1000);
    made->send(kind::allocated, 0x1000, 10);
    std::size_t const calls = tool.calls;
    CHECK(doubles::code_of_child([&] {
              more(*made);
              made.reset();
              return tool.calls == calls ? 0 : 1;
          }) == 0);
    CHECK(doubles::code_of_child([&] {
              books_at_work own;
              own.send(kind::chunk_added, 0x8000, 0x1000);
              std::size_t const now = tool.calls;
              if (now == calls) { return 1; } // books of the child are used
              detail::process_exit::note();
              more(own);
              return tool.calls == now ? 0 : 2;
          }) == 0);
    more(*made);
    CHECK(tool.calls > calls);
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: a chunk that ends in a capture stays a heap for the graph") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    {
        books_at_work b;
        b.send(kind::chunk_added, 0x1000, 0x400, "binned", true);
        b.send(kind::allocated, 0x1000, 1000, "binned", true);
        b.send(kind::freed, 0x1000, 1000, "binned", true);
        b.send(kind::chunk_removed, 0x1000, 0x400, "binned", true);
        CHECK((all() == regions{{0x1000, 1000}}));
        CHECK(tool.heaps.size() == 1);
        // CUDA has freed the memory, and it is used again, in a larger chunk.
        tool.freed(reinterpret_cast<void*>(0x1000), 0x400);
        b.send(kind::chunk_added, 0x800, 0x1000);
        CHECK(tool.heaps.size() == 1);
        CHECK(tool.heaps[0x800].bytes == 0x1000);
        CHECK(all().empty());
        b.send(kind::chunk_removed, 0x800, 0x1000);
        CHECK(tool.heaps.empty());
        // The graph is forgotten: the heap ends before CUDA frees the memory.
        b.send(kind::chunk_added, 0x1000, 0x400, "binned", true);
        b.send(kind::allocated, 0x1000, 1000, "binned", true);
        b.send(kind::freed, 0x1000, 1000, "binned", true);
        b.send(kind::chunk_removed, 0x1000, 0x400, "binned", true);
        b.send(kind::chunk_added, 0x4000, 0x1000);
        CHECK(tool.heaps.size() == 2);
        b.books.forget_captures();
        CHECK(tool.heaps.size() == 1);
        CHECK(b.books.active());
        b.send(kind::chunk_removed, 0x4000, 0x1000);
        // No memory of the chunk belongs to the graph.
        b.send(kind::chunk_added, 0x1000, 0x400, "binned", true);
        b.send(kind::allocated, 0x1000, 1000, "binned");
        b.send(kind::chunk_removed, 0x1000, 0x400, "binned", true);
        CHECK(tool.heaps.empty());
    }
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: a chunk within a heap that ends in a capture keeps its regions") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    {
        books_at_work b;
        b.send(kind::chunk_added, 0x1000, 0x400, "stream_ordered");
        b.send(kind::allocated, 0x1000, 0x400, "stream_ordered", true);
        b.send(kind::chunk_added, 0x1000, 0x400, "binned", true);
        b.send(kind::allocated, 0x1000, 1000, "binned", true);
        b.send(kind::freed, 0x1000, 1000, "binned", true);
        b.send(kind::chunk_removed, 0x1000, 0x400, "binned", true);
        b.send(kind::freed, 0x1000, 0x400, "stream_ordered", true);
        CHECK((all() == regions{{0x1000, 1000}}));
        b.send(kind::chunk_removed, 0x1000, 0x400, "stream_ordered"); // captures are forgotten
        CHECK(tool.heaps.empty());
    }
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_heap_books: without host memory the tool checks whole chunks") {
    nvtx_tool& tool = nvtx_tool::get();
    for (std::size_t failing = 1;; ++failing) {
        tool.clear();
        books_at_work b;
        bool          hit = false;
        {
            b.send(kind::chunk_added, 0x1000, 0x1000);
            b.send(kind::chunk_added, 0x2000, 0x1000);
            b.send(kind::chunk_added, 0x5000, 0x1000);
            b.send(kind::allocated, 0x1f00, 0x200); // in two heaps
            doubles::bombing armed{failing};
            b.send(kind::allocated, 0x1000, 100);
            b.send(kind::allocated, 0x5000, 0x1000, "stream_ordered");
            b.send(kind::chunk_added, 0x5000, 0x1000);
            b.send(kind::allocated, 0x5000, 10);
            b.send(kind::allocated, 0x5800, 10, "pool", true);
            b.send(kind::freed, 0x5800, 10, "pool", true);
            b.send(kind::allocated, 0x5900, 10, "pool", true);
            b.send(kind::all_freed, 0x5900, 0x100);
            b.send(kind::chunk_added, 0x9000, 0x1000);
            hit = armed.defuse();
        }
        CAPTURE(failing);
        // Each block that is live lies in regions.
        auto const usable = [&](std::uintptr_t at) {
            for (auto const& [from, h] : tool.heaps) {
                if (at < from || at >= from + h.bytes) { continue; }
                auto const next = h.regions.upper_bound(at);
                return next != h.regions.begin() &&
                       at - std::prev(next)->first < std::prev(next)->second;
            }
            return false;
        };
        for (std::uintptr_t const at : {0x1000, 0x1f00, 0x2000, 0x20ff, 0x5000, 0x5800, 0x5900}) {
            CHECK(usable(at));
        }
        b.send(kind::allocated, 0x5a00, 10); // in a region of its own, or that of the heap
        CHECK(usable(0x5a00));
        for (std::uintptr_t const at : {0x1000, 0x2000, 0x5000, 0x9000}) {
            b.send(kind::chunk_removed, at, 0x1000);
            if (at == 0x5000) { b.send(kind::chunk_removed, at, 0x1000, "stream_ordered"); }
        }
        CHECK(tool.heaps.empty());
        CHECK(tool.wrong == std::vector<std::string>{});
        if (!hit) { break; }
        REQUIRE(failing < 20);
    }
}

} // namespace nvtx_heap_books_tests
