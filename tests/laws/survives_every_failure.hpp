// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `survives_every_failure` makes each allocation of an operation fail in turn: those of the
/// upstream and those of the host.
///
///     laws::survives_every_failure([](auto up) { return limiting{std::move(up), 1000}; },
///                                  [](auto& mr) { laws::block const held{mr, 10}; },
///                                  [](auto& mr) { return mr.used(); });

#include "../doubles/archetype.hpp"         // archetype
#include "../doubles/bombing.hpp"           // bombing
#include "../doubles/counting_resource.hpp" // counting_resource
#include "../doubles/failing_resource.hpp"  // failing_resource
#include "../doubles/ledger.hpp"            // ledger

#include <vram/concepts/powers.hpp> // resource

#include <doctest/doctest.h>

#include <cstddef>     // size_t
#include <cstdint>     // uint64_t
#include <optional>    // optional
#include <type_traits> // is_void

namespace laws {

/// A block for the duration of a scope, so that an operation with several steps can fail at each.
template <class R>
class block {
public:
    block(R& mr, std::size_t bytes, std::size_t alignment = vram::default_alignment)
        : mr_{mr}, bytes_{bytes}, alignment_{alignment}, p_{take(mr, bytes, alignment)} {}
    block(block&&) = delete;
    ~block() {
        if constexpr (vram::resource<R>) {
            mr_.deallocate({}, p_, bytes_, alignment_);
        } else {
            mr_.deallocate_sync(p_, bytes_, alignment_);
        }
    }

    [[nodiscard]] void* get() const noexcept { return p_; }

private:
    static void* take(R& mr, std::size_t bytes, std::size_t alignment) {
        if constexpr (vram::resource<R>) {
            return mr.allocate({}, bytes, alignment);
        } else {
            return mr.allocate_sync(bytes, alignment);
        }
    }

    R&          mr_;
    std::size_t bytes_;
    std::size_t alignment_;
    void*       p_;
};

/// The largest number of failed allocations. An operation that still fails then would never end.
inline constexpr std::uint64_t longest_walk = 10'000;

/// For n = 1, 2, 3...: creates the resource with `make`, fails the n-th allocation of
/// `operation(mr)`, and requires that `observe(mr)` returns the same value as before, that the
/// operation then succeeds, and that at the end every block is freed. It stops when the operation
/// has fewer than n allocations. It runs three times: with refusals of the upstream, with errors of
/// the upstream's device, and with failures of the host's `operator new`. `operation` must contain
/// no assertions. An operation may also survive a failure (a fallback, a retry).
template <vram::synchronous_resource Upstream = doubles::archetype<>, class Make, class Operation,
          class Observe>
void survives_every_failure(Make make, Operation operation, Observe observe) {
    enum class fault { no_memory, broken_machine, no_host_memory };
    for (auto const kind : {fault::no_memory, fault::broken_machine, fault::no_host_memory}) {
        bool          hit   = true;
        std::uint64_t walks = 0;
        for (; hit && walks < longest_walk; ++walks) {
            doubles::ledger book;
            doubles::faults plan;
            {
                auto mr = make(
                    doubles::failing_resource{doubles::counting_resource{Upstream{}, book}, plan});
                auto const before = observe(mr);
                plan.as_machine_failure(kind == fault::broken_machine);
                bool failed = false;
                if (kind == fault::no_host_memory) {
                    doubles::bombing armed{walks + 1};
                    try {
                        operation(mr);
                    } catch (std::bad_alloc const&) { failed = true; }
                    hit = armed.defuse();
                } else {
                    plan.fail_nth(walks + 1);
                    try {
                        operation(mr);
                    } catch (std::bad_alloc const&) {
                        failed = true;
                    } catch (doubles::machine_failure const&) { failed = true; }
                    hit = plan.struck() != 0;
                    plan.fail_nth(0);
                }
                CHECK((hit || !failed)); // without a fault nothing may fail
                CHECK((observe(mr) == before));
                operation(mr);
                CHECK((observe(mr) == before));
            }
            CHECK(book.blocks() == 0);
            CHECK_MESSAGE(*book.broken() == '\0', book.broken());
        }
        CHECK_FALSE(hit);
        if (kind != fault::no_host_memory) {
            CHECK(walks > 1);
        } // the operation called its upstream at least once
    }
}

} // namespace laws
