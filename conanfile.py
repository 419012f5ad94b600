# SPDX-License-Identifier: Apache-2.0
"""The Conan 2 recipe of vram: headers, and the CMake package that vram installs itself.

    conan create .                      from this tree into the local cache
    requires = "vram/0.1.0"             in a project, with CMakeDeps and CMakeToolchain; then find_package(vram) as always
"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load


class Vram(ConanFile):
    name = "vram"
    description = "GPU memory for CUDA C++: pools, loaders, out-of-memory handling, and a simulated device for tests"
    license = "Apache-2.0"
    topics = ("cuda", "gpu", "allocator", "memory-pool", "header-only")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    no_copy_source = True
    exports_sources = "include/*", "cmake/*", "CMakeLists.txt", "LICENSE.txt"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "include/vram/version.hpp"))
        self.version = self.version or re.search(r'VRAM_VERSION_STRING "([^"]+)"', header).group(1)

    def validate(self):
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def generate(self):
        CMakeToolchain(self).generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE.txt", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_find_mode", "none")  # find_package finds the package that vram installs
        self.cpp_info.builddirs = ["share/cmake/vram"]
