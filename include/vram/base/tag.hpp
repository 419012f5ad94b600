// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tagged` names the purpose of the memory that a scope allocates; `current_tag` returns the name.

#include <vram/base/core/tag_tree.hpp> // tag_node, tag_tree

#include <cstddef>
#include <cstdint>
#include <cstring>     // strlen
#include <type_traits> // is_same_v

namespace vram {

/// The purpose of an allocation, as a path of names such as "train/optimizer". Two tags are equal
/// if their paths are equal.
///
///     memory_tag const now = current_tag();
///     std::printf("%s\n", now.path());
///
/// Cost      An object is one pointer to names that live until the end of the process.
class memory_tag {
public:
    constexpr memory_tag() noexcept = default; ///< no tag: the path is empty

    /// Returns true unless this is the empty tag. Memory has the empty tag if it was allocated
    /// outside of all scopes (objects of the class `tagged`).
    [[nodiscard]] constexpr bool known() const noexcept { return node_ != nullptr; }
    /// Returns the names from the outermost to the innermost, such as "train/optimizer"; empty for
    /// the empty tag.
    [[nodiscard]] constexpr char const* path() const noexcept { return known() ? node_->path : ""; }
    /// Returns the innermost name. Valid until the end of the process.
    [[nodiscard]] constexpr char const* name() const noexcept { return known() ? node_->name : ""; }
    /// Returns the tag that contains this one; the empty tag if there is none.
    [[nodiscard]] constexpr memory_tag outer() const noexcept {
        return memory_tag{known() ? node_->outer : nullptr};
    }
    /// Returns true if this tag is `other`, or is contained in it. The empty tag contains all tags.
    [[nodiscard]] constexpr bool within(memory_tag other) const noexcept {
        memory_tag each = *this;
        while (each.known() && each != other) { each = each.outer(); }
        return each == other;
    }
    /// Returns the number by which events and files of this process refer to the tag: 0 for the
    /// empty tag, at most 65 535.
    [[nodiscard]] constexpr std::uint32_t id() const noexcept { return known() ? node_->id : 0; }
    /// Returns the tag of this process that has this `id()`; the empty tag if there is none.
    [[nodiscard]] static memory_tag of_id(std::uint32_t id) noexcept {
        return memory_tag{detail::tag_tree::find(id)};
    }

    friend constexpr bool operator==(memory_tag, memory_tag) noexcept = default;

private:
    friend class tagged;
    friend memory_tag current_tag() noexcept;
    constexpr explicit memory_tag(detail::tag_node const* node) noexcept : node_{node} {}

    detail::tag_node const* node_ = nullptr;
};

namespace detail {

/// A scope that names memory and has not ended: the base class of `tagged`. `find` returns the
/// scope's tag. If the name is a string literal, the first call of `find` makes the tag. A scope
/// that allocates nothing then makes no tag, and is cheap.
struct tag_scope {
    tag_scope* outer;
    /// Name of the scope until `find` has made the scope's tag; null afterwards.
    char const* name;
    /// Tag of the scope if `name` is null. If `node` is null too, the scope has the empty tag.
    tag_node const* node;

    [[gnu::noinline]] tag_node const* find() noexcept {
        if (name == nullptr) { return node; }
        node =
            tag_tree::descend(outer != nullptr ? outer->find() : nullptr, name, std::strlen(name));
        name = nullptr;
        return node;
    }
};
inline constinit thread_local tag_scope* innermost_scope = nullptr;

} // namespace detail

/// Returns the tag of the calling thread's innermost scope (an object of the class `tagged`).
/// Returns the empty tag if the thread has no such scope.
///
/// Cost      Two loads.
[[nodiscard]] inline memory_tag current_tag() noexcept {
    detail::tag_scope* const scope = detail::innermost_scope;
    if (scope == nullptr) { return {}; }
    return memory_tag{scope->name == nullptr ? scope->node : scope->find()};
}

/// Names the purpose of the memory that the calling thread allocates until the end of the scope. A
/// scope "optimizer" in a scope "train" has the tag "train/optimizer".
///
///     tagged const scope{"optimizer"};
///     state = memory.allocate(stream, bytes); // owner: "optimizer"
///
/// A new `std::thread` begins without a tag. Pass the present tag to it in this way:
///
///     std::thread worker{[from = current_tag()] { tagged const scope{from}; ... }};
///
/// Failure   If a new tag cannot be stored, the scope has the tag of the outer scope.
/// Threads   The scopes of a thread must end in reverse order.
/// Cost      About 1 ns with a string literal; other strings are copied and looked up at once.
class [[maybe_unused]] tagged : detail::tag_scope {
public:
    /// Begins a scope within the outer scope's tag, named by a string literal. The literal must
    /// outlive the scope.
    template <std::size_t Length>
    [[nodiscard]] explicit tagged(char const (&literal)[Length]) noexcept
        : tag_scope{detail::innermost_scope, literal, nullptr} {
        if (literal[Length - 1] != '\0') { // an array of the program, which `strlen` must not read
            node = detail::tag_tree::descend(current_tag().node_, literal, until_null(literal));
            name = nullptr;
        }
        detail::innermost_scope = this;
    }
    /// Begins a scope with the name in the first `length` characters at `text`, which are copied.
    [[nodiscard]] explicit tagged(char const* text, std::size_t length) noexcept
        : tag_scope{detail::innermost_scope, nullptr,
                    detail::tag_tree::descend(current_tag().node_, text, length)} {
        detail::innermost_scope = this;
    }
    /// Begins a scope with the characters of an array before the first null character, or with all
    /// of them. They are copied.
    template <std::size_t Length>
    [[nodiscard]] explicit tagged(char (&text)[Length]) noexcept : tagged{text, until_null(text)} {}
    /// Begins a scope with a string that ends with a null character, which is copied.
    template <class Pointer>
        requires std::is_same_v<Pointer, char const*> || std::is_same_v<Pointer, char*>
    [[nodiscard]] explicit tagged(Pointer const& text) noexcept : tagged{text, std::strlen(text)} {}
    /// Begins a scope with the name in a `std::string` or `std::string_view`, which is copied.
    template <class Text>
        requires requires(Text const& t) { t.data() + t.size(); }
    [[nodiscard]] explicit tagged(Text const& text) noexcept : tagged{text.data(), text.size()} {}
    /// Begins a scope with exactly this tag, regardless of the outer scope.
    [[nodiscard]] explicit tagged(memory_tag whole) noexcept
        : tag_scope{detail::innermost_scope, nullptr, whole.node_} {
        detail::innermost_scope = this;
    }
    tagged(tagged const&)            = delete;
    tagged& operator=(tagged const&) = delete;
    ~tagged() { detail::innermost_scope = outer; }

private:
    template <std::size_t Length>
    [[nodiscard]] static std::size_t until_null(char const (&text)[Length]) noexcept {
        std::size_t length = 0;
        while (length != Length && text[length] != '\0') { ++length; }
        return length;
    }
};

} // namespace vram
