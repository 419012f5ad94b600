# SPDX-License-Identifier: Apache-2.0
"""Compiles allocator.cpp, beside this file, for vram_torch.py, cupy_vram.py and numba_vram.py."""
import hashlib
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
BUNDLED = HERE / "include"  # of the installed package
INCLUDE = pathlib.Path(os.environ.get("VRAM_INCLUDE", BUNDLED if BUNDLED.is_dir() else HERE.parent.parent / "include"))
SOURCE = "stream_ordered<cuda_resource>"


def build(source=SOURCE, record=False, compiler=os.environ.get("CXX", "c++"), pytorch=True):
    """Compiles the allocator over the resource `source`, such as "virtual_resource", and returns the library's path. Without
    PyTorch, vram_torch_malloc returns null if it refuses."""
    cuda, version, for_torch = os.environ.get("CUDA_HOME", "/usr/local/cuda"), "", []
    if pytorch:
        import torch
        from torch.utils import cpp_extension
        torch_lib = pathlib.Path(torch.__file__).parent / "lib"
        cuda, version = cpp_extension.CUDA_HOME or cuda, torch.__version__
        for_torch = [*(f"-I{p}" for p in cpp_extension.include_paths()), f"-L{torch_lib}", "-lc10", f"-Wl,-rpath,{torch_lib}"]
    command = [compiler, "-std=c++20", "-O2", *os.environ.get("CXXFLAGS", "").split(), "-fPIC", "-shared", f"-DVRAM_TORCH_SOURCE={source}",
               *(["-DVRAM_TORCH_RECORD"] if record else []), str(HERE / "allocator.cpp"),
               f"-I{INCLUDE}", f"-I{cuda}/include", *for_torch, f"-L{cuda}/lib64", "-lcudart", f"-Wl,-rpath,{cuda}/lib64",
               "-ldl", "-pthread"]
    headers = sorted(INCLUDE.rglob("*.hpp")) + [HERE / "allocator.cpp"]
    state = hashlib.sha256("\n".join([version, *command, *(p.read_text() for p in headers)]).encode()).hexdigest()
    folder = pathlib.Path(os.environ.get("VRAM_TORCH_BUILD", pathlib.Path.home() / ".cache" / "vram_torch"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"allocator-{state[:16]}.so"
    if not path.exists():
        made = path.with_suffix(f".{os.getpid()}")  # renamed when it is complete: other processes may build it, too
        subprocess.run([*command, "-o", str(made)], check=True)
        made.rename(path)
    return path
