# SPDX-License-Identifier: Apache-2.0
"""Installs the modules vram_torch, cupy_vram and numba_vram, and the package vram_allocator with the allocator and vram's headers."""
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
        package = pathlib.Path(self.build_lib) / "vram_allocator"
        package.mkdir(parents=True, exist_ok=True)
        for name in ("vram_torch.py", "cupy_vram.py", "numba_vram.py"):
            shutil.copy(HERE / name, package.parent)
        shutil.copy(HERE / "vram_allocator.py", package / "__init__.py")
        shutil.copy(HERE / "allocator.cpp", package)
        shutil.copytree(HERE.parent.parent / "include", package / "include", dirs_exist_ok=True)


setuptools.setup(packages=["vram_allocator"], package_dir={"vram_allocator": "."}, cmdclass={"build_py": with_headers},
                 options={"build": {"build_base": SCRATCH}, "egg_info": {"egg_base": SCRATCH}})
