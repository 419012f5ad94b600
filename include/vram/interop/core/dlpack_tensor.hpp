// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `dlpack_tensor` and the structures around it have the layout of DLPack, a C interface by which
/// libraries exchange tensors without a copy.

#include <vram/concepts/property.hpp> // is_named

#include <complex>  // complex
#include <concepts> // integral, floating_point, same_as
#include <cstddef>
#include <cstdint>
#include <string>      // string, to_string
#include <type_traits> // is_signed_v, remove_cv_t

namespace vram {
namespace detail {

struct dlpack_device {
    // Values of `device_type` (DLPack's `DLDeviceType`) of memory that vram exports and imports.
    static constexpr std::int32_t cpu     = 1;
    static constexpr std::int32_t cuda    = 2;
    static constexpr std::int32_t pinned  = 3;
    static constexpr std::int32_t managed = 13;

    std::int32_t device_type = 0;
    std::int32_t device_id   = 0;
};

struct dlpack_type {
    std::uint8_t  code  = 0; ///< 0 int, 1 unsigned, 2 float, 4 bfloat16, 5 complex, 6 bool, ...
    std::uint8_t  bits  = 0; ///< number of bits of an element, or of one component of a vector type
    std::uint16_t lanes = 1; ///< number of components of a vector type; otherwise 1

    friend constexpr bool operator==(dlpack_type, dlpack_type) = default;
};

struct dlpack_tensor {
    void*         data = nullptr;
    dlpack_device device{};
    std::int32_t  ndim = 0;
    dlpack_type   dtype{};
    std::int64_t* shape       = nullptr;
    std::int64_t* strides     = nullptr; ///< distances in elements; null means rows without gaps
    std::uint64_t byte_offset = 0;
};

/// The structure `DLManagedTensor` of DLPack before 1.0, which Python passes in a capsule named
/// "dltensor".
struct dlpack_unversioned {
    dlpack_tensor dl_tensor{};
    void*         manager_ctx            = nullptr;
    void (*deleter)(dlpack_unversioned*) = nullptr;
};

struct dlpack_version {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;
};

/// The structure of DLPack 1.0 and newer, in a Python capsule named "dltensor_versioned".
struct dlpack_versioned {
    static constexpr std::uint64_t read_only = 1; ///< in `flags`: the data must not be written

    dlpack_version version{};
    void*          manager_ctx         = nullptr;
    void (*deleter)(dlpack_versioned*) = nullptr;
    std::uint64_t flags                = 0;
    dlpack_tensor dl_tensor{};
};

static_assert(sizeof(dlpack_tensor) == 48 && sizeof(dlpack_unversioned) == 64 &&
              sizeof(dlpack_versioned) == 80);

/// `dlpack_unversioned`, `dlpack_versioned`, or a structure of the program's own `dlpack.h`.
template <class Managed>
concept dlpack_managed = requires(Managed& m) {
    m.dl_tensor.byte_offset;
    { m.manager_ctx } -> std::same_as<void*&>;
    m.deleter(&m);
};

/// A managed DLPack tensor with the members `version` and `flags`, as DLPack 1.0 and later have
/// them.
template <class Managed>
concept dlpack_with_version = dlpack_managed<Managed> && requires(Managed& m) {
    m.version.major;
    m.flags;
};

/// Returns the DLPack code of an element type, or 255 if it has none. Recognises CUDA's types by
/// name, without their headers.
template <class Element>
[[nodiscard]] consteval std::uint8_t dlpack_code() {
    using plain = std::remove_cv_t<Element>;
    if constexpr (std::same_as<plain, bool>) {
        return 6;
    } else if constexpr (std::same_as<plain, std::byte>) {
        return 1;
    } else if constexpr (std::integral<plain>) {
        return std::is_signed_v<plain> ? 0 : 1;
    } else if constexpr (std::floating_point<plain> || is_named<plain>("__half")) {
        return 2;
    } else if constexpr (is_named<plain>("__nv_bfloat16")) {
        return 4;
    } else if constexpr (std::same_as<plain, std::complex<float>> ||
                         std::same_as<plain, std::complex<double>>) {
        return 5;
    } else if constexpr (is_named<plain>("__nv_fp8_e4m3")) {
        return 10;
    } else if constexpr (is_named<plain>("__nv_fp8_e5m2")) {
        return 12;
    } else {
        return 255;
    }
}

/// A type of array elements for which DLPack has a type code, such as `float` or `__half`.
template <class Element>
concept dlpack_element = dlpack_code<Element>() != 255;

template <dlpack_element Element>
inline constexpr dlpack_type dlpack_type_of{dlpack_code<Element>(),
                                            static_cast<std::uint8_t>(8 * sizeof(Element)), 1};

/// Returns the name of an element type, as in NumPy and PyTorch: "float32".
[[nodiscard]] inline std::string name_of(dlpack_type t) {
    auto const  bits = std::to_string(t.bits);
    std::string text;
    switch (t.code) {
    case 0: text = "int" + bits; break;
    case 1: text = "uint" + bits; break;
    case 2: text = "float" + bits; break;
    case 4: text = "bfloat" + bits; break;
    case 5: text = "complex" + bits; break;
    case 6: text = "bool"; break;
    case 10: text = "float8_e4m3fn"; break;
    case 12: text = "float8_e5m2"; break;
    default: text = "code " + std::to_string(t.code) + " with " + bits + " bits";
    }
    return t.lanes == 1 ? text : text + " x " + std::to_string(t.lanes);
}

} // namespace detail
} // namespace vram
