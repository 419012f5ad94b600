// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `nvtx_tagged` is a scope with a tag that is also a range in Nsight.

#include <vram/base/tag.hpp> // tagged, current_tag
#include <vram/interop/core/nvtx_domain.hpp>

#include <type_traits> // is_constructible_v
#include <utility>

namespace vram {

/// A `tagged` scope that a tool of NVTX, such as Nsight Systems, shows as a range of the thread,
/// with the name of the tag. The range has the time on the host: work that the scope launches may
/// run later.
///
///     nvtx_tagged const scope{"optimizer"};
///     state = memory.allocate(stream, bytes); // owner: "optimizer"
///
/// Threads   As `tagged`: a scope is an automatic variable of one thread.
/// Cost      Without a tool that of `tagged`, and one load. With a tool also two calls of the tool.
class [[maybe_unused]] nvtx_tagged {
public:
    /// Begins a scope with a tag, and an NVTX range with the name of the tag. The arguments are
    /// those of `tagged`. The destructor ends the scope and the range.
    template <class... Name>
        requires std::is_constructible_v<tagged, Name...>
    [[nodiscard]] explicit nvtx_tagged(Name&&... name) noexcept
        : scope_(std::forward<Name>(name)...) {
        if (detail::nvtx_domain() == nullptr) { return; }
        nvtxEventAttributes_t range{};
        range.version       = NVTX_VERSION;
        range.size          = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
        range.messageType   = NVTX_MESSAGE_TYPE_ASCII;
        range.message.ascii = current_tag().name();
        nvtxDomainRangePushEx(detail::nvtx_domain(), &range);
    }
    nvtx_tagged(nvtx_tagged const&)            = delete;
    nvtx_tagged& operator=(nvtx_tagged const&) = delete;
    ~nvtx_tagged() {
        if (detail::nvtx_domain() != nullptr) { nvtxDomainRangePop(detail::nvtx_domain()); }
    }

private:
    tagged scope_;
};

} // namespace vram
