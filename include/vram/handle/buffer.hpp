// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `buffer` is a block of memory that its destructor frees, in stream order.

#include <vram/base/align.hpp> // default_alignment
#include <vram/base/call_site.hpp>
#include <vram/base/core/smaller_of.hpp>
#include <vram/concepts/core/diagnosed.hpp>   // refuse_buffer_copy
#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/concepts/core/user_line.hpp>   // user_line, remembered_line
#include <vram/concepts/resource.hpp>
#include <vram/concepts/sited.hpp>
#include <vram/handle/core/stored_resource.hpp>

#include <concepts> // copy_constructible, integral, same_as
#include <cstddef>
#include <utility>

namespace vram {

/// Uninitialized bytes from a resource, on a stream that the buffer remembers. Move-only.
///
///     buffer scratch{memory, stream, 64_MiB};
///     kernel<<<grid, block, 0, stream>>>(scratch.data());
///
/// `R` is a handle by value, or `Resource&` for a resource that outlives the buffer. A buffer that
/// was moved from may only be assigned to or destroyed.
///
/// Failure   Throws exceptions of the resource and of the platform's copy, and changes nothing.
/// Threads   One thread at a time.
/// Streams   The memory is allocated, copied and freed on the buffer's stream, which must be
///           ordered after all other work that uses the memory.
/// Cost      One allocation and one free. `resize` within the capacity costs nothing.
template <class R>
class buffer {
    static_assert(resource<std::remove_reference_t<R>>,
                  "a buffer or array needs a stream-ordered resource: write "
                  "stream_ordered<cuda_resource> or a pool, and pass it as buffer{memory, stream, "
                  "bytes}, not by pointer");

public:
    using resource_type = std::remove_reference_t<R>;
    using platform      = typename resource_type::platform;
    using stream        = typename platform::stream;
    using properties    = typename resource_type::properties;

    /// Allocates `bytes` uninitialized bytes from the resource `mr`, ordered on the stream `s`.
    explicit buffer(R mr, stream s = {}, std::size_t bytes = 0,
                    std::size_t alignment = default_alignment, call_site at = call_site::current())
        : mr_{std::forward<R>(mr)},
          stream_{s},
          held_{detail::hold_stream<platform>(s)},
          made_{at},
          alignment_{alignment} {
        data_     = sited{mr_.get(), at}.allocate(s, bytes, alignment);
        size_     = bytes;
        capacity_ = bytes;
    }
    buffer(buffer&& other) noexcept
        : mr_{std::move(other.mr_)},
          stream_{other.stream_},
          held_{other.held_},
          made_{other.made_},
          alignment_{other.alignment_},
          data_{std::exchange(other.data_, nullptr)},
          size_{std::exchange(other.size_, 0)},
          capacity_{std::exchange(other.capacity_, 0)} {}
    buffer& operator=(buffer&& other) noexcept {
        if (this == &other) { return *this; }
        give_back(made_.at());
        mr_        = std::move(other.mr_);
        stream_    = other.stream_;
        held_      = other.held_;
        made_      = other.made_;
        alignment_ = other.alignment_;
        data_      = std::exchange(other.data_, nullptr);
        size_      = std::exchange(other.size_, 0);
        capacity_  = std::exchange(other.capacity_, 0);
        return *this;
    }
    ~buffer() { give_back(made_.at()); }

    // Chosen by overload resolution for a copy of a buffer that is not const. The copy does not
    // compile: the error message says what to write instead.
    template <std::same_as<buffer> Same>
    buffer(Same& other) : buffer{detail::refuse_buffer_copy(other)} {}
    template <std::same_as<buffer> Same>
    buffer& operator=(Same& other) {
        return *this = detail::refuse_buffer_copy(other);
    }

    /// Changes the size to `bytes`, with a copy to a new block if necessary. New bytes are
    /// uninitialized.
    void resize(std::size_t bytes, call_site at = call_site::current()) {
        reserve(bytes, at);
        size_ = bytes;
    }
    /// Makes the capacity at least `bytes`, with a copy to a new block if necessary. The size does
    /// not change.
    void reserve(std::size_t bytes, call_site at = call_site::current()) {
        if (bytes > capacity_) { relocate(bytes, at); }
    }
    /// Reduces the capacity to the size, by a copy to a new block on the buffer's stream.
    void shrink_to_fit(call_site at = call_site::current()) {
        if (size_ < capacity_) { relocate(size_, at); }
    }

    /// Makes `s` the stream of the buffer. The caller must have ordered `s` after all earlier work
    /// that uses the buffer.
    void set_stream(stream s) noexcept {
        stream_ = s;
        held_   = detail::hold_stream<platform>(s);
    }
    /// Frees the memory on the stream `s`. The caller must have ordered `s` after all work that
    /// uses the buffer.
    void destroy(stream s, call_site at = call_site::current()) noexcept {
        set_stream(s);
        give_back(at);
    }
    /// Frees the memory on the buffer's stream. The buffer is empty then.
    void destroy() noexcept { give_back(made_.at()); }

    // clang-format off
    [[nodiscard]] void*       data() noexcept            { return data_; }
    [[nodiscard]] void const* data() const noexcept      { return data_; }
    [[nodiscard]] std::size_t size() const noexcept      { return size_; }     ///< size in bytes
    /// Returns the number of bytes that the buffer can have without a new block.
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] bool        empty() const noexcept     { return size_ == 0; }
    [[nodiscard]] std::size_t alignment() const noexcept { return alignment_; }
    [[nodiscard]] stream      get_stream() const noexcept { return stream_; }
    [[nodiscard]] resource_type&       upstream() noexcept       { return mr_.get(); }
    [[nodiscard]] resource_type const& upstream() const noexcept { return mr_.get(); }
    // clang-format on

private:
    /// A new block. After its copy, `relocate` swaps it with the buffer's old block, and the
    /// destructor frees the old block. If the copy throws an exception, the destructor frees the
    /// new block.
    struct fresh_block {
        buffer&     owner;
        std::size_t bytes;
        call_site   at;
        void* data = sited{owner.mr_.get(), at}.allocate(owner.stream_, bytes, owner.alignment_);

        ~fresh_block() {
            sited{owner.mr_.get(), at}.deallocate(owner.stream_, data, bytes, owner.alignment_);
        }
    };

    void relocate(std::size_t bytes, call_site at) {
        fresh_block                       fresh{*this, bytes, at};
        std::size_t const                 kept = detail::smaller_of(size_, bytes);
        detail::user_line<platform> const here{at, {detail::part_kind::handle}};
        if (kept != 0) { platform::copy(stream_, fresh.data, data_, kept); }
        std::swap(fresh.data, data_);
        std::swap(fresh.bytes, capacity_);
    }
    /// Frees the memory, if any. `at`: line of the program, for reports about the free. It is the
    /// line that called `destroy(s)` or, in other cases, the line that constructed the buffer.
    void give_back(call_site at) noexcept {
        if (data_ == nullptr) { return; }
        sited{mr_.get(), at}.deallocate(stream_, std::exchange(data_, nullptr),
                                        std::exchange(capacity_, 0), alignment_);
        size_ = 0;
    }

    [[no_unique_address]] detail::stored_resource<R> mr_;
    stream                                           stream_;
    /// Keeps the stream's handle valid, because the stream may be destroyed before the buffer.
    [[no_unique_address]] detail::stream_hold<platform> held_;
    /// Source line of the program that constructed the buffer, for reports of the platform.
    [[no_unique_address]] detail::remembered_line<platform> made_;
    std::size_t                                             alignment_;
    void*                                                   data_     = nullptr;
    std::size_t                                             size_     = 0;
    std::size_t                                             capacity_ = 0;
};

template <class R>
    requires(!std::copy_constructible<R>)
buffer(R&) -> buffer<R&>;
template <class R>
    requires(!std::copy_constructible<R>)
buffer(R&, typename R::platform::stream, std::size_t = 0, std::size_t = 0, call_site = {})
    -> buffer<R&>;
// For the argument order of other libraries, buffer{bytes, stream, memory}: the error message of
// `buffer` then names the right order.
template <std::integral Size, class Stream, class R>
buffer(Size, Stream const&, R const&) -> buffer<Size>;

} // namespace vram
