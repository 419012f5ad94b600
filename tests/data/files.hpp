// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `files` provides a temporary folder for tests with files, and their contents.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace files {

/// A new folder that is removed with its contents at the end of the scope.
class folder {
public:
    folder() {
        std::random_device number;
        do {
            at_ = std::filesystem::temp_directory_path() /
                  ("vram-" + std::to_string(number()) + std::to_string(number()));
        } while (!std::filesystem::create_directory(at_));
    }
    folder(folder&&) = delete;
    ~folder() {
        std::error_code nobody_cares;
        std::filesystem::remove_all(at_, nobody_cares);
    }

    [[nodiscard]] std::string operator/(std::string_view name) const {
        return (at_ / name).string();
    }

    /// A file of these bytes; its path.
    std::string with(std::string_view name, std::span<std::byte const> content) const {
        std::ofstream out{at_ / name, std::ios::binary};
        out.write(reinterpret_cast<char const*>(content.data()),
                  static_cast<std::streamsize>(content.size()));
        return *this / name;
    }
    /// A file of `bytes` bytes that has no byte on the disk: it reads as zeros.
    std::string sparse(std::string_view name, std::uintmax_t bytes) const {
        (void)with(name, {});
        std::filesystem::resize_file(at_ / name, bytes);
        return *this / name;
    }

private:
    std::filesystem::path at_;
};

/// Returns bytes that depend on their position, with a period that is not a power of two.
inline std::vector<std::byte> content(std::size_t bytes, std::size_t from = 0) {
    std::vector<std::byte> all(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        all[i] = static_cast<std::byte>((from + i) % 251 + (from + i) / 251 % 5);
    }
    return all;
}

inline bool same(std::span<std::byte const> a, std::span<std::byte const> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

} // namespace files
