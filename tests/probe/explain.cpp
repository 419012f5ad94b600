// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/explain.hpp> // first: the header must stand alone

#include <vram/base/bytes.hpp>
#include <vram/base/error.hpp>
#include <vram/base/error_text.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vram;

TEST_CASE("explain: without other numbers, the text has the requested size") {
    CHECK(explain(shortage{.asked = 64_MiB}) == "64.0 MiB could not be allocated.");
}

TEST_CASE("explain: rounding, alignment and stream appear if they differ from the default") {
    CHECK(explain(shortage{.asked = 900, .rounded = 1024, .alignment = 4096, .stream = 7}) ==
          "900 B could not be allocated (1.00 KiB after rounding), aligned to 4.00 KiB, "
          "on stream 7.");
    CHECK(explain(shortage{.asked = 512, .rounded = 512, .alignment = 256}) ==
          "512 B could not be allocated.");
}

TEST_CASE("explain: a limit is shown with the live bytes and the rest") {
    limiting    memory{host_resource{}, 10_KiB};
    void* const p = memory.allocate_sync(6_KiB);
    try {
        (void)memory.allocate_sync(5_KiB);
        FAIL("it does not fit");
    } catch (out_of_memory const& e) {
        CHECK(explain(e) == "5.00 KiB could not be allocated. The budget is 10.0 KiB, of which "
                            "6.00 KiB are live; at most 4.00 KiB can be allocated.");
    }
    memory.deallocate_sync(p, 6_KiB);
}

TEST_CASE("explain: a limit of zero is shown like any other") {
    limiting memory{host_resource{}, 0};
    try {
        (void)memory.allocate_sync(2_KiB);
        FAIL("it does not fit");
    } catch (out_of_memory const& e) {
        CHECK(explain(e) == "2.00 KiB could not be allocated. The budget is 0 B, of which 0 B are "
                            "live; at most 0 B can be allocated.");
    }
    pool none{stream_ordered{host_resource{}}, {.max_size = 0}};
    try {
        (void)none.allocate_sync(2_KiB);
        FAIL("it does not fit");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().has_limit());
        CHECK(explain(e).find("The budget is 0 B") != std::string::npos);
    }
    CHECK(explain(shortage{.asked = 2_KiB, .reserved = 1_KiB, .limit = 0})
              .ends_with("It may reserve at most 0 B."));
}

TEST_CASE("explain: a limit of reserved bytes is shown with the reserved bytes and the device") {
    CHECK(explain(shortage{.asked        = 2_GiB,
                           .live         = 3_GiB,
                           .reserved     = 3_GiB,
                           .limit        = 4_GiB,
                           .device_free  = 60_GiB,
                           .device_total = 80_GiB}) ==
          "2.00 GiB could not be allocated. The resource has reserved 3.00 GiB, of which 3.00 "
          "GiB are live. It may reserve at most 4.00 GiB. "
          "The device has 60.0 GiB free of 80.0 GiB.");
}

TEST_CASE("explain: a pool at its limit is not said to have room for the request") {
    pool        memory{stream_ordered{host_resource{}}, {.initial_size = 8_MiB, .max_size = 8_MiB}};
    void* const p = memory.allocate_sync(3_MiB);
    try {
        (void)memory.allocate_sync(6_MiB); // 5 MiB are free
        FAIL("it does not fit");
    } catch (out_of_memory const& e) {
        CHECK(explain(e) == "6.00 MiB could not be allocated. The resource has reserved 8.00 MiB, "
                            "of which 3.00 MiB are live; the largest free block of the other 5.00 "
                            "MiB is 5.00 MiB. It may reserve at most 8.00 MiB.");
    }
    memory.deallocate_sync(p, 3_MiB);
}

TEST_CASE("explain: fragmented memory is called fragmented") {
    auto const text = explain(shortage{.asked        = 2_GiB,
                                       .live         = 5_GiB,
                                       .reserved     = 8_GiB,
                                       .largest_free = 1_GiB,
                                       .device_free  = 512_MiB,
                                       .device_total = 80_GiB});
    CHECK(text == "2.00 GiB could not be allocated. The resource has reserved 8.00 GiB, of which "
                  "5.00 GiB are live; the largest free block of the other 3.00 GiB is 1.00 GiB. "
                  "The free memory is fragmented: its sum is large enough, but no single block is "
                  "large enough. The device has 512 MiB free of 80.0 GiB.");
}

TEST_CASE("explain: memory that is short in sum is not called fragmented") {
    auto const text = explain(shortage{.asked = 4_GiB, .live = 7_GiB, .reserved = 8_GiB});
    CHECK(text.find("fragmented") == std::string::npos);
}

TEST_CASE("explain: reserved memory that is not live, in blocks of unknown sizes, was not usable") {
    auto const text = explain(shortage{.asked = 2_GiB, .live = 1_GiB, .reserved = 4_GiB});
    CHECK(text == "2.00 GiB could not be allocated. The resource has reserved 4.00 GiB, of which "
                  "1.00 GiB are live; the other 3.00 GiB could not be used for this request: they "
                  "may be fragmented, or a stream may still use them.");
    CHECK(explain(shortage{.asked = 4_GiB, .live = 1_GiB, .reserved = 4_GiB}).find("fragmented") ==
          std::string::npos);
}

TEST_CASE("explain: a request larger than the device is called that") {
    auto const text = explain(
        shortage{.asked = 3_GiB, .live = 1_KiB, .device_free = 1_GiB, .device_total = 2_GiB});
    CHECK(text == "3.00 GiB could not be allocated. 1.00 KiB of the resource are live. The device "
                  "has 1.00 GiB free of 2.00 GiB. The request is larger than the whole device.");
}

TEST_CASE("explain: a size that overflowed is printed and not wrapped") {
    CHECK(explain(shortage{.asked = unsatisfiable, .rounded = unsatisfiable}) ==
          "16.0 EiB could not be allocated.");
}

TEST_CASE("explain: an error of the sink is explained by its message") {
    error const e{.kind = error_kind::wrong_size, .bytes = 512, .block_bytes = 1024};
    CHECK(explain(e) == error_text{e}.c_str());
    CHECK(explain(e).find("allocated with 1024 bytes, freed with 512 bytes") != std::string::npos);
}
