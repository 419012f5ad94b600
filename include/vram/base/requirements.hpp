// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Stops the compilation with one message if the compiler is not set up for vram. Every header of
/// vram includes this file before its first declaration.
///
/// For g++ and clang the message is the name of an included file that does not exist: they print
/// the name and stop. After `#error` they would continue and print hundreds of errors; nvcc stops.

#if __cplusplus < 202002L
#ifdef __NVCC__
#error vram needs C++20: compile with -std=c++20
#else
#include "vram needs C++20: compile with -std=c++20"
#endif
#elif !defined __cpp_exceptions
#ifdef __NVCC__
#error vram needs exceptions: compile without -fno-exceptions
#else
#include "vram needs exceptions: compile without -fno-exceptions"
#endif
#endif
