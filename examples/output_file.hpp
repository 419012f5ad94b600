// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `output_file` is a file for the result of long work.

#include "cli.hpp" // failure

#include <fmt/format.h>

#include <sys/stat.h> // stat, fstat
#include <unistd.h>   // dup, dup2, write, close

#include <cerrno>
#include <cstdio>  // fflush, remove, rename
#include <cstring> // strerror
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cli {

/// Is opened before the work, because a result that cannot be stored makes the work useless. An
/// existing file keeps its content until the new content is complete. An empty path is no file.
///
/// The path "-" is stdout. From then on everything else that the program prints to stdout goes to
/// stderr, so that stdout contains the result alone.
///
///     output_file json{options.json, {options.trace}};    // refused if both are one file
///     ...
///     json.write(text);
class output_file {
public:
    /// Refuses a path that is one of the files `inputs`, or the file that stdout or stderr is
    /// redirected to, also through links.
    explicit output_file(std::string path, std::vector<std::string> const& inputs = {})
        : path_{std::move(path)} {
        if (path_.empty()) { return; }
        for (std::string const& input : inputs) { refuse_overwriting(input); }
        if (path_ == "-") {
            take_stdout();
            return;
        }
        refuse_overwriting_streams();
        std::error_code none;
        made_ = !std::filesystem::exists(std::filesystem::symlink_status(path_, none));
        if (!std::ofstream{path_, std::ios::app}) { fail(bad_input); }
    }
    output_file(output_file&&) = delete;
    ~output_file() {
        std::error_code none;
        if (made_) { std::filesystem::remove(path_, none); } // it did not exist before
        if (stdout_ >= 0) {
            std::fflush(stdout);
            ::dup2(stdout_, STDOUT_FILENO);
            ::close(stdout_);
        }
    }

    [[nodiscard]] explicit operator bool() const noexcept { return !path_.empty(); }

    /// Returns true if it can be written more than once. In a pipe one text would follow the other.
    [[nodiscard]] bool can_be_replaced() const {
        std::error_code none;
        return stdout_ < 0 &&
               std::filesystem::is_regular_file(std::filesystem::symlink_status(path_, none));
    }

    /// Replaces the content by `text`. A file is replaced at once, after all of `text` was written
    /// to a second file beside it. If a file of that name exists, or no file can be created there,
    /// it is written in place.
    void write(std::string_view text) {
        if (path_.empty()) { return; }
        if (stdout_ >= 0) { return write_stdout(text); }
        std::string const part = path_ + ".part";
        std::ofstream     file;
        if (can_be_replaced() && !std::filesystem::exists(part)) { file.open(part); }
        bool const at_once = file.is_open();
        if (!at_once) { file.open(path_); }
        if (!file) { fail(failed); }
        file << text;
        file.close();
        if (!file || (at_once && std::rename(part.c_str(), path_.c_str()) != 0)) {
            int const why = errno;
            if (at_once) { std::remove(part.c_str()); }
            errno = why;
            fail(failed);
        }
        made_ = false;
    }

private:
    [[noreturn]] void fail(exit_code code) {
        int const why = errno;
        throw failure{code, fmt::format("{}: {}", path_ == "-" ? "stdout" : path_.c_str(),
                                        std::strerror(why))};
    }

    /// Two regular files are one if device and inode are equal: links of both kinds are followed.
    static bool one_file(struct stat const& a, struct stat const& b) noexcept {
        return S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    }
    void refuse_overwriting(std::string const& input) const {
        struct stat mine{};
        struct stat theirs{};
        bool const  there =
            path_ == "-" ? ::fstat(STDOUT_FILENO, &mine) == 0 : ::stat(path_.c_str(), &mine) == 0;
        bool const read = input == "-" ? ::fstat(STDIN_FILENO, &theirs) == 0
                                       : ::stat(input.c_str(), &theirs) == 0;
        if (there && read && one_file(mine, theirs)) {
            throw failure{bad_usage,
                          fmt::format("{}: the output would overwrite the input {}", path_, input)};
        }
    }
    void refuse_overwriting_streams() const {
        struct stat mine{};
        if (::stat(path_.c_str(), &mine) != 0) { return; }
        for (int const stream : {STDOUT_FILENO, STDERR_FILENO}) {
            struct stat theirs{};
            if (::fstat(stream, &theirs) == 0 && one_file(mine, theirs)) {
                throw failure{
                    bad_usage,
                    fmt::format("{}: the output would overwrite what the program prints", path_)};
            }
        }
    }

    void take_stdout() {
        std::fflush(stdout);
        stdout_ = ::dup(STDOUT_FILENO);
        if (stdout_ < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) { fail(failed); }
    }
    void write_stdout(std::string_view text) {
        while (!text.empty()) {
            ssize_t const n = ::write(stdout_, text.data(), text.size());
            if (n < 0 && errno == EINTR) { continue; }
            if (n < 0) { fail(failed); }
            text.remove_prefix(static_cast<std::size_t>(n));
        }
    }

    std::string path_;
    bool        made_   = false; ///< the file did not exist before, and is still empty
    int         stdout_ = -1;    ///< the original stdout, for the path "-"
};

} // namespace cli
