// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vram/source/host_resource.hpp>

bool allocates(vram::host_resource& memory);
