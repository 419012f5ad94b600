// SPDX-License-Identifier: Apache-2.0
// Errors are numbers: a program writes them to its own log, gives its own error codes names, and
// receives broken contracts.

#include <vram/sim/sim.hpp>
#include <vram/version.hpp>
#include <vram/vram.hpp>

#include <cstdio>
#include <cstring>
#include <source_location>

using namespace vram;

namespace {

/// Prints a stream as this program's log does.
void log_stream(stream_name const& stream) {
    if (!stream.known()) { return; }
    if (stream.is_default) {
        std::printf(" stream=default");
    } else {
        std::printf(" stream=%llu", static_cast<unsigned long long>(stream.id));
    }
}

int logged = 0;

void log_error(error const& e) noexcept {
    ++logged;
    std::printf("kind=\"%s\" bytes=%zu block_bytes=%zu", name(e.kind), e.bytes, e.block_bytes);
    log_stream(e.stream);
    if (e.text_of != nullptr) { // the platform names its error codes
        code_text const text = e.text_of(e.code);
        std::printf(" code=%s (%s)", text.name, text.description);
    }
    std::printf("\n");
}

void an_own_error_code() {
    // A resource of the program reports a failure of its own driver, by its name.
    error const failure{.kind     = error_kind::platform_error,
                        .code     = 5,
                        .stream   = {.id = 7},
                        .resource = "fpga_resource",
                        .call     = "fpga_free",
                        .text_of  = [](int code) noexcept -> code_text {
                            if (code == 5) { return {"FPGA_BUSY", "the board is in use"}; }
                            return {};
                        }};
    report_error(failure);
    expects(std::strstr(error_text{failure}.c_str(), "FPGA_BUSY") != nullptr, "the text names it");
}

void refusals() {
    limiting memory{sim_resource{}, 1_MiB};
    void*    p = memory.allocate_sync(768_KiB);
    try {
        (void)memory.allocate_sync(512_KiB);
    } catch (out_of_memory const& e) {
        shortage const& n = e.numbers(); // no text: numbers
        expects(n.asked == 512_KiB && n.live == 768_KiB, "the request, and the live bytes");
        expects(n.has_limit() && n.limit == 1_MiB, "the limit of the resource that refused");
    }
    memory.deallocate_sync(p, 768_KiB);

    slab blocks{stream_ordered{sim_resource{}}, 64_KiB};
    try {
        (void)blocks.allocate_sync(65_KiB);
    } catch (over_size const& e) { // no free memory would help: the request is too large
        expects(e.block_bytes() == 64_KiB, "the size of each block");
    }
}

/// Frees a block after its contents were overwritten. A free must not throw: an error of the device
/// goes to the error sink.
void scrub_and_free(sim_resource& memory, void* p, std::size_t bytes) noexcept {
    try {
        sim_stream const stream;
        sim_fill(stream, p, std::byte{0}, bytes);
        stream.synchronize();
    } catch (sim_error const& e) {
        report_error({.kind    = error_kind::platform_error,
                      .pointer = p,
                      .bytes   = bytes,
                      .where   = e.where(),
                      .call    = "the fill of a block"});
    }
    memory.deallocate_sync(p, bytes);
}

void a_device_that_failed() {
    sim_resource memory;
    void* const  p = memory.allocate_sync(1_KiB);
    sim_node::current().faults().at(sim_call_kind::copy, 1, {.status = sim_status::copy_failed});
    int const before = logged;
    scrub_and_free(memory, p, 1_KiB);
    expects(logged == before + 1, "the fill failed");

    // A driver of the program states that its device has failed: the next error is reported as that
    // failure, and its consequences are not reported.
    note_device_failure(9, [](int) noexcept -> code_text { return {"FPGA_LOST", "no answer"}; });
    for (int i = 0; i < 3; ++i) {
        report_error({.kind = error_kind::platform_error, .code = 9, .call = "fpga_free"});
    }
    expects(logged == before + 2, "one report instead of three");
    forget_device_failure(); // for the next test
}

/// A broken contract aborts the program; a handler can throw instead, which suits a test.
struct broken {
    contract what;
};

void broken_contracts() {
    contract_handler const before =
        set_contract_handler([](contract const& c) { throw broken{c}; });
    bool thrown = false;
    try {
        slab const blocks{stream_ordered{sim_resource{}}, 0}; // blocks of 0 bytes
    } catch (broken const& e) {
        thrown = true;
        std::printf("%s (%s)\n", e.what.what, e.what.where.function_name());
    }
    expects(thrown, "the constructor checks its arguments");
    thrown = false;
    try {
        broken_contract("this table is never full"); // `expects(false, ...)`, which does not return
    } catch (broken const&) { thrown = true; }
    expects(thrown, "the program may report its own contracts");
    set_contract_handler(before);
}

} // namespace

static_assert(VRAM_VERSION >= 100 && VRAM_VERSION_MAJOR == 0);

int main() {
    std::printf("vram %s, %d.%d, patch %d\n", VRAM_VERSION_STRING, VRAM_VERSION_MAJOR,
                VRAM_VERSION_MINOR, VRAM_VERSION_PATCH);
    sim_node         node{{.on_report = sim_on_report::collect}};
    error_sink const before = set_error_sink(log_error);
    {
        pool<stream_ordered<sim_resource>> memory;
        sim_stream                         stream;
        void* const                        p = memory.allocate(stream, 1_MiB);
        memory.deallocate(stream, p, 2_MiB); // the wrong size: reported, not freed
        memory.deallocate(stream, p, 1_MiB);
        stream.synchronize();
    }
    expects(logged == 1, "one mistake");
    an_own_error_code();
    expects(logged == 2, "and one failure of the board");
    refusals();
    a_device_that_failed();
    broken_contracts();
    set_error_sink(before);
}
