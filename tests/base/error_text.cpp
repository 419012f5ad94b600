// SPDX-License-Identifier: Apache-2.0
#include <vram/base/error_text.hpp> // first: the header stands alone

#include <vram/base/error.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using namespace vram;

namespace {
constexpr error_kind every_kind[] = {error_kind::foreign_pointer,
                                     error_kind::wrong_size,
                                     error_kind::dead_stream,
                                     error_kind::platform_error,
                                     error_kind::leak,
                                     error_kind::double_free,
                                     error_kind::interior_pointer,
                                     error_kind::wrong_alignment,
                                     error_kind::lost_exception,
                                     error_kind::overrun};

std::string text(error const& e) { return error_text{e}.c_str(); }
bool        has(std::string const& all, std::string const& part) {
    return all.find(part) != std::string::npos;
}
void const* at_address(std::uintptr_t address) { return reinterpret_cast<void const*>(address); }
} // namespace

TEST_CASE("error_text: unknown numbers are omitted") {
    for (auto const kind : every_kind) {
        std::string const said = text({.kind = kind});
        CAPTURE(said);
        CHECK(said.starts_with(std::string{"vram: "} + name(kind) + ": "));
        CHECK_FALSE(has(said, "nil"));
        CHECK_FALSE(has(said, " 0"));
        CHECK_FALSE(has(said, "0x0"));
        CHECK_FALSE(has(said, "code"));
        CHECK_FALSE(has(said, " ,"));
        CHECK_FALSE(has(said, "  "));
        CHECK(has(said, ". ")); // advice
        CHECK(has(said, "[error_text.cpp:"));
    }
}

TEST_CASE("error_text: the caller's line comes first and replaces vram's own") {
    error const       e{.kind = error_kind::double_free, .caller = call_site::current()};
    std::string const said = text(e);
    std::string const line = std::to_string(__LINE__ - 2);
    CHECK(has(said, "error_text.cpp:" + line + ": vram: double free"));
    CHECK_FALSE(has(said, "["));
}

TEST_CASE("error_text: a free is printed with the block, both sizes and the stream") {
    error e{.kind        = error_kind::wrong_size,
            .pointer     = at_address(0x1000),
            .bytes       = 512,
            .alignment   = 64,
            .block       = at_address(0x1000),
            .block_bytes = 1024,
            .stream      = {.id = 7},
            .resource    = "pool"};
    CHECK(has(text(e), "wrong size: pool: the block 0x1000 was allocated with 1024 bytes, freed "
                       "with 512 bytes on stream 7. Free a block with the size"));
    e.kind            = error_kind::wrong_alignment;
    e.block_alignment = 256;
    CHECK(has(text(e), "the block 0x1000 was allocated with alignment 256, freed with 512 bytes "
                       "and alignment 64 on stream 7. "));
    e.kind    = error_kind::interior_pointer;
    e.pointer = at_address(0x1040);
    CHECK(has(text(e), "the address 0x1040 points into a block that begins at 0x1000, of 1024 "
                       "bytes, freed with 512 bytes on stream 7. "));
    e.kind = error_kind::double_free;
    CHECK(has(text(e),
              "the block 0x1040 is free already; it was freed again with 512 bytes on stream 7. "));
    e.kind  = error_kind::foreign_pointer;
    e.bytes = 0;
    CHECK(has(text(e), "memory at 0x1040 was not allocated by this resource, freed on stream 7. "));
}

TEST_CASE("error_text: a stream is named by its handle, its id, or as a default stream") {
    error e{.kind = error_kind::dead_stream, .stream = {.id = 7, .handle = at_address(0x5580)}};
    CHECK(has(text(e), "stream 0x5580 (id 7) was destroyed"));
    CHECK(has(text(e), "retire(stream)"));
    e.stream = {.id = 7};
    CHECK(has(text(e), "stream 7 was destroyed"));
    e.stream = {.is_default = true};
    CHECK(has(text(e), "stream 0 (a default stream)"));
}

TEST_CASE(
    "error_text: a platform error is printed with the call, and the name and text of its code") {
    error e{.kind = error_kind::platform_error, .code = 700, .call = "cudaFree"};
    CHECK(has(text(e), "cudaFree failed with code 700. "));
    e.text_of = +[](int) noexcept { return code_text{"cudaErrorIllegalAddress", "bad address"}; };
    CHECK(has(text(e), "cudaFree failed with cudaErrorIllegalAddress (700, bad address). "));
    e.cause = "because";
    CHECK(has(text(e), ": because. "));
}

TEST_CASE("error_text: a leak is printed with its blocks and bytes, or the reason why memory "
          "cannot be freed") {
    error e{.kind = error_kind::leak, .bytes = 768, .blocks = 3};
    CHECK(has(text(e), "3 blocks of 768 bytes in all were live at the end. Free "));
    e.blocks = 1;
    CHECK(has(text(e), "a block of 768 bytes was live at the end. "));
    e.cause = "no event could be recorded";
    CHECK(has(text(e), "cannot be freed: no event could be recorded. "));
    CHECK_FALSE(has(text(e), "Free every"));
}

TEST_CASE("error_text: the lines and the tag of a block's past are printed") {
    call_site const one = call_site::current(), two = call_site::current();
    auto const      line = ":" + std::to_string(__LINE__ - 1);
    error           e{.kind         = error_kind::double_free,
                      .pointer      = at_address(0x1000),
                      .allocated_at = one,
                      .freed_at     = two,
                      .tag          = "train/optimizer"};
    CHECK(has(text(e), "; it was allocated for \"train/optimizer\" at "));
    CHECK(has(text(e), line + "; it was freed before at "));
    CHECK(has(text(e), line + ". Free each block exactly once."));
    e.kind     = error_kind::leak;
    e.freed_at = {};
    e.bytes    = 64;
    CHECK(has(text(e), "was live at the end, allocated for \"train/optimizer\" at "));
    e.tag = "";
    CHECK(has(text(e), "was live at the end, allocated at "));
    e.allocated_at = {};
    CHECK(has(text(e), "was live at the end. "));
}

TEST_CASE("error_text: the advice of a report replaces the usual advice") {
    CHECK(has(text({.kind = error_kind::lost_exception, .advice = "Call finish()."}),
              "failed. Call finish()."));
}

TEST_CASE("error_text: a long message is truncated and terminated") {
    std::string const long_cause(5000, 'x');
    std::string const said =
        text({.kind = error_kind::platform_error, .cause = long_cause.c_str()});
    CHECK(said.size() == 1023);
    CHECK(said.ends_with("x"));
}

TEST_CASE("error_text: an overrun names the byte, the block and the allocation") {
    error e{.kind        = error_kind::overrun,
            .pointer     = at_address(0x1000),
            .block       = at_address(0x1010),
            .block_bytes = 100,
            .tag         = "cache"};
    CHECK(has(text(e), "the byte 0x1000, 16 before the block 0x1010 of 100 bytes was written; it "
                       "was allocated for \"cache\". "));
    e.pointer = at_address(0x1013);
    CHECK(has(text(e), "number 3 of the freed block 0x1010"));
    e.pointer = at_address(0x1010 + 102);
    CHECK(has(text(e), "number 2 after the end of the block 0x1010"));
}
