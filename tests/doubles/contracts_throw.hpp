// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// During its lifetime `contracts_throw` turns a broken contract into an exception.

#include <vram/base/contract.hpp> // contract, set_contract_handler

#include <string> // string

namespace doubles {

/// The exception of a broken contract.
struct broken_contract {
    std::string what;
    unsigned    line;
};

class contracts_throw {
public:
    contracts_throw() noexcept : before_{vram::set_contract_handler(tell)} {}
    contracts_throw(contracts_throw&&) = delete;
    ~contracts_throw() { vram::set_contract_handler(before_); }

private:
    static void tell(vram::contract const& c) {
        throw broken_contract{c.what, static_cast<unsigned>(c.where.line())};
    }

    vram::contract_handler before_;
};

} // namespace doubles
