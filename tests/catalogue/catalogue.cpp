// SPDX-License-Identifier: Apache-2.0
#include "catalogue.hpp"

#include <vram/base/error.hpp>
#include <vram/sim/sim.hpp>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace catalogue {
namespace {

pair* first_pair = nullptr;
pair* last_pair  = nullptr;
at    marked;
bool  marked_any = false;

struct outcome {
    std::vector<sim_report>  reports;
    std::optional<sim_error> refusal;
    std::string              failure;
};

outcome run(pair const& p, bool right) {
    outcome     result;
    sim_options options     = p.options;
    options.capacity        = std::min(options.capacity, 1_GiB);
    options.on_report       = sim_on_report::collect;
    marked                  = {};
    marked_any              = false;
    error_sink const before = set_error_sink([](error const&) noexcept {});
    sim_node         node{options};
    try {
        p.program(right);
    } catch (sim_error const& e) { result.refusal = e; } catch (std::exception const& e) {
        result.failure = e.what();
    }
    sim_device{0}.make_current();
    node.finish();
    set_error_sink(before);
    result.reports = node.reports();
    return result;
}

bool at_mark(at where) {
    return marked_any || (where.line() == marked.line() &&
                          std::string_view{where.file_name()} == marked.file_name());
}

/// Returns the difference between the outcome and the expectation; empty if there is none.
std::string difference(outcome const& o, verdict const& expected, bool right) {
    using way         = verdict::way;
    bool const  clean = right || expected.how == way::unchecked;
    std::string text  = o.failure;
    for (sim_report const& r : o.reports) {
        at const where = r.kind == leak ? r.first.where : r.second.where;
        if (clean || expected.how != way::reported || r.kind != expected.mistake) {
            text += "\nunexpected report: " + r.text();
        } else if (!at_mark(where)) {
            text +=
                "\nreport at another line than " + std::to_string(marked.line()) + ": " + r.text();
        }
    }
    if (o.refusal) {
        bool const due = !right && expected.how == way::refused &&
                         o.refusal->status() == expected.status && at_mark(o.refusal->where());
        if (!due) {
            text += "\nunexpected exception at line " + std::to_string(o.refusal->where().line()) +
                    ": " + o.refusal->what();
        }
    }
    if (!clean && expected.how == way::reported && o.reports.empty()) { text += "\nno report"; }
    if (!clean && expected.how == way::refused && !o.refusal) { text += "\nnot refused"; }
    if (!right && marked.line() == 0 && !marked_any) { text += "\nno line is marked"; }
    return text;
}

void* address(sim_range r) { return const_cast<void*>(r.data); }

} // namespace

pair::pair(char const* g, char const* n, char const* r, verdict v, void (*p)(bool), sim_options o)
    : group{g}, name{n}, rule{r}, expected{v}, program{p}, options{std::move(o)} {
    (last_pair == nullptr ? first_pair : last_pair->next) = this;
    last_pair                                             = this;
}

void check(char const* group) {
    // Under ThreadSanitizer threads run freely, and not in the order that the programs expect.
    if (!sim_ordered_threads) { return; }
    int pairs = 0;
    for (pair const* p = first_pair; p != nullptr; p = p->next) {
        if (std::string_view{p->group} != group) { continue; }
        ++pairs;
        for (bool const right : {false, true}) {
            std::string const name = std::string{p->name} + (right ? ", correct" : ", wrong");
            INFO(name);
            std::string const differs = difference(run(*p, right), p->expected, right);
            CHECK_MESSAGE(differs.empty(), differs);
        }
    }
    CHECK(pairs != 0);
}

bool mark(at where) {
    marked = where;
    return true;
}
void mark_any_line() { marked_any = true; }

block::block(kind k, int device, std::size_t bytes, at where)
    : kind_{k}, device_{device}, bytes_{bytes} {
    switch (k) {
    case kind::device:
        data_ = sim_resource{sim_device{device}}.allocate_sync(bytes, 256, where);
        break;
    case kind::pinned: data_ = sim_pinned_resource{}.allocate_sync(bytes, 256, where); break;
    case kind::managed: data_ = sim_managed_resource{}.allocate_sync(bytes, 256, where); break;
    case kind::pageable:
        pageable_ = std::make_unique<std::byte[]>(bytes);
        data_     = pageable_.get();
        break;
    }
}

block::~block() {
    for (int i = 0; i < sim_node::current().devices(); ++i) { sim_device{i}.await_all(); }
    free();
}

void block::free(at where) {
    void* const p = std::exchange(data_, nullptr);
    switch (kind_) {
    case kind::device:
        sim_resource{sim_device{device_}}.deallocate_sync(p, bytes_, 256, where);
        break;
    case kind::pinned: sim_pinned_resource{}.deallocate_sync(p, bytes_, 256, where); break;
    case kind::managed: sim_managed_resource{}.deallocate_sync(p, bytes_, 256, where); break;
    case kind::pageable: break;
    }
}

void reads(sim_stream_view s, sim_range r, at where) {
    sim_device_guard const current{s.device()};
    sim_launch(s, {.name = "reader", .reads = {r}}, where);
}
void writes(sim_stream_view s, sim_range r, at where) {
    sim_device_guard const current{s.device()};
    sim_launch(s, {.name = "writer", .writes = {r}}, where);
}
void copies(sim_stream_view s, sim_range to, sim_range from, at where) {
    sim_device_guard const current{s.device()};
    sim_copy(s, address(to), from.data, std::min(to.bytes, from.bytes), where);
}
void fills(sim_stream_view s, sim_range r, at where) {
    sim_fill(s, address(r), std::byte{1}, r.bytes, where);
}
void host_reads(sim_range r, at where) { sim_touch(r, sim_access::read, where); }
void host_writes(sim_range r, at where) { sim_touch(r, sim_access::write, where); }

void follows(sim_stream_view later, sim_stream_view earlier, at where) {
    sim_event event{earlier.device(), false, where};
    event.record(earlier, where);
    event.wait(later, where);
}
sim_stream stream_of(int device) { return sim_stream{sim_device{device}}; }
sim_stream blocking_stream(int device) {
    return sim_stream{sim_device{device}, {.blocking = true}};
}
sim_stream_view legacy(int device) { return sim_stream_view::legacy(sim_device{device}); }

} // namespace catalogue

TEST_CASE("catalogue: an outcome that differs from the expectation is a failure") {
    using namespace catalogue;
    auto const racy = [](bool right) {
        block const      p;
        sim_stream const s, t;
        writes(s, p);
        if (right) { follows(t, s); }
        MISTAKE(writes(t, p));
    };
    static pair const p{"none", "racy", "", race, racy, {}};
    CHECK(difference(run(p, false), race, false).empty());
    CHECK(difference(run(p, true), race, true).empty());
    CHECK_FALSE(difference(run(p, true), race, false).empty());
    CHECK_FALSE(difference(run(p, false), race, true).empty());
    CHECK_FALSE(difference(run(p, false), use_after_free, false).empty());
    CHECK_FALSE(difference(run(p, false), not_checked(race), false).empty());
    CHECK_FALSE(difference(run(p, false), refused(sim_status::invalid_handle), false).empty());
    outcome const o = run(p, false);
    static_cast<void>(mark(at::current())); // another line
    CHECK_FALSE(difference(o, race, false).empty());
}
