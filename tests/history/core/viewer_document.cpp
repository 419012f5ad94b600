// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/viewer_document.hpp> // first: the header stands alone

#include "../recorded.hpp"

#include <vram/history/core/json_writer.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vram;

// tests/examples/record_history.py checks whole documents by the rules of the viewer.

TEST_CASE("viewer_document: gaps between blocks are inactive, and sizes sum up") {
    history_record record;
    record.resources.push_back({"pool", 1});
    record.chunks.push_back({4096, 1000, 1});
    record.stacks.push_back({0x401000});
    record.events.push_back({.kind     = memory_event_kind::allocated,
                             .resource = 1,
                             .stack    = 1,
                             .memory   = 4196,
                             .bytes    = 50});
    recorded_history::file_name const name{"document"};
    detail::byte_file                 out{name.path()};
    detail::json_writer               to{out};
    detail::viewer_document{record, to}.write();
    out.close();
    std::string const text = name.contents();
    CHECK(text.find(R"("allocated_size":50,"active_size":50)") != text.npos);
    CHECK(text.find(R"({"address":4096,"size":100,"requested_size":0,"state":"inactive")") !=
          text.npos);
    CHECK(text.find(R"({"address":4246,"size":850,"requested_size":0,"state":"inactive")") !=
          text.npos);
    CHECK(text.find(R"({"name":"0x401000","filename":"","line":0})") != text.npos);
}
