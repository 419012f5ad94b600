// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_supply` is the producers' side of a ring: the books, the gate before them, and who waits
/// there.

#include <vram/base/gate.hpp>                  // the gate of platforms where time is real
#include <vram/base/worker.hpp>                // their thread
#include <vram/concepts/completion_flags.hpp>  // completion_flags
#include <vram/transfer/await_mark.hpp>        // await_mark
#include <vram/transfer/home_process.hpp>      // home_process
#include <vram/transfer/loader_error.hpp>      // loader_error
#include <vram/transfer/loader_options.hpp>    // loader_options
#include <vram/transfer/loader_statistics.hpp> // loader_statistics
#include <vram/transfer/pinned_slot.hpp>       // pinned_slot
#include <vram/transfer/platform_clock.hpp>    // platform_clock
#include <vram/transfer/slot.hpp>              // slot
#include <vram/transfer/slot_books.hpp>        // slot_books

#include <algorithm> // clamp
#include <chrono>    // microseconds, nanoseconds, seconds
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // exception_ptr
#include <utility>   // move, exchange, declval
#include <vector>    // vector

namespace vram {

/// What producers and copies do to a ring. Where a filled slot and a free one meet, whoever made it
/// so copies (`copy_all`); the consumer does, where it waits for a batch.
///
/// Threads   any number of producers; nothing of the platform is called while the gate is held: a
///           call-back may need it
/// Cost      each step takes the gate once, and wakes nobody who cannot go on
template <class Platform>
class slot_supply {
public:
    using slot   = vram::slot<Platform>;
    using pinned = pinned_slot<Platform>;
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    using clock  = platform_clock<Platform>;

    slot_supply(slot_supply const&)            = delete;
    slot_supply& operator=(slot_supply const&) = delete;

    [[nodiscard]] bool at_home() const noexcept {
        return home_.here() && !threads_stand_still<Platform>();
    }

    /// Where every block is at this moment.
    [[nodiscard]] slot_states states() {
        expect_home();
        auto const held = gate_.hold();
        return count_states();
    }

protected:
    using books                       = slot_books<slot, pinned>;
    static constexpr std::size_t none = books::none;

    using guard = decltype(std::declval<typename Platform::gate&>().hold());

    /// `options` with every depth said.
    slot_supply(loader_options const& options, device where)
        : options_{options}, books_{options.pinned_depth, options.device_depth, options.ordered} {
        slots_.reserve(options.device_depth);
        pinned_.reserve(options.pinned_depth);
        for (std::size_t i = 0; i < options.device_depth; ++i) {
            books_.add(slots_.emplace_back(where));
        }
        for (std::size_t i = 0; i < options.pinned_depth; ++i) {
            books_.add(pinned_.emplace_back(where, options.timing));
        }
    }
    ~slot_supply() = default;

    /// A forked child may not even take the gate, which may be locked for ever there.
    void expect_home(std::size_t index = 0) const {
        if (!at_home()) { throw loader_error{loader_error::reason::forked, index}; }
    }

    /// Copies as long as there is something to copy, and somewhere to copy it to (`claim`).
    virtual void copy_all() noexcept = 0;
    /// Asks the device about the copies whose call-back has not come.
    virtual void look_after_copies() noexcept = 0;

    /// A slot to be filled with the batch that it names; null when there is no more to be filled.
    /// The caller copies what can be copied meanwhile.
    pinned* await_pinned() {
        for (;;) {
            {
                auto held = gate_.hold();
                idle(held, [&] { return must_copy() || books_.no_more() || books_.can_fill(); });
                if (!must_copy()) { return fill(); }
            }
            copy_all();
        }
    }
    /// The same where nobody else fills; it waits for a copy at most.
    pinned* pinned_now() {
        auto held = gate_.hold();
        if (books_.waiting() || books_.ready()) { return nullptr; }
        idle(held, [&] { return books_.no_more() || books_.can_fill(); });
        return fill();
    }
    /// A slot to be filled on the device, and then `posted`; null when there is no more to be
    /// filled.
    slot* await_slot() {
        auto held = gate_.hold();
        idle(held, [&] { return books_.no_more() || books_.can_fill_slot(); });
        return fill_slot();
    }
    /// The same where nobody else fills; null also where none is free, or a batch is there.
    slot* slot_now() {
        auto const held = gate_.hold();
        return books_.ready() || !books_.can_fill_slot() ? nullptr : fill_slot();
    }

    /// `p` has its batch, which took `fill_ns`.
    void filled(pinned& p, std::uint64_t fill_ns) noexcept {
        bool told = false, passed = false;
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            books_.filled(p);
            told   = asking_; // it copies, or this was the last before the end, or one too many
            passed = books_.take_passed() && idle_ != 0;
        }
        if (told || passed) { gate_.notify(); }
        if (!told) { copy_all(); }
    }
    /// `s`, pinned or on the device, has a batch that is left out: the next one follows.
    template <class Either>
    void left_out(Either& s, std::uint64_t fill_ns) noexcept {
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            ++figures_.left_out;
            books_.left_out(s);
            (void)books_.take_passed();
        }
        gate_.notify();
    }
    /// There is no batch for `s`, pinned or on the device; `why`, if it is an error.
    template <class Either>
    void ended(Either& s, std::exception_ptr why) noexcept {
        {
            auto const held = gate_.hold();
            books_.ended(s, std::move(why));
        }
        gate_.notify();
    }
    /// `s`, whose copies are enqueued, goes to the consumer.
    void posted(slot& s, std::uint64_t fill_ns) noexcept {
        bool told = false;
        {
            auto const held = gate_.hold();
            figures_.fill_ns += fill_ns;
            books_.copied(s, nullptr);
            told = asking_;
        }
        if (told) { gate_.notify(); }
    }

    /// A filled slot and where its batch is to go, for one thread at a time. Each is followed by
    /// `copied`, which claims the next.
    bool claim(pinned*& from, slot*& to) noexcept {
        auto const held = gate_.hold();
        return claim_next(from, to);
    }
    bool copied(pinned*& from, slot*& to, std::exception_ptr problem) noexcept {
        bool told = false, more = false;
        {
            auto const held = gate_.hold();
            if (problem == nullptr && from->now == pinned::state::copying) {
                from->enqueued = true; // else it has landed, and may be another batch's
            }
            bool const flies  = from->now == pinned::state::copying && idle_ != 0;
            bool const alone  = awake_ == 0 && books_.in_flight() == 1;
            bool const unseen = flies && (from->marked ? !watched_ : alone); // one looks after it
            bool const wanted = asking_ && !helping_;
            told              = wanted || unseen || stopping_ || problem != nullptr;
            books_.copied(*to, std::move(problem));
            more = claim_next(from, to);
        }
        if (told) { gate_.notify(); }
        return more;
    }
    /// After a stop: waits until nobody copies. A batch may end, and then copies, on a thread that
    /// nobody joins.
    void await_copier() {
        auto held = gate_.hold();
        gate_.wait(held, [&] { return !books_.copying(); });
    }
    /// The copy out of `p` is over, says its call-back; it may be filled again.
    void land(pinned& p) noexcept {
        bool told = false;
        {
            auto const held = gate_.hold();
            if (p.landed != 0) { // somebody saw it before the call-back came
                --p.landed;
                return;
            }
            books_.land(p);
            told = idle_ != 0;
        }
        if (told) { gate_.notify(); }
    }
    /// The same, seen by asking. `flight` tells this copy from later ones.
    void land_early(pinned& p, std::uint64_t flight) noexcept {
        {
            auto const held = gate_.hold();
            if (p.now != pinned::state::copying || p.flight != flight) { return; }
            if (!p.marked) { ++p.landed; }
            books_.land(p);
        }
        gate_.notify();
    }
    /// A slot that is empty is looked at, and given back.
    void put_back(pinned& p) noexcept {
        {
            auto const held = gate_.hold();
            books_.land(p);
        }
        gate_.notify();
    }
    /// Which copy out of `p` is enqueued and has not landed, and what happens no earlier than its
    /// end; 0: none.
    struct flying {
        std::uint64_t                   which = 0;
        typename Platform::event const* over  = nullptr;
    };
    flying flight_of(pinned const& p) {
        auto const held = gate_.hold();
        if (p.now != pinned::state::copying || !p.enqueued) { return {}; }
        return {p.flight, p.over};
    }
    /// The device has failed: nothing that is not filled yet will come.
    void fail(std::exception_ptr why) noexcept {
        {
            auto const held = gate_.hold();
            books_.fail(std::move(why));
        }
        gate_.notify();
    }

    /// All that are empty at this moment, to be looked at and landed again.
    slot_queue<pinned> take_empties() noexcept {
        auto const held = gate_.hold();
        land_marked(); // at the end no producer looks at the marks any more
        return books_.take_empties();
    }

    /// How long who waits stays awake: what small batches take.
    static constexpr std::chrono::microseconds awake{100};
    static constexpr bool                      stays_awake =
        requires(typename Platform::gate& g, guard& held, bool (*ready)()) {
            g.wait_awake(held, awake, ready);
        };
    /// Lets producers look again that are awake.
    void notify_awake() noexcept {
        if constexpr (stays_awake) { gate_.notify_awake(); }
    }

    /// Adds to the figures, or reads them.
    template <class Note>
    auto note(Note note) {
        auto const held = gate_.hold();
        return note(figures_);
    }

    [[nodiscard]] bool can_copy() const noexcept { return !stopping_ && books_.can_copy(); }
    /// The same, and the consumer does not.
    [[nodiscard]] bool        must_copy() const noexcept { return can_copy() && !asking_; }
    [[nodiscard]] slot_states count_states() const noexcept {
        slot_states n = books_.states();
        n.waiting     = idle_;
        return n;
    }

    loader_options          options_;
    std::vector<slot>       slots_;
    std::vector<pinned>     pinned_;
    typename Platform::gate gate_;
    books                   books_;
    loader_statistics       figures_;
    std::size_t             idle_     = 0;     ///< producers that wait
    std::size_t             awake_    = 0;     ///< those of them that do not sleep
    std::uint64_t           begun_    = 0;     ///< when the first fill of the epoch began
    bool                    asking_   = false; ///< the consumer waits
    bool                    helping_  = false; ///< it copies meanwhile
    bool                    stopping_ = false;
    bool                    watched_  = false; ///< a producer looks at the marks
    bool                    dozing_   = false; ///< a producer looks for batches that end

private:
    bool claim_next(pinned*& from, slot*& to) noexcept {
        if (!can_copy()) { return false; }
        books_.copy(from, to);
        if (books_.take_passed() && idle_ != 0) { gate_.notify(); }
        return true;
    }
    pinned* fill() noexcept {
        start_clock();
        return stopping_ ? nullptr : books_.fill();
    }
    slot* fill_slot() noexcept {
        start_clock();
        return stopping_ ? nullptr : books_.fill_slot();
    }
    void start_clock() {
        if (!books_.begun()) { begun_ = clock::now(); }
    }

    /// A producer waits until something is `there`, or the loader stops. Where a call-back should
    /// come and does not, it looks whether the device still works: one that failed calls nobody.
    template <class There>
    void idle(guard& held, There there) {
        auto const ready = [&] { return stopping_ || there(); };
        if (ready()) { return; }
        land_marked();
        if (ready()) { return; }
        auto const    since  = clock::now();
        std::uint64_t looked = since;
        std::uint64_t turn   = 0; // of the copy that it stayed awake for
        ++idle_;
        while (!ready()) {
            if (watches()) {
                watch(held, ready, looked, turn);
            } else if (books_.in_flight() != 0) {
                if (!gate_.wait_for(held, patience, [&] { return ready() || watches(); })) {
                    held.unlock();
                    look_after_copies();
                    held = gate_.hold();
                }
            } else {
                auto const enough = [&] { return ready() || books_.in_flight() != 0; };
                if (wait_awake(held, enough)) { continue; }
                while (!enough() && dozes(since)) { doze(held, enough, since); }
                gate_.wait(held, [&] { return enough() || dozes(since); });
            }
        }
        --idle_;
        figures_.slot_ns += clock::now() - since;
    }

    /// Whether it was ready before it was time to go to sleep.
    template <class Ready>
    bool wait_awake(guard& held, Ready const& ready) {
        if constexpr (stays_awake) {
            ++awake_;
            bool const came = gate_.wait_awake(held, awake, ready);
            --awake_;
            return came;
        } else {
            return false;
        }
    }
    /// Whether this producer looks, from time to time, whether a batch has ended whose place a
    /// filled slot waits for, and copies: then the loop need not, nor wake anybody. Where a batch
    /// is used for so long that this is nothing, it sleeps.
    [[nodiscard]] bool dozes(std::uint64_t since) {
        if constexpr (stays_awake) {
            return !dozing_ && books_.waiting() && clock::now() - since < patience_ns;
        } else {
            return false;
        }
    }
    template <class Ready>
    void doze(guard& held, Ready const& ready, std::uint64_t since) {
        constexpr std::uint64_t least = 20'000, most = 1'000'000; // ns
        std::uint64_t const     nap = std::clamp((clock::now() - since) / 8, least, most);
        dozing_                     = true;
        ++awake_;
        gate_.wait_for(held, std::chrono::nanoseconds{nap}, ready);
        --awake_;
        dozing_ = false;
    }
    /// Whether this producer looks at the marks of copies: there are some, and nobody else does.
    [[nodiscard]] bool watches() {
        if constexpr (completion_flags<Platform>) {
            return !watched_ && oldest_marked() != nullptr;
        } else {
            return false;
        }
    }
    /// The marked copy that is over first, and not seen to be.
    [[nodiscard]] pinned* oldest_marked() noexcept {
        pinned* first = nullptr;
        for (pinned& p : pinned_) {
            bool const flies = p.now == pinned::state::copying && p.enqueued && p.marked;
            if (flies && (first == nullptr || p.turn < first->turn)) { first = &p; }
        }
        return first;
    }
    /// Lands the copies that their marks say are over.
    void land_marked() noexcept {
        if constexpr (completion_flags<Platform>) {
            for (;;) {
                pinned* const p = oldest_marked();
                if (p == nullptr || !pinned::is_marked(p->mark, p->flight)) { return; }
                books_.land(*p);
            }
        }
    }
    /// Looks for the next mark, and lands its copy. The others wait meanwhile, and one of them is
    /// the next to look.
    template <class Ready>
    void watch(guard& held, Ready const& ready, std::uint64_t& looked, std::uint64_t& turn) {
        pinned&             p      = *oldest_marked();
        std::uint64_t const flight = p.flight;
        watched_                   = true;
        ++awake_;
        bool const first = std::exchange(turn, p.turn) != p.turn;
        bool const over  = await_mark<Platform>(gate_, held, p, first, ready);
        --awake_;
        watched_ = false;
        if (over) {
            if (p.now == pinned::state::copying && p.flight == flight) { books_.land(p); }
        } else if (clock::now() - looked > patience_ns) {
            looked = clock::now();
            held.unlock();
            look_after_copies();
            held = gate_.hold();
        }
        if (idle_ > 1 && (over || ready())) { gate_.notify(); } // else it goes on looking
    }

    /// How long a copy may take before somebody asks the device: far longer than it takes.
    static constexpr std::chrono::seconds patience{1};
    static constexpr std::uint64_t        patience_ns = std::chrono::nanoseconds{patience}.count();

    home_process home_;
};

} // namespace vram
