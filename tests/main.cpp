// SPDX-License-Identifier: Apache-2.0
// The main of every test executable. ctest calls it once for each test file
// (--file=layer/limiting.cpp), and the last line it prints says how many cases that file has:
// cmake/tally.py adds them up.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <string_view>

/// Says why no test of this executable can run here, or nothing. hardware.cpp fills it in.
std::string (*vram_tests_unavailable)() = nullptr;

namespace {

std::string file; // the test file asked for; empty: all of them

bool asked_for(doctest::TestCaseData const& test) {
    return std::string_view{test.m_file.c_str()}.ends_with(file);
}

/// Counts cases, and names the skipped ones with the reason (the case's description).
class tally : public doctest::IReporter {
public:
    explicit tally(doctest::ContextOptions const&) {}

    void report_query(doctest::QueryData const&) override {}
    void test_run_start() override {}
    void test_run_end(doctest::TestRunStats const&) override {
        std::printf("tally: %d passed, %d failed, %d skipped\n", passed_, failed_, skipped_);
        std::fflush(stdout);
    }
    void test_case_start(doctest::TestCaseData const&) override {}
    void test_case_reenter(doctest::TestCaseData const&) override {}
    void test_case_end(doctest::CurrentTestCaseStats const& stats) override {
        ++(stats.testCaseSuccess ? passed_ : failed_);
    }
    void test_case_exception(doctest::TestCaseException const&) override {}
    void subcase_start(doctest::SubcaseSignature const&) override {}
    void subcase_end() override {}
    void log_assert(doctest::AssertData const&) override {}
    void log_message(doctest::MessageData const&) override {}
    void test_case_skipped(doctest::TestCaseData const& test) override {
        bool const here = vram_tests_unavailable != nullptr || test.m_skip;
        if (!here || !asked_for(test)) { return; }
        std::string why =
            test.m_description != nullptr ? test.m_description : "skipped by its author";
        if (vram_tests_unavailable != nullptr) { why = vram_tests_unavailable(); }
        std::printf("skipped: %s: %s\n", test.m_name, why.c_str());
        ++skipped_;
    }

private:
    int passed_  = 0;
    int failed_  = 0;
    int skipped_ = 0;
};

REGISTER_LISTENER("tally", 1, tally);

} // namespace

int main(int argc, char** argv) {
    doctest::Context context{argc, argv};
    for (int i = 1; i < argc; ++i) {
        std::string_view const argument{argv[i]};
        if (argument.starts_with("--file=")) { file = argument.substr(7); }
    }
    if (!file.empty()) { context.addFilter("source-file", ("*" + file).c_str()); }

    bool const here = vram_tests_unavailable == nullptr || vram_tests_unavailable().empty();
    if (here) {
        vram_tests_unavailable = nullptr;
    } else {
        context.addFilter("test-case-exclude", "*");
    }
    int const result = context.run();
    return here ? result : 77; // what ctest takes for skipped
}
