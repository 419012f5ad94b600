// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `watched_blocks` looks at every block whose end moves, and lets a test act meanwhile.

#include <vram/layer/layer_base.hpp>         // layer_base
#include <vram/sim/sim_virtual_resource.hpp> // sim_virtual_resource

#include "small_pages.hpp" // small_page

#include <atomic>     // atomic
#include <cstddef>    // size_t
#include <functional> // function
#include <map>        // map
#include <mutex>      // mutex, lock_guard
#include <utility>    // move, exchange

namespace doubles {

/// What happened to the blocks of a `watched_blocks`, and what is to happen.
struct watch {
    /// Called once, in the middle of the next call that moves an end: in, or out.
    std::function<void()>    during_extend;
    std::function<void()>    during_shrink;
    std::atomic<bool>        refuse{false}; ///< `extend` says no
    std::atomic<std::size_t> allocations{0};
    std::atomic<std::size_t> extensions{0};
    std::atomic<std::size_t> shrinks{0};
    std::atomic<bool>        broken{false}; ///< a block came back, or was moved, with a wrong size

    [[nodiscard]] std::size_t blocks() {
        std::lock_guard const held{mutex};
        return sizes.size();
    }
    [[nodiscard]] std::size_t bytes() {
        std::lock_guard const held{mutex};
        std::size_t           sum = 0;
        for (auto const& [p, size] : sizes) { sum += size; }
        return sum;
    }
    /// The block at `p` is `bytes` large.
    void expect(void* p, std::size_t bytes) {
        std::lock_guard const held{mutex};
        auto const            found = sizes.find(p);
        if (found == sizes.end() || found->second != bytes) { broken = true; }
    }
    /// The block at `p` is `from` bytes large, and `to` from here on.
    void change(void* p, std::size_t from, std::size_t to) {
        std::lock_guard const held{mutex};
        auto const            found = sizes.try_emplace(p, 0).first;
        if (found->second != from) { broken = true; }
        found->second = to;
        if (to == 0) { sizes.erase(found); }
    }

    std::mutex                   mutex;
    std::map<void*, std::size_t> sizes;
};

/// Virtual memory of the simulated device in small pages. Its powers are those of a source that a
/// pool can grow in.
class watched_blocks : public vram::layer_base<vram::sim_virtual_resource> {
    using base = vram::layer_base<vram::sim_virtual_resource>;

public:
    explicit watched_blocks(watch& seen)
        : base{vram::sim_virtual_resource{{.reserve = 1 << 30, .handle_size = small_page}}},
          seen_{&seen} {}

    [[nodiscard]] void* allocate_sync(std::size_t n, std::size_t a = vram::default_alignment) {
        return noted(upstream_.allocate_sync(n, a), n);
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t n,
                                          std::size_t a = vram::default_alignment) noexcept {
        return noted(upstream_.try_allocate_sync(n, a), n);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = vram::default_alignment) noexcept {
        if (p != nullptr) { seen_->change(p, n, 0); }
        upstream_.deallocate_sync(p, n, a);
    }

    [[nodiscard]] std::size_t page_size() const noexcept { return upstream_.page_size(); }
    [[nodiscard]] bool        extend(void* p, std::size_t n, std::size_t more) noexcept {
        seen_->expect(p, n);
        act(seen_->during_extend);
        if (seen_->refuse || !upstream_.extend(p, n, more)) { return false; }
        seen_->change(p, n, n + more);
        ++seen_->extensions;
        return true;
    }
    std::size_t shrink(void* p, std::size_t n, std::size_t less) noexcept {
        act(seen_->during_shrink);
        seen_->change(p, n, n - less);
        ++seen_->shrinks;
        return upstream_.shrink(p, n, less);
    }

private:
    void* noted(void* p, std::size_t n) {
        if (p != nullptr) {
            seen_->change(p, 0, n);
            ++seen_->allocations;
        }
        return p;
    }
    static void act(std::function<void()>& what) {
        if (what) { std::exchange(what, nullptr)(); }
    }

    watch* seen_;
};

static_assert(vram::expandable_resource<watched_blocks>);

} // namespace doubles
