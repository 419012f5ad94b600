// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `kinds` makes one object of each kind that owns memory, handles or threads of a platform.

#include "program.hpp" // thing, kind

#include <vram/handle/any_resource.hpp>  // any_resource
#include <vram/handle/array.hpp>         // array
#include <vram/handle/buffer.hpp>        // buffer
#include <vram/handle/current.hpp>       // current
#include <vram/handle/shared.hpp>        // shared
#include <vram/handle/std_allocator.hpp> // std_allocator
#include <vram/layer/statistics.hpp>     // statistics
#include <vram/layer/stream_ordered.hpp> // stream_ordered
#include <vram/pool/arena.hpp>           // arena
#include <vram/pool/binned.hpp>          // binned
#include <vram/pool/monotonic.hpp>       // monotonic
#include <vram/pool/pool.hpp>            // pool
#include <vram/pool/slab.hpp>            // slab
#include <vram/probe/tracking.hpp>       // tracking
#include <vram/staging/staging.hpp>      // staging
#include <vram/transfer/loader.hpp>      // loader
#include <vram/transfer/unloader.hpp>    // unloader

#include <cstddef> // size_t, byte
#include <cstring> // memset
#include <span>    // span
#include <utility> // move
#include <vector>  // vector

namespace tests::exits {

using namespace vram;

/// A synchronous resource, with a block that is live at the end.
template <class Resource>
struct with_block : thing {
    with_block() {
        memory.deallocate_sync(memory.allocate_sync(1000), 1000);
        live = memory.allocate_sync(3000);
    }
    Resource memory{};
    void*    live = nullptr;
};
/// Uses a resource; its owner frees the memory.
template <class Resource>
struct freed_block : with_block<Resource> {
    ~freed_block() override { this->memory.deallocate_sync(this->live, 3000); }
};

/// A slab with blocks large enough for `use`.
template <class Resource>
struct default_slab : slab<Resource> {
    default_slab() : slab<Resource>{Resource{}, std::size_t{128} << 10U} {}
};

/// Frees on one stream and allocates on another, so that there are events and cached blocks.
template <class Memory, class Stream>
void use(Memory& memory, Stream const& one, Stream const& two) {
    for (int i = 0; i < 3; ++i) {
        void* const p = memory.allocate(one.view(), 2000);
        void* const q = memory.allocate(two.view(), 90000);
        memory.deallocate(one.view(), p, 2000);
        void* const r = memory.allocate(two.view(), 2000); // behind an event
        memory.deallocate(two.view(), q, 90000);
        memory.deallocate(two.view(), r, 2000);
    }
}

/// Streams that are made later than the resource, and end earlier.
template <class Memory, class Stream>
struct memory_then_streams : thing {
    memory_then_streams() { use(memory, one, two); }
    Memory memory{};
    Stream one, two;
};
/// Streams that end later.
template <class Memory, class Stream>
struct streams_then_memory : thing {
    streams_then_memory() { use(memory, one, two); }
    Stream one, two;
    Memory memory{};
};
/// A block that is live when the resource is destroyed.
template <class Memory, class Stream>
struct memory_with_live_block : thing {
    memory_with_live_block() {
        use(memory, one, two);
        live = memory.allocate(one.view(), 5000);
    }
    Memory memory{};
    Stream one, two;
    void*  live = nullptr;
};

template <class World>
struct own_stream : thing {
    typename World::stream stream{};
};
template <class World>
struct own_event : thing {
    own_event() { World::platform::record(event, stream.view()); }
    typename World::stream          stream{};
    typename World::platform::event event{World::platform::current_device()};
};

template <class World>
using ordered = stream_ordered<typename World::resource>;
template <class World>
using shared_pool = shared<pool<ordered<World>>>;

template <class World>
struct with_buffer : thing {
    with_buffer() { use(memory.get(), stream, stream); }
    shared_pool<World>         memory{pool<ordered<World>>{}};
    typename World::stream     stream{};
    buffer<shared_pool<World>> data{memory, stream.view(), 5000};
};
template <class World>
struct with_array : thing {
    shared_pool<World>               memory{pool<ordered<World>>{}};
    typename World::stream           stream{};
    array<float, shared_pool<World>> data{memory, stream.view(), 100};
};
template <class World>
struct with_any_resource : thing {
    with_any_resource() {
        live = memory.allocate(stream.view(), 100);
        memory.deallocate(stream.view(), memory.allocate(stream.view(), 200), 200);
    }
    any_resource<typename World::platform, device_accessible> memory{
        shared_pool<World>{pool<ordered<World>>{}}};
    typename World::stream stream{};
    void*                  live = nullptr;
};
template <class World>
struct with_current : thing {
    typename World::stream stream{};
    using ref = typename current<typename World::platform>::ref;
    buffer<ref> data{current<typename World::platform>::get(), stream.view(), 5000};
};
template <class World>
struct with_container : thing {
    using memory_type = shared<pool<typename World::pinned>>;
    memory_type                                       memory{pool<typename World::pinned>{}};
    std::vector<int, std_allocator<int, memory_type>> data{{1, 2, 3},
                                                           std_allocator<int, memory_type>{memory}};
};

/// Some batches are used, the others are not.
template <class World>
struct with_loader : thing {
    struct source {
        std::size_t operator()(std::span<std::byte> to, std::size_t index) const {
            std::memset(to.data(), 1, to.size());
            return index == 100 ? 0 : to.size();
        }
    };
    with_loader() {
        auto at = load.begin();
        ++at;
    }
    typename World::stream                   stream{};
    loader<source, typename World::platform> load{source{}, stream.view(), {.batch_bytes = 4096}};
};
/// Results that were sent; finished before the end or not.
template <class World, bool Finished>
struct with_unloader : thing {
    struct sink {
        void operator()(std::span<std::byte const>, std::size_t) const {}
    };
    with_unloader() {
        for (int i = 0; i < 3; ++i) {
            auto result = out.next();
            World::platform::fill(stream.view(), result.data(), std::byte{1}, 4096);
            result.send();
        }
        if (Finished) { out.finish(); }
    }
    typename World::stream                   stream{};
    unloader<sink, typename World::platform> out{sink{}, stream.view(), {.batch_bytes = 4096}};
};
template <class World>
struct with_staging : thing {
    with_staging() { stage.upload(stream.view(), on_device, std::span{data}); }
    typename World::stream            stream{};
    typename World::resource          memory{};
    std::vector<std::byte>            data{std::size_t{8} << 20U};
    void*                             on_device = memory.allocate_sync(data.size());
    staging<typename World::platform> stage{stream.view(),
                                            {.threads = 2, .chunk_bytes = std::size_t{1} << 20U}};
};

template <class T>
thing* make() {
    return new T;
}

/// Each kind that a platform has.
template <class World>
std::vector<kind> kinds() {
    using resource = typename World::resource;
    using stream   = typename World::stream;
    using async    = typename World::async;
    using space    = typename World::space;
    return {
        {"resource", make<with_block<resource>>, true},
        {"freed_resource", make<freed_block<resource>>},
        {"pinned", make<with_block<typename World::pinned>>, true},
        {"freed_pinned", make<freed_block<typename World::pinned>>},
        {"managed", make<freed_block<typename World::managed>>},
        {"space", make<with_block<space>>, true},
        {"freed_space", make<freed_block<space>>},
        {"stream", make<own_stream<World>>},
        {"event", make<own_event<World>>},
        {"async", make<memory_then_streams<async, stream>>},
        {"async_after_streams", make<streams_then_memory<async, stream>>},
        {"async_with_live_block", make<memory_with_live_block<async, stream>>, true},
        {"ordered", make<memory_then_streams<ordered<World>, stream>>},
        {"ordered_after_streams", make<streams_then_memory<ordered<World>, stream>>},
        {"ordered_with_live_block", make<memory_with_live_block<ordered<World>, stream>>, true},
        {"pool", make<memory_then_streams<pool<ordered<World>>, stream>>},
        {"pool_after_streams", make<streams_then_memory<pool<ordered<World>>, stream>>},
        {"pool_with_live_block", make<memory_with_live_block<pool<ordered<World>>, stream>>, true},
        {"pool_in_place", make<memory_with_live_block<pool<space>, stream>>, true},
        {"slab", make<memory_with_live_block<default_slab<resource>, stream>>, true},
        {"binned", make<memory_with_live_block<binned<ordered<World>>, stream>>, true},
        {"monotonic", make<memory_with_live_block<monotonic<resource>, stream>>, true},
        {"arena", make<memory_with_live_block<arena<pool<ordered<World>>>, stream>>, true},
        {"layers", make<memory_with_live_block<statistics<pool<ordered<World>>>, stream>>, true},
        {"tracking", make<memory_with_live_block<tracking<pool<ordered<World>>>, stream>>, true},
        {"buffer", make<with_buffer<World>>},
        {"array", make<with_array<World>>},
        {"any_resource", make<with_any_resource<World>>, true},
        {"current", make<with_current<World>>},
        {"container", make<with_container<World>>},
        {"loader", make<with_loader<World>>},
        {"unloader", make<with_unloader<World, true>>},
        {"unfinished_unloader", make<with_unloader<World, false>>, false, true},
        {"staging", make<with_staging<World>>},
    };
}

} // namespace tests::exits
