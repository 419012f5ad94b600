// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `file_error` is an error of a file, with the file, the offset, and the wanted and read bytes.

#include <vram/base/requirements.hpp>

#include <vram/base/core/what_text.hpp>

#include <cstddef>
#include <memory>       // shared_ptr, make_shared
#include <string>       // string, to_string
#include <system_error> // system_error, error_category, error_code
#include <utility>

namespace vram {

/// Thrown if a file cannot be opened, read or written as requested. `code()` contains `errno`, or a
/// `reason` if no system call failed.
///
///     catch (file_error const& e) { if (e.ends_early()) { restart_from(e.offset() + e.got()); } }
///
/// Threads   Copying the exception never throws.
class file_error : public std::system_error {
public:
    /// Reasons of an error for which no system call failed.
    enum class reason {
        ends_early = 1, ///< the file ends before the last of the bytes requested at `offset()`
        not_a_file,     ///< a pipe, a terminal or a socket, which cannot be read at an offset
        /// The file ends within a record or an element. The whole record or element has `wanted()`
        /// bytes, but only `got()` bytes remain at `offset()`.
        partial_record,
        damaged, ///< the bytes at `offset` are not of the expected format
    };

    file_error(std::error_code code, std::string path, std::size_t offset = 0,
               std::size_t wanted = 0, std::size_t got = 0)
        : std::system_error{code, "vram: " + path},
          text_{std::system_error::what(),
                [&] { return full(std::system_error::what(), code, offset, wanted, got); }},
          path_{std::make_shared<std::string const>(std::move(path))},
          offset_{offset},
          wanted_{wanted},
          got_{got} {}
    file_error(reason why, std::string path, std::size_t offset = 0, std::size_t wanted = 0,
               std::size_t got = 0)
        : file_error{std::error_code{static_cast<int>(why), category()}, std::move(path), offset,
                     wanted, got} {}

    /// Returns a text with the path of the file, the description of the error, and its offset and
    /// sizes in bytes.
    [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

    [[nodiscard]] std::string const& path() const noexcept { return *path_; }
    /// Returns the offset in the file to which the error refers. For example, this is the offset of
    /// a failed read or the beginning of an incomplete record.
    [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
    /// Returns the number of bytes that the failed read or write requested. For an incomplete
    /// record or header, returns the size of a complete record or header.
    [[nodiscard]] std::size_t wanted() const noexcept { return wanted_; }
    /// Returns the number of bytes that the failed read or write transferred. For an incomplete
    /// record or header, returns the number of its bytes that the file contains.
    [[nodiscard]] std::size_t got() const noexcept { return got_; }

    /// Returns true if the error has the reason `why`.
    [[nodiscard]] bool is(reason why) const noexcept {
        return code().category() == category() && code().value() == static_cast<int>(why);
    }
    /// Returns true if the file has fewer bytes than were requested.
    [[nodiscard]] bool ends_early() const noexcept { return is(reason::ends_early); }

    /// Returns the error category with the name "file". An error code of this category has a
    /// `reason` as its value.
    [[nodiscard]] static std::error_category const& category() noexcept {
        class file_category final : public std::error_category {
            [[nodiscard]] char const* name() const noexcept override { return "file"; }
            [[nodiscard]] std::string message(int value) const override {
                switch (static_cast<reason>(value)) {
                case reason::ends_early: return "the file ends before the requested bytes";
                case reason::not_a_file: return "not a file that can be read at an offset";
                case reason::partial_record: return "the file is not a whole number of records";
                case reason::damaged: return "the file does not have the expected format";
                }
                return "unknown";
            }
        };
        static file_category const only;
        return only;
    }

private:
    static std::string full(char const* text, std::error_code code, std::size_t offset,
                            std::size_t wanted, std::size_t got) {
        auto const  n = [](std::size_t number) { return std::to_string(number); };
        std::string all{text};
        if (code == std::error_code{static_cast<int>(reason::partial_record), category()}) {
            return all + ": " + n(got) + " bytes remain at offset " + n(offset) +
                   ", and a record or an element has " + n(wanted);
        }
        if (wanted == 0) { return offset == 0 ? all : all + ": at offset " + n(offset); }
        return all + ": " + n(got) + " of " + n(wanted) + " bytes at offset " + n(offset);
    }

    detail::what_text                  text_;
    std::shared_ptr<std::string const> path_;
    std::size_t                        offset_;
    std::size_t                        wanted_;
    std::size_t                        got_;
};

} // namespace vram
