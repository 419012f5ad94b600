// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What most tests include besides vram: read once for each executable instead of once for each
/// file. A test names what it uses all the same, for builds without this.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>
