// SPDX-License-Identifier: Apache-2.0
// Streams a file through the device, batch by batch, while the previous batch is being processed,
// and counts its bytes there. The device's result is compared with the CPU's.

#if !defined VRAM_EXAMPLE_NVCC
#undef VRAM_EXAMPLE_CUDA // without nvcc there are no kernels: only the simulated device
#endif

#include "cli.hpp"
#include "digest.hpp"
#include "feed_kernels.hpp"
#include "machine.hpp"

#include <vram/base/contract.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pressure/split_on_oom.hpp>
#include <vram/probe/memory_delta.hpp>
#include <vram/probe/report.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/platform_clock.hpp>

#include <fcntl.h>    // open
#include <sys/stat.h> // fstat
#include <unistd.h>   // read, pread, close

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

using namespace vram;

namespace {

struct options {
    std::string file   = VRAM_EXAMPLE_DATA "/gpt2.csv.gz";
    std::string device = "auto";
    std::size_t batch  = 256_KiB;
    std::size_t depth  = 2;
    std::size_t budget = unsatisfiable;
};

std::string size(std::size_t n) { return bytes{n}.text().c_str(); }

/// The input: a file, a pipe or stdin ("-"), read once from the beginning to the end by the
/// producer. Later the bytes are compared with the CPU's own count: bytes of a file are read again,
/// bytes of a pipe are kept until then.
class input {
public:
    explicit input(std::string const& path) : name_{path == "-" ? "stdin" : path} {
        file_ = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        struct stat what{};
        if (file_ < 0 || ::fstat(file_, &what) != 0) { fail(std::strerror(errno)); }
        if (S_ISDIR(what.st_mode)) { fail("is a folder"); }
        if (path == "-" || !S_ISREG(what.st_mode)) { return; }
        size_ = static_cast<std::size_t>(what.st_size);
        if (size_ == 0) { fail("the file is empty: there is nothing to feed"); }
    }
    input(input&&) = delete;
    ~input() {
        if (file_ >= 0) { ::close(file_); }
    }

    [[nodiscard]] std::string const& name() const noexcept { return name_; }
    /// Returns the size, or nothing for a pipe, whose size is known only at the end.
    [[nodiscard]] std::optional<std::size_t> size() const noexcept { return size_; }

    /// Reads the next bytes: as many as fit, or all that are left.
    std::size_t next(std::span<std::byte> to) {
        std::size_t const room = size_ ? std::min(to.size(), *size_ - done_) : to.size();
        std::size_t const n    = fill(to.first(room), [&](std::span<std::byte> rest) {
            return ::read(file_, rest.data(), rest.size());
        });
        if (size_ && n < room) { fail("cannot be read to the end"); }
        if (n == 0 && done_ == 0) { fail("is empty: there is nothing to feed"); }
        done_ += n;
        if (!size_ && n != 0) {
            std::lock_guard const held{mutex_};
            kept_.emplace_back(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(n));
        }
        return n;
    }

    /// Returns `bytes` bytes at the offset `place` again, in the pieces in which they were read.
    std::vector<std::byte> again(std::size_t place, std::size_t bytes) {
        if (!size_) {
            std::lock_guard const  held{mutex_};
            std::vector<std::byte> first = std::move(kept_.front());
            kept_.pop_front();
            vram::expects(first.size() == bytes, "feed: batches are checked in their order");
            return first;
        }
        std::vector<std::byte> all(bytes);
        std::size_t const      n = fill(all, [&](std::span<std::byte> rest) {
            std::size_t const at = place + bytes - rest.size();
            return ::pread(file_, rest.data(), rest.size(), static_cast<off_t>(at));
        });
        if (n < bytes) { fail("cannot be read to the end"); }
        return all;
    }

private:
    /// Calls `read` until `to` is full or nothing is left.
    template <class Read>
    std::size_t fill(std::span<std::byte> to, Read read) const {
        std::size_t done = 0;
        while (done < to.size()) {
            ssize_t const n = read(to.subspan(done));
            if (n < 0 && errno == EINTR) { continue; }
            if (n < 0) { fail(std::strerror(errno)); }
            if (n == 0) { break; }
            done += static_cast<std::size_t>(n);
        }
        return done;
    }
    [[noreturn]] void fail(char const* what) const {
        throw cli::failure{cli::bad_input, fmt::format("{}: {}", name_, what)};
    }

    std::string                        name_;
    int                                file_ = -1;
    std::optional<std::size_t>         size_;
    std::size_t                        done_ = 0;
    std::mutex                         mutex_; ///< guards `kept_`
    std::deque<std::vector<std::byte>> kept_;  ///< bytes of a pipe that were not yet compared
};

/// One run of the program, with all its resources and results.
// [types]
template <class Machine> // on_cuda or on_sim
class feeder {
    using platform = typename Machine::platform; // its own_stream, event, pinned_resource, ...
    using memory   = statistics<pool<limiting<stream_ordered<typename Machine::resource>>>>;
    // [/types]

public:
    feeder(Machine& machine, options const& o)
        : machine_{machine},
          options_{o},
          file_{o.file},
          memory_{pool{limiting{stream_ordered{typename Machine::resource{}}, o.budget}}},
          on_device_{memory_, stream_.view(), sizeof(digest)} {
        answers_ = static_cast<digest*>(pinned_.allocate_sync(2 * sizeof(digest)));
    }
    feeder(feeder&&) = delete;
    ~feeder() {
        try {
            platform::synchronize(
                stream_.view()); // if the run ended early, results are still being copied
        } catch (std::exception const& e) { fmt::print(stderr, "feed: {}\n", e.what()); }
        pinned_.deallocate_sync(answers_, 2 * sizeof(digest));
    }

    [[nodiscard]] input const& source() const noexcept { return file_; }

    void run() {
        memory_delta const probe{memory_};
        {
            cli::progress bar{"feed", file_.size().value_or(0)};
            std::size_t   next = 0; // index of the first batch that was not yet compared
            auto          load = make_loader();
            for (auto& batch : load) {
                queue(batch);
                place_ += batch.size();
                if (batch.index() > next) { check(next++); } // the device works on a later batch
                bar.update(place_);
            }
            while (checked_ < place_) { check(next++); }
            figures_ = load.statistics();
            kernels_ = machine_.kernels();
            layers_  = report(memory_);
        }
        taken_ = probe.counted();
    }

    void print() const {
        auto const row = [](char const* what, std::string const& value) {
            fmt::print("{:<22}{}\n", what, value);
        };
        auto const ms = [](std::uint64_t ns) {
            return fmt::format("{:.3f} ms", static_cast<double>(ns) / 1e6);
        };
        auto const most = std::ranges::max_element(total_.count);
        row("batches", std::to_string(batches_));
        row("bytes", fmt::format("{} ({})", checked_, size(checked_)));
        row("checksum", fmt::format("{:016x}", total_.checksum));
        row("most frequent byte", fmt::format("{:#04x}, {}", most - total_.count, times(*most)));
        row("checked", "all, against the CPU");
        if (shortages_ != 0) {
            row("out of memory", times(shortages_));
            row("  the first", first_shortage_);
            std::string met;
            if (slot_ != options_.batch) {
                met =
                    fmt::format("batches of {} instead of {}; ", size(slot_), size(options_.batch));
            }
            if (split_.splits() != 0) {
                met += fmt::format("work in pieces of {}; ", size(split_.size()));
            }
            row("  met by", met.substr(0, met.size() - 2));
        }

        fmt::print("\n");
        loader_statistics const& f = figures_;
        row("time", fmt::format("{}, {}", ms(f.wall_ns), name(f.verdict())));
        row("  reading the file", ms(f.fill_ns));
        row("  copying", ms(f.copy_ns));
        row("  loop waits for data", ms(f.stall_ns));
        row("  producer waits",
            fmt::format("{} for a slot, {} for a copy", ms(f.slot_ns), ms(f.pinned_ns)));
        std::uint64_t work = f.fill_ns + f.copy_ns + compare_ns_;
        if (compare_ns_ != 0) { row("  comparing (CPU)", ms(compare_ns_)); }
        if (kernels_) {
            row("  kernels", fmt::format("{}, {} of it beside copies", ms(kernels_->busy_ns),
                                         ms(kernels_->beside_copies_ns)));
            work += kernels_->busy_ns;
        }
        row("  overlap", fmt::format("{} of work in {}", ms(work), ms(f.wall_ns)));
        row("  host waits", std::to_string(f.host_waits));

        fmt::print("\n");
        row("device memory",
            fmt::format("{} allocations, {} refused", taken_.blocks.total, taken_.refusals));
        row("  peak", size(static_cast<std::size_t>(taken_.bytes.peak)));
        row("  still out", size(static_cast<std::size_t>(taken_.bytes.value)));
        fmt::print("\n{}", layers_);
    }

private:
    static std::string times(std::uint64_t n) {
        return n == 1 ? "1 time" : fmt::format("{} times", n);
    }

    /// Creates a loader with slots of one batch, or of half, a quarter, ... if the budget is too
    /// small.
    auto make_loader() {
        // Reserves the memory for the smallest piece of work, so that the loader does not use it.
        buffer const reserve{memory_, stream_.view(), sizeof(partial_digest)};
        auto const   fill = [this](std::span<std::byte> to) {
            std::size_t const n = file_.next(to);
            machine_.host_reads(n);
            return n;
        };
        for (slot_ = options_.batch;; slot_ = halved(slot_)) {
            try {
                return loader{fill,
                              stream_.view(),
                              resource_ref{memory_},
                              typename platform::pinned_resource{},
                              {.batch_bytes = slot_, .depth = options_.depth, .timing = true}};
            } catch (out_of_memory const& e) {
                note(e);
                if (slot_ <= digest_tile) { throw; }
            }
        }
    }
    static std::size_t halved(std::size_t bytes) {
        return std::max(align_down(bytes / 2, digest_tile), digest_tile);
    }

    /// Queues the work on a batch, in as many pieces as its temporary memory requires.
    void queue(auto& batch) {
        auto const  stream = stream_.view();
        auto* const into   = static_cast<digest*>(on_device_.data());
        platform::fill(stream, into, std::byte{0}, sizeof(digest));
        split_(batch.size(), [&](std::size_t first, std::size_t count) {
            try {
                buffer scratch{memory_, stream, digest_tiles(count) * sizeof(partial_digest)};
                add_on_device(stream, batch.data() + first, count, place_ + first,
                              static_cast<partial_digest*>(scratch.data()), into);
            } catch (out_of_memory const& e) {
                note(e);
                throw;
            }
        });
        std::size_t const at = batch.index() % 2;
        platform::copy(stream, answers_ + at, into, sizeof(digest));
        platform::record(answered_[at], stream);
        sizes_[at] = batch.size();
    }

    /// Compares the result of batch `index` with the CPU's own.
    void check(std::size_t index) {
        std::size_t const at = index % 2;
        platform::synchronize(answered_[at]);
        std::uint64_t const start = platform_clock<platform>::now();
        auto const          bytes = file_.again(checked_, sizes_[at]);
        digest              cpu{};
        add_to(cpu, bytes.data(), bytes.size(), checked_);
        compare_ns_ += platform_clock<platform>::now() - start;
        if (cpu != answers_[at]) {
            throw cli::failure{
                cli::wrong_result,
                fmt::format("batch {}: the device counts otherwise than the CPU", index)};
        }
        add_to(total_, cpu);
        checked_ += sizes_[at];
        ++batches_;
    }

    void note(out_of_memory const& e) {
        if (shortages_++ == 0) { first_shortage_ = explain(e); }
    }

    Machine&                           machine_;
    options const&                     options_;
    input                              file_;
    typename platform::own_stream      stream_{platform::current_device()};
    typename platform::pinned_resource pinned_{};
    memory                             memory_;
    buffer<memory&>                    on_device_;
    digest*                            answers_ = nullptr;
    typename platform::event   answered_[2]{typename platform::event{platform::current_device()},
                                            typename platform::event{platform::current_device()}};
    split_on_oom               split_{{.granule = digest_tile}};
    std::size_t                slot_     = 0;
    std::size_t                place_    = 0; ///< offset of the batch that is being queued
    std::size_t                checked_  = 0; ///< bytes compared so far
    std::size_t                batches_  = 0;
    std::size_t                sizes_[2] = {};
    digest                     total_{};
    std::size_t                shortages_ = 0;
    std::string                first_shortage_;
    std::uint64_t              compare_ns_ = 0; ///< time that the loop spent on the CPU's own count
    loader_statistics          figures_{};
    counters                   taken_{};
    std::optional<kernel_time> kernels_;
    std::string                layers_;
};

} // namespace

int main(int argc, char** argv) {
    options  o;
    CLI::App app{"Streams a file through the device and counts its bytes there.", "feed"};
    app.add_option("FILE", o.file, "a file or a pipe that is not empty; - is stdin")
        ->capture_default_str();
    cli::add_size(app, "--batch", o.batch, "bytes of a batch (256KiB)");
    app.add_option("--depth", o.depth, "batches on their way; 0 works one after the other")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    cli::add_size(app, "--budget", o.budget, "bytes of device memory that may be taken in all");
    add_device(app, o.device);

    return cli::run(app, argc, argv, [&] {
        if (o.batch == 0) {
            throw cli::failure{cli::bad_usage, "--batch: a batch of nothing has no end"};
        }
        return on_machine(o.device, {}, [&](auto& machine) {
            feeder       work{machine, o};
            input const& from     = work.source();
            bool const   is_short = from.size().value_or(o.batch) < o.batch;
            fmt::print("feeding {} on {}\n", from.name(), machine.name());
            fmt::print("batches of {}, {} on their way{}\n\n", size(o.batch), o.depth,
                       is_short ? " (the file is shorter than a batch)" : "");
            try {
                work.run();
            } catch (loader_error const& e) { e.rethrow_cause(); } // the cause names the file
            work.print();
            return cli::success;
        });
    });
}
