// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `library_work` runs algorithms of Thrust and CUB with temporary storage of several origins, and
/// `call_counts` counts the calls by which a program allocates from CUDA.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace bench {

/// The calls of CUDA that allocate and free, of every part of the program except loaded libraries:
/// the linker redirects them to functions that count (`--wrap`).
struct call_counts {
    std::uint64_t allocations = 0;
    std::uint64_t frees       = 0;
};
[[nodiscard]] call_counts counted_calls() noexcept;

/// The origin of temporary storage.
enum class storage {
    vram,         ///< a stack of vram
    driver,       ///< `cudaMallocAsync` from a pool of the driver that keeps freed memory
    driver_plain, ///< `cudaMallocAsync` as a program finds it: a wait releases freed memory
    library,      ///< Thrust's own way, or `cudaMalloc` for CUB
};

/// Keys in device memory, and algorithms on them. Each function except `wait` and the two that
/// compare results enqueues its work on one stream.
class library_work {
public:
    explicit library_work(std::size_t keys);
    ~library_work();

    void shuffle(); ///< writes the keys in their first order
    void sort(storage from);
    void reduce(storage from);
    void wait();

    [[nodiscard]] bool is_sorted(); ///< compares with the keys, sorted by the host
    [[nodiscard]] bool is_sum();    ///< compares with the sum of the keys

private:
    struct data;
    std::unique_ptr<data> data_;
};

/// One origin of the memory of RMM's vectors, compiled in a library of its own.
struct vector_subject {
    std::string name;
    std::string about;
    /// Runs `operations` replacements of a random vector by a new one of random size, among `live`
    /// vectors. Returns nanoseconds for each, without the warm-up.
    std::function<double(std::size_t live, std::size_t operations)> churn;
};
using add_vectors = void (*)(std::vector<vector_subject>*);

} // namespace bench
