// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `timeline_table` finds the timeline of a stream, and creates it for a new stream.

#include <vram/base/core/address_map.hpp>
#include <vram/base/core/hash_cells.hpp> // scramble
#include <vram/base/core/heap_array.hpp>
#include <vram/concepts/core/stream_hold.hpp>     // hold_stream
#include <vram/concepts/core/stream_standing.hpp> // identify, recall
#include <vram/order/core/stream_key.hpp>
#include <vram/order/core/stream_timeline.hpp>

#include <cstddef>
#include <cstdint>
#include <optional> // optional
#include <utility>

namespace vram {
namespace detail {

/// Owns timelines (records of the progress of streams), and finds them by index (slot) or by
/// stream. A timeline may later serve a new stream. Before a stream is destroyed, `forget` must be
/// called, unless the platform announces the destruction.
///
/// Threads   One thread at a time.
/// Cost      Constant for a known stream.
template <class Platform>
class timeline_table {
public:
    using stream   = typename Platform::stream;
    using timeline = stream_timeline<Platform>;
    using identity = typename timeline::identity;

    /// `by_name`: true to find streams by their handles, false to find them by their ids.
    /// `visits_ends`: true if the timeline of a destroyed stream may serve a new stream only after
    /// a call of `forget`. `most_events`: largest number of events of one stream.
    timeline_table(bool by_name, bool visits_ends, std::size_t most_events) noexcept
        : by_name_{by_name}, visits_ends_{visits_ends}, most_events_{most_events} {}
    timeline_table(timeline_table&& other) noexcept : timeline_table{false, false, 0} {
        *this = std::move(other);
    }
    timeline_table& operator=(timeline_table&& other) noexcept {
        if (this == &other) { return *this; }
        drop();
        slots_       = std::move(other.slots_);
        by_key_      = std::move(other.by_key_);
        by_name_     = other.by_name_;
        visits_ends_ = other.visits_ends_;
        most_events_ = other.most_events_;
        recent_      = other.recent_;
        reuse_from_  = std::exchange(other.reuse_from_, 16);
        recent_key_  = std::exchange(other.recent_key_, 0);
        for (std::size_t i = 0; i < seats; ++i) { seats_[i] = std::exchange(other.seats_[i], {}); }
        return *this;
    }
    ~timeline_table() { drop(); }

    [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
    [[nodiscard]] timeline&   operator[](std::size_t slot) const noexcept { return *slots_[slot]; }
    [[nodiscard]] timeline* const* begin() const noexcept { return slots_.begin(); }
    [[nodiscard]] timeline* const* end() const noexcept { return slots_.end(); }
    [[nodiscard]] bool             visits_ends() const noexcept { return visits_ends_; }

    // Inlined by force: in a program with many pools the compiler would not inline these functions.

    /// Returns the timeline (record of progress) of a stream. Creates it if the stream has none.
    [[nodiscard, gnu::always_inline]] timeline& of(stream s) {
        std::uint64_t const key = key_of(s);
        return recent_key_ == key ? *recent_ : find(s, key);
    }

    /// Returns the timeline (record of progress) of a stream that was used recently, or else null.
    [[nodiscard, gnu::always_inline]] timeline* known(stream s) {
        std::uint64_t const key = key_of(s);
        if (recent_key_ != key) [[unlikely]] { return known_before(key); }
        // `recent_` is not null here. The compiler can therefore omit the null check of the caller.
        if (recent_ == nullptr) { __builtin_unreachable(); }
        return recent_;
    }

    /// Returns the timeline (record of progress) of a stream that another thread may capture now.
    /// Creates the timeline if the stream has none. Does not query the stream, because a query
    /// could invalidate the capture. Returns null if the stream's id is unknown without a query.
    [[nodiscard]] timeline* of_another(stream s) {
        std::optional<identity> const who = recall<Platform>(s);
        if (!who) { return nullptr; }
        std::uint64_t const key   = by_name_ ? stream_key<Platform>::named_of(s, who->id)
                                             : stream_key<Platform>::lasting_of(who->id);
        timeline* const     found = by_key_.find(key);
        return found != nullptr ? found : &add(s, key, *who);
    }

    /// Returns the timeline (record of the progress) of a stream, or null if the stream has none.
    [[nodiscard]] timeline* met(stream s) const { return by_key_.find(key_of(s)); }
    /// Returns the timeline of the stream with the id `id`. If there is none, returns the timeline
    /// of any other stream, so the caller must compare `id()`. The table must not be empty.
    [[nodiscard]] timeline& by_id(std::uint64_t id) noexcept {
        for (timeline* each : slots_) {
            if (each->id() == id) { return *each; }
        }
        return *slots_[0];
    }
    /// Calls `visit(timeline)` once for each device, with the timeline of one stream of that
    /// device. `visit` may add timelines.
    template <class Visit>
    void for_each_device(Visit const& visit) {
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            std::size_t same = 0; // index of the first timeline on the device of timeline `i`
            while (slots_[same]->device() != slots_[i]->device()) { ++same; }
            if (same == i) { visit(*slots_[i]); }
        }
    }
    /// Ends a timeline (record of progress): gives up the stream's handle, so that a lookup of the
    /// stream does not find the timeline any more.
    void forget(timeline& gone) noexcept {
        by_key_.erase(gone.key());
        gone.end();
        seats_[seat_of(gone.key())] = {};
        if (recent_ == &gone) { recent_key_ = 0; }
    }

private:
    static constexpr std::size_t seats = 8;

    /// An entry of a small cache: the key of a stream, and its timeline (record of progress) `who`.
    /// The entry is empty if `key` is 0.
    struct seat {
        std::uint64_t key = 0;
        timeline*     who = nullptr;
    };
    [[nodiscard]] static std::size_t seat_of(std::uint64_t key) noexcept {
        return static_cast<std::size_t>(scramble(key) >> 61);
    }

    [[nodiscard, gnu::always_inline]] std::uint64_t key_of(stream s) const {
        return by_name_ ? stream_key<Platform>::named(s) : stream_key<Platform>::lasting(s);
    }
    [[gnu::noinline]] timeline& find(stream s, std::uint64_t key) {
        timeline* found = known_before(key);
        if (found != nullptr) { return *found; }
        found = by_key_.find(key);
        if (found == nullptr) { found = &add(s, key); }
        seats_[seat_of(key)] = {key, found};
        recent_              = found;
        recent_key_          = key;
        return *found;
    }
    /// Returns the timeline with this key from the cache, and makes it `recent_`. Returns null if
    /// the cache does not contain the key.
    [[gnu::noinline]] timeline* known_before(std::uint64_t key) noexcept {
        seat const& its = seats_[seat_of(key)];
        if (its.key != key) { return nullptr; }
        recent_     = its.who;
        recent_key_ = key;
        return its.who;
    }
    /// Creates a timeline for a stream that has none. May instead reuse the timeline of another
    /// stream, if no stream or graph uses memory freed on that stream any more.
    timeline& add(stream s, std::uint64_t key) { return add(s, key, identify<Platform>(s)); }
    timeline& add(stream s, std::uint64_t key, identity const& who) {
        by_key_.reserve(1);
        if (slots_.size() >= reuse_from_) {
            for (timeline* each : slots_) {
                // Once this event of a destroyed stream is complete, the stream's timeline can
                // serve another stream.
                if (each->ended()) { each->try_record_event(); }
                try {
                    each->poll();
                } catch (...) { continue; } // an error of another stream; its own users get it
                // A timeline that has a counted reference to its stream is in use until the stream
                // is destroyed. If `visits_ends_` is true, the timeline is in use until `forget` is
                // called.
                bool const over = each->ended() && !visits_ends_;
                bool const used = each->announced() && !over;
                if (used || !each->nothing_pending() || each->device() != who.where) { continue; }
                if (each->alive()) { forget(*each); }
                each->adopt(s, key, who, hold_stream<Platform>(s));
                by_key_.insert(key, each);
                return *each;
            }
            reuse_from_ *= 2;
        }
        slots_.reserve(slots_.size() + 1);
        auto* const fresh =
            new timeline{s, key, slots_.size(), who, hold_stream<Platform>(s), most_events_};
        slots_.push(fresh);
        by_key_.insert(key, fresh);
        return *fresh;
    }
    [[gnu::noinline]] void drop() noexcept {
        for (timeline* each : slots_) { delete each; }
        slots_.clear();
    }

    heap_array<timeline*> slots_;
    address_map<timeline> by_key_;
    bool                  by_name_;
    bool                  visits_ends_;
    std::size_t           most_events_;
    /// the timeline (record of a stream's progress) that was looked up last
    timeline* recent_ = nullptr;
    /// Key of the stream of `recent_` (see `key_of`). 0 means that `recent_` is not valid, so the
    /// next lookup ignores it.
    std::uint64_t recent_key_ = 0;
    /// Cache of recently used timelines (records of the progress of streams). A lookup in this
    /// cache is faster than in `by_key_`.
    seat seats_[seats];
    /// If the table has at least this number of timelines, it tries to reuse one for a new stream.
    /// A timeline can be reused once memory freed on its stream is not in use any more.
    std::size_t reuse_from_ = 16;
};

} // namespace detail
} // namespace vram
