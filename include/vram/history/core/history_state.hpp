// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `history_state` stores the events of a `history`, and makes records of them.

#include <vram/base/call_site.hpp>
#include <vram/base/call_stack.hpp>
#include <vram/base/core/lock.hpp>
#include <vram/base/core/report_caught.hpp>
#include <vram/base/tag.hpp> // memory_tag
#include <vram/concepts/core/owning_process.hpp>
#include <vram/concepts/observer.hpp> // memory_event_kind
#include <vram/history/core/byte_file.hpp>
#include <vram/history/core/event_ring.hpp>
#include <vram/history/history_record.hpp>
#include <vram/probe/core/tick_clock.hpp>

#include <algorithm> // sort
#include <atomic>    // atomic
#include <bit>       // bit_cast
#include <cstddef>
#include <cstdint>
#include <map>           // map
#include <set>           // set
#include <string>        // string
#include <type_traits>   // is_trivially_copyable_v
#include <unordered_map> // unordered_map
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// The words of an event in an `event_ring`. Only a history with call stacks has the last one.
struct history_words {
    enum index : std::size_t { time, about, memory, bytes, stream, resource, name, site, stack };

    std::uint64_t at[stack + 1];

    void store(std::size_t which, std::uint64_t word) noexcept { at[which] = word; }

    /// Packs the kind, thread number and tag of an event, and whether it has a stream, into one
    /// 64-bit word, which is stored at the index `about` of the event's words.
    [[nodiscard]] static std::uint64_t pack(memory_event_kind kind, unsigned thread,
                                            bool has_stream, std::uint32_t tag) noexcept {
        return static_cast<std::uint64_t>(kind) | std::uint64_t{has_stream} << 8 |
               std::uint64_t{thread & 0xFFFFU} << 16 | std::uint64_t{tag} << 32;
    }

    /// Returns a call stack as a 64-bit number. `stack_of` converts the number back.
    [[nodiscard]] static std::uint64_t pack(call_stack of) noexcept {
        return std::bit_cast<std::uintptr_t>(of);
    }
    [[nodiscard]] static call_stack stack_of(std::uint64_t word) noexcept {
        return std::bit_cast<call_stack>(static_cast<std::uintptr_t>(word));
    }

    /// Returns a source line (`call_site`) as a number, which `line` converts back. Returns 0, an
    /// unknown line, if the type `call_site` does not have 64 bits.
    [[nodiscard]] static std::uint64_t pack(call_site at) noexcept {
        if constexpr (sizeof(call_site) == sizeof(std::uint64_t)) {
            return std::bit_cast<std::uint64_t>(at);
        } else {
            return 0;
        }
    }
    [[nodiscard]] static call_site line(std::uint64_t word) noexcept {
        if constexpr (sizeof(call_site) == sizeof(std::uint64_t)) {
            return std::bit_cast<call_site>(word);
        } else {
            return {};
        }
    }
};

class history_state;

/// A file that a `history_trigger` writes: the path, the format, and the process that writes it.
struct history_file {
    std::string path;
    void (*format)(history_record const&, byte_file&);
    owning_process owner{};

    /// Writes the events of `from` to the file `path`, but not in a forked child, which would
    /// replace the file of its parent. Reports an error to the error sink.
    void write(history_state const& from) const noexcept;
    /// Called in a `catch` block of `write`: reports the caught exception to the error sink.
    static void report() noexcept {
        report_caught({.kind   = error_kind::lost_exception,
                       .call   = "the write of a history",
                       .advice = "The program continues; the file was not written."});
    }
};

/// The stored events of a `history`, and the present chunks of its resources. All copies of a
/// `history`, and its triggers (`history_trigger`), use one `history_state`. Any thread may call
/// any function.
class history_state {
public:
    history_state(std::size_t events, unsigned frames, std::uint32_t device)
        : ring_{events, std::size_t{history_words::stack} + (frames != 0 ? 1U : 0U)},
          frames_{frames},
          device_{device} {}

    /// Stores an event of the calling thread, which has the number `thread`. This function stores
    /// the time; `fill(to)` must store the other words of the event (see `history_words`) in `to`.
    template <class Fill>
    [[gnu::always_inline]] void append(unsigned thread, Fill const& fill) noexcept {
        ring_.append(thread, [&](event_ring::place to) {
            to.store(history_words::time, tick_clock::now());
            fill(to);
        });
    }
    /// Stores an event of any kind. If the event is about chunks, also updates the present chunks.
    /// If it is a refusal, may also write the files of `write_on_refusal`.
    template <class Fill>
    [[gnu::noinline]] void append_rare(memory_event_kind kind, unsigned thread,
                                       Fill const& fill) noexcept {
        switch (kind) {
        case memory_event_kind::chunk_added:
        case memory_event_kind::chunk_removed:
        case memory_event_kind::pages_mapped: {
            history_words words{};
            fill(words);
            auto const held = lock_.hold();
            append(thread, fill);
            return change_chunks(kind, words.at);
        }
        case memory_event_kind::refused: append(thread, fill); return refused();
        default: return append(thread, fill);
        }
    }

    /// Adds `which` to the files that are written after a refusal. At most one refusal in each
    /// second of the clock writes them.
    void write_on_refusal(history_file which) {
        auto const held = lock_.hold();
        on_refusal_.push_back(std::move(which));
        writes_on_refusal_.store(true, std::memory_order_release);
    }

    [[nodiscard]] unsigned          frames() const noexcept { return frames_; }
    [[nodiscard]] event_ring const& ring() const noexcept { return ring_; }

    /// Returns the stored events in order of time, without those that are older than an overwritten
    /// event.
    [[nodiscard]] history_record record() const {
        history_record    made;
        interned          names{made};
        tick_clock::ticks until = 0;
        made.device             = device_;
        {
            auto const held = lock_.hold();
            until           = tick_clock::now();
            for (auto const& [key, held_chunk] : chunks_) {
                std::uint32_t const          resource = names.resource(held_chunk.name, key.first);
                bool const                   grows    = growing_.contains(key.first);
                history_record::chunk* const last =
                    made.chunks.empty() ? nullptr : &made.chunks.back();
                if (grows && last != nullptr && last->resource == resource &&
                    last->memory + last->bytes == key.second) {
                    last->bytes += held_chunk.bytes;
                } else {
                    made.chunks.push_back({key.second, held_chunk.bytes, resource, grows});
                }
            }
        }
        std::vector<std::uint64_t>                         copied;
        std::vector<std::pair<std::uint64_t, std::size_t>> order;
        ring_.read([&](std::uint64_t const* words) {
            if (words[history_words::time] > until) { return; }
            order.emplace_back(words[history_words::time], copied.size());
            copied.insert(copied.end(), words, words + ring_.width());
        });
        // Counted after `read`, which leaves out events that are overwritten meanwhile.
        made.overwritten = ring_.overwritten();
        // Removes the events that are older than the latest overwritten event. Events that followed
        // them, such as the free of a block, may have been overwritten.
        made.overwritten += std::erase_if(
            order, [horizon = ring_.horizon()](auto const& e) { return e.first < horizon; });
        std::sort(order.begin(), order.end());
        auto const clock = clock_.conversion();
        made.events.reserve(order.size());
        for (auto const& [time, at] : order) {
            made.events.push_back(names.event(copied.data() + at, ring_.width()));
            made.events.back().time = clock.nanoseconds(time);
        }
        return made;
    }

private:
    /// Converts stored events into events of a `history_record`. Replaces each pointer or tag
    /// number by an index in a table of the record. A new value gets a new entry in this table.
    class interned {
    public:
        explicit interned(history_record& into) : into_{into} {}

        [[nodiscard]] history_record::event event(std::uint64_t const* words, std::size_t width) {
            using w                     = history_words;
            std::uint64_t const   about = words[w::about];
            history_record::event e;
            e.kind       = static_cast<memory_event_kind>(about & 0xFF);
            e.has_stream = (about >> 8 & 1) != 0;
            e.thread     = static_cast<std::uint16_t>(about >> 16);
            e.tag        = tag(static_cast<std::uint32_t>(about >> 32));
            e.site       = site(words[w::site]);
            e.memory     = words[w::memory];
            e.bytes      = words[w::bytes];
            e.stream     = words[w::stream];
            e.resource =
                resource(std::bit_cast<char const*>(static_cast<std::uintptr_t>(words[w::name])),
                         e.kind == memory_event_kind::marked ? 0 : words[w::resource]);
            e.stack = width > w::stack ? stack(words[w::stack]) : 0;
            return e;
        }

        [[nodiscard]] std::uint32_t resource(char const* name, std::uint64_t identity) {
            auto const [found, fresh] = resources_.try_emplace({name, identity});
            if (fresh) {
                found->second = next(into_.resources);
                into_.resources.push_back({name, identity});
            }
            return found->second;
        }

    private:
        template <class Table>
        [[nodiscard]] static std::uint32_t next(Table const& table) noexcept {
            return static_cast<std::uint32_t>(table.size());
        }
        [[nodiscard]] std::uint32_t site(std::uint64_t word) {
            if (word == last_site_.first) { return last_site_.second; }
            auto const [found, fresh] = sites_.try_emplace(word);
            if (fresh) {
                call_site const at = history_words::line(word);
                if (at.known()) {
                    found->second = next(into_.sites);
                    into_.sites.push_back({at.file(), at.function(), at.line()});
                }
            }
            last_site_ = {word, found->second};
            return found->second;
        }
        [[nodiscard]] std::uint32_t tag(std::uint32_t id) {
            if (id == 0) { return 0; }
            auto const [found, fresh] = tags_.try_emplace(id);
            if (fresh) {
                found->second = next(into_.tags);
                into_.tags.push_back(name_of_tag(id));
            }
            return found->second;
        }
        [[nodiscard]] std::uint32_t stack(std::uint64_t word) {
            if (word == 0) { return 0; }
            auto const [found, fresh] = stacks_.try_emplace(word);
            if (fresh) {
                call_stack const of = history_words::stack_of(word);
                found->second       = next(into_.stacks);
                into_.stacks.emplace_back();
                for (std::size_t i = 0; i < of.size(); ++i) {
                    into_.stacks.back().push_back(std::bit_cast<std::uintptr_t>(of[i]));
                }
            }
            return found->second;
        }
        [[nodiscard]] static std::string name_of_tag(std::uint32_t id) {
            return memory_tag::of_id(id).path();
        }

        history_record&                                                into_;
        std::map<std::pair<char const*, std::uint64_t>, std::uint32_t> resources_;
        std::unordered_map<std::uint64_t, std::uint32_t>               sites_;
        std::unordered_map<std::uint32_t, std::uint32_t>               tags_;
        std::unordered_map<std::uint64_t, std::uint32_t>               stacks_;
        std::pair<std::uint64_t, std::uint32_t>                        last_site_{0, 0};
    };

    struct chunk {
        std::uint64_t bytes;
        char const*   name;
    };

    /// After an event, updates `chunks_` (the present chunks) and `growing_` (resources with chunks
    /// that grow). `words`: the words of the event, in the order of `history_words::index`.
    void change_chunks(memory_event_kind kind, std::uint64_t const* words) noexcept {
        using w                      = history_words;
        std::uint64_t const resource = words[w::resource];
        std::uint64_t const memory   = words[w::memory];
        // Erases all entries of `chunks_` that begin in the removed chunk. A chunk of virtual
        // memory has several entries, because it is added in parts, but removed as a whole.
        if (kind == memory_event_kind::chunk_removed) {
            auto const first = chunks_.lower_bound({resource, memory});
            auto       last  = first;
            while (last != chunks_.end() && last->first.first == resource &&
                   last->first.second - memory < words[w::bytes]) {
                ++last;
            }
            chunks_.erase(first, last);
            return;
        }
        try {
            if (kind == memory_event_kind::pages_mapped) {
                growing_.insert(resource);
                return;
            }
            auto const name             = static_cast<std::uintptr_t>(words[w::name]);
            chunks_[{resource, memory}] = {words[w::bytes], std::bit_cast<char const*>(name)};
        } catch (...) {} // no host memory: `history_record::chunks` lacks the chunk
    }
    void refused() noexcept {
        if (!writes_on_refusal_.load(std::memory_order_acquire)) { return; }
        std::int64_t const now  = tick_clock::seconds();
        std::int64_t       last = last_write_.load();
        if (now == last || !last_write_.compare_exchange_strong(last, now)) { return; }
        try {
            std::vector<history_file> files;
            {
                auto const held = lock_.hold();
                files           = on_refusal_;
            }
            for (history_file const& each : files) { each.write(*this); }
        } catch (...) { history_file::report(); }
    }

    event_ring    ring_;
    unsigned      frames_;
    std::uint32_t device_;
    tick_clock    clock_;
    lock          lock_;
    /// Size and name of each present chunk, by identity of the resource and address. Guarded by
    /// `lock_`.
    std::map<std::pair<std::uint64_t, std::uint64_t>, chunk> chunks_;
    /// Files to write after a refused request (see `write_on_refusal`). Guarded by `lock_`.
    std::vector<history_file> on_refusal_;
    /// Identities of the resources with chunks that grow by mapped pages. Guarded by `lock_`.
    std::set<std::uint64_t>   growing_;
    std::atomic<bool>         writes_on_refusal_{false};
    std::atomic<std::int64_t> last_write_{-1};
};

inline void history_file::write(history_state const& from) const noexcept {
    if (!owner.is_current()) { return; }
    try {
        byte_file out{path};
        format(from.record(), out);
        out.close();
    } catch (...) { report(); }
}

} // namespace detail
} // namespace vram
