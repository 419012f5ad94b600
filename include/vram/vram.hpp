// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `vram` is everything that needs no GPU toolkit and no platform. A program also includes its
/// platform: `<vram/cuda/cuda.hpp>`, `<vram/sim/sim.hpp>`, or both. The headers of `history/` and
/// the macros for tests are included by name.

#include <vram/version.hpp>

#include <vram/base/align.hpp>
#include <vram/base/bytes.hpp>
#include <vram/base/call_site.hpp>
#include <vram/base/call_stack.hpp>
#include <vram/base/contract.hpp>
#include <vram/base/counter.hpp>
#include <vram/base/error.hpp>
#include <vram/base/error_kind.hpp>
#include <vram/base/error_text.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/base/out_of_memory.hpp>
#include <vram/base/over_limit.hpp>
#include <vram/base/over_size.hpp>
#include <vram/base/requirements.hpp>
#include <vram/base/tag.hpp>

#include <vram/concepts/batched_copies.hpp>
#include <vram/concepts/completion_flags.hpp>
#include <vram/concepts/expandable.hpp>
#include <vram/concepts/growth.hpp>
#include <vram/concepts/memory_info.hpp>
#include <vram/concepts/memory_kind.hpp>
#include <vram/concepts/observer.hpp>
#include <vram/concepts/pitched_copy.hpp>
#include <vram/concepts/platform.hpp>
#include <vram/concepts/platform_of.hpp>
#include <vram/concepts/powers.hpp>
#include <vram/concepts/property.hpp>
#include <vram/concepts/resource.hpp>
#include <vram/concepts/retry.hpp>
#include <vram/concepts/sited.hpp>
#include <vram/concepts/virtual_memory.hpp>

#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/source/null_resource.hpp>
#include <vram/source/region_resource.hpp>
#include <vram/source/virtual_options.hpp>
#include <vram/source/virtual_source.hpp>

#include <vram/layer/aligned.hpp>
#include <vram/layer/ancestor.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/histograms.hpp>
#include <vram/layer/layer_base.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/observed.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/segregated.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/layer/stream_ordered_options.hpp>
#include <vram/layer/with.hpp>

#include <vram/pool/arena.hpp>
#include <vram/pool/arena_key.hpp>
#include <vram/pool/arena_options.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/binned_options.hpp>
#include <vram/pool/default_growth.hpp>
#include <vram/pool/device_share_growth.hpp>
#include <vram/pool/event_policy.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/fragmentation.hpp>
#include <vram/pool/free_pieces.hpp>
#include <vram/pool/geometric_growth.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/monotonic_mark.hpp>
#include <vram/pool/peak_scope.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/pool_options.hpp>
#include <vram/pool/slab.hpp>

#include <vram/handle/any_resource.hpp>
#include <vram/handle/array.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/current.hpp>
#include <vram/handle/current_resource_guard.hpp>
#include <vram/handle/resource_ref.hpp>
#include <vram/handle/shared.hpp>
#include <vram/handle/std_allocator.hpp>

#include <vram/data/boundary.hpp>
#include <vram/data/chunking.hpp>
#include <vram/data/concat.hpp>
#include <vram/data/fields.hpp>
#include <vram/data/file.hpp>
#include <vram/data/file_chunks.hpp>
#include <vram/data/file_error.hpp>
#include <vram/data/file_records.hpp>
#include <vram/data/layout_error.hpp>
#include <vram/data/mapped_file.hpp>
#include <vram/data/memory_chunks.hpp>
#include <vram/data/pinned_chunks.hpp>
#include <vram/data/pinned_tile_source.hpp>
#include <vram/data/tile_sink.hpp>
#include <vram/data/tile_source.hpp>
#include <vram/data/tiles.hpp>

#include <vram/staging/copy_batch.hpp>
#include <vram/staging/staging.hpp>
#include <vram/staging/staging_error.hpp>
#include <vram/staging/staging_options.hpp>
#include <vram/staging/staging_result.hpp>
#include <vram/staging/transfer_path.hpp>

#include <vram/transfer/batch.hpp>
#include <vram/transfer/loader.hpp>
#include <vram/transfer/loader_error.hpp>
#include <vram/transfer/loader_options.hpp>
#include <vram/transfer/loader_statistics.hpp>
#include <vram/transfer/platform_clock.hpp>
#include <vram/transfer/slot_states.hpp>
#include <vram/transfer/typed_source.hpp>
#include <vram/transfer/unloader.hpp>
#include <vram/transfer/unloader_options.hpp>

#include <vram/pressure/calling.hpp>
#include <vram/pressure/drain.hpp>
#include <vram/pressure/split_on_oom.hpp>
#include <vram/pressure/trim_upstream.hpp>
#include <vram/pressure/wait_backoff.hpp>

#include <vram/probe/device_delta.hpp>
#include <vram/probe/error_count.hpp>
#include <vram/probe/explain.hpp>
#include <vram/probe/growth_options.hpp>
#include <vram/probe/growth_watch.hpp>
#include <vram/probe/guarded.hpp>
#include <vram/probe/guarded_options.hpp>
#include <vram/probe/layer_name.hpp>
#include <vram/probe/leak_check.hpp>
#include <vram/probe/memory_delta.hpp>
#include <vram/probe/memory_growth.hpp>
#include <vram/probe/oom_survival.hpp>
#include <vram/probe/profile.hpp>
#include <vram/probe/profile_row.hpp>
#include <vram/probe/refusing.hpp>
#include <vram/probe/report.hpp>
#include <vram/probe/survives_oom.hpp>
#include <vram/probe/survives_oom_options.hpp>
#include <vram/probe/timed.hpp>
#include <vram/probe/tracked_block.hpp>
#include <vram/probe/tracked_owner.hpp>
#include <vram/probe/tracking.hpp>
#include <vram/probe/tracking_options.hpp>
