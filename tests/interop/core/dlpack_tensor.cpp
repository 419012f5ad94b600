// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/dlpack_tensor.hpp> // first: the header stands alone

#include <doctest/doctest.h>

namespace dlpack_tensor_tests {

using namespace vram::detail;

struct __half { // as in cuda_fp16.h
    unsigned short bits;
};
struct __nv_bfloat16 {
    unsigned short bits;
};
struct __nv_fp8_e5m2 {
    unsigned char bits;
};
struct unknown {
    int number;
};

TEST_CASE("dlpack_tensor: each element type has the code that DLPack gives it") {
    CHECK((dlpack_type_of<int> == dlpack_type{0, 32, 1}));
    CHECK((dlpack_type_of<unsigned char const> == dlpack_type{1, 8, 1}));
    CHECK((dlpack_type_of<std::byte> == dlpack_type{1, 8, 1}));
    CHECK((dlpack_type_of<std::int64_t> == dlpack_type{0, 64, 1}));
    CHECK((dlpack_type_of<double> == dlpack_type{2, 64, 1}));
    CHECK((dlpack_type_of<std::complex<float>> == dlpack_type{5, 64, 1}));
    CHECK((dlpack_type_of<bool> == dlpack_type{6, 8, 1}));
    CHECK((dlpack_type_of<__half> == dlpack_type{2, 16, 1}));
    CHECK((dlpack_type_of<__nv_bfloat16> == dlpack_type{4, 16, 1}));
    CHECK((dlpack_type_of<__nv_fp8_e5m2> == dlpack_type{12, 8, 1}));
    CHECK(!dlpack_element<unknown>);
    CHECK(!dlpack_element<int*>);
}

TEST_CASE("dlpack_tensor: element types have the names of NumPy and PyTorch") {
    CHECK(name_of(dlpack_type_of<float>) == "float32");
    CHECK(name_of(dlpack_type_of<std::int64_t>) == "int64");
    CHECK(name_of(dlpack_type_of<std::byte>) == "uint8");
    CHECK(name_of(dlpack_type_of<__nv_bfloat16>) == "bfloat16");
    CHECK(name_of(dlpack_type_of<std::complex<double>>) == "complex128");
    CHECK(name_of(dlpack_type_of<bool>) == "bool");
    CHECK(name_of(dlpack_type_of<__nv_fp8_e5m2>) == "float8_e5m2");
    CHECK(name_of({2, 32, 4}) == "float32 x 4");
    CHECK(name_of({9, 4, 1}) == "code 9 with 4 bits");
}

} // namespace dlpack_tensor_tests
