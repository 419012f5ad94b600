// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `clocks` tell a pool which memory which stream may have, and make it wait where it must.

#include <vram/base/report_caught.hpp>       // report_caught
#include <vram/concepts/await_device.hpp>    // await_device
#include <vram/concepts/stream_hold.hpp>     // announces_ends, hold_stream
#include <vram/concepts/stream_standing.hpp> // identify, recall
#include <vram/pool/address_map.hpp>         // address_map
#include <vram/pool/availability.hpp>        // availability
#include <vram/pool/hash_cells.hpp>          // scramble
#include <vram/pool/stream_clock.hpp>        // stream_clock
#include <vram/pool/stream_key.hpp>          // stream_key
#include <vram/pool/tags.hpp>                // tags

#include <concepts> // same_as
#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <optional> // optional
#include <utility>  // exchange, move

namespace vram {

/// One clock for every stream that a pool has met. Streams are told apart by the platform's ids,
/// which are never used twice, or where `by_name` by their names, which are had for nothing. A new
/// stream may have the name of one that was destroyed: a clock has a hold on a stream whose end is
/// announced, so that its name stays its own; others are retired before they end. Slots are used
/// again once nothing is waited for there.
///
/// Failure   `std::bad_alloc` for a stream not met before; what the platform throws passes through;
///           either way nothing has changed
/// Threads   one at a time
/// Cost      a known stream is found by its id in constant time; see `stream_clock` for the rest
template <class Platform>
class clocks {
public:
    using stream   = typename Platform::stream;
    using clock    = stream_clock<Platform>;
    using identity = typename clock::identity;

    /// `visits_ends`: the owner calls `forget_ended`, which learns of each end before the clock is
    /// another stream's.
    explicit clocks(bool by_name = false, bool visits_ends = false) noexcept
        : by_name_{by_name}, visits_ends_{visits_ends} {}
    clocks(clocks&& other) noexcept { *this = static_cast<clocks&&>(other); }
    clocks& operator=(clocks&& other) noexcept {
        if (this == &other) { return *this; }
        drop();
        slots_       = std::move(other.slots_);
        by_key_      = std::move(other.by_key_);
        by_name_     = other.by_name_;
        visits_ends_ = other.visits_ends_;
        recent_      = other.recent_;
        crowd_       = std::exchange(other.crowd_, 16);
        closed_      = std::exchange(other.closed_, false);
        ends_seen_   = other.ends_seen_;
        recent_key_  = std::exchange(other.recent_key_, 0);
        for (std::size_t i = 0; i < seats; ++i) { seats_[i] = std::exchange(other.seats_[i], {}); }
        return *this;
    }
    ~clocks() { drop(); }

    // Inlined, as what else each call of a pool begins with: where a program has many pools the
    // compiler would call these.

    /// The clock of a stream.
    [[nodiscard, gnu::always_inline]] clock& of(stream s) {
        std::uint64_t const key = key_of(s);
        return recent_key_ == key ? *recent_ : find(s, key);
    }

    /// The clock of a stream that was asked for lately, or null.
    [[nodiscard, gnu::always_inline]] clock* known(stream s) {
        std::uint64_t const key = key_of(s);
        if (recent_key_ != key) [[unlikely]] { return known_before(key); }
        if (recent_ == nullptr) { __builtin_unreachable(); } // spares who asks for null a look
        return recent_;
    }

    [[nodiscard]] bool settled(tag const& t) const noexcept {
        return slots_[t.slot]->done(t.epoch);
    }

    /// The clock of a stream that another thread may use, and capture, during the call; null if the
    /// stream was not met before, and nobody has asked it who it is. `who`: the same.
    [[nodiscard]] clock* of_another(stream s) {
        std::optional<identity> const who = recall<Platform>(s);
        if (!who) { return nullptr; }
        std::uint64_t const key   = by_name_ ? stream_key<Platform>::named_of(s, who->id)
                                             : stream_key<Platform>::lasting_of(who->id);
        clock* const        found = by_key_.find(key);
        return found != nullptr ? found : &meet(s, key, *who);
    }

    /// Whether an event covers that epoch.
    [[nodiscard]] bool covered(std::size_t slot, std::uint64_t epoch) const noexcept {
        return slots_[slot]->covered(epoch);
    }

    /// What memory that `slot` may use up to `epoch` costs `asker` (null: the host, at once). A
    /// stream that is being `captured` may have what its own capture freed, and what nobody waits
    /// for.
    [[nodiscard]] availability of(std::size_t slot, std::uint64_t epoch, clock const* asker,
                                  bool captured) const noexcept {
        bool const own  = asker != nullptr && slot == asker->slot();
        bool const kept = epoch == tag::captured;
        if (own && captured == kept) { return availability::ready; }
        if (slots_[slot]->done(epoch)) { return availability::ready; }
        if (captured || kept || slots_[slot]->closed(epoch)) { return availability::unavailable; }
        return asker != nullptr && asker->waited(slot) >= epoch ? availability::ready
                                                                : availability::needs_wait;
    }
    [[nodiscard]] availability of(tags const& held, clock const* asker,
                                  bool captured) const noexcept {
        auto worst = availability::ready;
        for (tag const& t : held) {
            availability const one = of(t.slot, t.epoch, asker, captured);
            worst                  = one > worst ? one : worst;
        }
        return worst;
    }
    /// Prices memory for one asker.
    struct pricing {
        clocks const& all;
        clock const*  asker;
        bool          captured;

        [[nodiscard]] availability operator()(std::size_t   slot,
                                              std::uint64_t epoch) const noexcept {
            return all.of(slot, epoch, asker, captured);
        }
        [[nodiscard]] availability operator()(tags const& held) const noexcept {
            return all.of(held, asker, captured);
        }
    };
    [[nodiscard]] pricing for_asker(clock const* asker, bool captured) const noexcept {
        return {*this, asker, captured};
    }

    /// The stream in `slot` cannot be waited for, because it is being captured: what it may still
    /// use is not to be had until `look_again`.
    void pass_over(std::size_t slot) noexcept {
        slots_[slot]->close();
        closed_ = true;
    }
    void look_again() noexcept {
        if (!visits_ends_) {
            forget_ended([](clock&) {});
        }
        if (!std::exchange(closed_, false)) { return; }
        for (clock* each : slots_) { each->open(); }
    }
    /// Streams whose end was announced are covered by an event and forgotten, as if they had been
    /// retired; `visit(clock)` is called before. Cost: a comparison where none has ended.
    template <class Visit>
    void forget_ended(Visit const& visit) noexcept {
        if constexpr (announces_ends<Platform>) {
            if (ends_seen_ != Platform::ends()) { forget_ended_now(visit); }
        }
    }

    /// Makes `asker` wait, on its stream, for all that `held` waits for and that is not done.
    /// Returns null, or a stream that cannot be waited for because it is being captured.
    [[nodiscard]] clock const* order(clock& asker, tags const& held) {
        for (tag const& t : held) {
            clock& other = *slots_[t.slot];
            if (&other == &asker || asker.waited(t.slot) >= t.epoch || other.done(t.epoch)) {
                continue;
            }
            if (!cover(other, t.epoch)) { return &other; }
            other.poll(); // what is done by now makes no dependency
            if (!other.done(t.epoch)) { asker.wait_for(other, t.epoch); }
        }
        return nullptr;
    }

    /// Has an event cover what `held` waits for, where that is soon done, so that `poll` may find
    /// it over.
    void cover(tags const& held) noexcept {
        for (tag const& t : held) {
            clock& other = *slots_[t.slot];
            if (t.epoch != tag::captured && !other.covered(t.epoch)) { other.cover_quickly(); }
        }
    }

    /// Asks what `held` waits for whether it is done; where no event covers it yet one does, if
    /// that is soon done.
    void ask(tags const& held) {
        for (tag const& t : held) {
            clock& other = *slots_[t.slot];
            if (t.epoch == tag::captured || other.done(t.epoch)) { continue; }
            if (!other.covered(t.epoch)) { other.cover_quickly(); }
            other.poll();
        }
    }
    /// A stream that is being captured and that `held` waits for, by what no event covers: that may
    /// be the graph's. Or null.
    [[nodiscard]] clock const* in_capture(tags const& held) {
        for (tag const& t : held) {
            clock& other = *slots_[t.slot];
            if (!other.done(t.epoch) && !other.covered(t.epoch) && other.captured()) {
                return &other;
            }
        }
        return nullptr;
    }
    [[nodiscard]] bool several() const noexcept { return slots_.size() > 1; }
    /// Has events cover all that was freed, where that is soon done, so that `poll` may find it
    /// over; a stream that is alone needs none.
    void cover_all() noexcept {
        if (!several()) { return; }
        for (clock* each : slots_) { each->cover_quickly(); }
    }

    /// Waits on the host for all that `held` waits for, letting `guard` go meanwhile. Returns as
    /// `order`.
    template <class Guard>
    [[nodiscard]] clock const* finish(tags const& held, Guard& guard) {
        for (tag const& t : held) {
            clock& other = *slots_[t.slot];
            if (other.done(t.epoch)) { continue; }
            if (t.epoch == tag::captured || !cover(other, t.epoch)) { return &other; }
            if (!other.done(t.epoch)) { finish(other, t.epoch, guard); }
        }
        return nullptr;
    }

    /// Waits on the host for everything freed so far on any stream. False: of a stream that is
    /// being captured only for what an event covered before.
    template <class Guard>
    bool finish_all(Guard& guard) {
        bool all = true;
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            clock&        each  = *slots_[i];
            std::uint64_t epoch = each.last_epoch();
            if (each.done(epoch)) { continue; }
            if (!cover(each, epoch)) {
                all = false;
                --epoch;
            }
            if (!each.done(epoch)) { finish(each, epoch, guard); }
        }
        return all;
    }

    /// Asks every stream how far it has come.
    void poll() {
        for (clock* each : slots_) { each->poll(); }
    }

    /// The stream is about to be destroyed: what was freed on it is covered, and its name
    /// forgotten.
    void retire(stream s) {
        clock* const gone = by_key_.find(key_of(s));
        if (gone != nullptr) { retire(*gone); }
    }

    [[nodiscard]] std::uint64_t events() const noexcept {
        std::uint64_t sum = 0;
        for (clock const* each : slots_) { sum += each->events(); }
        return sum;
    }
    [[nodiscard]] std::uint64_t waits() const noexcept {
        std::uint64_t sum = 0;
        for (clock const* each : slots_) { sum += each->waits(); }
        return sum;
    }
    /// How many clocks there are, of streams that are known or were.
    [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
    /// No captured graph will run again.
    void forget_captures() noexcept {
        for (clock* each : slots_) { each->forget_captures(); }
    }
    /// Until when what graphs used, that were captured on the stream in `slot`, waits when they are
    /// forgotten: it may have been used before they were captured, and by their last run.
    [[nodiscard]] std::uint64_t after_captures(std::size_t slot) noexcept {
        clock& its = *slots_[slot];
        return its.alive() ? its.mark() : its.last_epoch();
    }

    /// The end of a pool: waits for everything freed, for whole devices where a stream cannot be
    /// waited for. What fails is reported.
    template <class Guard>
    void settle_all(Guard& guard) noexcept {
        bool all = false;
        try {
            all = finish_all(guard);
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "the wait for a stream"});
        }
        for (clock* each : slots_) { all = all && !each->keeps(); }
        if (!all) { settle_devices(); }
    }
    /// Whether all of these waits went well.
    bool settle_devices() noexcept {
        bool all = true;
        for (clock* each : slots_) { all = settle(each->device()) && all; }
        return all;
    }
    /// Waits for whoever used memory that comes back on a stream that no clock can be had for: for
    /// the stream, or where it is dead for devices. False: nobody knows whether it is still in use,
    /// for the stream is being captured, which a wait would end, or the waits failed.
    [[nodiscard]] bool settle_user(stream s) noexcept {
        if (captures(s)) { return false; }
        return settle(s) || settle_everybody();
    }
    /// The same with the calling thread's device, for streams that were never met.
    bool settle_everybody() noexcept {
        bool const all = settle_devices();
        return settle_current() && all;
    }
    /// Whether a stream is being captured, where nothing may be thrown.
    [[nodiscard]] static bool captures(stream s) noexcept {
        bool found = false;
        (void)quietly([&] { found = Platform::capturing(s); });
        return found;
    }
    /// The clock of the stream of that id, or where that has another stream's now, of any; there is
    /// one.
    [[nodiscard]] clock& met(std::uint64_t id) noexcept {
        for (clock* each : slots_) {
            if (each->id() == id) { return *each; }
        }
        return *slots_[0];
    }
    /// Waits for a stream or a device where nothing may be thrown. Whether that went well.
    template <class What>
    static bool settle(What const& what) noexcept {
        return quietly([&] {
            if constexpr (std::same_as<What, typename Platform::device>) {
                await_device<Platform>(what);
            } else {
                Platform::synchronize(what);
            }
        });
    }
    /// The same for the calling thread's device.
    static bool settle_current() noexcept {
        return quietly([] { await_device<Platform>(Platform::current_device()); });
    }

private:
    /// What `call()` throws is reported, and the answer is false.
    template <class Call>
    static bool quietly(Call call) noexcept {
        try {
            call();
            return true;
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "the wait for a stream"});
        }
        return false;
    }

    static constexpr std::size_t seats = 8;

    void retire(clock& gone) {
        if (gone.keeps()) { (void)gone.mark(); } // see `after_captures`
        if (gone.marked() && gone.cover(gone.last_epoch())) { gone.poll(); }
        forget(gone);
    }
    template <class Visit>
    [[gnu::noinline]] void forget_ended_now(Visit const& visit) noexcept {
        ends_seen_ = Platform::ends(); // before: more may end meanwhile
        for (clock* each : slots_) {
            if (!each->alive() || !each->ended()) { continue; }
            try {
                visit(*each);
                retire(*each);
            } catch (...) { // it is covered when it matters
                report_caught(
                    {.kind = error_kind::platform_error, .call = "the event of a stream"});
            }
        }
    }

    /// Has an event cover an epoch. A stream that turns out to have died is forgotten: who has its
    /// handle now is met as another.
    [[nodiscard]] bool cover(clock& its, std::uint64_t epoch) {
        bool const lived   = its.alive();
        bool const covered = its.cover(epoch);
        if (lived && !its.alive()) { forget(its); }
        return covered;
    }

    /// A clock, by the key of its stream; 0, which is no key: none.
    struct seat {
        std::uint64_t key = 0;
        clock*        who = nullptr;
    };
    [[nodiscard]] static std::size_t seat_of(std::uint64_t key) noexcept {
        return static_cast<std::size_t>(scramble(key) >> 61);
    }

    template <class Guard>
    static void finish(clock& other, std::uint64_t epoch, Guard& guard) {
        auto&               e     = other.covering(epoch);
        std::uint64_t const until = e.epoch;
        struct pin { // the event stays what it is while the lock is open
            unsigned& count;
            Guard&    held;
            pin(unsigned& c, Guard& g) : count{c}, held{g} {
                ++count;
                held.unlock();
            }
            ~pin() {
                held.lock();
                --count;
            }
        };
        {
            pin const open{e.pins, guard};
            Platform::synchronize(e.what);
        }
        other.pass(until);
        other.count_wait();
    }

    [[nodiscard, gnu::always_inline]] std::uint64_t key_of(stream s) const {
        return by_name_ ? stream_key<Platform>::named(s) : stream_key<Platform>::lasting(s);
    }
    [[gnu::noinline]] clock& find(stream s, std::uint64_t key) {
        clock* found = known_before(key);
        if (found != nullptr) { return *found; }
        found = by_key_.find(key);
        if (found == nullptr) { found = &meet(s, key); }
        seats_[seat_of(key)] = {key, found};
        recent_              = found;
        recent_key_          = key;
        return *found;
    }
    /// The clock in the seat of a stream, if it is that stream's, which comes last now, or null.
    [[gnu::noinline]] clock* known_before(std::uint64_t key) noexcept {
        seat const& its = seats_[seat_of(key)];
        if (its.key != key) { return nullptr; }
        recent_     = its.who;
        recent_key_ = key;
        return its.who;
    }
    /// A clock for a stream not met before: one that nobody needs any more, or a new one.
    clock& meet(stream s, std::uint64_t key) { return meet(s, key, identify<Platform>(s)); }
    clock& meet(stream s, std::uint64_t key, identity const& who) {
        by_key_.reserve(1);
        if (slots_.size() >= crowd_) {
            for (clock* each : slots_) {
                if (each->ended()) { each->cover_quickly(); } // else the hold keeps its stream
                each->poll();
                bool const over = each->ended() && !visits_ends_; // else `end` takes the hold
                bool const used = each->announced() && !over;
                if (used || !each->settled() || each->device() != who.where) { continue; }
                if (each->alive()) { forget(*each); }
                each->adopt(s, key, who, hold_stream<Platform>(s));
                by_key_.insert(key, each);
                return *each;
            }
            crowd_ *= 2;
        }
        slots_.reserve(slots_.size() + 1);
        auto* const fresh = new clock{s, key, slots_.size(), who, hold_stream<Platform>(s)};
        slots_.push(fresh);
        by_key_.insert(key, fresh);
        return *fresh;
    }
    void forget(clock& gone) noexcept {
        by_key_.erase(gone.key());
        gone.end();
        seats_[seat_of(gone.key())] = {};
        if (recent_ == &gone) { recent_key_ = 0; }
    }
    void drop() noexcept {
        for (clock* each : slots_) { delete each; }
        slots_.clear();
    }

    heap_array<clock*> slots_;
    address_map<clock> by_key_;
    bool               by_name_;
    bool               visits_ends_;
    clock*             recent_     = nullptr; ///< asked for last
    std::uint64_t      recent_key_ = 0;       ///< of its stream; 0, which is no key: of none
    seat               seats_[seats];         ///< of streams that take turns, mostly one each
    bool               closed_    = false;    ///< some streams are passed over
    std::uint64_t      ends_seen_ = 0;        ///< how many streams had ended that are forgotten
    std::size_t crowd_ = 16; ///< so many clocks, and a free one is looked for before one is made
};

} // namespace vram
