// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `table` is text in columns, for a terminal.

#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/requirements.hpp>

#include <cstddef> // size_t
#include <string>  // string
#include <utility> // move
#include <vector>  // vector

namespace vram {
namespace detail {

/// Text in columns, the first aligned left, others right. Columns without text are left out.
///
///     table figures{{"layer", "live", "peak"}};
///     figures.row({"pool", "1.00 GiB", "2.00 GiB"});
///     std::fputs(figures.text().c_str(), stdout);
///
/// Failure   Throws `std::bad_alloc`.
/// Threads   One thread at a time.
/// Cost      A string for each cell. `text()` builds the text.
class table {
public:
    using cells = std::vector<std::string>;

    explicit table(cells headings) : rows_{std::move(headings)} {}

    /// Adds a row. If it has fewer cells than the table has headings, the others are empty;
    /// additional cells are ignored.
    void row(cells row) {
        row.resize(rows_.front().size());
        rows_.push_back(std::move(row));
    }

    /// Returns all rows, each with a newline at its end and two spaces between columns.
    [[nodiscard]] std::string text() const {
        std::vector<std::size_t> const widths = measure();
        std::string                    out;
        for (cells const& row : rows_) {
            std::string line;
            for (std::size_t column = 0; column < row.size(); ++column) {
                if (widths[column] == 0) { continue; }
                std::string const gap(widths[column] - row[column].size(), ' ');
                if (column == 0) {
                    line += row[column] + gap;
                } else {
                    line += "  " + gap + row[column];
                }
            }
            line.erase(line.find_last_not_of(' ') + 1);
            out += line + "\n";
        }
        return out;
    }

private:
    /// Returns the width of each column; 0 for a column without text below its heading.
    [[nodiscard]] std::vector<std::size_t> measure() const {
        std::vector<std::size_t> widths(rows_.front().size(), 0);
        for (std::size_t column = 0; column < widths.size(); ++column) {
            for (std::size_t row = 1; row < rows_.size(); ++row) {
                widths[column] = larger_of(widths[column], rows_[row][column].size());
            }
            if (widths[column] != 0) {
                widths[column] = larger_of(widths[column], rows_.front()[column].size());
            }
        }
        return widths;
    }

    std::vector<cells> rows_; ///< rows of the table; the first row has the headings
};

} // namespace detail
} // namespace vram
