// SPDX-License-Identifier: Apache-2.0
// Computes how tight memory can be without moving blocks: placement rules, simulated over the
// recorded programs. Some rules know the lifetime of each block, which no pool does.

#include "support/recordings.hpp"
#include "support/results.hpp"

#include <vram/base/align.hpp>            // align
#include <vram/pool/core/bins.hpp>        // bins
#include <vram/pool/core/block_heaps.hpp> // block_heaps

#include <cli.hpp>         // run
#include <output_file.hpp> // output_file

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm> // max, min
#include <cmath>     // abs, log2
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <cstdio>    // fflush
#include <limits>
#include <map>
#include <string>
#include <vector>

using namespace bench;

namespace {

constexpr double        never      = std::numeric_limits<double>::infinity();
constexpr std::uint64_t page       = 2 << 20;
constexpr std::uint64_t small_size = vram::detail::block_heaps<true>::small_size;

/// The cost of a position: `near` for each doubling of the time between the block's free and its
/// neighbour's, `rest` for the unused part of the hole, in blocks, `low` for each GB before it, and
/// `grow` for new memory although a hole would fit. Below the share `from` of the peak of live
/// bytes, a hole of exactly the size is taken at any position.
struct rule {
    double near = 0, rest = 0, low = 0, grow = never, from = 0;

    [[nodiscard]] bool may_grow() const { return from != 0; }

    [[nodiscard]] std::string name() const {
        if (near == 0) { return rest == 0 ? "first_fit" : "best_fit"; }
        return fmt::format("knows_deaths(rest={:g}, low={:g}{})", rest, low,
                           !may_grow() ? "" : fmt::format(", grow={:g}, from={:g}", grow, from));
    }
};

std::vector<rule> all_rules() {
    std::vector<rule> all{{.near = 0, .rest = 0}, {.near = 0, .rest = 1}};
    for (double const rest : {0., 0.3, 1., 10.}) {
        for (double const low : {0., 1., 5., 100.}) { all.push_back({1, rest, low}); }
    }
    for (double const from : {0.8, 0.9, 1.}) {
        for (double const grow : {0., 10., 30.}) { all.push_back({1, 1, 0, grow, from}); }
    }
    return all;
}

/// Addresses from 0 that grow at their end, like those of a `virtual_resource`. Blocks of all
/// streams are adjacent, and streams wait for nothing.
class span {
public:
    explicit span(rule const& how, std::uint64_t grows_until) : how_{how}, until_{grows_until} {}

    std::uint64_t take(std::uint64_t bytes, std::uint64_t dies) {
        std::uint64_t at = 0, last = 0; // end of the previous block
        double        least  = never;
        piece const*  before = nullptr;
        auto const    look   = [&](std::uint64_t where, std::uint64_t hole, piece const* beside) {
            double const left = static_cast<double>(hole - bytes) / static_cast<double>(bytes);
            double       cost = how_.near * apart(beside, dies) + how_.rest * left +
                          how_.low * static_cast<double>(where) / 1e9;
            if (how_.may_grow() && left == 0) { cost = -1; }
            if (cost < least) {
                least = cost;
                at    = where;
            }
        };
        for (auto const& [address, p] : pieces_) {
            if (address - last >= bytes) {
                look(last, address - last, before);
                look(address - bytes, address - last, &p);
            }
            last   = address + p.bytes;
            before = &p;
        }
        if (end_ - last >= bytes) { look(last, end_ - last, before); }
        bool const grows = end_ <= until_ && how_.near * apart(before, dies) + how_.grow < least;
        if (least == never || grows) { at = last; }
        end_        = std::max(end_, at + bytes);
        pieces_[at] = {bytes, dies};
        return at;
    }
    void give(std::uint64_t at) { pieces_.erase(at); }

    [[nodiscard]] std::uint64_t held() const { return vram::align(end_, page); }

private:
    struct piece {
        std::uint64_t bytes;
        std::uint64_t dies;
    };
    /// Returns the doublings between two frees; the largest value if there is no neighbour.
    [[nodiscard]] static double apart(piece const* beside, std::uint64_t dies) {
        if (beside == nullptr) { return 64; }
        double const time = static_cast<double>(beside->dies) - static_cast<double>(dies);
        return std::log2(std::abs(time) + 1);
    }

    rule                           how_;
    std::uint64_t                  until_;
    std::uint64_t                  end_ = 0;
    std::map<std::uint64_t, piece> pieces_;
};

/// Returns the time of the free for each allocation; a late time for blocks that are never freed.
std::vector<std::uint64_t> deaths(tape const& t) {
    std::vector<std::uint64_t> at(t.operations.size(), 2 * t.operations.size());
    std::vector<std::size_t>   taken(t.slots);
    for (std::size_t i = 0; i < t.operations.size(); ++i) {
        operation const& o = t.operations[i];
        if (o.frees()) {
            at[taken[o.slot]] = i;
        } else {
            taken[o.slot] = i;
        }
    }
    return at;
}

/// Returns peak reserved bytes over peak live bytes of one pass. Small blocks are separate.
double reserved_over_live(tape const& t, std::vector<std::uint64_t> const& dies, rule const& how) {
    auto const                 peak  = static_cast<double>(t.peak_live);
    auto const                 until = static_cast<std::uint64_t>(how.from * peak);
    span                       small{how, until}, large{how, until};
    std::vector<std::uint64_t> at(t.slots);
    for (std::size_t i = 0; i < t.operations.size(); ++i) {
        operation const&    o     = t.operations[i];
        std::uint64_t const bytes = vram::align(o.bytes, vram::detail::bins::granule);
        span&               where = bytes > small_size ? large : small;
        if (bytes == 0) { continue; }
        if (o.frees()) {
            where.give(at[o.slot]);
        } else {
            at[o.slot] = where.take(bytes, dies[i]);
        }
    }
    return static_cast<double>(small.held() + large.held()) / peak;
}

int run(std::vector<std::string> const& files, std::string const& to) {
    auto const        all = recordings(files);
    cli::output_file  json{to, paths(all)};
    std::vector<tape> tapes;
    for (recording const& each : all) {
        tapes.push_back(make_tape(each.name, read_trace(each.file)));
    }
    std::vector<std::vector<std::uint64_t>> dies;
    fmt::print("peak reserved / peak live where nothing is moved\n\n{:<48}", "rule");
    for (tape const& t : tapes) {
        dies.push_back(deaths(t));
        fmt::print("{:>18}", t.name);
    }
    fmt::print("{:>18}\n", "geometric_mean");
    results             r{"placement"};
    std::vector<double> least(tapes.size(), never);
    auto const          print = [&](std::string const& name, std::vector<double> const& values) {
        fmt::print("{:<48}", name);
        for (std::size_t i = 0; i < tapes.size(); ++i) {
            fmt::print("{:>18.4f}", values[i]);
            r.add(tapes[i].name, name, {{"reserved_over_live", values[i], "ratio"}});
        }
        double const mean = geometric_mean(values);
        fmt::print("{:>18.4f}\n", mean);
        std::fflush(stdout);
        r.add("geometric_mean", name, {{"reserved_over_live", mean, "ratio"}});
    };
    for (rule const& how : all_rules()) {
        std::vector<double> values;
        for (std::size_t i = 0; i < tapes.size(); ++i) {
            values.push_back(reserved_over_live(tapes[i], dies[i], how));
            least[i] = std::min(least[i], values.back());
        }
        print(how.name(), values);
    }
    print("the best rule for each", least);
    json.write(r.rows().dump(1) + "\n");
    return cli::success;
}

} // namespace

int main(int argc, char** argv) {
    std::vector<std::string> traces;
    std::string              json;
    CLI::App app{"How tight memory can be that is never moved: rules of placement, on paper.",
                 "placement"};
    app.add_option("--trace", traces, "these traces instead of those in bench/traces")
        ->type_name("FILE");
    app.add_option("--json", json,
                   "also write the figures to this file (-: stdout), as an array of rows")
        ->type_name("FILE");
    return cli::run(app, argc, argv, [&] { return run(traces, json); });
}
