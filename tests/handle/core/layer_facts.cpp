// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/core/layer_facts.hpp> // first: the header must stand alone

#include "../../doubles/archetype.hpp"

#include <vram/handle/any_resource.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/pool/pool.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace vram;

namespace layer_facts_test {

struct collector final : detail::layer_visitor {
    std::vector<detail::layer_facts> seen{};
    std::string                      names{};

    explicit collector(facts wanted) : layer_visitor{wanted} {}
    void visit(detail::layer_facts const& layer) override {
        seen.push_back(layer);
        names += std::string(layer.depth, '+').append(layer.name) + " ";
    }
};
using facts = detail::layer_visitor::facts;

TEST_CASE("layer_facts: each layer is visited, with the figures that are wanted") {
    using source = doubles::archetype<>;
    any_resource_of<source> below{limiting{source{}, 64_MiB}};
    statistics              memory{pool{below}};
    void* const             p = memory.allocate_sync(1000);

    collector all{facts::all};
    detail::visit_layers(memory, all);
    CHECK(all.names == "statistics +pool ++any_resource +++limiting ++++archetype ");
    CHECK(all.seen[0].counted->live == 1000);
    CHECK(all.seen[0].counted->allocations == 1);
    CHECK(all.seen[1].free->count >= 1);
    CHECK(all.seen[1].measures_itself);
    CHECK_FALSE(all.seen[2].usage.has_value());
    CHECK(all.seen[3].limited->limit == 64_MiB);
    CHECK(all.seen[3].usage.has_value());
    CHECK_FALSE(all.seen[3].measures_itself);

    collector own{facts::own};
    detail::visit_layers(memory, own);
    CHECK(own.names == all.names);
    CHECK_FALSE(own.seen[3].usage.has_value());
    CHECK(own.seen[1].usage.has_value());
    CHECK_FALSE(own.seen[1].free.has_value());

    collector names{facts::names};
    detail::visit_layers(memory, names);
    CHECK(names.names == all.names);
    CHECK_FALSE(names.seen[1].usage.has_value());
    CHECK_FALSE(names.seen[3].limited.has_value());
    memory.deallocate_sync(p, 1000);
}

} // namespace layer_facts_test
