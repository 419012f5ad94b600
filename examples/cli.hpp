// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Common parts of the example programs: sizes on the command line, a progress bar, and exit codes.

#include <vram/base/bytes.hpp>         // bytes
#include <vram/base/out_of_memory.hpp> // out_of_memory
#include <vram/probe/explain.hpp>      // explain

#include <CLI/CLI.hpp>
#include <fcntl.h> // fcntl, open
#include <fmt/format.h>
#include <unistd.h> // isatty

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cli {

/// The exit codes of the programs.
enum exit_code : int {
    success      = 0,
    failed       = 1, ///< an unexpected error
    bad_usage    = 2, ///< the command line is invalid, or names a device that does not exist
    bad_input    = 3, ///< a file is missing, unreadable, empty or malformed
    no_memory    = 4, ///< the work does not fit into memory
    wrong_result = 5, ///< the device's result differs from the CPU's
};

/// An error with a message for the user and an exit code.
class failure : public std::runtime_error {
public:
    failure(exit_code code, std::string const& message)
        : std::runtime_error{message}, code_{code} {}

    [[nodiscard]] exit_code code() const noexcept { return code_; }

private:
    exit_code code_;
};

/// Parses "4096", "64KiB", "1.5 GiB" or "10MB" as a number of bytes. Returns nothing for other
/// texts.
inline std::optional<std::size_t> parse_size(std::string_view text) {
    static constexpr std::pair<std::string_view, double> units[] = {
        {"", 1},       {"B", 1},      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
        {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30},   {"TiB", 0x1p40}, {"T", 0x1p40},
        {"kB", 1e3},   {"KB", 1e3},   {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
    };
    double number = 0;
    auto const [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc{}) { return {}; }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.starts_with(' ')) { text.remove_prefix(1); }
    for (auto const& [name, factor] : units) {
        if (text != name) { continue; }
        double const size = number * factor;
        if (!(size >= 0 && size < 0x1p63)) { return {}; } // negative, too large, not a number
        return static_cast<std::size_t>(size);
    }
    return {};
}

/// Adds an option with a size as its value. CLI11 names the option if the value is not a size.
inline CLI::Option* add_size(CLI::App& app, std::string const& name, std::size_t& size,
                             std::string const& what) {
    auto const take = [&size](CLI::results_t const& given) {
        auto const parsed = parse_size(given.at(0));
        if (parsed) { size = *parsed; }
        return parsed.has_value();
    };
    return app.add_option(name, take, what)->type_name("SIZE");
}

/// A progress bar on stderr. Draws nothing if stderr is not a terminal, or if the total is 0
/// (unknown).
class progress {
public:
    progress(std::string label, std::uint64_t total)
        : label_{std::move(label)},
          total_{total},
          shown_{total != 0 && isatty(fileno(stderr)) == 1} {}
    progress(progress&&) = delete;
    ~progress() {
        if (drawn_) { std::fputs("\r\033[K", stderr); }
    }

    /// Sets the progress. Draws at most ten times a second.
    void update(std::uint64_t done) {
        auto const now = std::chrono::steady_clock::now();
        if (!shown_ || now < next_) { return; }
        next_                              = now + std::chrono::milliseconds{100};
        drawn_                             = true;
        static constexpr std::size_t width = 40;
        double const                 part = static_cast<double>(done) / static_cast<double>(total_);
        auto const                   full = static_cast<std::size_t>(part * width);
        fmt::print(stderr, "\r{} [{:=<{}}{: <{}}] {:3.0f} %", label_, "", full, "", width - full,
                   part * 100);
        std::fflush(stderr);
    }

private:
    std::string                           label_;
    std::uint64_t                         total_;
    bool                                  shown_;
    bool                                  drawn_ = false;
    std::chrono::steady_clock::time_point next_{};
};

/// Opens stdin, stdout and stderr if the caller closed them. Otherwise the next opened file would
/// become stdout and receive the program's output. Writing to a closed stdout still fails.
inline void keep_standard_streams() noexcept {
    for (int const stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) { continue; }
        int const unusable = stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY;
        (void)open("/dev/null", unusable); // the lowest number that is free, which is this one
    }
}

/// Throws if not all output to stdout was written.
inline void finish_stdout() {
    errno              = 0;
    bool const flushed = std::fflush(stdout) == 0;
    int const  why     = errno;
    if (flushed && std::ferror(stdout) == 0 && std::cout.flush().good()) { return; }
    throw failure{failed, fmt::format("stdout: {}", why != 0 ? std::strerror(why)
                                                             : "not everything was written")};
}

/// Parses the command line and runs the program. Every failure becomes one line on stderr and an
/// exit code. A stdout that does not accept all output is a failure.
template <class Program>
int run(CLI::App& app, int argc, char** argv, Program program) {
    auto const say = [&](std::string const& what, exit_code code) {
        fmt::print(stderr, "{}: {}\n", app.get_name(), what);
        return static_cast<int>(code);
    };
    keep_standard_streams();
    try {
        int code = success;
        try {
            app.parse(argc, argv);
            code = program();
        } catch (CLI::ParseError const& e) {
            if (e.get_exit_code() != 0) { throw; }
            code = app.exit(e); // --help
        }
        finish_stdout();
        return code;
    } catch (CLI::ParseError const& e) {
        return say(std::string{e.what()} + " (--help lists the options)", bad_usage);
    } catch (failure const& e) {
        return say(e.what(), e.code());
    } catch (vram::out_of_memory const& e) {
        return say(vram::explain(e), no_memory);
    } catch (std::exception const& e) { return say(e.what(), failed); }
}

} // namespace cli
