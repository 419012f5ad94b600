// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `history_columns` writes a history to a small file, which `read_history` reads.

#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/column_format.hpp>
#include <vram/history/history_record.hpp>

#include <algorithm> // min
#include <bit>       // countr_zero
#include <cstddef>
#include <cstdint>
#include <string>        // string
#include <unordered_map> // unordered_map

namespace vram {

namespace detail {

/// Encodes a `history_record` as a small file (see `column_format`): its tables, then four columns,
/// with the contexts (kind, thread, line, ...), times, addresses and sizes of all events.
class column_encoder {
public:
    explicit column_encoder(history_record const& from) : from_{from} {
        for (history_record::event const& e : from.events) {
            if (e.memory != 0) {
                shift_ = std::min(shift_, static_cast<unsigned>(std::countr_zero(e.memory)));
            }
        }
        if (shift_ > 63) { shift_ = 0; }
        for (history_record::event const& e : from.events) { add(e); }
    }

    void write(byte_file& to) {
        using f = column_format;
        std::string head{escaped_ ? f::magic_with_escape : f::magic};
        f::append(head, from_.device);
        f::append(head, from_.overwritten);
        table(head, from_.tags, [&](std::string const& tag) { f::append(head, tag); });
        table(head, from_.sites, [&](history_record::site const& at) {
            f::append(head, at.file);
            f::append(head, at.function);
            f::append(head, at.line);
        });
        table(head, from_.resources, [&](history_record::resource const& r) {
            f::append(head, r.name);
            f::append(head, r.identity);
        });
        table(head, from_.stacks, [&](auto const& stack) {
            f::append(head, stack.size());
            for (std::uint64_t const address : stack) { f::append(head, address); }
        });
        f::append(head, from_.chunks.size());
        for (history_record::chunk const& c : from_.chunks) {
            f::append(head, c.memory);
            f::append(head, c.bytes);
            f::append(head, c.resource);
            f::append(head, c.grows);
        }
        f::append(head, ids_.size());
        head += contexts_;
        f::append(head, from_.events.size());
        f::append(head, shift_);
        to << head;
        for (std::string const* column : {&context_, &time_, &memory_, &bytes_}) {
            std::string size;
            f::append(size, column->size());
            to << size << *column;
        }
    }

private:
    template <class Table, class Write>
    static void table(std::string& to, Table const& from, Write const& write) {
        column_format::append(to, from.size() - 1);
        for (std::size_t i = 1; i < from.size(); ++i) { write(from[i]); }
    }

    void add(history_record::event const& e) {
        using f = column_format;
        std::string key;
        for (std::uint64_t const n :
             {std::uint64_t{static_cast<unsigned char>(e.kind)}, std::uint64_t{e.has_stream},
              std::uint64_t{e.thread}, std::uint64_t{e.tag}, std::uint64_t{e.site},
              std::uint64_t{e.resource}, std::uint64_t{e.stack}, e.stream}) {
            f::append(key, n);
        }
        auto const [context, fresh] = ids_.try_emplace(key, ids_.size());
        if (fresh) { contexts_ += key; }
        f::append(context_, context->second);
        auto const time = static_cast<std::uint64_t>(e.time);
        f::append(time_, f::zigzag(time - last_time_));
        std::uint64_t const place = e.memory >> shift_;
        f::append(memory_, f::zigzag(place - last_place_));
        auto const [size, first] = sizes_.try_emplace(e.memory, e.bytes);
        if (!first && size->second == e.bytes) {
            f::append(bytes_, 0);
        } else {
            size->second     = e.bytes;
            bool const large = e.bytes >= f::escape - 1;
            f::append(bytes_, large ? f::escape : e.bytes + 1);
            if (large) { f::append(bytes_, e.bytes); }
            escaped_ |= large;
        }
        last_time_  = time;
        last_place_ = place;
    }

    history_record const& from_;
    /// Number of low bits that are zero in the addresses of all events; the file omits these bits.
    unsigned      shift_      = 64;
    std::uint64_t last_time_  = 0;
    std::uint64_t last_place_ = 0;
    /// True if the size of an event (the size of its block or chunk) is `escape - 1` bytes or more.
    /// The file then begins with `magic_with_escape`, and stores `escape` before such a size.
    bool        escaped_ = false;
    std::string contexts_, context_, time_, memory_, bytes_;

    std::unordered_map<std::string, std::size_t> ids_;
    /// Size of the latest event so far at each address. If the next event at this address (such as
    /// the free of the block) has the same size, the file stores 0 instead of the size.
    std::unordered_map<std::uint64_t, std::uint64_t> sizes_;
};

} // namespace detail

/// A `history_format`: a small file with everything that a record has. `read_history` reads the
/// file, and a program can then write the record in another format.
///
///     memory.observer().write("run.vram", history_columns);
///     history_record const same = read_history("run.vram");
///
/// Failure   Throws `file_error`, `std::bad_alloc`.
/// Cost      Less than 1 us, and at most 15 bytes in the file, for each event without a stack.
inline void history_columns(history_record const& record, detail::byte_file& to) {
    detail::column_encoder{record}.write(to);
}

} // namespace vram
