// SPDX-License-Identifier: Apache-2.0
// An array of vram becomes a DLPack tensor for another library, and a tensor of another library is
// used in vram, without a copy. On a GPU, `sim_` becomes `cuda_`.

#include <vram/interop/dlpack.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <span>
#include <utility>
#include <vector>

using namespace vram;

namespace {

// [export]
/// Returns a tensor of 64 x 128 numbers, which the other library uses on the stream `theirs`.
dlpack_versioned* exported(std::span<float const> numbers, sim_stream const& stream,
                           sim_stream const& theirs) {
    shared memory{pool{stream_ordered{sim_resource{}}}}; // the tensor keeps the pool alive
    auto   values = make_array<float>(memory, stream, numbers.size());
    values.copy_from(numbers);
    return to_dlpack(std::move(values), theirs, {64, 128});
}
// [/export]

} // namespace

int main() {
    sim_node                 node;
    sim_stream               stream, theirs;
    std::vector<float> const numbers(64 * 128, 0.5F);
    dlpack_versioned*        tensor = exported(numbers, stream, theirs);
    std::vector<float>       back(numbers.size());
    {
        // [import]
        dlpack                       in{tensor, theirs}; // calls the deleter at its end
        std::span<float const> const values = in.as<float const>();
        expects(in.shape()[0] == 64 && in.shape()[1] == 128 && in.device_id() == 0, "64 x 128");
        sim_platform::copy(theirs, back.data(), values.data(), values.size_bytes());
        // [/import]
    }
    expects(back == numbers, "the destructor of `in` has waited for the stream");
    expects(node.reports().empty(), "the device found no error");
}
