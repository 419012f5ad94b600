// SPDX-License-Identifier: Apache-2.0
// Arrays of vram as tensors of NumPy, PyTorch and CuPy, and theirs in vram, without a copy: a
// library with a C interface, which dlpack.py beside this file calls.

#include <vram/interop/dlpack.hpp>
#include <vram/vram.hpp>

#ifdef VRAM_EXAMPLE_CUDA
#include <vram/cuda/cuda.hpp>
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <type_traits>
#include <vector>

using namespace vram;

namespace {

/// Returns a pool that lives as long as the process: tensors may outlive everything else.
template <class Platform>
auto& memory() {
    using stack        = pool<stream_ordered<typename Platform::device_resource>>;
    static auto& whole = *new shared<stack>{stack{}};
    return whole;
}

/// The numbers 0, 1, 2, ... as a tensor, which its new owner uses on `stream`.
template <class Managed, class Platform>
Managed* numbers(typename Platform::stream stream, std::int64_t rows, std::int64_t columns) {
    std::vector<float> host(static_cast<std::size_t>(rows * columns));
    std::iota(host.begin(), host.end(), 0.0F);
    auto device = make_array<float>(memory<Platform>(), stream, host.size());
    device.copy_from(host);
    Platform::synchronize(stream); // `host` ends
    return to_dlpack<Managed>(std::move(device), stream, {rows, columns});
}

/// The sum of a tensor of another library, which has ordered `stream` after its own work.
template <class Managed, class Platform>
double sum(Managed* tensor, typename Platform::stream stream) {
    dlpack<Platform> const in{tensor, stream}; // the deleter is called at the end of the scope
    auto const             values = in.template as<float const>();
    std::vector<float>     host(values.size());
    Platform::copy(stream, host.data(), values.data(), values.size_bytes());
    Platform::synchronize(stream);
    return std::accumulate(host.begin(), host.end(), 0.0);
}

/// Calls `function`, and prints the exception that it throws: a C interface has none.
template <class Function>
auto without_exceptions(Function function) noexcept -> decltype(function()) {
    try {
        return function();
    } catch (std::exception const& e) { std::fprintf(stderr, "%s\n", e.what()); }
    if constexpr (std::is_pointer_v<decltype(function())>) {
        return nullptr;
    } else {
        return -1;
    }
}

template <class Function>
auto on_device(bool cuda, void* stream, Function function) {
#ifdef VRAM_EXAMPLE_CUDA
    if (cuda) {
        return function.template operator()<cuda_platform>(
            cuda_stream_view{static_cast<cudaStream_t>(stream)});
    }
#endif
    (void)stream;
    expects(!cuda, "this library was built without CUDA");
    return function.template operator()<host_platform>(host_platform::stream{});
}

} // namespace

extern "C" {

void* vram_numbers(bool cuda, bool versioned, void* stream, std::int64_t rows,
                   std::int64_t columns) {
    return without_exceptions([&]() -> void* {
        return on_device(cuda, stream, [&]<class P>(typename P::stream s) -> void* {
            if (versioned) { return numbers<dlpack_versioned, P>(s, rows, columns); }
            return numbers<dlpack_unversioned, P>(s, rows, columns);
        });
    });
}
double vram_sum(bool cuda, bool versioned, void* stream, void* tensor) {
    return without_exceptions([&] {
        return on_device(cuda, stream, [&]<class P>(typename P::stream s) {
            if (versioned) {
                return sum<dlpack_versioned, P>(static_cast<dlpack_versioned*>(tensor), s);
            }
            return sum<dlpack_unversioned, P>(static_cast<dlpack_unversioned*>(tensor), s);
        });
    });
}
/// Calls the deleter of a tensor that no library has taken over.
void vram_drop(bool versioned, void* tensor) {
    if (versioned) {
        auto* const t = static_cast<dlpack_versioned*>(tensor);
        t->deleter(t);
    } else {
        auto* const t = static_cast<dlpack_unversioned*>(tensor);
        t->deleter(t);
    }
}
/// Returns true if tensors of a GPU can be made and used.
bool vram_has_cuda() {
#ifdef VRAM_EXAMPLE_CUDA
    return true;
#else
    return false;
#endif
}
/// Returns the live bytes of the pool.
std::size_t vram_live(bool cuda) {
    return on_device(cuda, nullptr,
                     []<class P>(typename P::stream) { return memory<P>().usage().live; });
}
}
