// SPDX-License-Identifier: Apache-2.0
// Virtual memory: an array that grows without a copy, and physical pages that move to other
// addresses.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstddef>

using namespace vram;

namespace {

/// Device memory that grows at its end. It copies nothing, and addresses stay valid.
template <expandable_resource Memory>
class growing {
public:
    growing(Memory& memory, std::size_t bytes)
        : memory_{memory}, bytes_{bytes}, data_{memory.allocate_sync(bytes)} {}
    growing(growing&&) = delete;
    ~growing() { memory_.deallocate_sync(data_, bytes_); }

    /// Returns false, and changes nothing, if the next addresses are in use or memory is short.
    [[nodiscard]] bool grow(std::size_t more) noexcept {
        if (!memory_.extend(data_, bytes_, more)) { return false; }
        bytes_ += more;
        return true;
    }
    void shrink(std::size_t less) noexcept {
        memory_.shrink(data_, bytes_, less);
        bytes_ -= less;
    }
    [[nodiscard]] void*       data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

private:
    Memory&     memory_;
    std::size_t bytes_;
    void*       data_;
};

/// Moves the physical memory of the first half of a block behind its end, without an allocation.
/// No stream may still use the first half.
template <remappable_resource Memory>
std::size_t move_first_half(Memory& memory, void* block, std::size_t bytes) {
    if (!memory.widen(block, bytes, bytes / 2)) { return 0; } // addresses without memory
    return memory.remap(block, bytes / 2, static_cast<std::byte*>(block) + bytes, bytes / 2);
}

/// Returns the physical memory of a resource. `sim_virtual_resource` and `virtual_resource` are one
/// template over two interfaces to virtual memory.
template <virtual_memory Memory>
std::size_t physical_bytes(virtual_source<Memory> const& memory) {
    // With CUDA, `memory.export_page(p)` returns a handle with which another process maps a page.
    static_assert(!exportable_memory<Memory>, "the simulated device has one process");
    return memory.usage().reserved;
}

} // namespace

int main() {
    sim_node             node{{.capacity = 1_GiB}};
    sim_virtual_resource memory{{.reserve = 8_GiB, .handle_size = 2_MiB}};

    {
        growing     list{memory, 64_MiB};
        void* const before = list.data();
        expects(list.grow(192_MiB) && list.size() == 256_MiB, "four times as large");
        expects(list.data() == before, "at the same address");
        expects(!list.grow(2_GiB) && list.size() == 256_MiB, "more than the device has");
        list.shrink(128_MiB);
        expects(physical_bytes(memory) == 128_MiB, "the memory of the other half was released");
    }

    void* const block = memory.allocate_sync(64_MiB);
    expects(move_first_half(memory, block, 64_MiB) == 32_MiB, "16 pages were moved");
    expects(memory.mapped(block, 96_MiB) == 64_MiB, "no memory was allocated or released");
    expects(memory.mapped(block, 32_MiB) == 0, "the first half has addresses without memory");
    expects(memory.fill(block, 32_MiB), "it has memory again");
    memory.deallocate_sync(block, 96_MiB);
    expects(physical_bytes(memory) == 0, "all memory is free");
}
