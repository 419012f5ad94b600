// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `trace` is a recorded sequence of allocations and frees, read from the CSV of RMM's logging
/// adaptor (`Thread,Time,Action,Pointer,Size,Stream`), or of vram's `logging` and `rmm_csv`, which
/// have more columns; plain or compressed with gzip.
///
/// The whole file is read and checked first: every free must name a live block with the size of its
/// allocation. Errors are reported with their line.

#include "cli.hpp" // failure

#include <fmt/format.h>
#include <unistd.h> // dup
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

/// One operation of a trace. Recorded pointers become slots, numbered from 0 and reused after a
/// free. Recorded streams become numbers from 0 in order of appearance.
struct trace_step {
    enum class kind : std::uint32_t { allocate, free };

    std::size_t   bytes  = 0;
    std::uint32_t slot   = 0;
    std::uint32_t stream = 0;
    kind          action = kind::allocate;
    std::uint32_t line   = 0; ///< line in the file, for messages
};

struct trace {
    std::vector<trace_step> steps;
    std::uint32_t           slots     = 0; ///< largest number of live blocks
    std::uint32_t           streams   = 0;
    std::uint32_t           failures  = 0; ///< lines that recorded a failed allocation
    std::size_t             peak_live = 0; ///< largest number of live bytes, as requested
};

/// Parses lines into a trace.
class trace_parser {
public:
    /// \param name  name of the file in messages
    explicit trace_parser(std::string name) : name_{std::move(name)} {}

    void line(std::string_view text) {
        ++number_;
        if (text.ends_with('\r')) { text.remove_suffix(1); }
        if (number_ == 1) {
            if (text.starts_with("\xEF\xBB\xBF")) { text.remove_prefix(3); }
            static constexpr std::string_view names = "Thread,Time,Action,Pointer,Size,Stream";
            if (text != names && !text.starts_with(std::string{names} + ",")) {
                fail("the first line is not Thread,Time,Action,Pointer,Size,Stream");
            }
            more_columns_ = text != names;
        } else if (!text.empty()) {
            step(fields(text));
        } else if (blank_ == 0) {
            blank_ = number_; // valid only at the end of the file
        }
    }

    /// Ends the file.
    [[nodiscard]] trace finish() && {
        if (number_ == 0) { throw cli::failure{cli::bad_input, name_ + ": the file is empty"}; }
        if (result_.steps.empty()) {
            throw cli::failure{cli::bad_input, name_ + ": the file holds no allocation"};
        }
        result_.streams = static_cast<std::uint32_t>(streams_.size());
        return std::move(result_);
    }

private:
    static constexpr std::size_t columns = 6;
    using row                            = std::array<std::string_view, columns>;

    struct block {
        std::size_t   bytes;
        std::uint32_t slot;
        std::uint32_t line;
    };

    [[noreturn]] void fail(std::string const& what) const {
        throw cli::failure{cli::bad_input, fmt::format("{}:{}: {}", name_, number_, what)};
    }

    [[nodiscard]] row fields(std::string_view text) const {
        row         out{};
        std::size_t n = 0;
        for (;;) {
            std::size_t const comma = text.find(',');
            if (n == columns && more_columns_) { return out; } // of other programs, such as vram
            if (n == columns) { fail(fmt::format("more than {} fields", columns)); }
            out[n++] = text.substr(0, comma);
            if (comma == text.npos) { break; }
            text.remove_prefix(comma + 1);
        }
        if (n != columns) { fail(fmt::format("{} fields where {} belong", n, columns)); }
        return out;
    }

    /// Parses an integer, decimal or hexadecimal with 0x.
    [[nodiscard]] std::uint64_t number(std::string_view text, char const* what) const {
        std::string_view digits = text;
        bool const       hex    = digits.starts_with("0x") || digits.starts_with("0X");
        if (hex) { digits.remove_prefix(2); }
        std::uint64_t value = 0;
        auto const [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
        if (error == std::errc::result_out_of_range) {
            fail(fmt::format("the {} '{}' is too large", what, text));
        }
        if (error != std::errc{} || end != digits.data() + digits.size()) {
            fail(fmt::format("the {} '{}' is no number", what, text));
        }
        return value;
    }

    /// Parses a pointer as printed by `%p`; null is "(nil)" with glibc.
    [[nodiscard]] std::uint64_t address_of(std::string_view text) const {
        return text == "(nil)" ? 0 : number(text, "pointer");
    }

    void step(row const& r) {
        if (blank_ != 0) {
            number_ = blank_;
            fail("an empty line");
        }
        auto const& [thread, when, action, pointer, size, stream] = r;
        (void)number(thread, "thread");
        if (when.empty()) { fail("no time"); }
        bool const allocates = action == "allocate";
        bool const failure   = action == "allocate failure";
        if (!allocates && !failure && action != "free") {
            fail(
                fmt::format("the action '{}' is none of allocate, free, allocate failure", action));
        }
        std::uint64_t const bytes = number(size, "size");
        std::uint64_t const lane  = number(stream, "stream");
        if (failure) { // no block was allocated, and the pointer is meaningless
            ++result_.failures;
            return;
        }
        std::uint64_t const address = address_of(pointer);
        if (bytes == 0 && address == 0) { return; } // an allocation of zero bytes
        if (address == 0) { fail("a null pointer of more than 0 bytes"); }
        allocates ? take(pointer, address, bytes, lane) : give(pointer, address, bytes, lane);
    }

    void take(std::string_view pointer, std::uint64_t address, std::size_t bytes,
              std::uint64_t lane) {
        auto const [at, fresh] = live_.try_emplace(address);
        if (!fresh) {
            fail(fmt::format("{} is allocated again; it is out since line {}", pointer,
                             at->second.line));
        }
        std::uint32_t slot = result_.slots;
        if (idle_.empty()) {
            ++result_.slots;
        } else {
            slot = idle_.back();
            idle_.pop_back();
        }
        at->second = {bytes, slot, number_};
        if (bytes > static_cast<std::size_t>(-1) - live_bytes_) { fail("the sizes overflow"); }
        live_bytes_ += bytes;
        result_.peak_live = std::max(result_.peak_live, live_bytes_);
        result_.steps.push_back(
            {bytes, slot, stream_of(lane), trace_step::kind::allocate, number_});
    }

    void give(std::string_view pointer, std::uint64_t address, std::size_t bytes,
              std::uint64_t lane) {
        auto const at = live_.find(address);
        if (at == live_.end()) { fail(fmt::format("{} is freed but not out", pointer)); }
        if (at->second.bytes != bytes) {
            fail(fmt::format("{} is freed with {} bytes; line {} allocated {}", pointer, bytes,
                             at->second.line, at->second.bytes));
        }
        result_.steps.push_back(
            {bytes, at->second.slot, stream_of(lane), trace_step::kind::free, number_});
        idle_.push_back(at->second.slot);
        live_bytes_ -= bytes;
        live_.erase(at);
    }

    std::uint32_t stream_of(std::uint64_t lane) {
        return streams_.try_emplace(lane, static_cast<std::uint32_t>(streams_.size()))
            .first->second;
    }

    std::string                                      name_;
    trace                                            result_;
    std::unordered_map<std::uint64_t, block>         live_;
    std::unordered_map<std::uint64_t, std::uint32_t> streams_;
    std::vector<std::uint32_t>                       idle_; ///< slots whose block was freed
    std::size_t                                      live_bytes_   = 0;
    std::uint32_t                                    number_       = 0;
    std::uint32_t                                    blank_        = 0;
    bool                                             more_columns_ = false;
};

/// Reads the file at `given`, or stdin if it is "-". Throws `cli::failure` with the file, the line
/// and the reason.
inline trace read_trace(std::string const& given) {
    struct closing {
        gzFile file;
        ~closing() {
            if (file != nullptr) { gzclose(file); }
        }
    };
    std::string const path = given == "-" ? "stdin" : given;
    errno                  = 0;
    closing const input{given == "-" ? gzdopen(dup(STDIN_FILENO), "rb")
                                     // Also reads uncompressed files.
                                     : gzopen(given.c_str(), "rb")};
    if (input.file == nullptr) {
        throw cli::failure{cli::bad_input, path + ": " + std::strerror(errno)};
    }
    trace_parser      parser{path};
    std::string       rest; // incomplete last line of the previous read
    std::vector<char> piece(1 << 16);
    for (;;) {
        int const got   = gzread(input.file, piece.data(), static_cast<unsigned>(piece.size()));
        int       error = Z_OK;
        char const* const why = gzerror(input.file, &error);
        if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) {
            char const* const said = error == Z_ERRNO ? std::strerror(errno) : why;
            throw cli::failure{cli::bad_input, fmt::format("{}: {}", path, said)};
        }
        if (got == 0) { break; }
        std::string_view text{piece.data(), static_cast<std::size_t>(got)};
        for (std::size_t end = 0; (end = text.find('\n')) != text.npos;
             text.remove_prefix(end + 1)) {
            rest += text.substr(0, end);
            parser.line(rest);
            rest.clear();
        }
        rest += text;
    }
    if (!rest.empty()) { parser.line(rest); }
    return std::move(parser).finish();
}
