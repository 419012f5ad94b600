// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `timeline` draws the stages of a loop over time: a row for each stage, a box for each batch.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

/// A picture in SVG.
class timeline {
public:
    struct box {
        std::size_t   row   = 0;
        std::size_t   batch = 0;
        std::uint64_t begin = 0; ///< ns
        std::uint64_t end   = 0;
    };
    struct panel {
        std::string      title;
        std::vector<box> boxes;
    };

    explicit timeline(std::vector<std::string> rows) : rows_{std::move(rows)} {}

    void add(panel p) { panels_.push_back(std::move(p)); }

    [[nodiscard]] std::string svg() const {
        std::uint64_t last = 1;
        for (panel const& p : panels_) {
            for (box const& b : p.boxes) { last = std::max(last, b.end); }
        }
        double const scale  = (width - left - 12) / static_cast<double>(last);
        double const tall   = 34 + 24 * static_cast<double>(rows_.size());
        double const height = tall * static_cast<double>(panels_.size()) + 8;
        std::string  out    = fmt::format(
            R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
                R"(font-family="sans-serif" font-size="12">)"
                "\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
            width, height);
        double top = 0;
        for (panel const& p : panels_) {
            out += fmt::format(
                "<text x=\"8\" y=\"{}\" font-weight=\"bold\" fill=\"#222222\">{}</text>\n",
                top + 20, p.title);
            for (std::size_t row = 0; row < rows_.size(); ++row) {
                out += fmt::format("<text x=\"8\" y=\"{}\" fill=\"#444444\">{}</text>\n",
                                   y(top, row) + 14, rows_[row]);
            }
            for (box const& b : p.boxes) {
                double const x = left + scale * static_cast<double>(b.begin);
                double const w = scale * static_cast<double>(b.end - b.begin);
                out += fmt::format(
                    "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"20\" rx=\"2\" "
                    "fill=\"{}\" stroke=\"#ffffff\"/>\n",
                    x, y(top, b.row), w, colours[b.batch % std::size(colours)]);
                out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
                                   "fill=\"#ffffff\">{}</text>\n",
                                   x + w / 2, y(top, b.row) + 14, b.batch);
            }
            top += tall;
        }
        return out + "</svg>\n";
    }

private:
    static constexpr double      width     = 860;
    static constexpr double      left      = 90;
    static constexpr char const* colours[] = {"#3b6ea5", "#c2703d", "#4d8f5b",
                                              "#8a5a9e", "#a8484f", "#6b6b2f"};

    static double y(double top, std::size_t row) {
        return top + 28 + 24 * static_cast<double>(row);
    }

    std::vector<std::string> rows_;
    std::vector<panel>       panels_;
};

} // namespace bench
