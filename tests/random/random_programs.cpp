// SPDX-License-Identifier: Apache-2.0
// Random programs on the simulated device. The verdict of its checker on each operation is
// compared with that of an independent model of the happens-before order. The programs of the
// subject "leaks" compare the reports of the layer `tracking` with the leaks that are planted.
//
//   random_programs --subject orders --programs 10000000 --seed 1
//
// Each program has a seed, and the next program the next seed.

#include "leak_program.hpp"    // leak_program
#include "memory_subjects.hpp" // memory_subjects, run_memory
#include "order_run.hpp"       // run_orders, order_counts

#include "../../examples/cli.hpp" // run, failure, progress

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>

namespace {

struct choice {
    std::string   subject;
    std::uint64_t programs = 1000;
    std::uint64_t seed     = 1;
    double        seconds  = 0; ///< 0: until all programs have run
    bool          list     = false;
    bool          explain  = false;
};

/// Counts programs until enough have run, or the time is up.
class progress {
public:
    progress(char const* name, choice const& c) : choice_{c}, bar_{name, c.programs} {}

    [[nodiscard]] bool next() {
        std::chrono::duration<double> const passed = std::chrono::steady_clock::now() - begin_;
        if (done_ == choice_.programs ||
            (done_ != 0 && choice_.seconds > 0 && passed.count() >= choice_.seconds)) {
            return false;
        }
        bar_.update(++done_);
        return true;
    }
    [[nodiscard]] std::uint64_t seed() const { return choice_.seed + done_ - 1; }
    [[nodiscard]] std::uint64_t done() const { return done_; }
    [[nodiscard]] double        seconds() const {
        return static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
    }

private:
    choice const&                         choice_;
    cli::progress                         bar_;
    std::uint64_t                         done_ = 0;
    std::clock_t                          cpu_  = std::clock();
    std::chrono::steady_clock::time_point begin_{std::chrono::steady_clock::now()};
};

[[noreturn]] void disagree(char const* subject, std::uint64_t seed, std::string const& what) {
    throw cli::failure{cli::wrong_result,
                       fmt::format("{}: seed {}: {}\nagain: random_programs --subject {} "
                                   "--programs 1 --seed {}",
                                   subject, seed, what, subject, seed)};
}

void run_orders(choice const& c) {
    trial::order_counts counts;
    progress            programs{"orders", c};
    while (programs.next()) {
        std::string const what = trial::run_orders(programs.seed(), counts);
        if (c.explain) { fmt::print("{}\n", trial::explained_orders(programs.seed())); }
        if (!what.empty()) { disagree("orders", programs.seed(), what); }
    }
    fmt::print("orders: the model and the simulated device agree on {} programs, seeds {} to {}, "
               "with {} actions and {} mistakes, {:.1f} s of CPU time\n",
               programs.done(), c.seed, programs.seed(), counts.actions, counts.mistakes,
               programs.seconds());
}

void run_memory(trial::memory_subject const& subject, choice const& c) {
    progress programs{subject.name, c};
    while (programs.next()) {
        if (c.explain) { fmt::print("{}\n", trial::explained_memory(subject, programs.seed())); }
        std::string const what = trial::run_memory(subject, programs.seed());
        if (!what.empty()) { disagree(subject.name, programs.seed(), what); }
    }
    fmt::print(
        "{}: the model and the simulated device agree on {} programs of each class (correct, "
        "early free, race, use after free, out of bounds), seeds {} to {}, {:.1f} s of CPU "
        "time\n",
        subject.name, programs.done(), c.seed, programs.seed(), programs.seconds());
}

void run_leaks(choice const& c) {
    progress programs{"leaks", c};
    while (programs.next()) {
        std::string const what = trial::leak_program::run(programs.seed());
        if (!what.empty()) { disagree("leaks", programs.seed(), what); }
    }
    fmt::print("leaks: the planted leaks of {} programs are reported, and nothing else, seeds {} "
               "to {}, {:.1f} s of CPU time\n",
               programs.done(), c.seed, programs.seed(), programs.seconds());
}

} // namespace

int main(int argc, char** argv) {
    choice   c;
    CLI::App app{"Random programs on the simulated device, compared with a model",
                 "random_programs"};
    app.add_option("--subject", c.subject, "One of --list; all of them otherwise");
    app.add_option("--programs", c.programs, "Of each subject")->capture_default_str();
    app.add_option("--seconds", c.seconds,
                   "Of each subject: no program begins later, even if some are left")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--seed", c.seed, "Of the first program; each has the next")
        ->capture_default_str();
    app.add_flag("--explain", c.explain, "Prints each program");
    app.add_flag("--list", c.list, "Names the subjects");
    return cli::run(app, argc, argv, [&] {
        if (c.list) {
            fmt::print("{:<20} {}\n", "orders", "streams, events, host threads, graphs, memory");
            fmt::print("{:<20} {}\n", "leaks", "tracking: early returns, exceptions, cycles, ...");
            for (trial::memory_subject const& s : trial::memory_subjects) {
                fmt::print("{:<20} {}\n", s.name, s.what);
            }
            return cli::success;
        }
        bool found = false;
        if (c.subject.empty() || c.subject == "orders") {
            found = true;
            run_orders(c);
        }
        if (c.subject.empty() || c.subject == "leaks") {
            found = true;
            run_leaks(c);
        }
        for (trial::memory_subject const& s : trial::memory_subjects) {
            if (!c.subject.empty() && c.subject != s.name) { continue; }
            found = true;
            run_memory(s, c);
        }
        if (!found) {
            throw cli::failure{cli::bad_usage,
                               "no subject '" + c.subject + "' (--list names them)"};
        }
        return cli::success;
    });
}
