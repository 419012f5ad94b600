// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_counter_books` counts the memory of resources by the events of an observer.

#include <vram/base/core/process_exit.hpp>
#include <vram/base/tag.hpp> // current_tag, memory_tag
#include <vram/concepts/core/owning_process.hpp>
#include <vram/concepts/observer.hpp> // memory_event, memory_event_kind
#include <vram/interop/core/counted_blocks.hpp>
#include <vram/interop/core/nvtx_account.hpp>
#include <vram/interop/core/nvtx_domain.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <cstring>  // strcmp
#include <iterator> // prev
#include <map>      // map
#include <mutex>    // mutex, lock_guard
#include <new>      // bad_alloc
#include <string>   // string
#include <utility>

namespace vram {
namespace detail {

/// Counts the live, reserved and peak bytes of all resources with one name, such as "pool", for an
/// NVTX tool: together in `total` and, if `tags` is true, for each tag that the tool accepts.
/// Without host memory, some bytes are counted only in `total`, or not at all. Any thread may call
/// any function.
class nvtx_resource_books {
public:
    nvtx_resource_books(std::string name, char const* resource, std::int64_t step, bool tags)
        : resource_{resource},
          total_{name, "memory of a resource of vram", step},
          name_{std::move(name)},
          step_{step},
          tags_{tags} {}
    nvtx_resource_books(nvtx_resource_books&&) = delete;
    ~nvtx_resource_books() {
        for (auto& each : of_tags_) {
            block_of_accounts* const block = each.load();
            if (block == nullptr) { continue; }
            for (auto const& one : block->accounts) { delete one.load(); }
            delete block;
        }
    }

    [[nodiscard]] char const*   resource() const noexcept { return resource_; }
    [[nodiscard]] nvtx_account& total() noexcept { return total_; }

    void allocated(void* p, std::size_t bytes) noexcept {
        blocks_.add(p, bytes, account_of(current_tag()), live_change{total_});
    }
    void freed(void* p, std::size_t bytes) noexcept { blocks_.free(p, bytes, live_change{total_}); }
    void free_refused(void* p) noexcept { blocks_.refuse(p, live_change{total_}); }
    void all_freed(void* p, std::size_t bytes) noexcept {
        blocks_.end(p, bytes, live_change{total_});
    }

    void chunk_added(void* p, std::size_t bytes) noexcept {
        nvtx_account* const whose = account_of(current_tag());
        try {
            std::lock_guard const held{mutex_};
            chunks_.insert_or_assign(number(p), chunk{bytes, whose});
        } catch (std::bad_alloc const&) { return; }
        reserve(whose, static_cast<std::int64_t>(bytes));
    }
    /// Subtracts the chunks (memory from the upstream) in the range from the reserved bytes, and
    /// their live blocks from the live bytes.
    void chunk_removed(void* p, std::size_t bytes) noexcept {
        all_freed(p, bytes);
        std::uintptr_t const begin = number(p), end = begin + bytes;
        for (chunk gone = cut(begin, end); gone.bytes != 0; gone = cut(begin, end)) {
            reserve(gone.whose, -static_cast<std::int64_t>(gone.bytes));
        }
    }
    /// Passes the present values of the resource and of each tag to the NVTX tool, if they differ
    /// from those that the tool has.
    void flush() noexcept {
        total_.flush();
        for (auto& each : of_tags_) {
            block_of_accounts* const block = each.load(std::memory_order_acquire);
            if (block == nullptr) { continue; }
            for (auto& one : block->accounts) {
                if (nvtx_account* const a = one.load(std::memory_order_acquire)) { a->flush(); }
            }
        }
    }

    /// Next element of the list of `nvtx_counter_books`, or null. The list has one element for each
    /// name of a resource.
    nvtx_resource_books* next = nullptr;

private:
    static constexpr std::size_t block_size = 1024;

    struct block_of_accounts {
        std::atomic<nvtx_account*> accounts[block_size]{};
    };
    struct chunk {
        std::size_t   bytes = 0;
        nvtx_account* whose = nullptr;
    };

    [[nodiscard]] static std::uintptr_t number(void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p);
    }
    /// Function that `counted_blocks` calls when live bytes change. Adds `by` to the live bytes of
    /// the resource, and to those of the tag `whose` if this pointer is not null.
    struct live_change {
        nvtx_account& total;

        void operator()(nvtx_account* whose, std::int64_t by) const noexcept {
            total.change(by, 0);
            if (whose != nullptr) { whose->change(by, 0); }
        }
    };
    void reserve(nvtx_account* whose, std::int64_t by) noexcept {
        total_.change(0, by);
        if (whose != nullptr) { whose->change(0, by); }
    }
    /// Removes the memory in [begin, end) from the last chunk that overlaps this range. Returns the
    /// number of removed bytes, and the counters of the tag of the chunk. Returns 0 bytes if no
    /// chunk overlaps the range.
    [[nodiscard]] chunk cut(std::uintptr_t begin, std::uintptr_t end) noexcept {
        std::lock_guard const held{mutex_};
        auto                  found = chunks_.lower_bound(end);
        if (found == chunks_.begin()) { return {}; }
        found                      = std::prev(found);
        std::uintptr_t const at    = found->first;
        chunk const          whole = found->second;
        std::uintptr_t const last  = at + whole.bytes;
        if (last <= begin) { return {}; }
        std::uintptr_t const from = at < begin ? begin : at;
        std::uintptr_t const to   = last < end ? last : end;
        try {
            if (to != last) { chunks_[to] = {last - to, whole.whose}; }
        } catch (std::bad_alloc const&) {} // the rest is not counted when it is removed
        if (from == at) {
            chunks_.erase(at);
        } else {
            found->second.bytes = from - at;
        }
        return {to - from, whole.whose};
    }
    /// Returns the counters of a tag, and makes them if necessary. Returns null if the tag is not
    /// counted, for example because the tool has refused the counters.
    [[nodiscard]] nvtx_account* account_of(memory_tag tag) noexcept {
        if (!tags_ || !tag.known()) { return nullptr; }
        auto const* const block = of_tags_[tag.id() / block_size].load(std::memory_order_acquire);
        if (block != nullptr) [[likely]] {
            nvtx_account* const found =
                block->accounts[tag.id() % block_size].load(std::memory_order_acquire);
            if (found != nullptr) [[likely]] { return found->known() ? found : nullptr; }
        }
        return add_account(tag);
    }
    [[gnu::noinline]] nvtx_account* add_account(memory_tag tag) noexcept {
        try {
            std::lock_guard const held{mutex_};
            auto&                 block = of_tags_[tag.id() / block_size];
            if (block.load(std::memory_order_relaxed) == nullptr) {
                block.store(new block_of_accounts, std::memory_order_release);
            }
            auto& place = block.load(std::memory_order_relaxed)->accounts[tag.id() % block_size];
            nvtx_account* made = place.load(std::memory_order_relaxed);
            if (made == nullptr) {
                made =
                    new nvtx_account{name_ + ": " + tag.path(), "memory of a tag of vram", step_};
                place.store(made, std::memory_order_release);
            }
            return made->known() ? made : nullptr;
        } catch (std::bad_alloc const&) { return nullptr; }
    }

    char const*                  resource_;
    nvtx_account                 total_;
    counted_blocks<nvtx_account> blocks_;
    /// Accounts (counters) of the tags, in arrays of 1024 that are created when needed. The account
    /// of the tag with the number `id` is `of_tags_[id / block_size]->accounts[id % block_size]`.
    std::atomic<block_of_accounts*> of_tags_[64]{};
    std::mutex                      mutex_;
    std::map<std::uintptr_t, chunk> chunks_; ///< chunks by start address; guarded by `mutex_`
    std::string                     name_;
    std::int64_t                    step_;
    bool                            tags_;
};

/// Counts live, reserved and peak bytes for an NVTX tool from the events of an observer. There are
/// counters for each name of a resource and, if `tags` is true, for each tag of this resource.
/// Sends nothing in a forked child process, and nothing after the process has begun to end. Any
/// thread may call any function.
class nvtx_counter_books {
public:
    nvtx_counter_books(std::string prefix, std::int64_t step, bool tags)
        : prefix_{std::move(prefix)}, step_{step}, tags_{tags} {
        process_exit::watch();
    }
    nvtx_counter_books(nvtx_counter_books&&) = delete;
    ~nvtx_counter_books() {
        while (nvtx_resource_books* const each = first_.load(std::memory_order_relaxed)) {
            if (may_call()) { each->flush(); }
            first_.store(each->next, std::memory_order_relaxed);
            delete each;
        }
    }

    /// Returns true if an NVTX tool has accepted the counters of a resource. The first event
    /// `chunk_added` registers them.
    [[nodiscard]] bool attached() const noexcept {
        return first_.load(std::memory_order_relaxed) != nullptr;
    }

    template <class Stream>
    void follow(memory_event<Stream> const& e) noexcept {
        using kind = memory_event_kind;
        if (!attached() && (e.kind != kind::chunk_added || no_tool_.load())) [[likely]] { return; }
        if (!may_call()) { return; }
        switch (e.kind) {
        case kind::marked: flush(); return mark(e.name, 0);
        case kind::refused: return mark("refused", e.bytes);
        case kind::retried: return mark("retried", e.bytes);
        case kind::stream_waited:
            return mark(e.stream.has_value() ? "stream waits" : "host waits", e.bytes);
        case kind::chunk_added: {
            nvtx_resource_books* const books = add(e.name);
            if (books != nullptr) { books->chunk_added(e.memory, e.bytes); }
            return;
        }
        default: break;
        }
        nvtx_resource_books* const books = find(e.name);
        if (books == nullptr) { return; }
        switch (e.kind) {
        case kind::allocated: return books->allocated(e.memory, e.bytes);
        case kind::freed: return books->freed(e.memory, e.bytes);
        case kind::free_refused: return books->free_refused(e.memory);
        case kind::all_freed: return books->all_freed(e.memory, e.bytes);
        case kind::chunk_removed: return books->chunk_removed(e.memory, e.bytes);
        default: return;
        }
    }

private:
    [[nodiscard]] bool may_call() const noexcept {
        return owner_.is_current() && !process_exit::began();
    }
    void flush() noexcept {
        auto* each = first_.load(std::memory_order_acquire);
        for (; each != nullptr; each = each->next) { each->flush(); }
    }
    /// Adds an NVTX mark, with a number of bytes if that is not 0.
    static void mark(char const* text, std::size_t bytes) noexcept {
        nvtxEventAttributes_t event{};
        event.version       = NVTX_VERSION;
        event.size          = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        event.messageType   = NVTX_MESSAGE_TYPE_ASCII;
        event.message.ascii = text;
        if (bytes != 0) {
            event.payloadType      = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
            event.payload.ullValue = bytes;
        }
        nvtxDomainMarkEx(nvtx_domain(), &event);
    }
    [[nodiscard]] nvtx_resource_books* find(char const* name) const noexcept {
        auto* each = first_.load(std::memory_order_acquire);
        while (each != nullptr && each->resource() != name &&
               std::strcmp(each->resource(), name) != 0) {
            each = each->next;
        }
        return each;
    }
    /// Returns the counters of the resources named `name`. Makes them, and registers them with the
    /// NVTX tool, if necessary. Returns null if that fails.
    [[nodiscard]] nvtx_resource_books* add(char const* name) noexcept {
        if (nvtx_resource_books* const known = find(name)) { return known; }
        std::lock_guard const held{mutex_};
        if (nvtx_resource_books* const known = find(name)) { return known; }
        try {
            auto* const made = new nvtx_resource_books{prefix_ + name, name, step_, tags_};
            if (!made->total().known()) {
                if (!attached()) { no_tool_.store(true); }
                delete made;
                return nullptr;
            }
            made->next = first_.load(std::memory_order_relaxed);
            first_.store(made, std::memory_order_release);
            return made;
        } catch (std::bad_alloc const&) { return nullptr; }
    }

    owning_process                    owner_;
    std::atomic<nvtx_resource_books*> first_{nullptr};
    /// True if no tool accepted the first counters: `follow` makes no further attempt.
    std::atomic<bool> no_tool_{false};
    std::string       prefix_;
    std::int64_t      step_;
    bool              tags_;
    std::mutex        mutex_;
};

} // namespace detail
} // namespace vram
