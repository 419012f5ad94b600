// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Precompiled headers of most tests, parsed once for each executable instead of once for each
/// file. A test still includes the headers that it uses, for builds without this.

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
