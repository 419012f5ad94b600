# SPDX-License-Identifier: Apache-2.0
"""Copies the module, the allocator and the headers of vram into the package vram_torch."""
import atexit
import pathlib
import shutil
import tempfile

import setuptools
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
SCRATCH = tempfile.mkdtemp()  # so that a build leaves nothing here
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


class with_headers(build_py):
    def run(self):
        package = pathlib.Path(self.build_lib) / "vram_torch"
        package.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "vram_torch.py", package / "__init__.py")
        for name in ("allocator.cpp", "build_allocator.py"):
            shutil.copy(HERE / name, package)
        shutil.copytree(HERE.parent.parent / "include", package / "include", dirs_exist_ok=True)


setuptools.setup(packages=["vram_torch"], package_dir={"vram_torch": "."}, cmdclass={"build_py": with_headers},
                 options={"build": {"build_base": SCRATCH}, "egg_info": {"egg_base": SCRATCH}})
