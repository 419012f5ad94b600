// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `table` is text in columns, for a terminal.

#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/only_if_used.hpp>
#include <vram/base/core/smaller_of.hpp> // larger_of

#include <cstddef>
#include <string> // string
#include <utility>

namespace vram {
namespace detail {

/// Text in columns, the first aligned left, the others right. Leaves out a column without text
/// below its heading.
///
///     table figures{3};
///     for (char const* each : {"layer", "live", "peak"}) { figures.add(each); }
///     for (char const* each : {"pool", "1.00 GiB", "2.00 GiB"}) { figures.add(each); }
///     std::fputs(figures.text().c_str(), stdout);
template <class = only_if_used>
class table {
public:
    /// Makes a table with this many columns, at least one.
    explicit table(std::size_t columns) noexcept : columns_{columns} {}

    /// Adds the next cell. The cells fill the rows from left to right, beginning with the headings.
    void add(std::string cell) { cells_.push(std::move(cell)); }

    /// Returns all complete rows, each with a newline at its end and two spaces between columns.
    [[nodiscard]] std::string text() const {
        heap_array<std::size_t> widths;
        for (std::size_t column = 0; column != columns_; ++column) { widths.push(width(column)); }
        std::string out;
        for (std::size_t row = 0; row != rows(); ++row) {
            std::string line;
            for (std::size_t column = 0; column != columns_; ++column) {
                if (widths[column] == 0) { continue; }
                std::string const& cell = at(row, column);
                std::string const  gap(widths[column] - cell.size(), ' ');
                if (column == 0) {
                    line += cell + gap;
                } else {
                    line += "  " + gap + cell;
                }
            }
            line.erase(line.find_last_not_of(' ') + 1);
            out += line + "\n";
        }
        return out;
    }

private:
    [[nodiscard]] std::size_t        rows() const noexcept { return cells_.size() / columns_; }
    [[nodiscard]] std::string const& at(std::size_t row, std::size_t column) const noexcept {
        return cells_[row * columns_ + column];
    }
    /// Returns the width of a column; 0 if it has no text below its heading.
    [[nodiscard]] std::size_t width(std::size_t column) const noexcept {
        std::size_t widest = 0;
        for (std::size_t row = 1; row < rows(); ++row) {
            widest = larger_of(widest, at(row, column).size());
        }
        return widest != 0 ? larger_of(widest, at(0, column).size()) : 0;
    }

    std::size_t             columns_;
    heap_array<std::string> cells_; ///< row by row; the first row has the headings
};

} // namespace detail
} // namespace vram
