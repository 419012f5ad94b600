// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `error_text` is the message of an error, made without an allocation.

#include <vram/base/error_kind.hpp> // error, error_kind

#include <cinttypes> // PRIu64
#include <cstdarg>   // va_list
#include <cstddef>
#include <cstdint>
#include <cstdio> // vsnprintf

namespace vram {

/// The message of an error, with its kind, its known facts, and one sentence of advice:
///
///     app.cpp:42: vram: double free: pool: block 0x7f8840000100 is free already, freed with 256
///     bytes on stream 0x5581. Free each block exactly once.
///
/// Failure   A message that is too long is truncated.
/// Cost      No allocation, and about 1 KiB of stack.
class error_text {
public:
    explicit error_text(error const& e) noexcept : e_{e} {
        if (e.caller.known()) { say("%s:%u: ", e.caller.file(), e.caller.line()); }
        say("vram: %s: ", name(e.kind));
        if (e.resource != nullptr) { say("%s: ", e.resource); }
        say_facts();
        // If no line of the program is known, the message ends with the line of vram's source that
        // reports the error. The message of a leak that a resource reports never has such a line.
        bool const leak_of_resource = e.kind == error_kind::leak && e.resource != nullptr;
        if (!e.caller.known() && e.where.line() != 0 && !leak_of_resource) {
            say(" [%s:%u]", file_name(e.where.file_name()), static_cast<unsigned>(e.where.line()));
        }
    }
    error_text(error_text const&) = delete;

    /// Returns the message. It is valid as long as this object exists.
    [[nodiscard]] char const* c_str() const noexcept { return text_; }

private:
    void say_facts() noexcept {
        switch (e_.kind) {
        case error_kind::foreign_pointer:
            say_address(e_.pointer != nullptr ? "memory at" : "memory");
            say(" was not allocated by this resource");
            say_free();
            return advise("Free a block through the resource that allocated it.");
        case error_kind::double_free:
            say_address("the block");
            say(" is free already");
            say_free("; it was freed again with");
            return advise("Free each block exactly once.");
        case error_kind::interior_pointer:
            say_address("the address");
            say(" points into a block");
            if (e_.block != nullptr) { say(" that begins at %p", e_.block); }
            if (e_.block_bytes != 0) { say(", of %zu bytes", e_.block_bytes); }
            say_free();
            return advise("Free a block with the address that allocate returned.");
        case error_kind::wrong_size:
            say_address("the block");
            if (e_.block_bytes != 0) { say(" was allocated with %zu bytes", e_.block_bytes); }
            say_free();
            return advise("Free a block with the size of its allocation; this call freed nothing.");
        case error_kind::wrong_alignment:
            say_address("the block");
            if (e_.block_alignment != 0) {
                say(" was allocated with alignment %zu", e_.block_alignment);
            }
            say_free();
            return advise("Free a block with the alignment of its allocation; this call freed "
                          "nothing.");
        case error_kind::dead_stream:
            if (e_.stream.known()) {
                say_stream("stream");
            } else {
                say("a stream");
            }
            say(" was destroyed with pending uses of freed memory");
            if (e_.bytes != 0) { say(" (%zu bytes)", e_.bytes); }
            return advise("Before cudaStreamDestroy of a raw cudaStream_t, call retire(stream) on "
                          "the resource.");
        case error_kind::platform_error:
            say_failure("a call");
            return advise("If the call is valid, an earlier call or kernel may have caused the "
                          "error.");
        case error_kind::lost_exception:
            say_failure("a callback of the program");
            return advise("No later call can throw the exception.");
        case error_kind::leak: return say_leak();
        case error_kind::overrun: return say_overrun();
        }
    }
    void say_overrun() noexcept {
        auto const at    = reinterpret_cast<std::uintptr_t>(e_.pointer);
        auto const begin = reinterpret_cast<std::uintptr_t>(e_.block);
        auto const end   = begin + e_.block_bytes;
        if (at == 0 || begin == 0) {
            say("memory next to a block was written");
        } else if (at < begin) {
            say("the byte %p, %zu before the block", e_.pointer, std::size_t{begin - at});
        } else if (at < end) {
            say("the byte %p, number %zu of the freed block", e_.pointer, std::size_t{at - begin});
        } else {
            say("the byte %p, number %zu after the end of the block", e_.pointer,
                std::size_t{at - end});
        }
        if (e_.block != nullptr) { say(" %p of %zu bytes", e_.block, e_.block_bytes); }
        if (at != 0 && begin != 0) { say(" was written"); }
        if (e_.stream.known()) { say_stream("; the block was freed on stream"); }
        advise("compute-sanitizer names the kernel that writes it.");
    }
    void say_leak() noexcept {
        bool const one = e_.blocks == 1 || (e_.blocks == 0 && e_.pointer != nullptr);
        if (e_.blocks > 1) {
            say("%zu blocks", e_.blocks);
        } else {
            say(one ? "a block" : "memory");
        }
        if (e_.bytes != 0) { say(" of %zu bytes%s", e_.bytes, e_.blocks > 1 ? " in all" : ""); }
        if (e_.pointer != nullptr) {
            say(e_.blocks > 1 ? ", one of them at %p," : " at %p", e_.pointer);
        }
        // If `cause` is set, vram itself failed to free this memory. The advice to free every block
        // would not help then.
        if (e_.cause != nullptr) {
            say(" cannot be freed: %s", e_.cause);
            return advise("The memory stays allocated until the process ends.");
        }
        say(" %s live at the end", one || e_.blocks == 0 ? "was" : "were");
        advise("Free every block before its resource, or the scope that is checked, ends.");
    }
    void say_failure(char const* otherwise) noexcept {
        say("%s failed", e_.call != nullptr ? e_.call : otherwise);
        if (e_.code != 0) {
            code_text const t = e_.text_of != nullptr ? e_.text_of(e_.code) : code_text{};
            if (t.name[0] != '\0') {
                say(" with %s (%d, %s)", t.name, e_.code, t.description);
            } else {
                say(" with code %d", e_.code);
            }
        }
        if (e_.cause != nullptr) { say(": %s", e_.cause); }
        if (e_.pointer != nullptr) { say("; memory at %p", e_.pointer); }
        if (e_.bytes != 0) { say("; %zu bytes", e_.bytes); }
        if (e_.stream.known()) { say_stream("; stream"); }
    }
    /// Appends the arguments, if known, of a free, or of the function `call` if that is set: the
    /// size, a wrong alignment, and the stream. Then appends the `cause` of the error, if set.
    /// `words`: text before the size (or before the alignment, if the size is unknown).
    void say_free(char const* words = ", freed with") noexcept {
        bool const aligned = e_.kind == error_kind::wrong_alignment && e_.alignment != 0;
        if (e_.call != nullptr) {
            say(", passed to %s", e_.call);
            words = " with";
        }
        if (e_.bytes != 0) {
            say("%s %zu bytes", words, e_.bytes);
            words = " and";
        }
        if (aligned) {
            say("%s alignment %zu", words, e_.alignment);
            words = " and";
        }
        if (e_.stream.known()) { say_stream(words[1] == 'a' ? " on stream" : ", freed on stream"); }
        if (e_.cause != nullptr) { say(" (%s)", e_.cause); }
    }
    void say_address(char const* words) noexcept {
        say("%s", words);
        if (e_.pointer != nullptr) { say(" %p", e_.pointer); }
    }
    void say_stream(char const* words) noexcept {
        stream_name const& s = e_.stream;
        say("%s", words);
        if (s.handle != nullptr) { say(" %p", s.handle); }
        if (s.id != 0) { say(s.handle != nullptr ? " (id %" PRIu64 ")" : " %" PRIu64, s.id); }
        if (s.handle == nullptr && s.id == 0) { say(" 0 (a default stream)"); }
    }
    /// Appends the block's tag, the program's line that allocated the block, and the line that
    /// freed the block before. Leaves out what is unknown.
    void say_past() noexcept {
        char const* const words =
            e_.kind == error_kind::leak ? ", allocated" : "; it was allocated";
        bool const tagged = e_.tag != nullptr && *e_.tag != '\0';
        if (tagged || e_.allocated_at.known()) { say("%s", words); }
        if (tagged) { say(" for \"%s\"", e_.tag); }
        if (e_.allocated_at.known()) {
            say(" at %s:%u", e_.allocated_at.file(), e_.allocated_at.line());
        }
        if (e_.freed_at.known()) {
            say("; it was freed before at %s:%u", e_.freed_at.file(), e_.freed_at.line());
        }
    }
    void advise(char const* usually) noexcept {
        say_past();
        say(". %s", e_.advice != nullptr ? e_.advice : usually);
    }
    /// Returns the last component of `path`, for messages that leave out the folders.
    [[nodiscard]] static char const* file_name(char const* path) noexcept {
        char const* name = path;
        for (; *path != '\0'; ++path) {
            if (*path == '/' || *path == '\\') { name = path + 1; }
        }
        return name;
    }

    [[gnu::format(printf, 2, 3)]] void say(char const* format, ...) noexcept {
        std::va_list args;
        va_start(args, format);
        int const n = std::vsnprintf(text_ + size_, sizeof text_ - size_, format, args);
        va_end(args);
        if (n > 0) { size_ += static_cast<std::size_t>(n); }
        if (size_ >= sizeof text_) { size_ = sizeof text_ - 1; }
    }

    error const& e_;
    std::size_t  size_       = 0;
    char         text_[1024] = "";
};

} // namespace vram
