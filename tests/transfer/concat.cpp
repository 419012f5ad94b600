// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/concat.hpp> // the header alone declares the name below

using vram::concat;
