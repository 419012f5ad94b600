// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/tag_tree.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <string>

using vram::detail::tag_node;
using vram::detail::tag_tree;

namespace {
tag_node const* node_of(std::string const& path) {
    return tag_tree::descend(nullptr, path.data(), path.size());
}
} // namespace

TEST_CASE("tag_tree: a path is stored once, with each of its levels") {
    tag_node const* const leaf = node_of("tree/branch/leaf");
    CHECK(node_of("tree/branch/leaf") == leaf);
    CHECK(node_of("/tree//branch/leaf/") == leaf);
    CHECK(node_of("tree/branch") == leaf->outer);
    CHECK(node_of("tree") == leaf->outer->outer);
    CHECK(node_of("branch") != leaf->outer); // another level
    CHECK(std::string{leaf->path} == "tree/branch/leaf");
    CHECK(std::string{leaf->name} == "leaf");
    CHECK(tag_tree::find(leaf->id) == leaf);
}

TEST_CASE("tag_tree: it stores a limited number of tags, and keeps the outer one beyond it") {
    tag_node const* const outer = node_of("many");
    tag_node const*       last  = nullptr;
    // More than the table holds would take all ids of this process: a thousand show the blocks.
    for (int i = 0; i != 3000; ++i) {
        std::string const     name = "n" + std::to_string(i);
        tag_node const* const made = tag_tree::descend(outer, name.data(), name.size());
        REQUIRE(made != outer);
        REQUIRE(made->outer == outer);
        REQUIRE(tag_tree::find(made->id) == made);
        last = made;
    }
    CHECK(last->id >= 3000);
    CHECK(tag_tree::find(tag_tree::most + 1) == nullptr);
}
