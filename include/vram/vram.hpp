// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `vram` is everything that needs no GPU toolkit and no platform. Beside it goes the platform of
/// the program: `<vram/cuda/cuda.hpp>`, `<vram/sim/sim.hpp>`, or both.

#include <vram/base/align.hpp>
#include <vram/base/bytes.hpp>
#include <vram/base/contract.hpp>
#include <vram/base/counter.hpp>
#include <vram/base/error.hpp>
#include <vram/base/gate.hpp>
#include <vram/base/gauge.hpp>
#include <vram/base/lock.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/base/over_limit.hpp>
#include <vram/base/over_size.hpp>
#include <vram/base/tally.hpp>
#include <vram/base/worker.hpp>

#include <vram/concepts/growth.hpp>
#include <vram/concepts/memory_info.hpp>
#include <vram/concepts/pitched_copy.hpp>
#include <vram/concepts/platform.hpp>
#include <vram/concepts/platform_of.hpp>
#include <vram/concepts/powers.hpp>
#include <vram/concepts/property.hpp>
#include <vram/concepts/resource.hpp>
#include <vram/concepts/retry.hpp>

#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/source/null_resource.hpp>
#include <vram/source/region_resource.hpp>

#include <vram/layer/address_set.hpp>
#include <vram/layer/aligned.hpp>
#include <vram/layer/ancestor.hpp>
#include <vram/layer/deferred_frees.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/freed_blocks.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/pair_base.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/segregated.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/layer/waiting_frees.hpp>
#include <vram/layer/with.hpp>

#include <vram/pool/address_map.hpp>
#include <vram/pool/ask_upstream.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/binned_options.hpp>
#include <vram/pool/bins.hpp>
#include <vram/pool/block.hpp>
#include <vram/pool/block_heap.hpp>
#include <vram/pool/block_request.hpp>
#include <vram/pool/block_store.hpp>
#include <vram/pool/bump_chunk.hpp>
#include <vram/pool/clocks.hpp>
#include <vram/pool/device_share_growth.hpp>
#include <vram/pool/event_policy.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/fragmentation.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/geometric_growth.hpp>
#include <vram/pool/growing_base.hpp>
#include <vram/pool/heap_array.hpp>
#include <vram/pool/large_blocks.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/peak_scope.hpp>
#include <vram/pool/platform_lock.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/pool_options.hpp>
#include <vram/pool/size_classes.hpp>
#include <vram/pool/slab.hpp>
#include <vram/pool/slab_base.hpp>
#include <vram/pool/slab_heap.hpp>
#include <vram/pool/stream_bump.hpp>
#include <vram/pool/stream_clock.hpp>
#include <vram/pool/stream_heap.hpp>
#include <vram/pool/stream_slabs.hpp>
#include <vram/pool/tag.hpp>
#include <vram/pool/tags.hpp>

#include <vram/handle/any_resource.hpp>
#include <vram/handle/array.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/counted.hpp>
#include <vram/handle/current.hpp>
#include <vram/handle/current_resource_guard.hpp>
#include <vram/handle/erased.hpp>
#include <vram/handle/held.hpp>
#include <vram/handle/older_calls.hpp>
#include <vram/handle/resource_calls.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/handle/std_allocator.hpp>

#include <vram/transfer/batch.hpp>
#include <vram/transfer/batch_source.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/loader_core.hpp>
#include <vram/transfer/loader_error.hpp>
#include <vram/transfer/loader_options.hpp>
#include <vram/transfer/loader_statistics.hpp>
#include <vram/transfer/platform_clock.hpp>
#include <vram/transfer/slot.hpp>
#include <vram/transfer/slot_queue.hpp>
#include <vram/transfer/slot_ring.hpp>

#include <vram/pressure/calling.hpp>
#include <vram/pressure/drain.hpp>
#include <vram/pressure/split_on_oom.hpp>
#include <vram/pressure/trim_upstream.hpp>
#include <vram/pressure/wait_backoff.hpp>

#include <vram/probe/checked_scope.hpp>
#include <vram/probe/device_delta.hpp>
#include <vram/probe/doctest.hpp>
#include <vram/probe/explain.hpp>
#include <vram/probe/layer_name.hpp>
#include <vram/probe/leak_check.hpp>
#include <vram/probe/memory_delta.hpp>
#include <vram/probe/report.hpp>
#include <vram/probe/table.hpp>
