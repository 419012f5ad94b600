// SPDX-License-Identifier: Apache-2.0
#include <vram/base/error.hpp> // first: the header stands alone

#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/lock.hpp>
#include <vram/base/core/worker.hpp>
#include <vram/sim/machine/sim_lock.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <atomic> // atomic
#include <thread> // thread

using namespace vram;
using namespace vram::detail;

TEST_CASE("error: the installed sink receives errors, and removing it restores the previous sink") {
    int const x = 0;
    {
        doubles::mishaps outer;
        {
            doubles::mishaps inner;
            report_error({.kind = error_kind::leak, .pointer = &x, .bytes = 5});
            CHECK(inner.count(error_kind::leak) == 1);
            CHECK(inner.count(error_kind::wrong_size) == 0);
            CHECK(inner.pointer() == &x);
        }
        report_error({.kind = error_kind::dead_stream});
        CHECK(outer.count() == 1);
        CHECK(outer.count(error_kind::dead_stream) == 1);
    }
    error_sink const now = set_error_sink(print_error);
    CHECK((now == print_error));
}

TEST_CASE("error: it has the source location of the report") {
    static unsigned line;
    auto const before = set_error_sink(+[](error const& e) noexcept { line = e.where.line(); });
    report_error({.kind = error_kind::leak});
    CHECK(line == __LINE__ - 1);
    set_error_sink(before);
}

TEST_CASE_TEMPLATE("error: the sink is called after the thread has released all locks", Lock, lock,
                   biased_lock, sim_lock) {
    sim_node const   node;
    doubles::mishaps told;
    Lock const       first, second;
    int const        x = 0, y = 0;
    {
        auto outer = first.hold();
        {
            auto const inner = second.hold();
            report_error({.kind = error_kind::leak, .pointer = &x});
        }
        CHECK(told.count() == 0);
        report_error({.kind = error_kind::dead_stream, .pointer = &y});
        { // another thread's errors are its own
            worker const other{0, [] { report_error({.kind = error_kind::wrong_size}); }};
        }
        CHECK(told.count() == 1);
        outer.unlock();
        CHECK(told.count(error_kind::leak) == 1);
        CHECK(told.pointer() == &y); // in their order
        outer.lock();
    }
    CHECK(told.count() == 3);
    CHECK(detail::locks_held == 0);
    CHECK(told.under_a_lock() == 0);
}

TEST_CASE("error: the sink may acquire the released lock, and report an error of its own") {
    doubles::mishaps told;
    lock const       one;
    told.also = [&] {
        if (told.count() > 3) { return; }
        auto const held = one.hold();
        report_error({.kind = error_kind::leak});
    };
    {
        auto const held = one.hold();
        report_error({.kind = error_kind::dead_stream});
        report_error({.kind = error_kind::dead_stream});
    }
    CHECK(told.count(error_kind::dead_stream) == 2);
    CHECK(told.count(error_kind::leak) == 3);
    CHECK(detail::locks_held == 0);
}

TEST_CASE(
    "error: without host memory one error is stored, and the next is reported under the lock") {
    doubles::mishaps told;
    lock const       one;
    for (int i = 0; i < 2; ++i) {
        auto             held = one.hold();
        doubles::bombing first{1};
        report_error({.kind = error_kind::leak});
        bool const       hit = first.defuse();
        doubles::bombing second{1};
        report_error({.kind = error_kind::dead_stream});
        bool const hit_again = second.defuse();
        CHECK(hit);
        CHECK(hit_again);
        CHECK(told.count(error_kind::leak) == static_cast<std::size_t>(i));
        CHECK(told.count(error_kind::dead_stream) == static_cast<std::size_t>(i) + 1);
        held.unlock();
        CHECK(told.count(error_kind::leak) == static_cast<std::size_t>(i) + 1);
    }
    CHECK(told.under_a_lock() == 2);
    CHECK(told.count() == 4);
}

TEST_CASE("error: after a device has failed, that is reported once, and no consequence of it") {
    doubles::mishaps const told;
    note_device_failure(700, +[](int) noexcept { return code_text{"failed", "in a test"}; });
    note_device_failure(719, nullptr); // a later call may fail otherwise
    CHECK(told.count() == 0);
    report_error({.kind = error_kind::leak, .bytes = 100});
    CHECK(told.count() == 1);
    CHECK(told.last().kind == error_kind::platform_error);
    CHECK(told.last().code == 700);
    CHECK(std::string{error_text{told.last()}.c_str()}.find(
              "the device failed with failed (700, in a test). Each later call fails") !=
          std::string::npos);
    report_error({.kind = error_kind::platform_error, .code = 719});
    report_error({.kind = error_kind::leak});
    report_error({.kind = error_kind::dead_stream});
    report_error({.kind = error_kind::lost_exception, .code = 700});
    CHECK(told.count() == 1);
    report_error({.kind = error_kind::lost_exception, .code = 5});
    report_error({.kind = error_kind::double_free});
    report_error({.kind = error_kind::wrong_size});
    CHECK(told.count() == 4);
    forget_device_failure();
    report_error({.kind = error_kind::platform_error, .code = 1});
    report_error({.kind = error_kind::leak});
    CHECK(told.count() == 6);
}

TEST_CASE("error: code 0 is no failure of a device") {
    doubles::mishaps const told;
    note_device_failure(0, nullptr);
    report_error({.kind = error_kind::leak});
    report_error({.kind = error_kind::leak});
    CHECK(told.count() == 2);
    note_device_failure(700, +[](int) noexcept { return code_text{"failed", "in a test"}; });
    report_error({.kind = error_kind::leak});
    report_error({.kind = error_kind::leak});
    CHECK(told.count() == 3);
    CHECK(told.last().code == 700);
    forget_device_failure();
}

TEST_CASE("error: if several devices fail at the same time, the report has the code and the text "
          "of one failure") {
    doubles::mishaps const told;
    auto const             text_of_1 = +[](int) noexcept { return code_text{"one", "first"}; };
    auto const             text_of_2 = +[](int) noexcept { return code_text{"two", "second"}; };
    unsigned               mixed     = 0;
    constexpr int          rounds    = 20'000;
    std::atomic<int>       turn{0}, ended{0};
    auto const             await = [](std::atomic<int> const& number, int value) {
        for (int i = 0; number != value; ++i) {
            if (i > 1000) { std::this_thread::yield(); }
        }
    };
    std::thread other{[&] {
        for (int i = 1; i <= rounds; ++i) {
            await(turn, i);
            note_device_failure(1, text_of_1);
            ended = i;
        }
    }};
    for (int i = 1; i <= rounds; ++i) {
        turn = i;
        for (int j = i % 64; j != 0; --j) { (void)ended.load(); } // meets the other at any moment
        note_device_failure(2, text_of_2);
        await(ended, i);
        report_error({.kind = error_kind::leak});
        mixed += told.last().text_of == (told.last().code == 1 ? text_of_1 : text_of_2) ? 0 : 1;
        forget_device_failure();
    }
    other.join();
    CHECK(mixed == 0);
}
