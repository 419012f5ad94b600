// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `ledger` is the test's own record of a resource's live blocks, and of broken rules.

#include "quiet.hpp" // quiet_map

#include <vram/base/align.hpp> // aligned

#include <cstddef> // size_t
#include <cstdint> // uint64_t, uintptr_t
#include <mutex>   // mutex, scoped_lock

namespace doubles {

/// The stream of a block that no stream allocated. Streams are recorded by the platform's ids.
inline constexpr std::uint64_t no_stream = ~std::uint64_t{0};

/// All live blocks, by address. The test owns it, and it outlives the resource. Thread-safe.
class ledger {
public:
    struct block {
        std::size_t   bytes     = 0;
        std::size_t   alignment = 0;
        std::uint64_t stream    = no_stream; ///< stream of the allocation
    };

    void took(void* p, std::size_t bytes, std::size_t alignment, std::uint64_t stream) {
        std::scoped_lock const held{mutex_};
        last_stream_ = stream;
        if (p == nullptr) { return; }
        ++allocations_;
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        if (!vram::is_aligned(p, alignment)) { broke("a block is not aligned as asked"); }
        auto const next = blocks_.lower_bound(address);
        if (next != blocks_.end() && next->first - address < bytes) { broke("two blocks overlap"); }
        if (next != blocks_.begin()) {
            auto const before = std::prev(next);
            if (address - before->first < before->second.bytes) { broke("two blocks overlap"); }
        }
        blocks_[address] = {bytes, alignment, stream};
        out_ += bytes;
        if (out_ > peak_) { peak_ = out_; }
    }

    /// Must be called before the block is really freed: after that another thread may get the same
    /// address.
    void gave(void* p, std::size_t bytes, std::size_t alignment, std::uint64_t stream) noexcept {
        std::scoped_lock const held{mutex_};
        last_stream_ = stream;
        if (p == nullptr) { return; }
        ++deallocations_;
        auto const found = blocks_.find(reinterpret_cast<std::uintptr_t>(p));
        if (found == blocks_.end()) { return broke("a block came back that was not out"); }
        if (found->second.bytes != bytes) { broke("a block came back with another size"); }
        if (found->second.alignment != alignment) {
            broke("a block came back with another alignment");
        }
        out_ -= found->second.bytes;
        blocks_.erase(found);
    }

    [[nodiscard]] bool has(void const* p) const {
        std::scoped_lock const held{mutex_};
        auto const             address = reinterpret_cast<std::uintptr_t>(p);
        auto                   at      = blocks_.upper_bound(address);
        return at != blocks_.begin() && (--at, address - at->first < at->second.bytes);
    }

    // clang-format off
    [[nodiscard]] std::size_t   blocks() const        { std::scoped_lock const held{mutex_}; return blocks_.size(); }
    [[nodiscard]] std::size_t   out() const           { std::scoped_lock const held{mutex_}; return out_; }
    [[nodiscard]] std::size_t   peak() const          { std::scoped_lock const held{mutex_}; return peak_; }
    [[nodiscard]] std::uint64_t allocations() const   { std::scoped_lock const held{mutex_}; return allocations_; }
    [[nodiscard]] std::uint64_t deallocations() const { std::scoped_lock const held{mutex_}; return deallocations_; }
    [[nodiscard]] std::uint64_t last_stream() const   { std::scoped_lock const held{mutex_}; return last_stream_; }
    /// Returns the first rule that was broken, or an empty string.
    [[nodiscard]] char const*   broken() const        { std::scoped_lock const held{mutex_}; return broken_; }
    // clang-format on

private:
    void broke(char const* rule) noexcept {
        if (*broken_ == '\0') { broken_ = rule; }
    }

    mutable std::mutex               mutex_;
    quiet_map<std::uintptr_t, block> blocks_;
    std::size_t                      out_           = 0;
    std::size_t                      peak_          = 0;
    std::uint64_t                    allocations_   = 0;
    std::uint64_t                    deallocations_ = 0;
    std::uint64_t                    last_stream_   = no_stream;
    char const*                      broken_        = "";
};

} // namespace doubles
