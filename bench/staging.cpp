// SPDX-License-Identifier: Apache-2.0
// The benchmark of staging: the speed of pageable host memory and files to the device and back,
// compared with the link and with the driver's copy of pageable memory; the cost of pinned memory;
// and many small copies.

#include "support/counted_news.hpp"
#include "support/machine.hpp"
#include "support/options.hpp"
#include "support/results.hpp"
#include "support/verdicts.hpp"

#include <output_file.hpp>

#include <vram/base/bytes.hpp>
#include <vram/data/file.hpp>
#include <vram/source/core/touched_pages.hpp>
#include <vram/staging/copy_batch.hpp>
#include <vram/staging/staging.hpp>
#include <vram/transfer/platform_clock.hpp>

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <unistd.h>

using namespace bench;
using namespace vram::literals;

namespace {

struct staging_bench : options {
    std::size_t              bytes     = 1_GiB;
    std::size_t              pin_bytes = 2_GiB;
    std::vector<std::size_t> sizes     = {256_KiB, 1_MiB, 4_MiB, 16_MiB, 64_MiB};
    std::vector<unsigned>    threads   = {8, 4};
    std::size_t              chunk     = 4_MiB;
    std::string              folder;
    bool                     small_pages = false;
};

std::string short_text(std::size_t n) {
    for (auto const& [unit, word] : {std::pair{1_GiB, "GiB"}, {1_MiB, "MiB"}, {1_KiB, "KiB"}}) {
        if (n % unit == 0) { return fmt::format("{}{}", n / unit, word); }
    }
    return fmt::format("{}B", n);
}

/// Pageable host memory with every page touched.
class pageable {
public:
    pageable(std::size_t bytes, bool small_pages)
        : bytes_{bytes},
          p_{static_cast<std::byte*>(
              vram::detail::touched_pages::map(bytes, {.huge_pages = !small_pages}))} {
        if (p_ == nullptr) { throw std::bad_alloc{}; }
    }
    pageable(pageable&&) = delete;
    ~pageable() { vram::detail::touched_pages::unmap(p_, bytes_); }

    [[nodiscard]] std::byte*           data() const noexcept { return p_; }
    [[nodiscard]] std::span<std::byte> first(std::size_t n) const noexcept { return {p_, n}; }

private:
    std::size_t bytes_;
    std::byte*  p_;
};

/// A block of a resource for the duration of the program.
template <class Resource>
class block {
public:
    explicit block(std::size_t bytes) : bytes_{bytes}, p_{mr_.allocate_sync(bytes)} {}
    block(block&&) = delete;
    ~block() { mr_.deallocate_sync(p_, bytes_); }

    [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(p_); }

private:
    Resource    mr_{};
    std::size_t bytes_;
    void*       p_;
};

/// A file that is removed at the end of the program.
class scratch_file {
public:
    explicit scratch_file(std::string const& folder) {
        namespace fs  = std::filesystem;
        auto const at = folder.empty() ? fs::temp_directory_path() : fs::path{folder};
        path_         = (at / fmt::format("vram-bench-staging-{}", ::getpid())).string();
    }
    scratch_file(scratch_file&&) = delete;
    ~scratch_file() {
        std::error_code none;
        std::filesystem::remove(path_, none);
    }
    [[nodiscard]] std::string const& path() const noexcept { return path_; }

private:
    std::string path_;
};

enum class way { up, down, file_up, file_down };

struct transfer_case {
    std::string name;
    std::string about;
    way         goes  = way::up;
    std::size_t bytes = 0;
};

std::vector<transfer_case> transfers(staging_bench const& o) {
    std::vector<transfer_case> all;
    auto                       sizes = o.sizes;
    sizes.push_back(o.bytes);
    for (std::size_t const n : sizes) {
        all.push_back({"pageable_to_device_" + short_text(n), "plain host memory", way::up, n});
        all.push_back({"device_to_pageable_" + short_text(n), "plain host memory", way::down, n});
    }
    all.push_back({"file_to_device_" + short_text(o.bytes), "a file in the page cache",
                   way::file_up, o.bytes});
    all.push_back({"device_to_file_" + short_text(o.bytes), "a file in the page cache",
                   way::file_down, o.bytes});
    return all;
}

/// One way to copy bytes, compiled for its platform.
struct mover {
    std::string                               name;
    std::string                               about;
    unsigned                                  threads = 0; ///< threads of staging
    std::function<void(transfer_case const&)> move;
};

template <class Machine>
class transfers_on {
    using P     = typename Machine::platform;
    using clock = vram::platform_clock<P>;

public:
    explicit transfers_on(staging_bench const& o)
        : options_{o},
          scratch_{o.folder},
          host_{largest(o), o.small_pages},
          far_{largest(o)},
          pinned_{largest(o)} {
        for (std::size_t i = 0; i < largest(o); i += 64) { host_.data()[i] = sent_at(i); }
        movers_.push_back({"pinned", "pinned memory: the link itself", 0,
                           [this](transfer_case const& c) { link(c); }});
        movers_.push_back({"driver", "the driver's own copy of pageable memory, a read before it",
                           0, [this](transfer_case const& c) { driver(c); }});
        for (std::size_t i = 0; i < o.threads.size(); ++i) {
            unsigned const n = o.threads[i];
            add(i == 0 ? "staging" : fmt::format("staging(threads={})", n),
                fmt::format("{} threads, chunks of {}", n, short_text(o.chunk)),
                {.threads = n, .chunk_bytes = o.chunk});
        }
        add("staging(chunks=3)", "three chunks for each thread",
            {.threads = o.threads[0], .chunks = 3, .chunk_bytes = o.chunk});
        add("staging(memcpy)", "downward without streaming stores",
            {.threads = o.threads[0], .chunk_bytes = o.chunk, .streaming = false});
#if defined VRAM_BENCH_CUDA
        if constexpr (Machine::is_gpu) {
            add<vram::registered_resource>("staging(registered)", "a ring of huge pages",
                                           {.threads = o.threads[0], .chunk_bytes = o.chunk});
        }
#endif
    }

    [[nodiscard]] std::vector<mover> const& movers() const noexcept { return movers_; }

    /// Returns the values of one turn of a mover; `link` receives those of the link in this turn.
    figures turn(mover const& m, transfer_case const& c, double* link) {
        prepare(m, c);
        m.move(c); // warm-up
        double        ns    = 0;
        std::uint64_t calls = 0, news = 0;
        do { // small copies are repeated
            std::uint64_t const before = counted_news();
            std::uint64_t const begin  = clock::now();
            m.move(c);
            ns += static_cast<double>(clock::now() - begin);
            news += counted_news() - before;
            ++calls;
        } while (!options_.quick && calls < 2000 && ns < 5e6);
        check(c);
        double const rate = static_cast<double>(c.bytes * calls) / ns;
        if (m.name == "pinned") { *link = rate; }
        auto const each = static_cast<double>(calls);
        return {{"ns_per_call", ns / each, "ns"},
                {"GBps", rate, "GB/s"},
                {"of_link", rate / *link, "ratio"},
                {"allocations_per_call", static_cast<double>(news) / each, "count"}};
    }

private:
    static std::size_t largest(staging_bench const& o) {
        std::size_t most = o.bytes;
        for (std::size_t const n : o.sizes) { most = std::max(most, n); }
        return most;
    }

    template <class Pinned = typename P::pinned_resource>
    void add(std::string name, std::string about, vram::staging_options how) {
        using kind = vram::staging<P, Pinned>;
        auto stage = std::make_shared<std::unique_ptr<kind>>(); // created at its first use
        movers_.push_back({std::move(name), std::move(about), how.threads,
                           [this, stage, how](transfer_case const& c) {
                               if (*stage == nullptr) {
                                   *stage = std::make_unique<kind>(stream_.view(), how);
                               }
                               staged(**stage, c);
                           }});
    }

    void prepare(mover const& m, transfer_case const& c) {
        if (c.goes == way::down && m.name != "pinned" && Machine::is_gpu) {
            fill();
            for_each_probe(c, [](std::byte& b, std::byte) { b = std::byte{0xEE}; });
        }
        if (c.goes == way::up || c.goes == way::down) { return; }
        if (file_ != nullptr && file_->size() >= c.bytes) { return; }
        file_ = std::make_unique<vram::file>(
            scratch_.path(), vram::file_options{.use = vram::file_options::mode::create});
        file_->write(host_.first(c.bytes), 0);
    }
    /// Compares the received data with the sent data. The simulated device has no contents here.
    void check(transfer_case const& c) {
        if (!Machine::is_gpu || c.goes != way::down) { return; }
        for_each_probe(c, [](std::byte b, std::byte sent) {
            if (b != sent) { throw std::runtime_error{"other bytes came back than were sent"}; }
        });
    }
    template <class Look>
    void for_each_probe(transfer_case const& c, Look look) {
        for (std::size_t i = 0; i < c.bytes; i += 64 * 1009) { look(host_.data()[i], sent_at(i)); }
        std::size_t const last = (c.bytes - 1) / 64 * 64;
        look(host_.data()[last], sent_at(last));
    }
    static std::byte sent_at(std::size_t i) noexcept {
        return static_cast<std::byte>(i / 64 % 251);
    }

    void finish() { P::synchronize(stream_.view()); }

    void link(transfer_case const& c) {
        bool const up = c.goes == way::up || c.goes == way::file_up;
        if (up) {
            P::copy(stream_.view(), far_.data(), pinned_.data(), c.bytes);
        } else {
            P::copy(stream_.view(), pinned_.data(), far_.data(), c.bytes);
        }
        finish();
        if (up) { filled_ = false; } // the device's data is not the sent data
    }
    void driver(transfer_case const& c) {
        switch (c.goes) {
        case way::file_up: file_->read(host_.first(c.bytes), 0); [[fallthrough]];
        case way::up: P::copy(stream_.view(), far_.data(), host_.data(), c.bytes); break;
        case way::file_down:
        case way::down:
            fill();
            P::copy(stream_.view(), host_.data(), far_.data(), c.bytes);
            break;
        }
        finish();
        if (c.goes == way::file_down) { file_->write(host_.first(c.bytes), 0); }
    }
    template <class Staging>
    void staged(Staging& stage, transfer_case const& c) {
        switch (c.goes) {
        case way::up: stage.upload(stream_.view(), far_.data(), host_.first(c.bytes)); break;
        case way::down:
            fill();
            stage.download(stream_.view(), host_.first(c.bytes), far_.data());
            break;
        case way::file_up: stage.upload(stream_.view(), far_.data(), *file_, 0, c.bytes); break;
        case way::file_down:
            fill();
            stage.download(stream_.view(), *file_, 0, far_.data(), c.bytes);
            break;
        }
        finish(); // a small copy may still be in flight
    }
    /// Fills the device's memory before its first download.
    void fill() {
        if (filled_) { return; }
        P::copy(stream_.view(), far_.data(), host_.data(), largest(options_));
        finish();
        filled_ = true;
    }

    staging_bench const&               options_;
    scratch_file                       scratch_;
    pageable                           host_;
    block<typename P::device_resource> far_;
    block<typename P::pinned_resource> pinned_;
    typename P::own_stream             stream_{P::current_device()};
    std::unique_ptr<vram::file>        file_;
    std::vector<mover>                 movers_;
    bool                               filled_ = false;
};

/// Small copies: the time until all of them are queued, per copy.
template <class Machine>
class small_copies_on {
    using P     = typename Machine::platform;
    using clock = vram::platform_clock<P>;

public:
    static constexpr std::size_t copies = 256, row = 4_KiB;

    figures one_by_one() {
        return timed([&] {
            for (std::size_t i = 0; i < copies; ++i) {
                P::copy(stream_.view(), far_.data() + i * row, pinned_.data() + i * row, row);
            }
        });
    }
    figures batched() {
        return timed([&] {
            for (std::size_t i = 0; i < copies; ++i) {
                batch_.add(far_.data() + i * row, pinned_.data() + i * row, row);
            }
            batch_.run(stream_.view());
        });
    }

private:
    template <class Body>
    figures timed(Body body) {
        body();
        P::synchronize(stream_.view());
        double ns = 0, all = 0;
        int constexpr rounds = 20;
        for (int i = 0; i < rounds; ++i) {
            std::uint64_t const begin = clock::now();
            body();
            ns += static_cast<double>(clock::now() - begin);
            P::synchronize(stream_.view());
            all += static_cast<double>(clock::now() - begin);
        }
        double const each = static_cast<double>(copies) * rounds;
        return {{"us_per_copy", ns / each / 1000, "us"},
                {"us_per_copy_done", all / each / 1000, "us"}};
    }

    block<typename P::device_resource> far_{copies * row};
    block<typename P::pinned_resource> pinned_{copies * row};
    typename P::own_stream             stream_{P::current_device()};
    vram::copy_batch<P>                batch_;
};

void print_header(std::string const& name, std::string const& about,
                  std::vector<std::string> const& columns) {
    fmt::print("\n{:<32}", name);
    for (std::string const& c : columns) { fmt::print("{:>22}", c); }
    fmt::print("{:>9}   {}\n", "spread", about);
}
void print_line(results const& r, std::string const& in_case, std::string const& subject,
                std::vector<std::string> const& columns) {
    if (!r.value(in_case, subject, columns[0])) { return; }
    fmt::print("  {:<30}", subject);
    for (std::string const& c : columns) {
        auto const value = r.value(in_case, subject, c);
        fmt::print("{:>22}", value ? fmt::format("{:.4g}", *value) : std::string{"-"});
    }
    auto const apart = r.spread_of(in_case, subject, columns[0]);
    fmt::print("{:>9}\n", apart ? fmt::format("{:.1f}%", *apart * 100) : std::string{"-"});
    std::fflush(stdout);
}

struct named {
    std::string name;
};
bool wanted(std::vector<std::string> const& by, std::vector<std::string> const& all,
            std::string const& name, char const* kind) {
    std::vector<named> list;
    for (std::string const& each : all) { list.push_back({each}); }
    for (named const& each : chosen(list, by, kind)) {
        if (each.name == name) { return true; }
    }
    return false;
}

template <class Machine>
void measure_transfers(results& r, staging_bench const& o, std::vector<std::string> const& cases,
                       std::vector<std::string> const& subjects, transfers_on<Machine>& all) {
    for (transfer_case const& c : transfers(o)) {
        if (!wanted(o.cases, cases, c.name, "case")) { continue; }
        for (unsigned i = 0; i < o.turns(); ++i) {
            double link = 0;
            for (mover const& m : all.movers()) {
                bool const shown = wanted(o.subjects, subjects, m.name, "subject");
                // Pinned memory is the reference of the others.
                if (!shown && m.name != "pinned") { continue; }
                figures const turn = all.turn(m, c, &link);
                if (shown) { r.add(c.name, m.name, turn); }
            }
        }
        std::vector<std::string> const columns{"ns_per_call", "GBps", "of_link",
                                               "allocations_per_call"};
        print_header(c.name, c.about, columns);
        for (mover const& m : all.movers()) { print_line(r, c.name, m.name, columns); }
    }
}

template <class Machine>
void measure_small(results& r, staging_bench const& o, std::vector<std::string> const& cases,
                   std::vector<std::string> const& subjects) {
    std::string const name = "small_copies";
    if (!wanted(o.cases, cases, name, "case")) { return; }
    small_copies_on<Machine> all;
    for (unsigned i = 0; i < o.turns(); ++i) {
        if (wanted(o.subjects, subjects, "copies", "subject")) {
            r.add(name, "copies", all.one_by_one());
        }
        if (wanted(o.subjects, subjects, "copy_batch", "subject")) {
            r.add(name, "copy_batch", all.batched());
        }
    }
    std::vector<std::string> const columns{"us_per_copy", "us_per_copy_done"};
    print_header(name, "256 of 4 KiB: begun, and done", columns);
    for (char const* each : {"copies", "copy_batch"}) { print_line(r, name, each, columns); }
}

struct pinning {
    std::string                      name;
    std::function<void(std::size_t)> take_and_give; ///< allocates and frees once
    double*                          ns;
};

/// Measures the cost of pinned memory in real time. A simulated device has none to pin.
template <class Machine>
void measure_pinning(results& r, staging_bench const& o, std::vector<std::string> const& cases,
                     std::vector<std::string> const& subjects) {
    std::string const name = "pin_" + short_text(o.pin_bytes);
    if (!wanted(o.cases, cases, name, "case")) { return; }
    [[maybe_unused]] auto const time = [&](auto mr) {
        auto const   begin = bench::clock::now();
        void* const  p     = mr.allocate_sync(o.pin_bytes);
        double const ns    = ns_since(begin);
        auto const   then  = bench::clock::now();
        mr.deallocate_sync(p, o.pin_bytes);
        double const gib = static_cast<double>(o.pin_bytes) / 0x1p30;
        return figures{{"GiBps_pinned", gib / (ns / 1e9), "GiB/s"},
                       {"GiBps_unpinned", gib / (ns_since(then) / 1e9), "GiB/s"}};
    };
    std::vector<std::pair<std::string, std::function<figures()>>> all;
#if defined VRAM_BENCH_CUDA
    if constexpr (Machine::is_gpu) {
        all.emplace_back("pinned_resource", [&] { return time(vram::pinned_resource{}); });
        for (unsigned const n : {16U, 8U, 4U, 1U}) {
            all.emplace_back(fmt::format("registered_resource(threads={})", n), [&, n] {
                return time(
                    vram::registered_resource{vram::cuda_device::current(),
                                              vram::registered_options{.pages = {.threads = n}}});
            });
        }
    }
#endif
    if (all.empty()) {
        fmt::print("\nleft out: {}: the simulated device pins in no time\n", name);
        return;
    }
    for (unsigned i = 0; i < o.turns(); ++i) {
        for (auto const& [subject, turn] : all) {
            if (wanted(o.subjects, subjects, subject, "subject")) { r.add(name, subject, turn()); }
        }
    }
    std::vector<std::string> const columns{"GiBps_pinned", "GiBps_unpinned"};
    print_header(name, "gained, and given back", columns);
    for (auto const& each : all) { print_line(r, name, each.first, columns); }
}

/// The bars hold on the host of an H200. Ratios to the link also hold on the simulated device, for
/// large copies.
void judge(verdicts& v, results const& r, staging_bench const& o, bool gpu) {
    std::string const n = short_text(o.bytes);
    auto const of_link  = [&](std::string const& in_case, std::string const& subject, double bar) {
        if (o.bytes < 512_MiB) { return; }
        v.at_least(in_case, subject, "of the link", r.value(in_case, subject, "of_link"), bar);
    };
    if (o.threads[0] >= 8) {
        of_link("pageable_to_device_" + n, "staging", 0.94);
        of_link("device_to_pageable_" + n, "staging", gpu ? 0.95 : 0.94);
        of_link("file_to_device_" + n, "staging", 0.92);
    }
    if (!gpu) { return; }
    of_link("device_to_pageable_" + n, "staging(threads=4)", 0.92);
    v.at_most("pageable_to_device_" + n, "staging", "allocations of the host in a call",
              r.value("pageable_to_device_" + n, "staging", "allocations_per_call"), 0);
    std::string const pin   = "pin_" + short_text(o.pin_bytes);
    auto const        plain = r.value(pin, "pinned_resource", "GiBps_pinned");
    auto const        fast  = r.value(pin, "registered_resource(threads=16)", "GiBps_pinned");
    v.at_least(pin, "registered_resource(threads=16)", "times cudaHostAlloc",
               plain && fast ? std::optional{*fast / *plain} : std::nullopt, 8);
    auto const single = r.value("small_copies", "copies", "us_per_copy");
    auto const batch  = r.value("small_copies", "copy_batch", "us_per_copy");
    v.at_most("small_copies", "copy_batch", "of a copy by itself",
              single && batch ? std::optional{*batch / *single} : std::nullopt, 0.6);
}

template <class Machine>
int run_on(Machine&, staging_bench const& o) {
    std::vector<std::string> cases, subjects;
    for (transfer_case const& c : transfers(o)) { cases.push_back(c.name); }
    cases.push_back("pin_" + short_text(o.pin_bytes));
    cases.emplace_back("small_copies");
    transfers_on<Machine> all{o};
    for (mover const& m : all.movers()) { subjects.push_back(m.name); }
    for (char const* each : {"copies", "copy_batch", "pinned_resource"}) {
        subjects.emplace_back(each);
    }
    for (unsigned const n : {16U, 8U, 4U, 1U}) {
        subjects.push_back(fmt::format("registered_resource(threads={})", n));
    }
    if (o.list) {
        fmt::print("on {}\n\nsubjects\n", Machine::name());
        for (mover const& m : all.movers()) { fmt::print("  {:<32}{}\n", m.name, m.about); }
        for (std::size_t i = all.movers().size(); i < subjects.size(); ++i) {
            fmt::print("  {}\n", subjects[i]);
        }
        fmt::print("\ncases\n");
        for (std::string const& c : cases) { fmt::print("  {}\n", c); }
        return cli::success;
    }
    // An unknown case is reported before anything runs.
    (void)wanted(o.cases, cases, "", "case");
    (void)wanted(o.subjects, subjects, "", "subject");
    cli::output_file json{o.json};
    results          r{"staging"};
    fmt::print("on {}\nmedians of {} turn{}, A B A B; spread: (90th - 10th percentile) / median\n",
               Machine::name(), o.turns(), o.turns() == 1 ? "" : "s");
    measure_transfers(r, o, cases, subjects, all);
    measure_small<Machine>(r, o, cases, subjects);
    measure_pinning<Machine>(r, o, cases, subjects);
    verdicts v;
    judge(v, r, o, Machine::is_gpu);
    v.print();
    json.write(r.rows().dump(1) + "\n");
    return o.check && v.missed() != 0 ? cli::failed : cli::success;
}

int run(staging_bench o) {
    if (o.quick) {
        o.bytes     = std::min(o.bytes, 8_MiB);
        o.pin_bytes = std::min(o.pin_bytes, 64_MiB);
        o.sizes     = {256_KiB};
    }
    std::erase_if(o.sizes, [&](std::size_t n) { return n >= o.bytes; });
    std::size_t const capacity = 4 * o.bytes + 4_GiB;
    return on_machine(o.device, capacity, [&](auto& machine) { return run_on(machine, o); });
}

} // namespace

int main(int argc, char** argv) {
    staging_bench o;
    CLI::App app{"How fast plain host memory and files get to the device and back.", "staging"};
    add_options(app, o);
    cli::add_size(app, "--bytes", o.bytes, "bytes of the large transfers (1GiB)");
    cli::add_size(app, "--pin-bytes", o.pin_bytes, "bytes that are pinned at once (2GiB)");
    cli::add_size(app, "--chunk", o.chunk, "bytes of a chunk of the ring (4MiB)");
    app.add_option("--threads", o.threads,
                   "threads that copy; the first number is `staging`'s (8 4)")
        ->check(CLI::Range(1U, 64U));
    app.add_option("--folder", o.folder, "where the file lies (the system's folder for such)");
    app.add_flag("--small-pages", o.small_pages, "host memory of 4 KiB pages");
    add_profile(app);
    return cli::run(app, argc, argv, [&] { return run(o); });
}
