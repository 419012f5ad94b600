// SPDX-License-Identifier: Apache-2.0
// The layer of CONTRIBUTING.md, to show that the code of the page compiles and keeps the laws.
#include <vram/base/align.hpp>
#include <vram/base/bytes.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp>

#include "../laws/resource.hpp"

namespace vram {

// [layer]
/// A resource that asks its upstream for whole steps only.
template <synchronous_resource Upstream>
class rounding : public layer_base<Upstream> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;

    rounding(Upstream upstream, std::size_t step) : base{std::move(upstream)}, step_{step} {}

    [[nodiscard]] void* allocate(stream s, std::size_t n, std::size_t alignment = default_alignment)
        requires resource<Upstream>
    {
        return this->upstream_.allocate(s, align(n, step_), alignment);
    }
    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t alignment = default_alignment) {
        return this->upstream_.allocate_sync(align(n, step_), alignment);
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t n,
                                     std::size_t alignment = default_alignment) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        return this->upstream_.try_allocate(s, align(n, step_), alignment);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t alignment = default_alignment) noexcept
        requires fallible_resource<Upstream>
    {
        return this->upstream_.try_allocate_sync(align(n, step_), alignment);
    }

    void deallocate(stream s, void* p, std::size_t n,
                    std::size_t alignment = default_alignment) noexcept
        requires resource<Upstream>
    {
        this->upstream_.deallocate(s, p, align(n, step_), alignment);
    }
    void deallocate_sync(void* p, std::size_t n,
                         std::size_t alignment = default_alignment) noexcept {
        this->upstream_.deallocate_sync(p, align(n, step_), alignment);
    }

private:
    std::size_t step_;
};
// [/layer]

// [with]
namespace with {
inline auto rounding(std::size_t step) { return layer<vram::rounding>(step); }
} // namespace with
// [/with]

} // namespace vram

using namespace vram;

// [test]
template class vram::rounding<doubles::archetype<>>;

TEST_CASE("rounding: it keeps the laws of a resource") {
    laws::resource([](auto up) { return rounding{std::move(up), 4_KiB}; });
}
// [/test]
