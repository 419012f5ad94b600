# SPDX-License-Identifier: Apache-2.0
# Read by each project of this folder before vram is found or added; checks.cmake compares.
get_property(languages_before GLOBAL PROPERTY ENABLED_LANGUAGES)
set(architectures_before "${CMAKE_CUDA_ARCHITECTURES}")
