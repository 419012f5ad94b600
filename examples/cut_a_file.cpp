// SPDX-License-Identifier: Apache-2.0
// A file is divided into chunks, records and tiles, and read on the device batch by batch.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace vram;

namespace {

constexpr std::size_t header = 16, record = 100, records = 1000;

/// Writes a file of a header and 1000 records. `File` is `file`, or a `basic_file` over other
/// calls of the operating system, which tests use to let reads fail.
template <class Calls>
void write_records(basic_file<Calls>& to) {
    std::vector<std::uint8_t> bytes(header + records * record);
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    to.write(std::as_bytes(std::span{bytes}), 0);
    to.flush();
}

/// Returns the number of batches and of bytes that a loader makes of a source.
template <class Source>
std::pair<std::size_t, std::size_t> load(Source source) {
    sim_node    node;
    sim_stream  stream;
    std::size_t count = 0, bytes = 0;
    for (auto const& batch : loader{std::move(source), stream}) {
        ++count;
        bytes += batch.size();
    }
    return {count, bytes};
}

void chunks(std::string const& path) {
    // Chunks of 4 KiB after the header, each with the last 256 bytes of the one before it; a last
    // one that is shorter is left out.
    chunking_options const options{.first = header, .overlap = 256, .drop_partial = true};
    auto const [count, bytes] = load(file_chunks{file{path}, 4_KiB, options});
    expects(count == 25 && bytes == count * 4_KiB, "whole chunks");

    chunking const cut{header + records * record, 4_KiB, options}; // the same, without a file
    expects(cut.size() == count, "as many chunks");
    expects(cut[1].offset == header + 4_KiB - 256, "the second one begins in the first one");
}

void whole_records(std::string const& path) {
    file_records_options const options{.header = header, .drop_partial = true};
    auto const [count, bytes] = load(file_records{file{path}, record, 64, options});
    expects(count == 15 && bytes == count * 64 * record, "15 batches of 64 records");

    try {
        (void)file_records{file{path}, record + 1, 64, {.header = header}};
    } catch (file_error const& e) { std::puts(e.what()); } // the file has no whole records
}

void tiles_of_an_image(std::string const& path) {
    // A result file of 2 MiB, written through the address space.
    mapped_file_options const create{.create = 1024 * 1024 * sizeof(std::uint16_t)};
    {
        mapped_file image{path, create};
        auto const  pixels = image.span<std::uint16_t>();
        std::iota(pixels.begin(), pixels.end(), std::uint16_t{0});
    }
    mapped_file const image{path, {.populate = true}}; // read at once, not page by page

    tile_options<2> options{.extent = {1024, 1024}, .tile = {256, 256}, .halo = {8, 8}};
    options.order = tile_order::snake; // each tile is next to the one before it
    auto const [count, bytes] =
        load(tile_source{tiles<2>{options}, image.span<std::uint16_t const>()});
    expects(count == 16, "4 x 4 tiles");
    expects(bytes > 1024 * 1024 * sizeof(std::uint16_t), "and the halo around each of them");
}

/// The elements of a row with a halo of 2 on each side, as a source of the program copies them.
std::string row_with_halo(boundary how, std::string const& row) {
    std::string out(row.size() + 4, '.');
    for_each_run(how, -2, out.size(), row.size(),
                 [&](std::size_t offset, std::size_t place, std::size_t count) {
                     out.replace(offset, count, row, place, count);
                 });
    return out;
}

void halos() {
    expects(row_with_halo(boundary::mirror, "abcd") == "cbabcdcb", "reflected at the last element");
    expects(row_with_halo(boundary::wrap, "abcd") == "cdabcdab", "periodic");
    expects(row_with_halo(boundary::clip, "abcd") == "..abcd..", "no elements outside");
    expects(boundary_place(boundary::clip, -1, 4) == nowhere, "the same for one element");
    expects(boundary_place(boundary::edge, -1, 4) == 0, "the first element is repeated");
}

void mistakes() {
    try {
        (void)chunking{1000, 100, {.overlap = 100}};
    } catch (layout_error const& e) { // with the numbers, for a message of the program
        expects(e.why() == layout_error::reason::overlap, "a chunk that is only overlap");
        expects(e.value() == 100 && e.limit() == 100, "100 bytes of 100");
    }
    try {
        (void)tiles<3>{{.extent = {512, 512, 512}, .tile = {64, 0, 64}}};
    } catch (layout_error const& e) {
        expects(e.why() == layout_error::reason::empty && e.dimension() == 1, "dimension 1");
    }
}

} // namespace

int main() {
    auto const path = (std::filesystem::temp_directory_path() / "vram-example-cut").string();
    {
        file out{path, {.use = file_options::mode::create}};
        write_records(out);
    }
    chunks(path);
    whole_records(path);
    tiles_of_an_image(path);
    halos();
    mistakes();
    std::filesystem::remove(path);
}
