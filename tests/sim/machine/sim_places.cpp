// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_places.hpp> // first: the header must stand alone

#include "../../doubles/bombing.hpp"

#include <doctest/doctest.h>

#include <algorithm> // all_of, any_of, max, min, sort
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <new> // bad_alloc
#include <random>
#include <set>
#include <utility>
#include <vector>

using namespace vram::detail;

namespace {

constexpr std::size_t plenty = std::size_t{1} << 40; // of units

/// A pool with units of 100 bytes whose frees are complete at once, unless `free_later` is called.
struct placed_pool {
    sim_places  places{100};
    std::size_t tickets = 0;
    /// The tickets of the pending frees that the next allocation may use, and those that it did.
    std::set<std::size_t>                            ordered = {};
    std::vector<std::pair<std::size_t, std::size_t>> waits   = {};

    sim_places::result get(std::size_t bytes, std::size_t stream = 0, std::size_t room = plenty) {
        waits.clear();
        return places.allocate(
            bytes, stream, room,
            [&](std::size_t, std::size_t ticket) { return ordered.count(ticket) != 0; },
            [&](std::size_t of, std::size_t ticket) { waits.emplace_back(of, ticket); });
    }
    std::size_t free_later(std::size_t begin, std::size_t bytes, std::size_t stream = 0) {
        places.free(begin, bytes, stream, ++tickets);
        return tickets;
    }
    void free(std::size_t begin, std::size_t bytes, std::size_t stream = 0) {
        places.complete(stream, free_later(begin, bytes, stream));
    }
};

/// The rule without indices: each search looks at all ranges, and each unit is an element of a set.
class places_model {
public:
    using tickets = std::set<std::pair<std::size_t, std::size_t>>; ///< of streams
    /// Returns true if an allocation may get the memory of a free, of its stream and ticket.
    using test = std::function<bool(std::size_t, std::size_t)>;

    static constexpr std::size_t none = ~std::size_t{0};

    explicit places_model(std::size_t unit) : unit_{unit} { pool_.push_back({0, end_}); }

    /// Returns the place of the block, or `none`. At most `room` units are made.
    std::size_t allocate(std::size_t n, std::size_t stream, std::size_t room, test const& usable) {
        made = moved = merged = 0;
        waits.clear();
        mine_   = [=](std::size_t of, std::size_t t) { return of == stream || usable(of, t); };
        stream_ = stream;
        if (auto const p = take(streams_[stream], n); p != none) { return p; }
        if (auto const p = take_whole(n); p != none) { return p; }
        for (auto& [number, list] : streams_) {
            if (auto const p = take(list, n); p != none) { return p; }
        }
        merge();
        auto        in    = best(pool_, n, [&](piece const& p) { return unguarded(p); });
        std::size_t begin = 0;
        if (in != pool_.end()) {
            begin = in->begin;
        } else { // behind the last guard
            in    = best(pool_, 0, [&](piece const& p) { return p.end == end_; });
            begin = in->begin;
            for (piece const& g : guards_) { begin = std::max(begin, g.end); }
        }
        std::size_t const        first = begin / unit_, last = (begin + n + unit_ - 1) / unit_;
        std::vector<std::size_t> spare;
        for (std::size_t const u : backed_) {
            if ((u < first || u >= last) && free_unit(u)) { spare.push_back(u); }
        }
        std::size_t need = 0;
        for (std::size_t u = first; u < last; ++u) { need += backed_.count(u) == 0 ? 1 : 0; }
        if (need > room + spare.size()) { return take_whole(n); }
        for (made = need; made > 0 && !spare.empty(); --made, ++moved) {
            backed_.erase(spare.back());
            follow(spare.back() * unit_, (spare.back() + 1) * unit_);
            spare.pop_back();
        }
        for (std::size_t u = first; u < last; ++u) { backed_.insert(u); }
        follow(begin, begin + n);
        unguard(begin, begin + n);
        piece const whole_piece = *in;
        pool_.erase(in);
        if (whole_piece.begin < begin) { pool_.push_back({whole_piece.begin, begin}); }
        pool_.push_back({begin + n, whole_piece.end});
        if (pool_.back().begin == pool_.back().end) { pool_.pop_back(); }
        return begin;
    }
    void free(std::size_t begin, std::size_t n, std::size_t stream, std::size_t ticket) {
        join(streams_[stream], {begin, begin + n, stream, ticket, true});
    }
    void complete(std::size_t stream, std::size_t ticket) {
        for (piece& p : streams_[stream]) { p.pending = p.pending && p.ticket != ticket; }
        std::erase_if(guards_,
                      [&](piece const& g) { return g.stream == stream && g.ticket == ticket; });
    }
    std::size_t trim(std::size_t most) {
        bool const any =
            std::any_of(backed_.begin(), backed_.end(), [&](std::size_t u) { return complete(u); });
        if (most == 0 || !any) { return 0; }
        mine_ = [](std::size_t, std::size_t) { return false; };
        merge();
        std::size_t n = 0;
        for (; n < most; ++n) {
            auto u = backed_.rbegin();
            while (u != backed_.rend() && !free_unit(*u)) { ++u; }
            if (u == backed_.rend()) { break; }
            backed_.erase(*u);
        }
        return n;
    }
    [[nodiscard]] std::size_t units() const { return backed_.size(); }
    /// Returns the bytes of pending ranges.
    [[nodiscard]] std::size_t pending() const {
        std::size_t bytes = 0;
        for (piece const& g : guards_) { bytes += g.end - g.begin; }
        for (auto const& [number, list] : streams_) {
            for (piece const& p : list) { bytes += p.pending ? p.end - p.begin : 0; }
        }
        return bytes;
    }

    std::size_t made = 0, moved = 0, merged = 0;
    tickets     waits; ///< the pending frees for which the last allocation waits

private:
    struct piece {
        std::size_t begin, end;
        std::size_t stream = 0, ticket = 0; ///< its last free; a rest keeps it
        bool        pending = false;
    };
    using pieces = std::vector<piece>; // in the order in which they entered the list

    [[nodiscard]] bool whole(piece const& p) const {
        for (std::size_t u = p.begin / unit_; u * unit_ < p.end; ++u) {
            if (p.end == end_ || backed_.count(u) == 0) { return false; }
        }
        return true;
    }
    [[nodiscard]] bool usable(piece const& p) const {
        return !p.pending || mine_(p.stream, p.ticket);
    }
    /// Returns true if the allocation may use all pending parts of a range of the pool's list.
    [[nodiscard]] bool unguarded(piece const& p) const {
        return std::all_of(guards_.begin(), guards_.end(), [&](piece const& g) {
            return g.end <= p.begin || p.end <= g.begin || usable(g);
        });
    }
    [[nodiscard]] bool free_unit(std::size_t u) const {
        piece const unit{u * unit_, (u + 1) * unit_};
        return unguarded(unit) && std::any_of(pool_.begin(), pool_.end(), [&](piece const& p) {
                   return p.begin <= unit.begin && unit.end <= p.end;
               });
    }
    /// Returns true if all bytes of a unit are free in any lists, and not pending.
    [[nodiscard]] bool complete(std::size_t u) const {
        std::size_t bytes = 0, guarded = 0;
        auto const  common = [&](piece const& p) {
            std::size_t const from = std::max(p.begin, u * unit_);
            std::size_t const to   = std::min(p.end, (u + 1) * unit_);
            return from < to ? to - from : 0;
        };
        for (piece const& p : pool_) { bytes += common(p); }
        for (piece const& g : guards_) { guarded += common(g); }
        for (auto const& [number, list] : streams_) {
            for (piece const& p : list) { bytes += p.pending ? 0 : common(p); }
        }
        return bytes == unit_ && guarded == 0;
    }
    template <class Accept>
    static pieces::iterator best(pieces& list, std::size_t n, Accept const& accept) {
        auto found = list.end();
        for (auto p = list.begin(); p != list.end(); ++p) {
            if (p->end - p->begin < n || !accept(*p)) { continue; }
            if (found == list.end() || p->end - p->begin < found->end - found->begin) { found = p; }
        }
        return found;
    }
    static std::size_t take(pieces& list, pieces::iterator at, std::size_t n) {
        piece rest = *at;
        list.erase(at);
        rest.begin += n;
        if (rest.begin < rest.end) { list.push_back(rest); }
        return rest.begin - n;
    }
    /// Takes a block of the list of a stream.
    std::size_t take(pieces& list, std::size_t n) {
        auto const p = best(list, n, [&](piece const& each) { return usable(each); });
        if (p == list.end()) { return none; }
        if (p->pending) { wait_for(*p); }
        return take(list, p, n);
    }
    /// Takes a block of the pool's list that has memory everywhere.
    std::size_t take_whole(std::size_t n) {
        auto const p =
            best(pool_, n, [&](piece const& each) { return whole(each) && unguarded(each); });
        if (p == pool_.end()) { return none; }
        follow(p->begin, p->begin + n);
        unguard(p->begin, p->begin + n);
        return take(pool_, p, n);
    }
    static void join(pieces& list, piece p) {
        for (auto i = list.begin(); i != list.end();) {
            bool const touches = i->end == p.begin || i->begin == p.end;
            if (touches) {
                p.begin = std::min(p.begin, i->begin);
                p.end   = std::max(p.end, i->end);
            }
            i = touches ? list.erase(i) : i + 1;
        }
        list.push_back(p);
    }
    /// Moves the usable ranges of each stream to the pool's list, the last freed one first.
    void merge() {
        for (auto& [number, list] : streams_) {
            std::size_t end = none; // ranges with this ticket or later ones stay
            for (piece const& p : list) { end = usable(p) ? end : std::min(end, p.ticket); }
            pieces usable_ones;
            for (piece const& p : list) {
                if (p.ticket < end) { usable_ones.push_back(p); }
            }
            std::erase_if(list, [&](piece const& p) { return p.ticket < end; });
            std::sort(usable_ones.begin(), usable_ones.end(),
                      [](piece const& a, piece const& b) { return a.ticket > b.ticket; });
            for (piece const& p : usable_ones) {
                join(pool_, {p.begin, p.end});
                if (p.pending) { guard(p); }
                ++merged;
            }
        }
    }
    /// Keeps a part of the pool's list for the streams that may use it.
    void guard(piece g) {
        for (auto i = guards_.begin(); i != guards_.end();) {
            bool const touches = i->end == g.begin || i->begin == g.end;
            if (!touches || i->stream != g.stream) {
                ++i;
                continue;
            }
            g.begin  = std::min(g.begin, i->begin);
            g.end    = std::max(g.end, i->end);
            g.ticket = std::max(g.ticket, i->ticket);
            i        = guards_.erase(i);
        }
        guards_.push_back(g);
    }
    void unguard(std::size_t begin, std::size_t end) {
        pieces const before = std::exchange(guards_, {});
        for (piece const& g : before) {
            piece low = g, high = g;
            low.end    = std::min(g.end, begin);
            high.begin = std::max(g.begin, end);
            if (low.begin < low.end) { guards_.push_back(low); }
            if (high.begin < high.end) { guards_.push_back(high); }
        }
    }
    /// The allocation waits for the pending frees in a part of the pool's list.
    void follow(std::size_t begin, std::size_t end) {
        for (piece const& g : guards_) {
            if (begin < g.end && g.begin < end) { wait_for(g); }
        }
    }
    void wait_for(piece const& p) {
        if (p.stream != stream_) { waits.emplace(p.stream, p.ticket); }
    }

    static constexpr std::size_t  end_ = std::size_t{1} << 50;
    std::size_t                   unit_;
    pieces                        pool_;
    pieces                        guards_; ///< pending parts of the pool's list
    std::map<std::size_t, pieces> streams_;
    std::set<std::size_t>         backed_;
    test                          mine_;       ///< what the allocation may use
    std::size_t                   stream_ = 0; ///< the stream of the allocation
};

/// A live block of a random program.
struct extent {
    std::size_t begin, bytes;

    [[nodiscard]] bool overlaps(std::size_t from, std::size_t n) const {
        return from < begin + bytes && begin < from + n;
    }
};

std::size_t random_bytes(std::mt19937& random) {
    return 1 + random() % (random() % 8 == 0 ? 900 : random() % 3 == 0 ? 200 : 30);
}

} // namespace

TEST_CASE("sim_places: the first blocks follow each other, and units are made for them") {
    placed_pool pool;
    auto const  a = pool.get(30);
    CHECK(a.found);
    CHECK(a.begin == 0);
    CHECK(a.made == 1);
    auto const b = pool.get(30);
    CHECK(b.begin == 30);
    CHECK(b.made == 0); // in the same unit
    auto const c = pool.get(150);
    CHECK(c.begin == 60);
    CHECK(c.made == 2);
    CHECK(pool.places.backed() == 300);
    CHECK(pool.places.live() == 210);
    CHECK(pool.places.pending() == 0);
}

TEST_CASE("sim_places: a freed range is merged with neighbours of the same stream only") {
    placed_pool pool;
    for (std::size_t i = 0; i < 4; ++i) { CHECK(pool.get(20).begin == 20 * i); }
    pool.free(0, 20, 0);
    pool.free(20, 20, 1);
    pool.free(40, 20, 0);
    auto const a = pool.get(30, 0); // no list has 30 bytes in one piece, but the pool has
    CHECK(a.merged == 3);
    CHECK(a.begin == 0);
    CHECK(a.made + a.moved == 0);
    CHECK(pool.get(30, 1).begin == 30);
}

TEST_CASE("sim_places: the own list is searched first, then the pool's, then those of others") {
    placed_pool pool;
    for (std::size_t i = 0; i < 5; ++i) { CHECK(pool.get(20).begin == 20 * i); }
    pool.free(0, 20, 2);
    pool.free(40, 20, 1);
    pool.free(80, 20, 0);
    CHECK(pool.get(10, 0).begin == 80);
    CHECK(pool.get(15, 0).begin == 40); // of stream 1, which has a smaller number
    CHECK(pool.get(15, 0).begin == 0);
    CHECK(pool.get(15, 0).begin == 90); // the endless range, merged with what is left of 80 to 100
}

TEST_CASE("sim_places: a search takes the smallest range, and of equal ones the oldest") {
    placed_pool pool;
    for (std::size_t i = 0; i < 7; ++i) { CHECK(pool.get(10).begin == 10 * i); }
    CHECK(pool.get(20).begin == 70);
    pool.free(70, 20);
    pool.free(40, 10);
    pool.free(0, 10);
    pool.free(20, 10);
    CHECK(pool.get(10).begin == 40);
    CHECK(pool.get(8).begin == 0);
    CHECK(pool.get(9).begin == 20);
    CHECK(pool.get(9).begin == 70);
    CHECK(pool.get(2).begin == 8); // what is left of the second one
}

TEST_CASE("sim_places: units of free memory at the highest addresses are moved before new ones are "
          "made") {
    placed_pool pool;
    for (std::size_t i = 0; i < 4; ++i) { CHECK(pool.get(100).made == 1); }
    pool.free(0, 100);
    pool.free(100, 100);
    pool.free(300, 100, 1); // neighbour of the endless range
    auto const a = pool.get(350);
    CHECK(a.begin == 300); // in the endless range: 200 bytes of free memory are not enough
    CHECK(a.moved == 2);
    CHECK(a.made == 1);
    CHECK(a.merged == 2);
    CHECK(pool.places.backed() == 500);
    auto const b = pool.get(150); // refills the hole
    CHECK(b.begin == 0);
    CHECK(b.made == 2);
    CHECK(b.moved == 0);
}

TEST_CASE("sim_places: an allocation that needs more new units than allowed finds no place") {
    placed_pool pool;
    CHECK(pool.get(250, 0, 3).found);
    CHECK_FALSE(pool.get(51, 0, 0).found);
    CHECK(pool.places.backed() == 300);
    CHECK(pool.get(50, 0, 0).begin == 250); // the rest of the last unit
    pool.free(0, 250);
    CHECK_FALSE(pool.get(301, 0, 0).found);
    CHECK(pool.get(250, 0, 0).begin == 0);
}

TEST_CASE("sim_places: only the stream of a pending free, and streams behind it, get its memory") {
    placed_pool pool;
    CHECK(pool.get(100).found);
    CHECK(pool.get(100).found);
    std::size_t const first = pool.free_later(0, 100);
    CHECK(pool.places.pending() == 100);
    CHECK(pool.get(20, 1).begin == 200);
    CHECK(pool.get(20, 0).begin == 0);
    CHECK(pool.waits.empty());
    CHECK(pool.places.pending() == 80);
    pool.ordered = {first};
    CHECK(pool.get(20, 2).begin == 20);
    CHECK(pool.waits == std::vector<std::pair<std::size_t, std::size_t>>{{0, first}});
    pool.ordered.clear();
    CHECK(pool.get(50, 2).begin == 220);
    CHECK(pool.places.pending() == 60);
    pool.places.complete(0, first);
    CHECK(pool.places.pending() == 0);
    CHECK(pool.get(50, 2).begin == 40);
    CHECK(pool.waits.empty());
}

TEST_CASE("sim_places: of the ranges of another stream, the smallest that may be used is taken") {
    placed_pool pool;
    for (std::size_t i = 0; i < 8; ++i) { CHECK(pool.get(i % 2 == 0 ? 10 + i : 5).found); }
    CHECK(pool.get(28).made == 0); // the unit is full
    std::size_t const a = pool.free_later(51, 16);
    std::size_t const b = pool.free_later(15, 12);
    pool.free_later(0, 10);
    pool.ordered = {a, b};
    CHECK(pool.get(9, 1).begin == 15); // the one of 10 bytes was freed later
    CHECK(pool.waits.back().second == b);
}

TEST_CASE("sim_places: pending memory in the pool's list is kept from other streams") {
    placed_pool pool;
    CHECK(pool.get(50).found);
    CHECK(pool.get(40).found);
    std::size_t const ticket = pool.free_later(0, 50);
    CHECK(pool.get(60).begin == 90); // moves the pending range to the pool's list
    CHECK(pool.places.pending() == 50);
    CHECK(pool.get(50, 1).begin == 150);
    CHECK(pool.get(20, 0).begin == 0);
    pool.ordered = {ticket};
    CHECK(pool.get(20, 1).begin == 20);
    CHECK(pool.waits == std::vector<std::pair<std::size_t, std::size_t>>{{0, ticket}});
    pool.ordered.clear();
    CHECK(pool.get(10, 1).begin == 200);
    CHECK(pool.places.pending() == 10);
    pool.places.complete(0, ticket);
    CHECK(pool.places.pending() == 0);
    CHECK(pool.get(10, 2).begin == 40);
}

TEST_CASE("sim_places: a block is placed behind pending memory at the end of the address space") {
    placed_pool pool;
    CHECK(pool.get(30).found);
    CHECK(pool.get(30).found);
    pool.free_later(30, 30);
    CHECK_FALSE(pool.get(250, 0, 0).found);
    CHECK(pool.get(20, 1).begin == 60);
    CHECK(pool.get(30, 0).begin == 30);
    CHECK(pool.get(20, 1).begin == 80);
}

TEST_CASE("sim_places: trim returns units without live and pending bytes, the highest first") {
    placed_pool pool;
    CHECK(pool.get(500).made == 5);
    CHECK(pool.get(50).made == 1);
    CHECK(pool.places.trim(9) == 0);
    std::size_t const ticket = pool.free_later(0, 500);
    CHECK(pool.places.trim(9) == 0);
    pool.places.complete(0, ticket);
    CHECK(pool.places.trim(2) == 2);
    CHECK(pool.places.backed() == 400);
    auto const a = pool.get(350); // of the 500 bytes
    CHECK(a.begin == 0);
    CHECK(a.made == 1);
    pool.free(0, 350);
    pool.free(500, 50);
    CHECK(pool.places.trim(9) == 5);
    CHECK(pool.places.backed() == 0);
}

TEST_CASE("sim_places: trim leaves the lists of the streams as they are if it returns no unit") {
    placed_pool pool;
    for (std::size_t i = 0; i < 4; ++i) { CHECK(pool.get(40).begin == 40 * i); }
    pool.free(40, 40, 0);
    pool.free(80, 40, 1);
    CHECK(pool.places.trim(9) == 0); // the unit from 0 to 100 has 40 live bytes
    auto const a = pool.get(80, 0);
    CHECK(a.merged == 2);
    CHECK(a.begin == 40);
    pool.free(40, 80, 1);
    CHECK(pool.places.trim(9) == 0);
    pool.free(0, 40, 0);
    CHECK(pool.places.trim(0) == 0);
    CHECK(pool.places.trim(9) == 1); // with the ranges of both streams
    CHECK(pool.places.backed() == 100);
}

TEST_CASE("sim_places: free units before a block that is placed behind pending memory are moved") {
    placed_pool pool;
    CHECK(pool.get(1000, 0).begin == 0);
    CHECK(pool.get(100, 1).begin == 1000);
    pool.free(0, 1000, 0);
    pool.ordered = {pool.free_later(1000, 100, 1)};
    CHECK_FALSE(pool.get(5000, 2, 0).found); // moves both to the pool's list
    pool.ordered.clear();
    auto const a = pool.get(1200, 3, 2);
    CHECK(a.found);
    CHECK(a.begin == 1100);
    CHECK(a.moved == 10);
    CHECK(a.made == 2);
}

TEST_CASE("sim_places: an allocation that is undone leaves pending memory pending") {
    placed_pool       pool;
    auto const        none  = std::vector<std::pair<std::size_t, std::size_t>>{};
    std::size_t const whole = pool.get(100).begin;
    std::size_t const first = pool.free_later(whole, 100);
    for (std::size_t const bytes : {50U, 100U}) { // the rest of the range, or no rest
        CHECK(pool.get(bytes, 0).begin == whole);
        pool.places.undo();
        CHECK(pool.places.live() == 0);
        CHECK(pool.places.pending() == 100);
        CHECK_FALSE(pool.get(bytes, 1, 0).found);
    }
    CHECK_FALSE(pool.get(250, 0, 0).found); // moves the range to the pool's list
    for (std::size_t const bytes : {50U, 100U}) {
        CHECK(pool.get(bytes, 0).begin == whole);
        pool.places.undo();
        CHECK(pool.places.live() == 0);
        CHECK(pool.places.pending() == 100);
        CHECK_FALSE(pool.get(bytes, 1, 0).found);
    }
    pool.ordered = {first};
    CHECK(pool.get(100, 1).begin == whole);
    CHECK(pool.waits.size() == 1);
    pool.places.undo();
    CHECK(pool.get(100, 1).begin == whole);
    CHECK(pool.waits.size() == 1);
    pool.places.undo();
    pool.places.complete(0, first);
    CHECK(pool.places.pending() == 0);
    CHECK(pool.get(100, 2, 0).begin == whole);
    CHECK(pool.waits == none);
}

TEST_CASE("sim_places: units that are backed at the start are used first") {
    placed_pool pool;
    pool.places.back(3);
    CHECK(pool.places.backed() == 300);
    CHECK(pool.get(300).made == 0);
    CHECK(pool.get(1).made == 1);
}

TEST_CASE("sim_places: random allocations are placed as by a plain form of the rule") {
    for (unsigned seed = 1; seed <= 40; ++seed) {
        std::mt19937        random{seed};
        std::size_t const   unit    = seed % 2 == 0 ? 64 : 100;
        bool const          at_once = seed % 4 < 2; // all frees are complete
        sim_places          places{unit};
        places_model        model{unit};
        std::vector<extent> live;
        std::map<std::size_t, std::set<std::size_t>> pending; // tickets of each stream
        std::size_t                                  tickets = 0, wrong = 0;
        std::size_t                                  seen[3][3] = {}; // tickets that come before
        auto const complete = [&](std::size_t stream) {               // the oldest free of a stream
            std::size_t const ticket = *pending[stream].begin();
            pending[stream].erase(ticket);
            places.complete(stream, ticket);
            model.complete(stream, ticket);
        };
        for (int i = 0; i < 3000; ++i) {
            std::size_t const stream = random() % 3;
            bool const        grows  = live.size() < 10 + (i / 500 % 2 == 0 ? 100U : 0U);
            if (random() % 100 == 0) {
                std::size_t const most = random() % 20;
                wrong += places.trim(most) == model.trim(most) ? 0U : 1U;
            } else if (random() % 10 == 0) { // a stream waits for another one
                seen[stream][random() % 3] = tickets;
            } else if (random() % 4 == 0 && !pending[stream].empty()) {
                complete(stream);
            } else if (live.empty() || random() % 100 < (grows ? 55U : 45U)) {
                std::size_t const n      = random_bytes(random);
                std::size_t const room   = random() % 8 == 0 ? random() % 3 : plenty;
                auto const        usable = [&](std::size_t of, std::size_t ticket) {
                    return ticket <= seen[stream][of];
                };
                places_model::tickets waits;
                auto const            wait = [&](std::size_t of, std::size_t ticket) {
                    waits.emplace(of, ticket);
                };
                auto const        p     = places.allocate(n, stream, room, usable, wait);
                std::size_t const begin = model.allocate(n, stream, room, usable);
                bool const        same  = p.found == (begin != places_model::none) &&
                                  p.merged == model.merged && waits == model.waits;
                wrong += same ? 0U : 1U;
                if (!p.found) { continue; }
                bool const at = p.begin == begin && p.made == model.made && p.moved == model.moved;
                wrong += at ? 0U : 1U;
                live.push_back({p.begin, n});
            } else {
                std::size_t const at = random() % live.size();
                places.free(live[at].begin, live[at].bytes, stream, ++tickets);
                model.free(live[at].begin, live[at].bytes, stream, tickets);
                pending[stream].insert(tickets);
                if (at_once) { complete(stream); }
                live[at] = live.back();
                live.pop_back();
            }
            wrong += places.backed() == model.units() * unit ? 0U : 1U;
            wrong += places.pending() == std::min(model.pending(), places.backed() - places.live())
                         ? 0U
                         : 1U;
        }
        CAPTURE(seed);
        CHECK(wrong == 0);
    }
}

TEST_CASE("sim_places: no allocation gets memory that is live or that it may not use yet") {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        std::mt19937                                     random{seed};
        sim_places                                       places{100};
        std::vector<extent>                              live;
        std::vector<std::pair<std::size_t, std::size_t>> last;    // of each byte: its last free
        std::map<std::size_t, std::set<std::size_t>>     pending; // tickets of each stream
        std::size_t                                      tickets = 0, bytes = 0, wrong = 0;
        std::size_t seen[4][4] = {}; // tickets that come before
        for (int i = 0; i < 3000; ++i) {
            std::size_t const stream = random() % 4;
            std::size_t const what   = random() % 100;
            if (what < 10) { // a stream waits for another one
                seen[stream][random() % 4] = tickets;
            } else if (what < 30 && !pending[stream].empty()) { // its oldest free is complete
                std::size_t const ticket = *pending[stream].begin();
                pending[stream].erase(ticket);
                places.complete(stream, ticket);
            } else if (what < 32) {
                places.trim(random() % 10);
            } else if (live.empty() || what < 66) {
                std::set<std::size_t> waits;
                auto const            usable = [&](std::size_t of, std::size_t ticket) {
                    return ticket <= seen[stream][of];
                };
                auto const wait = [&](std::size_t of, std::size_t ticket) {
                    if (of == stream || pending[of].count(ticket) == 0) { ++wrong; }
                    waits.insert(ticket);
                };
                std::size_t const n    = random_bytes(random);
                std::size_t const room = random() % 4 == 0 ? 0 : plenty;
                auto const        r    = places.allocate(n, stream, room, usable, wait);
                if (!r.found) {
                    wrong += room == plenty ? 1U : 0U;
                    continue;
                }
                for (extent const& b : live) { wrong += b.overlaps(r.begin, n) ? 1U : 0U; }
                if (random() % 8 == 0) {
                    places.undo();
                    continue;
                }
                last.resize(std::max(last.size(), r.begin + n));
                for (std::size_t b = r.begin; b < r.begin + n; ++b) {
                    auto const [of, ticket] = std::exchange(last[b], {});
                    if (of == stream || pending[of].count(ticket) == 0) { continue; }
                    bool const waited = waits.lower_bound(ticket) != waits.end();
                    wrong += ticket <= seen[stream][of] && waited ? 0U : 1U;
                }
                live.push_back({r.begin, n});
                bytes += n;
            } else {
                std::size_t const at = random() % live.size();
                extent const      f  = live[at];
                live[at]             = live.back();
                live.pop_back();
                places.free(f.begin, f.bytes, stream, ++tickets);
                pending[stream].insert(tickets);
                bytes -= f.bytes;
                for (std::size_t b = f.begin; b < f.begin + f.bytes; ++b) {
                    last[b] = {stream, tickets};
                }
            }
            wrong += places.live() == bytes && places.backed() >= bytes ? 0U : 1U;
            wrong += places.pending() <= places.backed() - bytes ? 0U : 1U;
        }
        for (auto const& [stream, all] : pending) {
            for (std::size_t const ticket : all) { places.complete(stream, ticket); }
        }
        wrong += places.pending() == 0 ? 0U : 1U;
        for (extent const& b : live) {
            places.free(b.begin, b.bytes, 0, ++tickets);
            places.complete(0, tickets);
        }
        places.trim(plenty);
        CAPTURE(seed);
        CHECK(places.backed() == 0);
        CHECK(wrong == 0);
    }
}

TEST_CASE("sim_places: an allocation without host memory allocates nothing; a free needs none") {
    std::mt19937        random{1};
    sim_places          places{100};
    std::vector<extent> live;
    live.reserve(5000);
    std::size_t tickets = 0, failed = 0, wrong = 0;
    auto const  never = [](std::size_t, std::size_t) { return false; };
    for (int i = 0; i < 5000; ++i) {
        if (live.empty() || random() % 100 < (i % 1000 < 500 ? 60U : 40U)) {
            std::size_t const n = random_bytes(random), units = places.backed();
            std::size_t const bytes = places.live(), stream = random() % 2;
            try {
                doubles::bombing const armed{1 + random() % 8};
                live.push_back({places.allocate(n, stream, plenty, never, never).begin, n});
            } catch (std::bad_alloc const&) {
                ++failed;
                wrong += places.backed() == units && places.live() == bytes ? 0U : 1U;
            }
        } else if (random() % 20 == 0) {
            doubles::bombing const armed{1};
            places.trim(1 + random() % 5);
        } else {
            std::size_t const at = random() % live.size(), stream = random() % 2;
            auto const        before = doubles::host_allocations();
            places.free(live[at].begin, live[at].bytes, stream, ++tickets);
            places.complete(stream, tickets);
            wrong += doubles::host_allocations() == before ? 0U : 1U;
            live[at] = live.back();
            live.pop_back();
        }
        for (extent const& b : live) { // the last block overlaps no other
            bool const other = b.begin != live.back().begin;
            wrong += other && b.overlaps(live.back().begin, live.back().bytes) ? 1U : 0U;
        }
    }
    CHECK(failed > 100);
    CHECK(wrong == 0);
    for (extent const& b : live) {
        places.free(b.begin, b.bytes, 0, ++tickets);
        places.complete(0, tickets);
    }
    {
        doubles::bombing const armed{1};
        places.trim(plenty);
    }
    CHECK(places.backed() == 0);
}
