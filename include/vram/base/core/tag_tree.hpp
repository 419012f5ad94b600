// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tag_tree` stores the tags of the process: each path of names once, for good.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <cstring> // memcmp, memcpy, strlen
#include <mutex>   // mutex, lock_guard
#include <new>     // operator new, nothrow

namespace vram {
namespace detail {

/// One tag. It is never changed or freed after it was made.
struct tag_node {
    tag_node const* outer; ///< the tag that contains this one, or null
    tag_node const* next;  ///< the next tag in the same list of the hash table
    std::uint64_t   hash;
    char const*     path; ///< names from the outermost tag to this one, such as "train/optimizer"
    char const*     name; ///< the last name of `path`
    std::uint32_t   id;   ///< number of the tag in this process; the first tag has 1
};

/// All tags of the process. A tag names the purpose of memory by a path, such as "train/optimizer".
/// Tags are never freed. Each path is stored once, so that equal tags have equal addresses.
///
/// Failure   `descend` leaves out a level (one name of a path) that cannot be stored, because no
///           host memory is left, or because there are too many tags or characters.
/// Threads   Any thread may call any function.
class tag_tree {
public:
    static constexpr std::size_t   longest = 255;    ///< the largest number of characters of a path
    static constexpr std::uint32_t most    = 65'535; ///< the largest number of tags

    /// Returns the tag with the path `outer`/`name`, and creates it if it is new. If `outer` is
    /// null, the path is `name` alone. Each '/' in `name` begins a further level of the path.
    /// Leaves out an empty level, and a level with the same name as the one that contains it.
    [[nodiscard]] static tag_node const* descend(tag_node const* outer, char const* name,
                                                 std::size_t length) noexcept {
        char const* const end = name + length;
        while (name != end) {
            char const* stop = name;
            while (stop != end && *stop != '/') { ++stop; }
            outer = child(outer, name, static_cast<std::size_t>(stop - name));
            name  = stop != end ? stop + 1 : end;
        }
        return outer;
    }

    [[nodiscard]] static tag_node const* find(std::uint32_t id) noexcept {
        if (id == 0 || id > most) { return nullptr; }
        auto const* const block = blocks[id / block_size].load(std::memory_order_acquire);
        return block != nullptr ? block->nodes[id % block_size].load(std::memory_order_acquire)
                                : nullptr;
    }

private:
    static constexpr std::size_t places     = 1024;
    static constexpr std::size_t block_size = 1024;

    struct block_of_nodes {
        std::atomic<tag_node const*> nodes[block_size]{};
    };

    static inline constinit std::atomic<tag_node const*> table[places]{};
    static inline constinit std::atomic<block_of_nodes*> blocks[(most + 1) / block_size]{};
    /// The id of the newest tag; protected by `mutex`.
    static inline constinit std::uint32_t last = 0;
    static inline constinit std::mutex    mutex{};

    [[nodiscard]] static tag_node const* child(tag_node const* outer, char const* name,
                                               std::size_t n) noexcept {
        if (n == 0 || (outer != nullptr && same(outer->name, name, n))) { return outer; }
        std::uint64_t hash = outer != nullptr ? outer->hash : 0xcbf2'9ce4'8422'2325U;
        // This is the hash function FNV-1a.
        hash = (hash ^ '/') * 0x0000'0100'0000'01b3U;
        for (std::size_t i = 0; i != n; ++i) {
            hash = (hash ^ static_cast<unsigned char>(name[i])) * 0x0000'0100'0000'01b3U;
        }
        auto& place = table[(hash ^ hash >> 32) % places];
        if (auto const* const found = look(place, outer, hash, name, n)) { return found; }
        std::lock_guard const held{mutex};
        if (auto const* const found = look(place, outer, hash, name, n)) { return found; }
        tag_node* const made = make(outer, hash, name, n);
        if (made == nullptr) { return outer; }
        made->next = place.load(std::memory_order_relaxed);
        place.store(made, std::memory_order_release);
        return made;
    }

    [[nodiscard]] static bool same(char const* stored, char const* name, std::size_t n) noexcept {
        return std::strlen(stored) == n && std::memcmp(stored, name, n) == 0;
    }
    [[nodiscard]] static tag_node const* look(std::atomic<tag_node const*> const& place,
                                              tag_node const* outer, std::uint64_t hash,
                                              char const* name, std::size_t n) noexcept {
        auto const* each = place.load(std::memory_order_acquire);
        while (each != nullptr &&
               (each->hash != hash || each->outer != outer || !same(each->name, name, n))) {
            each = each->next;
        }
        return each;
    }

    /// Makes the tag `name` within `outer`. Returns null if it cannot be stored. The caller must
    /// hold `mutex`.
    [[nodiscard]] static tag_node* make(tag_node const* outer, std::uint64_t hash, char const* name,
                                        std::size_t n) noexcept {
        std::size_t const before = outer != nullptr ? std::strlen(outer->path) + 1 : 0;
        if (last == most || n > longest || before + n > longest) { return nullptr; }
        auto& block = blocks[(last + 1) / block_size];
        if (block.load(std::memory_order_relaxed) == nullptr) {
            block.store(new (std::nothrow) block_of_nodes, std::memory_order_release);
            if (block.load(std::memory_order_relaxed) == nullptr) { return nullptr; }
        }
        void* const memory = ::operator new(sizeof(tag_node) + before + n + 1, std::nothrow);
        if (memory == nullptr) { return nullptr; }
        char* const path = static_cast<char*>(memory) + sizeof(tag_node);
        if (outer != nullptr) {
            std::memcpy(path, outer->path, before - 1);
            path[before - 1] = '/';
        }
        std::memcpy(path + before, name, n);
        path[before + n] = '\0';

        auto* const made =
            ::new (memory) tag_node{outer, nullptr, hash, path, path + before, ++last};
        block.load(std::memory_order_relaxed)
            ->nodes[last % block_size]
            .store(made, std::memory_order_release);
        return made;
    }
};

} // namespace detail
} // namespace vram
