// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `read_history` reads the record of a file that `history_columns` wrote.

#include <vram/data/file_error.hpp>
#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/column_format.hpp> // column_format, column_reader
#include <vram/history/history_record.hpp>

#include <cerrno> // errno
#include <cstddef>
#include <cstdint>
#include <cstdio>        // FILE
#include <memory>        // unique_ptr
#include <string>        // string
#include <string_view>   // string_view
#include <system_error>  // generic_category
#include <unordered_map> // unordered_map
#include <utility>
#include <vector> // vector

namespace vram {

namespace detail {

/// Decodes `bytes`, the contents of a file that `history_columns` wrote, into a `history_record`.
/// `path` is the name of the file in exceptions (`file_error`).
class column_decoder {
public:
    column_decoder(std::string_view bytes, std::string const& path) : from_{bytes, path} {
        for (std::size_t i = 0; i != column_format::magic.size(); ++i) {
            if (from_.at_end()) { from_.fail(file_error::reason::ends_early); }
            std::uint64_t const c  = from_.number();
            auto const          is = [&](std::string_view magic) {
                return c == static_cast<unsigned char>(magic[i]);
            };
            escaped_ = !is(column_format::magic);
            if (escaped_ && !is(column_format::magic_with_escape)) {
                from_.fail(file_error::reason::damaged);
            }
        }
        made_.device      = static_cast<std::uint32_t>(from_.number(largest_history_device));
        made_.overwritten = from_.number();
        read_tables();
        read_events();
        if (!from_.at_end()) { from_.fail(file_error::reason::damaged); }
    }

    [[nodiscard]] history_record result() && { return std::move(made_); }

private:
    void read_tables() {
        for (std::size_t n = from_.count(1); n != 0; --n) { made_.tags.emplace_back(from_.text()); }
        for (std::size_t n = from_.count(3); n != 0; --n) {
            history_record::site at;
            at.file     = from_.text();
            at.function = from_.text();
            at.line     = static_cast<unsigned>(from_.number(~0U));
            made_.sites.push_back(std::move(at));
        }
        for (std::size_t n = from_.count(2); n != 0; --n) {
            history_record::resource r;
            r.name     = from_.text();
            r.identity = from_.number();
            made_.resources.push_back(std::move(r));
        }
        for (std::size_t n = from_.count(1); n != 0; --n) {
            std::vector<std::uint64_t> stack(from_.count(1));
            for (std::uint64_t& address : stack) { address = from_.number(); }
            made_.stacks.push_back(std::move(stack));
        }
        for (std::size_t n = from_.count(4); n != 0; --n) {
            history_record::chunk c;
            c.memory   = from_.number();
            c.bytes    = from_.number();
            c.resource = index_of(made_.resources);
            c.grows    = from_.number(1) != 0;
            made_.chunks.push_back(c);
        }
        for (std::size_t n = from_.count(8); n != 0; --n) { contexts_.push_back(context()); }
    }
    [[nodiscard]] history_record::event context() {
        history_record::event e;
        e.kind       = static_cast<memory_event_kind>(from_.number(last_kind));
        e.has_stream = from_.number(1) != 0;
        e.thread     = static_cast<std::uint16_t>(from_.number(0xFFFF));
        e.tag        = index_of(made_.tags);
        e.site       = index_of(made_.sites);
        e.resource   = index_of(made_.resources);
        e.stack      = index_of(made_.stacks);
        e.stream     = from_.number();
        return e;
    }
    template <class Table>
    [[nodiscard]] std::uint32_t index_of(Table const& table) {
        return static_cast<std::uint32_t>(from_.number(table.size() - 1));
    }

    void read_events() {
        using f                    = column_format;
        std::size_t const events   = from_.count(4);
        auto const        shift    = static_cast<unsigned>(from_.number(63));
        column_reader     contexts = from_.part();
        column_reader     times    = from_.part();
        column_reader     memories = from_.part();
        column_reader     sizes    = from_.part();
        std::uint64_t     time     = 0;
        std::uint64_t     place    = 0;
        made_.events.reserve(events);
        std::unordered_map<std::uint64_t, std::uint64_t> size_at;
        for (std::size_t i = 0; i != events; ++i) {
            if (contexts_.empty()) { contexts.fail(file_error::reason::damaged); }
            history_record::event e = contexts_[contexts.number(contexts_.size() - 1)];
            time += f::unzigzag(times.number());
            place += f::unzigzag(memories.number());
            e.time                   = static_cast<std::int64_t>(time);
            e.memory                 = place << shift;
            std::uint64_t const size = sizes.number();
            std::uint64_t&      last = size_at[e.memory];
            if (escaped_ && size == f::escape) {
                last = sizes.number();
            } else if (size != 0) {
                last = size - 1;
            }
            e.bytes = last;
            made_.events.push_back(e);
        }
        for (column_reader const* each : {&contexts, &times, &memories, &sizes}) {
            if (!each->at_end()) { each->fail(file_error::reason::damaged); }
        }
    }

    static constexpr auto last_kind = static_cast<std::uint64_t>(memory_event_kind::marked);

    column_reader                      from_;
    history_record                     made_;
    std::vector<history_record::event> contexts_;
    /// True if the file begins with `magic_with_escape`. If a size in such a file is the number
    /// `escape`, the next number is the real size.
    bool escaped_ = false;
};

[[nodiscard]] inline std::string bytes_of_file(std::string const& path) {
    struct closing {
        void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
    };
    auto const fail = [&](std::size_t offset) {
        throw file_error{{errno != 0 ? errno : EIO, std::generic_category()}, path, offset};
    };
    errno = 0;
    std::unique_ptr<std::FILE, closing> const file{std::fopen(path.c_str(), "rb")};
    if (file == nullptr) { fail(0); }
    std::string all;
    for (std::size_t got = 1; got != 0;) {
        std::size_t const before = all.size();
        all.resize(before + (std::size_t{1} << 20));
        got = std::fread(all.data() + before, 1, all.size() - before, file.get());
        all.resize(before + got);
    }
    if (std::ferror(file.get()) != 0) { fail(all.size()); }
    return all;
}

} // namespace detail

/// Returns the record in the file `path`, which `history_columns` wrote.
///
///     read_history("run.vram").events.size();
///
/// Failure   Throws `std::bad_alloc`, and `file_error` if the file cannot be read or is damaged.
/// Cost      About 0.1 us for each event. Host memory for the file and the record.
[[nodiscard]] inline history_record read_history(std::string const& path) {
    std::string const bytes = detail::bytes_of_file(path);
    return detail::column_decoder{bytes, path}.result();
}

} // namespace vram
