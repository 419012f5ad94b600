// SPDX-License-Identifier: Apache-2.0
// An allocator of the program becomes a resource of vram: two functions, a platform, and the
// properties of its memory. Layers and pools then work over it.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdlib>

using namespace vram;

namespace {

/// Another library's tag for memory that the host may access; vram compares the names.
namespace other {
struct host_accessible {};
} // namespace other

/// Host memory of `std::aligned_alloc`, whose blocks are counted.
class counted_heap {
public:
    using platform   = host_platform; // no streams: each call is complete when it returns
    using properties = property_set<host_accessible>;

    explicit counted_heap(int& live) noexcept : live_{&live} {}

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        expects(valid_alignment(alignment), "counted_heap: the alignment is a power of two");
        if (bytes == 0) { return nullptr; }
        std::size_t const rounded = align(bytes, alignment);
        void* const       p       = std::aligned_alloc(alignment, rounded);
        if (p == nullptr) {
            throw out_of_memory{{.asked = bytes, .rounded = rounded, .alignment = alignment}};
        }
        ++*live_;
        return p;
    }
    void deallocate_sync(void* p, std::size_t, std::size_t = default_alignment) noexcept {
        if (p == nullptr) { return; }
        --*live_;
        std::free(p);
    }
    friend bool operator==(counted_heap const&, counted_heap const&) = default;

private:
    int* live_;
};

/// Memory from an array on the stack of the caller, all of it freed with the array.
template <std::size_t Size>
class on_the_stack {
public:
    using platform   = host_platform;
    using properties = property_set<host_accessible>;

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = default_alignment) {
        if (bytes == 0) { return nullptr; }
        auto* const first = static_cast<std::byte*>(align_address(memory_ + used_, alignment));
        auto const  start = static_cast<std::size_t>(first - memory_);
        // `saturating_add` becomes the largest number instead of a small one.
        if (std::size_t const end = saturating_add(start, bytes); end <= Size) {
            used_ = end;
            return first;
        }
        throw out_of_memory{{.asked = bytes, .alignment = alignment, .reserved = Size}};
    }
    void deallocate_sync(void*, std::size_t, std::size_t = default_alignment) noexcept {}

    friend bool operator==(on_the_stack const& a, on_the_stack const& b) noexcept {
        return &a == &b;
    }

private:
    std::byte   memory_[Size];
    std::size_t used_ = 0;
};

static_assert(synchronous_resource<counted_heap> && synchronous_resource<on_the_stack<64>>);
static_assert(!resource<counted_heap>);          // it has no allocation in the order of a stream,
static_assert(!fallible_resource<counted_heap>); // and no `try_allocate_sync`

/// Fills memory on the host. A resource without host memory does not compile.
template <synchronous_resource R>
    requires has_property<R, host_accessible>
void zero(R&, void* p, std::size_t bytes) {
    host_platform::fill({}, p, std::byte{0}, bytes);
}

// Only the two words name properties, in any namespace; and equal words are the same property.
static_assert(property<host_accessible> && property<other::host_accessible> && !property<int>);
static_assert(same_property<host_accessible, other::host_accessible>);
static_assert(has_property<counted_heap, other::host_accessible>);
static_assert(!has_property<counted_heap, device_accessible>);
// CCCL asks with a function that exists if the resource has the property.
static_assert(requires(counted_heap const& heap) { get_property(heap, host_accessible{}); });

} // namespace

int main() {
    on_the_stack<4096> local;
    void* const        page = local.allocate_sync(100, 512);
    expects(is_aligned(page, 512), "as requested");
    bool full = false;
    try {
        (void)local.allocate_sync(unsatisfiable);
    } catch (out_of_memory const&) { full = true; }
    expects(full, "no number overflows");

    int live = 0;
    {
        pool                  memory{limiting{counted_heap{live}, 64_MiB}};
        host_platform::stream none;
        void* const           p = memory.allocate(none, 1_MiB);
        zero(memory, p, 1_MiB);
        expects(static_cast<char const*>(p)[4711] == 0, "the host reads and writes the memory");
        memory.deallocate(none, p, 1_MiB);

        expects(memory.allocate(none, 1_MiB) == p, "the pool kept the block");
        memory.deallocate(none, p, 1_MiB);
        expects(live == 1, "both came from one chunk of the heap");
        bool refused = false;
        try {
            (void)memory.allocate(none, 65_MiB);
        } catch (over_limit const&) { refused = true; }
        expects(refused, "the layer limits the memory of the heap");
    }
    expects(live == 0, "the pool returned the chunk");
}
