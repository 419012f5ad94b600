// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_resource` returns addresses without memory: a stand-in for the simulated device without
/// its cost.

#include <vram/base/align.hpp>           // align, default_alignment
#include <vram/base/core/gate.hpp>       // gate
#include <vram/base/core/worker.hpp>     // worker
#include <vram/concepts/platform.hpp>    // platform
#include <vram/concepts/powers.hpp>      // the concepts that the proofs below check
#include <vram/source/host_platform.hpp> // host_platform: copies, where anybody asks for one

#include <algorithm> // max
#include <atomic>    // atomic
#include <cstddef>   // size_t, byte
#include <cstdint>   // uint32_t, uint64_t, uintptr_t

namespace bench {

/// The progress of streams of an `address_platform`: complete at once, or, for the worst case of a
/// pool, never complete until the host waits.
enum class streams_are { idle, busy };

template <streams_are Pace>
class address_resource;

/// The calls of an `address_platform` by the calling thread.
struct platform_calls {
    std::uint64_t records = 0;
    std::uint64_t waits   = 0;
};

/// A platform whose calls cost as much as an empty function, so that only the cost of a pool is
/// measured. Streams are numbers; an event is a flag.
///
/// Failure   None.
/// Threads   Any thread may call it. `calls()` counts those of the calling thread.
/// Cost      A record or a wait increments a counter of the thread.
template <streams_are Pace = streams_are::idle>
struct address_platform {
    struct device {
        friend bool operator==(device, device) = default;
    };
    struct stream {
        using platform       = address_platform;
        std::uint64_t number = 0;

        friend bool operator==(stream, stream) = default;
    };
    class own_stream {
    public:
        explicit own_stream(device = {}) noexcept : number_{next_.fetch_add(1) + 1} {}
        own_stream(own_stream&&) noexcept            = default;
        own_stream& operator=(own_stream&&) noexcept = default;

        [[nodiscard]] stream view() const noexcept { return {number_}; }
        operator stream() const noexcept { return view(); }

    private:
        static inline std::atomic<std::uint64_t> next_{0};
        std::uint64_t                            number_;
    };
    struct event {
        explicit event(device = {}) noexcept {}
        event(event&&) noexcept            = default;
        event& operator=(event&&) noexcept = default;

        [[nodiscard]] std::atomic_ref<bool> over() const noexcept { return std::atomic_ref{over_}; }

    private:
        mutable bool over_ = true; ///< an event that was never recorded is done
    };
    struct device_guard {
        explicit device_guard(device) noexcept {}
    };
    using gate            = vram::detail::gate;
    using thread          = vram::detail::worker;
    using device_resource = address_resource<Pace>;
    using pinned_resource = address_resource<Pace>;

    [[nodiscard]] static device            current_device() noexcept { return {}; }
    [[nodiscard]] static device            device_of(stream) noexcept { return {}; }
    [[nodiscard]] static std::uint64_t     id(stream s) noexcept { return s.number; }
    [[nodiscard]] static bool              is_default_stream(stream) noexcept { return false; }
    [[nodiscard]] static bool              capturing(stream) noexcept { return false; }
    [[nodiscard]] static vram::memory_info memory(device) noexcept {
        return {largest_device, largest_device};
    }
    [[nodiscard]] static bool            done(event const& e) noexcept { return e.over().load(); }
    [[nodiscard]] static platform_calls& calls() noexcept {
        static thread_local platform_calls made;
        return made;
    }

    /// The capacity of an H200, because thresholds depend on it.
    static constexpr std::size_t largest_device = std::size_t{143771} << 20;

    static void record(event& e, stream) noexcept {
        ++calls().records;
        e.over().store(Pace == streams_are::idle);
    }
    static void wait(stream, event const&) noexcept { ++calls().waits; }
    static void synchronize(event const& e) noexcept { e.over().store(true); }
    static void synchronize(stream) noexcept {}
    static void synchronize(device) noexcept {}
    static void call(stream, void (*function)(void*), void* argument) { function(argument); }

    // Required by the concept. These addresses must not be dereferenced.
    static void copy(stream, void* to, void const* from, std::size_t bytes) noexcept {
        vram::host_platform::copy({}, to, from, bytes);
    }
    static void copy(stream, vram::pitched_copy const& c) noexcept {
        vram::host_platform::copy({}, c);
    }
    static void fill(stream, void* to, std::byte value, std::size_t bytes) noexcept {
        vram::host_platform::fill({}, to, value, bytes);
    }
};

/// Addresses from a counter, never reused, aligned to 2 MiB as large blocks of a device are.
///
/// Failure   None; a process has addresses for 128 TiB.
/// Threads   Any thread may call it.
/// Streams   Not stream-ordered.
/// Cost      One atomic addition.
template <streams_are Pace = streams_are::idle>
class address_resource {
public:
    using platform   = address_platform<Pace>;
    using stream     = typename platform::stream;
    using properties = vram::property_set<vram::device_accessible>;

    [[nodiscard]] void* allocate_sync(std::size_t bytes,
                                      std::size_t alignment = vram::default_alignment) noexcept {
        return try_allocate_sync(bytes, alignment);
    }
    [[nodiscard]] void*
    try_allocate_sync(std::size_t bytes, std::size_t alignment = vram::default_alignment) noexcept {
        if (bytes == 0) { return nullptr; }
        std::size_t const step = std::max(alignment, page);
        // Reserves space for the alignment beside the block, so that one addition suffices.
        std::uintptr_t const at =
            next_.fetch_add(vram::align(bytes, page) + step - page, std::memory_order_relaxed);
        // An address that is never dereferenced.
        return reinterpret_cast<void*>(vram::align(at, step));
    }
    void deallocate_sync(void*, std::size_t, std::size_t = vram::default_alignment) noexcept {}

    friend bool operator==(address_resource const&, address_resource const&) = default;

private:
    static constexpr std::size_t              page = std::size_t{2} << 20;
    static inline std::atomic<std::uintptr_t> next_{page};
};

static_assert(vram::platform<address_platform<>>);
static_assert(vram::synchronous_resource<address_resource<>>);
static_assert(vram::fallible_resource<address_resource<>>);

} // namespace bench
