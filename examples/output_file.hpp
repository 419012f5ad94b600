// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `output_file` is a file for the result of long work.

#include "cli.hpp" // failure

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>  // remove, rename
#include <cstring> // strerror
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace cli {

/// Tried before the work, since a result that cannot be kept is not worth the wait; what is there
/// already stays until there is something better. An empty path is no file.
class output_file {
public:
    explicit output_file(std::string path) : path_{std::move(path)} {
        if (path_.empty()) { return; }
        std::error_code none;
        made_ = !std::filesystem::exists(std::filesystem::symlink_status(path_, none));
        if (!std::ofstream{path_, std::ios::app}) { fail(bad_input); }
    }
    output_file(output_file&&) = delete;
    ~output_file() {
        std::error_code none;
        if (made_) { std::filesystem::remove(path_, none); } // there was nothing, and is nothing
    }

    [[nodiscard]] explicit operator bool() const noexcept { return !path_.empty(); }

    /// Whether it may be written more than once: to a pipe one text would follow the other.
    [[nodiscard]] bool can_be_replaced() const {
        std::error_code none;
        return std::filesystem::is_regular_file(std::filesystem::symlink_status(path_, none));
    }

    /// Replaces what is there by `text`: a file at once, when all of it is written beside it. If
    /// there is something of that name, or no leave, it is written in place.
    void write(std::string_view text) {
        if (path_.empty()) { return; }
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
        throw failure{code, fmt::format("{}: {}", path_, std::strerror(why))};
    }

    std::string path_;
    bool        made_ = false; ///< it was not there before, and holds nothing yet
};

} // namespace cli
