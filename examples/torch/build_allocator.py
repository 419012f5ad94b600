# SPDX-License-Identifier: Apache-2.0
"""Compiles allocator.cpp, beside this file, for vram_torch.py."""
import hashlib
import os
import pathlib
import subprocess

import torch
from torch.utils import cpp_extension

HERE = pathlib.Path(__file__).resolve().parent
BUNDLED = HERE / "include"  # of the installed package
INCLUDE = pathlib.Path(os.environ.get("VRAM_INCLUDE", BUNDLED if BUNDLED.is_dir() else HERE.parent.parent / "include"))
SOURCE = "stream_ordered<cuda_resource>"


def build(source=SOURCE, record=False, compiler=os.environ.get("CXX", "c++")):
    """Compiles the allocator over the resource `source`, such as "virtual_resource", and returns the library's path."""
    cuda = cpp_extension.CUDA_HOME or "/usr/local/cuda"
    torch_lib = pathlib.Path(torch.__file__).parent / "lib"
    command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", f"-DVRAM_TORCH_SOURCE={source}",
               *(["-DVRAM_TORCH_RECORD"] if record else []), str(HERE / "allocator.cpp"),
               f"-I{INCLUDE}", f"-I{cuda}/include", *(f"-I{p}" for p in cpp_extension.include_paths()),
               f"-L{torch_lib}", "-lc10", f"-L{cuda}/lib64", "-lcudart", f"-Wl,-rpath,{torch_lib}", f"-Wl,-rpath,{cuda}/lib64",
               "-ldl", "-pthread"]
    headers = sorted(INCLUDE.rglob("*.hpp")) + [HERE / "allocator.cpp"]
    state = hashlib.sha256("\n".join([torch.__version__, *command, *(p.read_text() for p in headers)]).encode()).hexdigest()
    folder = pathlib.Path(os.environ.get("VRAM_TORCH_BUILD", pathlib.Path.home() / ".cache" / "vram_torch"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"allocator-{state[:16]}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")  # renamed when it is complete: other processes may build it, too
        subprocess.run([*command, "-o", str(made)], check=True)
        made.rename(path)
    return path
