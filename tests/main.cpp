// SPDX-License-Identifier: Apache-2.0
// The main function of every test executable. ctest calls it once for each test file
// (--file=layer/limiting.cpp). The last line of output has the number of cases of that file, which
// cmake/tally.py adds up. With --no-threads the run fails if a thread was started.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <string_view>

// Threads are counted unless a sanitizer intercepts their creation.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define VRAM_TESTS_SANITIZED
#endif
#endif
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&       \
    !defined(VRAM_TESTS_SANITIZED)
#include <dlfcn.h>   // dlsym
#include <pthread.h> // pthread_create
#define VRAM_TESTS_COUNT_THREADS
#endif

/// The reason why no test of this executable can run here, or an empty string. hardware.cpp sets
/// it.
std::string (*vram_tests_unavailable)() = nullptr;

namespace {

std::string                file;       // the test file asked for; empty: all of them
std::atomic<unsigned long> threads{0}; // started so far

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

#ifdef VRAM_TESTS_COUNT_THREADS
extern "C" int pthread_create(pthread_t* made, pthread_attr_t const* how, void* (*run)(void*),
                              void* argument) noexcept {
    using function       = int (*)(pthread_t*, pthread_attr_t const*, void* (*)(void*), void*);
    static auto const to = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_create"));
    ++threads;
    return to(made, how, run, argument);
}
#endif

int main(int argc, char** argv) {
    doctest::Context context{argc, argv};
    bool             alone = false;
    for (int i = 1; i < argc; ++i) {
        std::string_view const argument{argv[i]};
        if (argument.starts_with("--file=")) { file = argument.substr(7); }
        if (argument == "--no-threads") { alone = true; }
    }
    if (!file.empty()) { context.addFilter("source-file", ("*" + file).c_str()); }

    bool const here = vram_tests_unavailable == nullptr || vram_tests_unavailable().empty();
    if (here) {
        vram_tests_unavailable = nullptr;
    } else {
        context.addFilter("test-case-exclude", "*");
    }
    int const result = context.run();
    if (alone && threads != 0) {
        std::printf("%s starts threads, and tests/CMakeLists.txt (starts_threads) does not see it: "
                    "nothing in it would be run under ThreadSanitizer\n",
                    file.c_str());
        return 1;
    }
    return here ? result : 77; // ctest's code for skipped tests
}
