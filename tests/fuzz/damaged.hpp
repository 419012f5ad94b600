// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `damaged` changes the bytes of a file at random, for tests of readers.

#include <cstddef> // size_t
#include <string>  // string

namespace fuzz {

/// Returns `bytes` after one to four random changes: bytes replaced, inserted, removed, repeated,
/// or exchanged with those of another place.
template <class Random>
std::string damaged(std::string bytes, Random& random) {
    for (unsigned n = 1 + static_cast<unsigned>(random() % 4); n != 0 && !bytes.empty(); --n) {
        auto const        place = [&] { return static_cast<std::size_t>(random() % bytes.size()); };
        std::size_t const at    = random() % 2 == 0 ? place() : place() % 200 % bytes.size();
        std::size_t const count = 1 + static_cast<std::size_t>(random() % 8);
        switch (random() % 8) {
        case 0: bytes.insert(at, count, static_cast<char>(random() % 256)); break;
        case 1: bytes.erase(at, count); break;
        case 2: bytes.insert(at, bytes.substr(place(), count)); break;
        case 3: bytes.replace(at, count, bytes.substr(place(), count)); break;
        case 4: bytes.insert(at, 9, '\xFF'); break; // as a number: close to the largest
        case 5: bytes.resize(at); break;
        default: bytes[at] = static_cast<char>(random() % 256); break;
        }
    }
    return bytes;
}

} // namespace fuzz
