// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/nvtx_counter_books.hpp> // first: the header stands alone

#include "../../doubles/forked.hpp"
#include "../../doubles/nvtx/tool.hpp"

#include <vram/sim/sim_stream_view.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace nvtx_counter_books_tests {

using namespace vram;
using doubles::nvtx_tool;
using kind = memory_event_kind;

memory_event<sim_stream_view> event(kind k, std::uintptr_t at, std::size_t bytes,
                                    char const* name = "pool") {
    memory_event<sim_stream_view> e{};
    e.kind   = k;
    e.name   = name;
    e.memory = reinterpret_cast<void*>(at);
    e.bytes  = bytes;
    return e;
}

TEST_CASE("nvtx_counter_books: parts of chunks are removed in any cut") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    detail::nvtx_counter_books books{"", 0, true};
    CHECK_FALSE(books.attached());
    books.follow(event(kind::allocated, 1000, 10)); // without a chunk before it: not counted
    CHECK(tool.groups.empty());
    books.follow(event(kind::chunk_added, 1000, 100));
    CHECK(books.attached());
    {
        tagged const scope{"nvtx parts"};
        books.follow(event(kind::chunk_added, 1100, 100));
    }
    books.follow(event(kind::chunk_added, 1200, 100));
    CHECK(tool.last("pool").reserved == 300);
    CHECK(tool.last("pool: nvtx parts").reserved == 100);
    books.follow(event(kind::chunk_removed, 1140, 20)); // the middle of a part
    CHECK(tool.last("pool").reserved == 280);
    CHECK(tool.last("pool: nvtx parts").reserved == 80);
    books.follow(event(kind::chunk_removed, 1050, 200));
    CHECK(tool.last("pool").reserved == 100);
    CHECK(tool.last("pool: nvtx parts").reserved == 0);
    books.follow(event(kind::chunk_removed, 1000, 300));
    CHECK(tool.last("pool").reserved == 0);
}

TEST_CASE("nvtx_counter_books: if the tool refuses the counters of a tag, the tag is not counted") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    detail::nvtx_counter_books books{"", 0, true};
    books.follow(event(kind::chunk_added, 1000, 100));
    tool.attached = false;
    {
        tagged const scope{"nvtx refused"};
        books.follow(event(kind::chunk_added, 2000, 100));
        books.follow(event(kind::allocated, 2000, 10));
        books.follow(event(kind::freed, 2000, 10));
        books.follow(event(kind::allocated, 2010, 20));
    }
    CHECK((tool.last("pool") == nvtx_tool::sample{20, 200, 20}));
    std::size_t const calls = tool.calls;
    {
        tagged const scope{"nvtx refused"};
        books.follow(event(kind::allocated, 2030, 5));
    }
    CHECK(tool.calls == calls + 1); // the tool is not asked again
    CHECK(tool.groups.size() == 1);
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_counter_books: the blocks of a removed chunk end") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    detail::nvtx_counter_books books{"", 0, true};
    books.follow(event(kind::chunk_added, 1000, 100));
    books.follow(event(kind::allocated, 1000, 30));
    books.follow(event(kind::allocated, 1050, 40));
    CHECK(tool.last("pool").live == 70);
    books.follow(event(kind::chunk_removed, 1000, 100));
    CHECK((tool.last("pool") == nvtx_tool::sample{0, 0, 70}));
}

TEST_CASE("nvtx_counter_books: each name of a resource has a group, after a prefix") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    std::string const          equal = "pool"; // another address than that of the literal
    detail::nvtx_counter_books books{"GPU 1 ", 0, false};
    tagged const               scope{"nvtx ignored"};
    books.follow(event(kind::chunk_added, 1000, 100));
    books.follow(event(kind::chunk_added, 2000, 50, "slab"));
    books.follow(event(kind::allocated, 1000, 30, equal.c_str()));
    CHECK(tool.groups.size() == 2);
    CHECK((tool.last("GPU 1 pool") == nvtx_tool::sample{30, 100, 30}));
    CHECK((tool.last("GPU 1 slab") == nvtx_tool::sample{0, 50, 0}));
}

TEST_CASE("nvtx_counter_books: marks, refusals, retries and waits are marks of the tool") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    detail::nvtx_counter_books books{"", 0, true};
    books.follow(event(kind::chunk_added, 1000, 100));
    books.follow(event(kind::marked, 0, 0, "step 1"));
    books.follow(event(kind::refused, 0, 700));
    books.follow(event(kind::retried, 0, 700));
    books.follow(event(kind::stream_waited, 1000, 10));
    std::vector<std::pair<std::string, std::uint64_t>> const expected{
        {"step 1", 0}, {"refused", 700}, {"retried", 700}, {"host waits", 10}};
    CHECK(tool.marks == expected);
    CHECK(tool.wrong == std::vector<std::string>{});
}

TEST_CASE("nvtx_counter_books: the end samples changes of less than a step") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    {
        detail::nvtx_counter_books books{"", 1000, true};
        tagged const               scope{"nvtx end"};
        books.follow(event(kind::chunk_added, 1000, 100));
        books.follow(event(kind::allocated, 1000, 30));
        CHECK(tool.named("pool").samples.empty());
    }
    CHECK((tool.last("pool") == nvtx_tool::sample{30, 100, 30}));
    CHECK((tool.last("pool: nvtx end") == nvtx_tool::sample{30, 100, 30}));
}

TEST_CASE(
    "nvtx_counter_books: nothing is sent in a forked child, and after the process began to end") {
    nvtx_tool& tool = nvtx_tool::get();
    tool.clear();
    auto const more = [](detail::nvtx_counter_books& books) {
        books.follow(event(kind::allocated, 1000, 30));
        books.follow(event(kind::chunk_added, 2000, 50, "slab"));
        books.follow(event(kind::marked, 0, 0, "step 1"));
        books.follow(event(kind::chunk_removed, 1000, 100));
    };
    auto made = std::make_unique<detail::nvtx_counter_books>("", 1000, true);
    made->follow(event(kind::chunk_added, 1000, 100));
    std::size_t const calls = tool.calls;
    CHECK(doubles::code_of_child([&] {
              more(*made);
              made.reset(); // would sample the change of less than a step
              return tool.calls == calls ? 0 : 1;
          }) == 0);
    CHECK(doubles::code_of_child([&] {
              detail::nvtx_counter_books own{"", 0, true};
              own.follow(event(kind::chunk_added, 1000, 100));
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

} // namespace nvtx_counter_books_tests
