// SPDX-License-Identifier: Apache-2.0
// A layer of the program: it counts the sizes of requests, and keeps every function of the resource
// below it.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

using namespace vram;

namespace {

/// The number of requests for each power of two of bytes.
struct size_counts {
    std::atomic<std::uint64_t> of[65]{};

    void                        count(std::size_t bytes) noexcept { ++of[std::bit_width(bytes)]; }
    [[nodiscard]] std::uint64_t like(std::size_t bytes) const { return of[std::bit_width(bytes)]; }
};
size_counts all_sizes;

/// A resource that counts the size of each request in a table of the program.
template <resource Upstream>
class counting_sizes : public layer_base<Upstream> { // forwards owns, usage, trim, retire, ...
    using base = layer_base<Upstream>;

public:
    using typename base::stream;

    explicit counting_sizes(Upstream upstream, size_counts* table = &all_sizes)
        : base{std::move(upstream)}, table_{table} {}

    [[nodiscard]] void* allocate(stream s, std::size_t n,
                                 std::size_t alignment = default_alignment) {
        table_->count(n);
        return this->upstream_.allocate(s, n, alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t alignment = default_alignment) {
        table_->count(n);
        return this->upstream_.allocate_sync(n, alignment);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t n,
                                     std::size_t alignment = default_alignment) noexcept
        requires fallible_on_streams<Upstream>
    {
        table_->count(n);
        return this->upstream_.try_allocate(s, n, alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        table_->count(n);
        return this->upstream_.try_allocate_sync(n, alignment);
    }
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t n,
                                           std::size_t alignment = default_alignment)
        requires reusing_resource<Upstream>
    {
        void* const p = this->upstream_.try_allocate_ready(s, n, alignment);
        if (p != nullptr) { table_->count(n); } // otherwise the caller makes another request
        return p;
    }

    void deallocate(stream s, void* p, std::size_t n,
                    std::size_t alignment = default_alignment) noexcept {
        this->upstream_.deallocate(s, p, n, alignment);
    }
    void deallocate_sync(void* p, std::size_t n,
                         std::size_t alignment = default_alignment) noexcept {
        this->upstream_.deallocate_sync(p, n, alignment);
    }

private:
    size_counts* table_;
};

using stack = pool<stream_ordered<sim_resource>>;
static_assert(powers<counting_sizes<stack>>::include<stack>); // no function of the pool is lost
static_assert(powers<stack>::trimmable && powers<stack>::reusing && powers<stack>::peaking);

namespace with_our {
inline constexpr with::word<counting_sizes> sizes{}; // source | sizes
/// The layer with a table of the caller's: source | sizes_in(table).
inline auto sizes_in(size_counts& table) { return with::layer<counting_sizes>(&table); }
} // namespace with_our

/// The stack of this program over any source. A test passes a pool with other options.
template <class Source, class Pool = decltype(with::pool)>
auto our_stack(Source source, Pool over = with::pool) {
    return std::move(source) | with::stream_ordered | over | with_our::sizes;
}

/// A layer with another resource as its second type argument: requests that the source refuses go to
/// host memory that the device can read.
auto spilling() { return with::layer_of<fallback, sim_pinned_resource>(sim_pinned_resource{}); }

/// A layer without its upstream is a value, which can be stored and used for several stacks.
constexpr auto limit_of_a_test = with::layer<limiting>(1_MiB);

} // namespace

int main() {
    sim_node   node;
    sim_stream stream;

    auto memory = our_stack(sim_resource{});
    static_assert(std::is_same_v<decltype(memory), counting_sizes<stack>>);

    void* const p = memory.allocate(stream, 5000);
    memory.deallocate(stream, p, 5000);
    expects(all_sizes.like(5000) == 1, "one request for 4096 to 8191 bytes");
    expects(memory.usage().allocations == 1 && memory.owns(p), "functions of the pool below");

    size_counts table;
    auto        limited = our_stack(sim_resource{} | limit_of_a_test, with::pool({.graphs = true}));
    auto        counted = std::move(limited) | with_our::sizes_in(table);
    expects(counted.try_allocate(stream, 2_MiB) == nullptr, "the limit below the pool");
    expects(table.like(2_MiB) == 1, "a refused request is counted too");

    auto        spilled = limiting{sim_resource{}, 1_MiB} | spilling();
    void* const large   = spilled.allocate_sync(2_MiB);
    expects(sim_platform::memory_kind_of(large) == memory_kind::pinned, "above the limit");
    spilled.deallocate_sync(large, 2_MiB);
}
