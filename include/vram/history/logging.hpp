// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `logging` is a layer that writes a line to a file for each allocation and free, as RMM does.

#include <vram/base/call_site.hpp>
#include <vram/base/core/thread_number.hpp>
#include <vram/base/tag.hpp>                // current_tag
#include <vram/concepts/core/diagnosed.hpp> // refuse_copy, checked_upstream
#include <vram/concepts/powers.hpp>         // fallible_resource, reusing_resource
#include <vram/concepts/sited.hpp>
#include <vram/history/core/csv_row.hpp> // csv_row, csv_header
#include <vram/history/core/log_file.hpp>
#include <vram/history/core/number_of_stream.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/with.hpp> // with::layer

#include <bit>      // bit_cast
#include <chrono>   // system_clock
#include <concepts> // same_as
#include <cstddef>
#include <cstdint>
#include <memory> // unique_ptr, make_unique
#include <string> // string
#include <utility>

namespace vram {

/// Options of `logging`: the size limit of a file, and the number of older files kept.
///
///     logging_options const rotating{.most_bytes = 1_GiB, .older_files = 3};
///     logging               mr{pool{cuda_resource{}}, "run.csv", rotating};
struct logging_options {
    /// Largest size of the file in bytes; 0 means no limit. A full file is renamed to PATH.1 or
    /// emptied (see `older_files`).
    std::size_t most_bytes = 0;
    /// Number of older files that are kept: PATH.1 is the newest of them. If 0, the file is emptied
    /// instead of renamed.
    unsigned older_files = 1;
};

/// A resource that writes a line to a CSV file for each allocation, free and refusal.
///
///     logging mr{pool{cuda_resource{}}, "run.csv"};
///
/// The columns are those of RMM's logging adaptor, `Thread,Time,Action,Pointer,Size,Stream`, and
/// then `Tag,File,Line`. Times are UTC; the stream is 0 if a call has none. Requests of 0 bytes
/// have no line. If the process is killed, the file keeps all lines, perhaps followed by empty
/// ones.
///
/// Failure   The constructor throws `file_error`; a line that cannot be written, or that a forked
///           child would write, is counted by `lost()`.
/// Threads   The rules are those of the upstream. The lines of a block are in order.
/// Cost      About 0.4 us per call.
template <class Upstream>
class logging : public layer_base<detail::checked_upstream<Upstream>> {
    using base = layer_base<Upstream>;

public:
    using typename base::stream;
    using base::allocate;
    using base::deallocate;

    /// Creates the layer over `upstream`, and the file, which is emptied if it exists.
    logging(Upstream upstream, std::string path, logging_options options = {})
        : base{std::move(upstream)},
          file_{std::make_unique<detail::log_file>(std::move(path), std::string{detail::csv_header},
                                                   options.most_bytes, options.older_files)} {}

    /// A copy does not compile. For a non-const source, the error names move, borrow and share.
    template <std::same_as<logging> Same>
    logging(Same& other) : logging{detail::refuse_copy(other)} {}
    template <std::same_as<logging> Same>
    logging& operator=(Same& other) {
        static_cast<void>(detail::refuse_copy(other));
        return *this;
    }

    [[nodiscard]] void* allocate(stream s, std::size_t bytes,
                                 std::size_t alignment = default_alignment,
                                 call_site   at        = call_site::current())
        requires resource<Upstream>
    {
        attempt made{*this, bytes, &s, at};
        return made.got(sited{this->upstream_, at}.allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment,
                                      call_site at = call_site::current()) {
        attempt made{*this, bytes, nullptr, at};
        return made.got(sited{this->upstream_, at}.allocate_sync(bytes, alignment));
    }

    [[nodiscard]] void* try_allocate(stream s, std::size_t bytes,
                                     std::size_t alignment = default_alignment,
                                     call_site   at        = call_site::current()) noexcept
        requires resource<Upstream> && fallible_resource<Upstream>
    {
        attempt made{*this, bytes, &s, at};
        return made.got(sited{this->upstream_, at}.try_allocate(s, bytes, alignment));
    }
    [[nodiscard]] void* try_allocate_sync(std::size_t bytes,
                                          std::size_t alignment = default_alignment,
                                          call_site   at        = call_site::current()) noexcept
        requires fallible_resource<Upstream>
    {
        attempt made{*this, bytes, nullptr, at};
        return made.got(sited{this->upstream_, at}.try_allocate_sync(bytes, alignment));
    }

    /// Returns memory that the stream `s` may use without a wait, or null (not logged) if the
    /// upstream has none.
    [[nodiscard]] void* try_allocate_ready(stream s, std::size_t bytes,
                                           std::size_t alignment = default_alignment,
                                           call_site   at        = call_site::current())
        requires reusing_resource<Upstream>
    {
        void* const p = sited{this->upstream_, at}.try_allocate_ready(s, bytes, alignment);
        if (p != nullptr) { write("allocate", p, bytes, &s, at); }
        return p;
    }

    void deallocate(stream s, void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                    call_site at = call_site::current()) noexcept
        requires resource<Upstream>
    {
        if (p != nullptr) { write("free", p, bytes, &s, at); }
        sited{this->upstream_, at}.deallocate(s, p, bytes, alignment);
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment = default_alignment,
                         call_site at = call_site::current()) noexcept {
        if (p != nullptr) { write("free", p, bytes, nullptr, at); }
        sited{this->upstream_, at}.deallocate_sync(p, bytes, alignment);
    }

    /// Returns the number of lines since the construction that are in no file, because a write
    /// failed or a forked child does not write.
    [[nodiscard]] std::uint64_t lost() const noexcept { return file_->lost(); }

private:
    /// One call that allocates. `got` logs an allocated block. If no block was allocated, the
    /// destructor logs a refusal, except for a request of 0 bytes.
    class attempt {
    public:
        attempt(logging& owner, std::size_t bytes, stream const* on, call_site at) noexcept
            : owner_{owner}, bytes_{bytes}, on_{on}, at_{at} {}
        attempt(attempt&&) = delete;
        ~attempt() {
            if (bytes_ != 0) { owner_.write("allocate failure", nullptr, bytes_, on_, at_); }
        }

        void* got(void* p) noexcept {
            if (p != nullptr) { owner_.write("allocate", p, std::exchange(bytes_, 0), on_, at_); }
            return p;
        }

    private:
        logging&      owner_;
        std::size_t   bytes_;
        stream const* on_;
        call_site     at_;
    };

    void write(char const* action, void* p, std::size_t bytes, stream const* on,
               call_site at) noexcept {
        using namespace std::chrono;
        auto const now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch());
        file_->append(detail::csv_row{detail::thread_number(), now.count(), action,
                                      std::bit_cast<std::uintptr_t>(p), bytes,
                                      on != nullptr ? detail::number_of_stream(*on) : 0,
                                      current_tag().path(), at.file(), at.line()}
                          .line());
    }

    std::unique_ptr<detail::log_file> file_; // a pointer, because a `log_file` cannot be moved
};

namespace with {
/// Puts a `logging` layer over a resource: `source | with::pool | with::logging("run.csv")`.
[[nodiscard]] inline auto logging(std::string path, logging_options options = {}) {
    return layer<vram::logging>(std::move(path), options);
}
} // namespace with

} // namespace vram
