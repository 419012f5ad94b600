// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `shared_counts` is an array of counters; copies share all parts that are equal.

#include <vram/base/requirements.hpp>

#include <algorithm> // max
#include <atomic>    // atomic
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// An array of counters, at first all 0, without a fixed size. The counters are in the nodes of a
/// tree. Copies of the array share these nodes until one of the copies changes.
///
/// Failure   A change throws `std::bad_alloc` and leaves the values unchanged.
/// Threads   Only one thread at a time may use an object. Different threads may use copies.
/// Cost      A lookup or a change is O(log size).
class shared_counts {
public:
    /// Returns the counter with the index `i`, or 0 if it was never raised.
    [[nodiscard]] std::uint64_t operator[](std::size_t i) const noexcept {
        if (i >= size()) { return 0; }
        node const* at = root_.get();
        for (unsigned level = levels_ - 1; level > 0; --level) {
            if (at == nullptr) { return 0; }
            at = at->below[digit(i, level)].get();
        }
        return at == nullptr ? 0 : at->counts[digit(i, 0)];
    }
    /// Returns a number that is larger than the index of each counter that is not 0.
    [[nodiscard]] std::size_t size() const noexcept {
        return levels_ == 0 ? 0 : std::size_t{1} << (bits * levels_);
    }

    /// Raises the counter with the index `i` to at least `count`.
    void raise(std::size_t i, std::uint64_t count) {
        if ((*this)[i] >= count) { return; }
        while (i >= size()) { grow(); }
        raise(root_, levels_ - 1, i, count);
    }

    /// Raises each counter to at least its value in `other`.
    void raise_all(shared_counts const& other) {
        shared_counts taller;
        if (other.levels_ < levels_ && other.root_) {
            taller = other;
            while (taller.levels_ < levels_) { taller.grow(); }
            return raise_all(taller);
        }
        while (levels_ < other.levels_) { grow(); }
        if (levels_ != 0) {
            larger_of both = larger(root_, other.root_, levels_ - 1);
            root_          = both.is_b ? other.root_ : std::move(both.result);
        }
    }

    /// Returns true if this array and `other` share one tree, so that all their counters are equal.
    [[nodiscard]] bool shares(shared_counts const& other) const noexcept {
        return root_.get() == other.root_.get();
    }

private:
    static constexpr unsigned bits  = 4;
    static constexpr unsigned width = 1U << bits;

    [[nodiscard]] static unsigned digit(std::size_t i, unsigned level) noexcept {
        return static_cast<unsigned>(i >> (bits * level)) % width;
    }

    struct node;
    /// A reference to a node of the tree, or null. The last reference deletes the node.
    class link {
    public:
        link() = default;
        explicit link(node* n) noexcept : node_{n} {}
        link(link const& other) noexcept : node_{other.node_} {
            if (node_ != nullptr) { node_->links.fetch_add(1, std::memory_order_relaxed); }
        }
        link(link&& other) noexcept : node_{std::exchange(other.node_, nullptr)} {}
        link& operator=(link other) noexcept {
            std::swap(node_, other.node_);
            return *this;
        }
        ~link() {
            if (node_ == nullptr) { return; }
            if (node_->links.fetch_sub(1, std::memory_order_acq_rel) == 1) { delete node_; }
        }

        [[nodiscard]] node* get() const noexcept { return node_; }
        explicit            operator bool() const noexcept { return node_ != nullptr; }
        node*               operator->() const noexcept { return node_; }
        friend bool operator==(link const& a, link const& b) noexcept { return a.node_ == b.node_; }

        /// Returns true if no other reference to the node exists.
        [[nodiscard]] bool alone() const noexcept {
            return node_->links.load(std::memory_order_acquire) == 1;
        }

    private:
        node* node_ = nullptr;
    };

    /// A node of the tree. If `leaf` is true, it has counters; if not, references to the nodes of
    /// the level below.
    struct node {
        explicit node(bool is_leaf) noexcept : leaf{is_leaf} {
            if (leaf) {
                for (auto& c : counts) { c = 0; }
            } else {
                for (auto& b : below) { new (&b) link{}; }
            }
        }
        node(node const& other) noexcept : leaf{other.leaf} {
            for (unsigned i = 0; i < width; ++i) {
                if (leaf) {
                    counts[i] = other.counts[i];
                } else {
                    new (&below[i]) link{other.below[i]};
                }
            }
        }
        node& operator=(node const&) = delete;
        ~node() {
            if (leaf) { return; }
            for (auto& b : below) { b.~link(); }
        }

        std::atomic<std::uint32_t> links{1};
        bool                       leaf;
        union {
            std::uint64_t counts[width];
            link          below[width];
        };
    };

    void grow() {
        if (root_) {
            link const higher{new node{false}};
            higher->below[0] = root_;
            root_            = higher;
        }
        ++levels_;
    }

    /// Makes `at` the only reference to its node: creates the node if `at` is null, and copies it
    /// if other references exist.
    static void own(link& at, unsigned level) {
        if (!at) {
            at = link{new node{level == 0}};
        } else if (!at.alone()) {
            at = link{new node{*at.get()}};
        }
    }

    static void raise(link& at, unsigned level, std::size_t i, std::uint64_t count) {
        own(at, level);
        if (level == 0) {
            at->counts[digit(i, 0)] = count;
        } else {
            raise(at->below[digit(i, level)], level - 1, i, count);
        }
    }

    /// The merge of two nodes `a` and `b`, with the larger of each pair of counters.
    struct larger_of {
        link result;
        bool is_a, is_b; ///< `is_a` means that `result` equals `a`, and `is_b` that it equals `b`
    };
    static larger_of larger(link const& a, link const& b, unsigned level) {
        if (a == b || !b) { return {a, true, a == b}; }
        if (!a) { return {b, false, true}; }
        bool is_a = true, is_b = true;
        link parts[width];
        for (unsigned i = 0; i < width; ++i) {
            if (level == 0) {
                is_a = is_a && a->counts[i] >= b->counts[i];
                is_b = is_b && a->counts[i] <= b->counts[i];
            } else if (a->below[i] != b->below[i]) {
                larger_of part = larger(a->below[i], b->below[i], level - 1);
                is_a           = is_a && part.is_a;
                is_b           = is_b && part.is_b;
                parts[i]       = std::move(part.result);
            }
        }
        if (is_a || is_b) { return {is_a ? a : b, is_a, is_b}; }
        link both{new node{level == 0}};
        for (unsigned i = 0; i < width; ++i) {
            if (level == 0) {
                both->counts[i] = std::max(a->counts[i], b->counts[i]);
            } else {
                bool const same = a->below[i] == b->below[i];
                both->below[i]  = same ? a->below[i] : std::move(parts[i]);
            }
        }
        return {both, false, false};
    }

    link root_;
    /// Number of levels that the tree has, or that it gets with its first node.
    unsigned levels_ = 0;
};

} // namespace detail
} // namespace vram
