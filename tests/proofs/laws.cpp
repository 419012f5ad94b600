// SPDX-License-Identifier: Apache-2.0
// The laws detect violations: each of these layers breaks one law and must be detected.
#include <vram/layer/layer_base.hpp>
#include <vram/sim/sim.hpp>

#include "../laws/resource.hpp"

#include <map>

using namespace vram;

namespace {

/// A correct layer, from which each of the wrong ones differs in one point.
template <synchronous_resource Upstream, class Self>
struct almost : layer_base<Upstream> {
    using typename layer_base<Upstream>::stream;

    explicit almost(Upstream upstream) : layer_base<Upstream>{std::move(upstream)} {}

    void* allocate(stream, std::size_t n, std::size_t a = default_alignment) {
        return self().allocate_sync(n, a);
    }
    void deallocate(stream s, void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        Upstream::platform::synchronize(s);
        self().deallocate_sync(p, n, a);
    }
    void* try_allocate(stream, std::size_t n, std::size_t a = default_alignment) noexcept {
        return self().try_allocate_sync(n, a);
    }
    void* try_allocate_sync(std::size_t n, std::size_t a = default_alignment) noexcept {
        try {
            return self().allocate_sync(n, a);
        } catch (...) { return nullptr; }
    }

    Self& self() noexcept { return static_cast<Self&>(*this); }
};

/// Passes another alignment to its upstream.
template <synchronous_resource Upstream>
struct misaligning : almost<Upstream, misaligning<Upstream>> {
    using almost<Upstream, misaligning>::almost;

    void* allocate_sync(std::size_t n, std::size_t = default_alignment) {
        return this->upstream_.allocate_sync(n, 16);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t = default_alignment) noexcept {
        this->upstream_.deallocate_sync(p, n, 16);
    }
};

/// Rounds sizes with overflow.
template <synchronous_resource Upstream>
struct wrapping : almost<Upstream, wrapping<Upstream>> {
    using almost<Upstream, wrapping>::almost;

    static std::size_t rounded(std::size_t n) { return (n + 255) / 256 * 256; }

    void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        return this->upstream_.allocate_sync(n == 0 ? 0 : rounded(n) + 256, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        this->upstream_.deallocate_sync(p, p == nullptr ? 0 : rounded(n) + 256, a);
    }
};

/// Frees with a size that differs from the allocation's.
template <synchronous_resource Upstream>
struct shrinking : almost<Upstream, shrinking<Upstream>> {
    using almost<Upstream, shrinking>::almost;

    void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        return this->upstream_.allocate_sync(align(n, 64), a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        this->upstream_.deallocate_sync(p, n, a);
    }
};

/// Never returns large blocks to its upstream.
template <synchronous_resource Upstream>
struct leaking : almost<Upstream, leaking<Upstream>> {
    using almost<Upstream, leaking>::almost;

    void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        return this->upstream_.allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        if (n <= 4096) { this->upstream_.deallocate_sync(p, n, a); }
    }
};

/// Counts before it allocates, and does not correct the count after a refusal.
template <synchronous_resource Upstream>
struct forgetting : almost<Upstream, forgetting<Upstream>> {
    using almost<Upstream, forgetting>::almost;

    void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        used += n;
        return this->upstream_.allocate_sync(n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        this->upstream_.deallocate_sync(p, n, a);
        used -= n;
    }

    std::size_t used = 0;
};

/// Loses a block if no host memory is left to record it.
template <synchronous_resource Upstream>
struct careless : almost<Upstream, careless<Upstream>> {
    using almost<Upstream, careless>::almost;

    void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        void* const p = this->upstream_.allocate_sync(n, a);
        if (p != nullptr) { sizes.emplace(p, n); }
        return p;
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        sizes.erase(p);
        this->upstream_.deallocate_sync(p, n, a);
    }

    std::map<void*, std::size_t> sizes;
};

/// Caches freed blocks and reuses them for every stream, ignoring pending uses.
template <synchronous_resource Upstream>
struct hasty : layer_base<Upstream> {
    using typename layer_base<Upstream>::stream;

    explicit hasty(Upstream upstream) : layer_base<Upstream>{std::move(upstream)} {}
    hasty(hasty&&) = default;
    ~hasty() {
        for (auto const& [size, p] : kept) { this->upstream_.deallocate_sync(p, size, 4096); }
    }

    void* allocate(stream, std::size_t n, std::size_t = default_alignment) {
        auto const found = kept.find(align(n, 4096));
        if (found == kept.end()) { return this->upstream_.allocate_sync(align(n, 4096), 4096); }
        return kept.extract(found).mapped();
    }
    void deallocate(stream, void* p, std::size_t n, std::size_t = default_alignment) noexcept {
        if (p != nullptr) { kept.emplace(align(n, 4096), p); }
    }
    void* allocate_sync(std::size_t n, std::size_t a = default_alignment) {
        return allocate({}, n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment) noexcept {
        deallocate({}, p, n, a);
    }
    void* try_allocate(stream s, std::size_t n, std::size_t a = default_alignment) noexcept {
        try {
            return allocate(s, n, a);
        } catch (...) { return nullptr; }
    }
    void* try_allocate_sync(std::size_t n, std::size_t a = default_alignment) noexcept {
        return try_allocate({}, n, a);
    }

    std::multimap<std::size_t, void*> kept;
};

template <template <class> class Layer>
auto over = [](auto up) { return Layer<decltype(up)>{std::move(up)}; };

auto const observe_nothing = [](auto&) { return 0; };
auto const one_block       = [](auto& mr) { laws::block const held{mr, 100}; };

} // namespace

// doctest marks these as passed because a check in them fails.
TEST_CASE("laws: a lost alignment is detected" * doctest::should_fail()) {
    laws::resource(over<misaligning>, {.operations = 50});
}
TEST_CASE("laws: a size that overflows is detected" * doctest::should_fail()) {
    laws::resource(over<wrapping>, {.operations = 50});
}
TEST_CASE("laws: a block that is freed with another size is detected" * doctest::should_fail()) {
    laws::resource(over<shrinking>, {.operations = 50});
}
TEST_CASE("laws: a block that is never freed is detected" * doctest::should_fail()) {
    laws::resource(over<leaking>, {.operations = 50});
}
TEST_CASE("laws: bytes that stay counted after a failure are detected" * doctest::should_fail()) {
    laws::survives_every_failure(over<forgetting>, one_block, [](auto& mr) { return mr.used; });
}
TEST_CASE("laws: a block that is lost if host memory fails is detected" * doctest::should_fail()) {
    laws::survives_every_failure(over<careless>, one_block, observe_nothing);
}

TEST_CASE("laws: memory that another stream still uses is detected") {
    sim_node node{{.on_report = sim_on_report::collect}};
    {
        hasty mr{sim_resource{}};
        laws::model_heap<hasty<sim_resource>>{mr, {.operations = 200, .touch = true}, false}.run();
    }
    bool raced = false;
    for (auto const& each : node.reports()) { raced = raced || each.kind == sim_mistake::race; }
    CHECK(raced);
}
