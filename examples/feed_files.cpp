// SPDX-License-Identifier: Apache-2.0
// Files as sources: records in batches, shards one after the other, and samples with an image and a
// label from two files in one batch.

#include <vram/data/concat.hpp>
#include <vram/data/fields.hpp>
#include <vram/data/file.hpp>
#include <vram/data/file_chunks.hpp>
#include <vram/data/file_records.hpp>
#include <vram/sim/sim.hpp>
#include <vram/transfer/loader.hpp>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using namespace vram;

namespace {

constexpr std::size_t samples = 1000;

struct image {
    std::uint8_t pixels[28][28];
};

/// The value of every pixel of an image, so that the device can recognise it.
std::uint8_t shade(std::size_t sample) { return static_cast<std::uint8_t>(sample % 251); }
/// The label of a sample.
std::int32_t label_of(std::size_t sample) { return static_cast<std::int32_t>(sample % 10); }

/// Writes two files in the format of MNIST: a header, then one record for each sample.
void write_data(std::string const& images, std::string const& labels) {
    // [write]
    file out{images, {.use = file_options::mode::create}};
    for (std::size_t i = 0; i < samples; ++i) {
        std::vector<std::uint8_t> const pixels(sizeof(image), shade(i));
        out.write(std::as_bytes(std::span{pixels}), 16 + i * sizeof(image));
    }
    // [/write]
    std::vector<std::int32_t> all(samples);
    for (std::size_t i = 0; i < samples; ++i) { all[i] = label_of(i); }
    file{labels, {.use = file_options::mode::create}}.write(std::as_bytes(std::span{all}), 0);
}

/// Loads the images without labels.
std::size_t feed_images(std::string const& path, sim_stream& stream) {
    std::size_t sum = 0;
    // [records]
    file_records source{file{path}, sizeof(image), 64, {.header = 16}};
    for (auto& batch : loader{std::move(source), stream}) {
        auto const images = batch.span<image>(); // 64 of them; 40 in the last batch
        // [/records]
        sim_launch(stream, {.name = "sum", .reads = {{images.data(), images.size_bytes()}}},
                   [=, &sum] {
                       for (image const& one : sim_view(images)) { sum += one.pixels[3][4]; }
                   });
    }
    stream.synchronize();
    return sum;
}

/// Loads images and labels with one copy per batch.
std::size_t feed_samples(std::string const& images_path, std::string const& labels_path,
                         sim_stream& stream) {
    std::size_t matched = 0, next = 0;
    // [fields]
    fields<image, std::int32_t> const layout{64}; // up to 64 samples, each with both
    file_records const images{file{images_path}, sizeof(image), layout.samples(), {.header = 16}};
    file_records const labels{file{labels_path}, sizeof(std::int32_t), layout.samples()};

    auto fill = [&](std::span<std::byte> to, std::size_t i) -> std::size_t {
        if (i >= images.size()) { return 0; }
        std::size_t const n                 = images.records(i);
        auto const [image_room, label_room] = layout.in(to, n);
        images.fill(std::as_writable_bytes(image_room), i);
        labels.fill(std::as_writable_bytes(label_room), i);
        return layout.bytes(n);
    };
    for (auto& batch : loader{fill, stream, {.batch_bytes = layout.batch_bytes()}}) {
        auto const [image_batch, label_batch] = layout.of(batch); // spans on the device
        // [/fields]
        auto const of_images = image_batch;
        auto const of_labels = label_batch;
        sim_launch(stream,
                   {.name  = "match",
                    .reads = {{of_images.data(), of_images.size_bytes()},
                              {of_labels.data(), of_labels.size_bytes()}}},
                   [=, &matched, &next] {
                       for (std::size_t s = 0; s < of_images.size(); ++s, ++next) {
                           bool const right =
                               sim_view(of_images)[s].pixels[27][27] == shade(next) &&
                               sim_view(of_labels)[s] == label_of(next);
                           matched += right ? 1 : 0;
                       }
                   });
    }
    stream.synchronize();
    return matched;
}

/// Loads the bytes of both files, one after the other.
std::size_t feed_shards(std::vector<std::string> const& paths, sim_stream& stream) {
    std::size_t bytes = 0;
    // [shards]
    std::vector<file_chunks<file>> shards;
    for (std::string const& path : paths) {
        shards.emplace_back(file{path, {.direct = true}}, 64_KiB);
    }
    concat source{std::move(shards)}; // no batch contains bytes of two files
    // [/shards]
    expects(source.size() == 12 + 1, "784016 bytes and 4000");
    for (auto& batch : loader{std::move(source), stream}) { bytes += batch.size(); }
    return bytes;
}

} // namespace

int main() {
    namespace fs = std::filesystem;
    auto const folder =
        fs::temp_directory_path() / ("vram-feed-files-" + std::to_string(::getpid()));
    fs::create_directory(folder);
    struct remover { // destroyed last
        fs::path at;
        ~remover() {
            std::error_code ignored;
            fs::remove_all(at, ignored);
        }
    } const tidy{folder};
    std::string const images = folder / "images", labels = folder / "labels";
    write_data(images, labels);

    sim_node    node;
    sim_stream  stream;
    std::size_t shades = 0;
    for (std::size_t i = 0; i < samples; ++i) { shades += shade(i); }
    expects(feed_images(images, stream) == shades, "every image arrived, once");
    expects(feed_samples(images, labels, stream) == samples, "each with its own label");
    expects(feed_shards({images, labels}, stream) == 16 + samples * (sizeof(image) + 4),
            "every byte of both files arrived");

    // [truncated]
    fs::resize_file(images, 5000); // another program truncates the file
    try {
        (void)file_records{file{images}, sizeof(image), 64, {.header = 16}};
    } catch (file_error const& e) {
        std::printf("%s\n", e.what()); // with the offset, and the bytes that remain there
        // [/truncated]
        expects(e.is(file_error::reason::partial_record), "the error has the place");
        expects(e.offset() == 16 + 6 * sizeof(image) && e.got() == 280, "six whole records");
    }
    expects(node.reports().empty(), "and nothing was used before it was there");
    std::printf("%zu samples, fed as records, as fields and as bytes\n", samples);
}
