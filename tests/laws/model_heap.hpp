// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `model_heap` is the model of a resource: its live blocks, and their contents.

#include "effort.hpp"       // of_many
#include "model_blocks.hpp" // model_blocks
#include "options.hpp"      // options
#include "stream_set.hpp"   // stream_set

#include <vram/base/out_of_memory.hpp> // out_of_memory
#include <vram/concepts/powers.hpp>    // the powers that decide what is checked

#include <doctest/doctest.h>

#include <cstddef>  // size_t, byte
#include <cstdint>  // uintptr_t
#include <optional> // optional

namespace laws {

/// Runs random operations on `R` from several streams, and checks each against the model. Every
/// block is filled with its own byte in the order of its stream, and read back later. This detects
/// overlapping blocks, and memory that is reused before its last use is complete. A platform with a
/// checker must report nothing.
template <class R>
class model_heap {
    static constexpr bool ordered  = vram::resource<R>;
    static constexpr bool fallible = vram::fallible_resource<R>;

public:
    using platform = typename R::platform;
    using stream   = typename platform::stream;

    /// If `alone`, no other user changes the resource's usage during the run.
    model_heap(R& resource, options const& chosen, bool alone = true)
        : resource_{resource},
          options_{chosen},
          streams_{chosen.streams},
          blocks_{chosen},
          alone_{alone} {
        if constexpr (vram::measured_resource<R>) { at_start_ = resource.usage(); }
    }
    model_heap(model_heap&&) = delete;

    /// Runs `options.operations` random steps, frees everything, and destroys the streams.
    void run() {
        unsigned const all = options_.operations;
        // Enough to fill most of the memory.
        unsigned const steps = alone_ ? of_many(all, 700) : all;
        for (unsigned i = 0; i < steps; ++i) { step(); }
        CHECK((options_.may_refuse || refused_ == 0));
        clear();
    }

    /// Runs one random step: allocate, write, hand over, verify or free.
    void step() {
        auto const dice = blocks_.below(16);
        if (blocks_.empty() || dice < 7) { return take(); }
        auto const at = blocks_.any();
        if (dice < 13) {
            give(at);
        } else if (dice < 15) {
            hand_over(at->second, blocks_.below(streams_.size()));
            write(at->first, at->second);
        } else {
            verify(at->first, at->second);
        }
        if (blocks_.below(64) == 0) { check_figures(); }
    }

    /// Frees everything and destroys the streams.
    void clear() {
        while (!blocks_.empty()) { give(blocks_.begin()); }
        check_figures();
        streams_.synchronize();
        streams_.retire_from(resource_);
    }

    [[nodiscard]] std::size_t refused() const noexcept { return refused_; }

private:
    void take() {
        model_block const b = blocks_.request();
        if (!blocks_.has_room_for(b)) { return; }
        void* const p = ask(b);
        if (p == nullptr) {
            ++refused_;
            return;
        }
        if constexpr (vram::owning_resource<R>) { CHECK(resource_.owns(p)); }
        auto const at = blocks_.insert(p, b);
        write(at->first, at->second);
    }

    void* ask(model_block const& b) {
        bool const try_it = fallible && blocks_.below(2) == 0;
        bool const sync   = !ordered || blocks_.below(4) == 0;
        try {
            if (sync) {
                if constexpr (fallible) {
                    if (try_it) { return resource_.try_allocate_sync(b.bytes, b.alignment); }
                }
                return resource_.allocate_sync(b.bytes, b.alignment);
            }
            if constexpr (ordered) {
                if constexpr (fallible) {
                    if (try_it) {
                        return resource_.try_allocate(streams_[b.user], b.bytes, b.alignment);
                    }
                }
                return resource_.allocate(streams_[b.user], b.bytes, b.alignment);
            }
        } catch (vram::out_of_memory const&) {}
        return nullptr;
    }

    void give(model_blocks::iterator at) {
        auto const [address, b] = *at;
        auto* const p           = reinterpret_cast<void*>(address);
        if (blocks_.below(4) == 0) { verify(address, b); }
        blocks_.erase(at);
        if constexpr (ordered) {
            if (blocks_.below(4) != 0) {
                model_block last = b;
                if (blocks_.below(3) == 0) { hand_over(last, blocks_.below(streams_.size())); }
                return resource_.deallocate(streams_[last.user], p, b.bytes, b.alignment);
            }
        }
        platform::synchronize(streams_[b.user]);
        resource_.deallocate_sync(p, b.bytes, b.alignment);
    }

    /// Orders the stream `to` after the block's last user and makes it the user.
    void hand_over(model_block& b, std::size_t to) {
        streams_.order(streams_[b.user], streams_[to]);
        b.user = to;
    }

    void write(std::uintptr_t address, model_block& b) {
        if (!options_.touch) { return; }
        b.pattern = static_cast<std::byte>(blocks_.below(256));
        platform::fill(streams_[b.user], reinterpret_cast<void*>(address), b.pattern, b.bytes);
    }

    void verify(std::uintptr_t address, model_block const& b) {
        if (!options_.touch) { return; }
        platform::copy(streams_[b.user], blocks_.mirror_of(b).data(),
                       reinterpret_cast<void const*>(address), b.bytes);
        platform::synchronize(streams_[b.user]);
        blocks_.check_mirror(b);
    }

    void check_figures() {
        if constexpr (vram::measured_resource<R>) {
            if (alone_) { blocks_.check_figures(*at_start_, resource_.usage()); }
        }
    }

    R&                                resource_;
    options                           options_;
    stream_set<platform>              streams_;
    model_blocks                      blocks_;
    std::optional<vram::memory_usage> at_start_;
    std::size_t                       refused_ = 0;
    bool                              alone_;
};

} // namespace laws
