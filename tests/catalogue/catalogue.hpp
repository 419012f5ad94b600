// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The catalogue of the simulated device's checks: pairs of a wrong and a correct program, which
/// differ in one statement. `PAIR` defines both as one function that is called with `right` false,
/// then true, each time on a new node. The wrong program must give only reports of the expected
/// kind, at the line that `MISTAKE` marks; the correct one must give none. `cmake/catalogue.py`
/// writes the table of docs/simulator.md from these files.

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <memory>
#include <source_location>

namespace catalogue {

using namespace vram; // NOLINT: for the programs
using enum sim_mistake;
using at = std::source_location;

/// The expected result of a wrong program: reports of a kind, or an exception with a status.
/// `not_checked` states the kind of a mistake, or the error of CUDA, that nothing detects today.
struct verdict {
    enum class way { reported, refused, unchecked };
    verdict(sim_mistake expected) : mistake{expected} {} // NOLINT: implicit on purpose
    verdict(way w, sim_mistake m, sim_status s) : how{w}, mistake{m}, status{s} {}

    way         how = way::reported;
    sim_mistake mistake;
    sim_status  status = sim_status::ok;
};
inline verdict refused(sim_status status) { return {verdict::way::refused, race, status}; }
inline verdict not_checked(sim_mistake m) { return {verdict::way::unchecked, m, sim_status::ok}; }
inline verdict not_checked(sim_status s) { return {verdict::way::unchecked, race, s}; }

/// One pair. Its constructor adds it to the list of all.
struct pair {
    pair(char const* g, char const* n, char const* r, verdict v, void (*p)(bool), sim_options o);

    char const* group;
    char const* name;
    char const* rule; ///< the sentence of CUDA's or vram's documentation that the program violates
    verdict     expected;
    void (*program)(bool right);
    sim_options options;
    pair*       next = nullptr;
};

/// Runs both programs of each pair of `group`, and checks the reports.
void check(char const* group);
/// The next report must have the line of `where`.
bool mark(at where);
/// The report may have any line, because the mistake is in a destructor or within vram.
void mark_any_line();

/// Memory of one kind. The destructor waits for all devices, and frees it.
enum class kind { device, pinned, managed, pageable };
class block {
public:
    explicit block(kind k = kind::device, int device = 0, std::size_t bytes = 4096,
                   at where = at::current());
    block(block const&)            = delete;
    block& operator=(block const&) = delete;
    ~block();

    operator sim_range() const { return {data_, bytes_}; } // NOLINT: implicit on purpose
    [[nodiscard]] void*     data() const { return data_; }
    [[nodiscard]] sim_range part(std::size_t from, std::size_t bytes) const {
        return {static_cast<std::byte*>(data_) + from, bytes};
    }
    [[nodiscard]] sim_range first_half() const { return part(0, bytes_ / 2); }
    [[nodiscard]] sim_range second_half() const { return part(bytes_ / 2, bytes_ / 2); }
    /// Frees the memory now, without a wait.
    void free(at where = at::current());

private:
    kind                         kind_;
    int                          device_;
    std::size_t                  bytes_;
    void*                        data_ = nullptr;
    std::unique_ptr<std::byte[]> pageable_;
};

// Kernels, copies and fills on a stream, and accesses of the host. The calling thread's current
// device is that of the stream during the call, as CUDA demands.
void reads(sim_stream_view s, sim_range r, at where = at::current());
void writes(sim_stream_view s, sim_range r, at where = at::current());
void copies(sim_stream_view s, sim_range to, sim_range from, at where = at::current());
void fills(sim_stream_view s, sim_range r, at where = at::current());
void host_reads(sim_range r, at where = at::current());
void host_writes(sim_range r, at where = at::current());
/// The later work of `later` waits for an event recorded on `earlier` now.
void follows(sim_stream_view later, sim_stream_view earlier, at where = at::current());
/// Returns a non-blocking or blocking stream of a device.
sim_stream      stream_of(int device);
sim_stream      blocking_stream(int device = 0);
sim_stream_view legacy(int device = 0);

} // namespace catalogue

/// Names the group of the pairs that follow, and defines the test that runs them.
#define GROUP(title)                                                                               \
    constexpr char const* group = title;                                                           \
    TEST_CASE("catalogue: " title) { catalogue::check(group); }

/// Defines a pair: its name, the expected result of the wrong program, the rule, and options.
#define PAIR(name, expected, rule, ...)                                                            \
    static void                  name(bool right);                                                 \
    static catalogue::pair const name##_pair{group,    #name, rule,                                \
                                             expected, name,  vram::sim_options{__VA_ARGS__}};     \
    static void                  name([[maybe_unused]] bool right)

/// Marks the expression in which the mistake is reported.
#define MISTAKE(...)                                                                               \
    static_cast<void>(catalogue::mark(std::source_location::current())), __VA_ARGS__
