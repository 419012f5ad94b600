// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/mr.hpp> // first: the header stands alone

#include "../cuda/machine.hpp"
#include "../laws/resource.hpp"
#include "misuse.hpp"

#include <vram/cuda/cuda_async_resource.hpp>
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_stream.hpp>
#include <vram/cuda/cuda_thread.hpp>
#include <vram/cuda/pinned_resource.hpp>
#include <vram/handle/any_resource.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

#include <stdexcept>

#if __has_include(<cuda/memory_pool>)
#define VRAM_WITH_CCCL_POOLS
#include <cuda/memory_pool>
#endif
#if __has_include(<cuda/buffer>) && CCCL_VERSION >= 3004000 // before, it needs nvcc
#define VRAM_WITH_CCCL_BUFFERS
#include <cuda/buffer>
#endif

using namespace vram;
using tests::machine;

namespace {

using stack = limiting<statistics<stream_ordered<cuda_resource>>>;

/// A resource of another library, in either generation of the interface: pinned memory with a given
/// kind of refusal.
enum class refusal { none, bad_alloc, cuda_error, other_error, misaligned, invalid_argument };

class foreign {
public:
    struct books {
        refusal     next = refusal::none;
        std::size_t out  = 0;
        std::size_t zero = 0; // times that it was asked for nothing
    };

    explicit foreign(books& b) : books_{&b} {}

    void* allocate_sync(std::size_t bytes, std::size_t alignment) {
        books_->zero += bytes == 0;
        switch (std::exchange(books_->next, refusal::none)) {
        case refusal::bad_alloc: throw std::bad_alloc{};
        case refusal::cuda_error: fail(cudaErrorMemoryAllocation);
        case refusal::other_error: fail(cudaErrorIllegalAddress);
        case refusal::misaligned: ++books_->out; return &misplaced[1];
        case refusal::invalid_argument: throw std::invalid_argument{"Invalid alignment"};
        case refusal::none: break;
        }
        void* const p = pinned_resource{}.allocate_sync(bytes, alignment);
        ++books_->out;
        return p;
    }
    void deallocate_sync(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        --books_->out;
        if (p != &misplaced[1]) { pinned_resource{}.deallocate_sync(p, bytes, alignment); }
    }
#if CCCL_VERSION >= 3001000
    void* allocate(::cuda::stream_ref, std::size_t bytes, std::size_t alignment) {
        return allocate_sync(bytes, alignment);
    }
    void deallocate(::cuda::stream_ref s, void* p, std::size_t n, std::size_t alignment) noexcept {
        cudaStreamSynchronize(s.get()); // pinned memory is freed at once
        deallocate_sync(p, n, alignment);
    }
#else
    void* allocate(std::size_t n, std::size_t alignment) { return allocate_sync(n, alignment); }
    void  deallocate(void* p, std::size_t n, std::size_t alignment) noexcept {
        deallocate_sync(p, n, alignment);
    }
    void* allocate_async(std::size_t n, std::size_t alignment, ::cuda::stream_ref) {
        return allocate_sync(n, alignment);
    }
    void deallocate_async(void* p, std::size_t n, std::size_t alignment,
                          ::cuda::stream_ref s) noexcept {
        cudaStreamSynchronize(s.get()); // pinned memory is freed at once
        deallocate_sync(p, n, alignment);
    }
#endif
    friend bool operator==(foreign const& a, foreign const& b) { return a.books_ == b.books_; }
    [[maybe_unused]] friend bool operator!=(foreign const& a, foreign const& b) {
        return !(a == b);
    }
    [[maybe_unused]] friend void get_property(foreign const&,
                                              ::cuda::mr::device_accessible) noexcept {}
    [[maybe_unused]] friend void get_property(foreign const&,
                                              ::cuda::mr::host_accessible) noexcept {}

private:
    [[noreturn]] static void fail(cudaError_t status) {
#if CCCL_VERSION >= 3001000
        throw ::cuda::cuda_error{status, "planted"};
#else
        throw ::cuda::cuda_error{static_cast<int>(status), "planted"};
#endif
    }

    alignas(256) static inline std::byte misplaced[256];
    books* books_;
};

#if CCCL_VERSION >= 3001000
template <class R, class... Words>
concept models = ::cuda::mr::resource_with<R, Words...>;
template <class... Words>
using foreign_ref = ::cuda::mr::resource_ref<Words...>;
#else
template <class R, class... Words>
concept models = ::cuda::mr::async_resource_with<R, Words...>;
template <class... Words>
using foreign_ref = ::cuda::mr::async_resource_ref<Words...>;
#endif
using ::cuda::mr::device_accessible;
using ::cuda::mr::host_accessible;
using device_ref = foreign_ref<::cuda::mr::device_accessible>;

// CCCL 3.2 and 3.3 take the addresses of functions, and those of vram's handles have further
// parameters: there, `as_mr(handle)` is the handle.
#if CCCL_VERSION >= 3002000 && CCCL_VERSION < 3004000
#define VRAM_ONLY_BY_AS_MR
#endif
// vram's handles satisfy the concepts of every CCCL version.
static_assert(models<shared<stack>, device_accessible>);
static_assert(models<resource_ref_of<stack>, device_accessible>);
static_assert(models<any_resource_of<stack>, device_accessible>);
static_assert(models<mr_view<stack>, device_accessible>);
static_assert(!models<shared<stack>, host_accessible>);
#ifndef VRAM_ONLY_BY_AS_MR
static_assert(std::is_convertible_v<shared<stack>&, device_ref>);
static_assert(std::is_convertible_v<resource_ref_of<stack>&, device_ref>);
static_assert(std::is_convertible_v<any_resource_of<stack>&, device_ref>);
#endif
static_assert(std::is_convertible_v<mr_view<stack>&, device_ref>);
// As an argument, `as_mr(...)` is a temporary.
#if CCCL_VERSION >= 3001000
using synchronous_device_ref = ::cuda::mr::synchronous_resource_ref<device_accessible>;
#else
using synchronous_device_ref = ::cuda::mr::resource_ref<device_accessible>;
#endif
template <class Lent>
concept passed_as_argument =
    std::is_convertible_v<Lent, device_ref> && std::is_convertible_v<Lent, synchronous_device_ref>;
static_assert(passed_as_argument<mr_view<stack>>);
static_assert(passed_as_argument<mr_handle<shared<stack>>>);
static_assert(passed_as_argument<mr_handle<any_resource_of<stack>>>);
static_assert(passed_as_argument<mr_handle<resource_ref_of<stack>>>);
static_assert(!std::is_convertible_v<mr_handle<shared<stack>>, foreign_ref<host_accessible>>);
// A stack over a resource of CCCL can be lent to CCCL again, through a handle that hides its type.
static_assert(passed_as_argument<mr_handle<resource_ref_of<limiting<mr<device_ref>>>>>);
static_assert(passed_as_argument<mr_handle<any_resource_of<limiting<mr<device_ref>>>>>);

#if CCCL_VERSION >= 3001000
// From 3.1 on, so is every stack.
static_assert(models<stack, device_accessible> && !models<stack, host_accessible>);
static_assert(models<cuda_async_resource, device_accessible>);
static_assert(::cuda::mr::synchronous_resource_with<cuda_resource, device_accessible>);
#endif
#if CCCL_VERSION >= 3002000
#define VRAM_WITH_CCCL_OWNERS
using any_foreign = ::cuda::mr::any_resource<::cuda::mr::device_accessible>;
static_assert(std::is_convertible_v<mr_handle<shared<stack>>, any_foreign>);
#ifndef VRAM_ONLY_BY_AS_MR
static_assert(std::is_convertible_v<shared<stack>, any_foreign>);
static_assert(std::is_convertible_v<any_resource_of<stack>, any_foreign>);
#endif
#endif

// vram's layers work over CCCL's handles.
static_assert(resource<mr<device_ref>> && has_property<mr<device_ref>, vram::device_accessible>);
static_assert(!has_property<mr<device_ref>, vram::host_accessible>);
static_assert(has_property<mr<foreign>, vram::host_accessible>);
static_assert(!fallible_resource<mr<foreign>>, "it cannot say no without throwing");

// A handle that owns its stack, with the type from which `make_buffer` learns the properties.
static_assert(models<mr_handle<shared<stack>>, device_accessible>);
static_assert(std::is_convertible_v<mr_handle<shared<stack>>&, device_ref>);
#if CCCL_VERSION >= 3002000
static_assert(std::is_same_v<mr_view<stack>::default_queries,
                             ::cuda::mr::properties_list<::cuda::mr::device_accessible>>);
static_assert(std::is_same_v<mr_handle<any_resource<cuda_platform, vram::device_accessible,
                                                    vram::host_accessible>>::default_queries,
                             ::cuda::mr::properties_list<::cuda::mr::device_accessible,
                                                         ::cuda::mr::host_accessible>>);
#endif
#ifdef VRAM_WITH_CCCL_POOLS
// The pools of CCCL, and references to them, are upstreams.
static_assert(resource<mr<::cuda::device_memory_pool_ref>>);
static_assert(has_property<mr<::cuda::pinned_memory_pool_ref>, vram::host_accessible>);
static_assert(std::is_same_v<decltype(mr{std::declval<::cuda::device_memory_pool&>()}),
                             mr<::cuda::device_memory_pool_ref>>);
#endif

/// A function of another library.
void* foreign_take(device_ref ref, std::size_t bytes) {
    cudaStream_t const stream = nullptr;
#if CCCL_VERSION >= 3001000
    return ref.allocate(::cuda::stream_ref{stream}, bytes, 256);
#else
    return ref.allocate_async(bytes, 256, ::cuda::stream_ref{stream});
#endif
}
void foreign_give(device_ref ref, void* p, std::size_t bytes) {
    cudaStream_t const stream = nullptr;
#if CCCL_VERSION >= 3001000
    ref.deallocate(::cuda::stream_ref{stream}, p, bytes, 256);
#else
    ref.deallocate_async(p, bytes, 256, ::cuda::stream_ref{stream});
#endif
}

/// A handle as this version of CCCL accepts it.
template <class Handle>
auto passed(Handle handle) {
#ifdef VRAM_ONLY_BY_AS_MR
    return as_mr(std::move(handle));
#else
    return handle;
#endif
}

stack make_stack(std::size_t limit) {
    return stack{statistics{stream_ordered{cuda_resource{}}}, limit};
}

} // namespace

template class vram::mr<foreign>;
template class vram::mr<device_ref>;
template class vram::mr_view<stack>;

TEST_CASE("mr: CCCL allocates from a stack and frees to it, through every handle") {
    machine const here;
    stack         memory = make_stack(1_MiB);
    {
        auto        borrowed = passed(resource_ref{memory});
        void* const p        = foreign_take(borrowed, 1000);
        CHECK(memory.used() == 1000);
        foreign_give(borrowed, p, 1000);
        CHECK(memory.used() == 0);
    }
    {
        void* const p = foreign_take(as_mr(memory), 1000);
        CHECK(memory.used() == 1000);
        auto lent = as_mr(memory);
        foreign_give(lent, p, 1000);
        CHECK(memory.used() == 0);
    }
    shared      handle{make_stack(1_MiB)};
    auto        by_shared = passed(handle);
    auto        by_any    = passed(any_resource_of<stack>{handle});
    void* const p         = foreign_take(by_shared, 1000);
    CHECK(handle->used() == 1000);
    foreign_give(by_any, p, 1000);
    CHECK(handle->used() == 0);
}

TEST_CASE("mr: as_mr of a handle is an argument of a function of another library") {
    machine const          here;
    shared                 memory{make_stack(1_MiB)};
    any_resource_of<stack> any{memory};
    resource_ref_of<stack> ref{memory.get()};
    auto const             uses = [&](auto handle) {
        void* const p = foreign_take(as_mr(handle), 1000);
        CHECK(memory->used() == 1000);
        foreign_give(as_mr(handle), p, 1000);
        CHECK(memory->used() == 0);
    };
    uses(memory);
    uses(any);
    uses(ref);
}

TEST_CASE("mr: an out_of_memory of vram reaches CCCL's callers with its numbers") {
    machine const here;
    stack         memory = make_stack(1000);
    CHECK_THROWS_AS((void)foreign_take(as_mr(memory), 1001), over_limit);
    CHECK_THROWS_AS((void)foreign_take(as_mr(memory), 1001), std::bad_alloc);
}

#ifdef VRAM_WITH_CCCL_OWNERS
TEST_CASE("mr: CCCL's owning handle keeps a shared stack alive") {
    machine const              here;
    std::optional<any_foreign> owner;
    {
        shared handle{make_stack(1_MiB)};
        owner.emplace(as_mr(handle));
        CHECK(handle.holders() == 2);
    }
    void* const p = foreign_take(*owner, 1000);
    CHECK(p != nullptr);
    foreign_give(*owner, p, 1000);
}
#endif

TEST_CASE("mr: it keeps the laws of a resource") {
    machine const  here;
    foreign::books books;
    mr             inside{foreign{books}};
    laws::obeyed_by(inside, {.operations = 300});
    CHECK(books.out == 0);
    CHECK(books.zero == 0);
}

TEST_CASE("mr: a stack keeps the laws of a resource through CCCL's reference") {
    machine const here;
    stack         memory = make_stack(1_GiB);
    {
        auto lent = as_mr(memory);
        mr   through{device_ref{lent}};
        laws::obeyed_by(through, {.operations = 300});
    }
    CHECK(memory.used() == 0);
}

TEST_CASE(
    "mr: a pool keeps the laws of a resource through CCCL's reference, on other devices too") {
    machine const                       here;
    pool<stream_ordered<cuda_resource>> memory;
    {
        auto lent = as_mr(memory);
        mr   through{device_ref{lent}};
        laws::obeyed_by(through, {.operations = 300});
        misuse::other_devices(through, memory);
        misuse::alignments(through);
    }
    CHECK(memory.usage().live == 0);
}

TEST_CASE("mr: layers of vram work over a CCCL reference to a stack of vram") {
    machine const here;
    stack         memory = make_stack(1_MiB);
    auto          lent   = as_mr(memory);
    limiting      outer{mr{device_ref{lent}}, 1000};
    cuda_stream   s;
    void* const   p = outer.allocate(s, 600);
    CHECK(memory.used() == 600);
    CHECK(outer.used() == 600);
    outer.deallocate(s, p, 600);
    void* const q = outer.allocate_sync(600);
    outer.deallocate_sync(q, 600);
    CHECK(memory.used() == 0);
    CHECK(outer.upstream() == from_mr(device_ref{lent}));
}

TEST_CASE("mr: every form of refusal becomes out_of_memory") {
    machine const  here;
    foreign::books books;
    mr             inside{foreign{books}};
    for (refusal const how : {refusal::bad_alloc, refusal::cuda_error, refusal::misaligned}) {
        books.next = how;
        try {
            (void)inside.allocate({}, 100, 64);
            FAIL("it was refused");
        } catch (out_of_memory const& e) {
            CHECK(e.numbers().asked == 100);
            CHECK(e.numbers().alignment == 64);
        }
        books.next = how;
        CHECK_THROWS_AS((void)inside.allocate_sync(100, 64), out_of_memory);
    }
    CHECK(books.out == 0); // the misaligned block was freed
}

TEST_CASE("mr: an alignment that CCCL does not accept is refused") {
    machine const  here;
    foreign::books books;
    mr             inside{foreign{books}};
    books.next = refusal::invalid_argument;
    try {
        (void)inside.allocate({}, 100, 4096);
        FAIL("it was refused");
    } catch (out_of_memory const& e) { CHECK(e.numbers().alignment == 4096); }
    books.next = refusal::invalid_argument;
    CHECK_THROWS_AS((void)inside.allocate_sync(100, 512), out_of_memory);
    books.next = refusal::invalid_argument; // of something else
    CHECK_THROWS_AS((void)inside.allocate_sync(100, 256), std::invalid_argument);
}

TEST_CASE("mr: an error that is not about memory is passed on unchanged") {
    machine const  here;
    foreign::books books;
    mr             inside{foreign{books}};
    books.next = refusal::other_error;
    CHECK_THROWS_AS((void)inside.allocate({}, 100), ::cuda::cuda_error);
    books.next = refusal::other_error;
    CHECK_THROWS_AS((void)inside.allocate_sync(100), ::cuda::cuda_error);
}

TEST_CASE("mr: an out_of_memory of vram passes through with all its numbers") {
    machine const here;
    stack         memory = make_stack(1000);
    auto          lent   = as_mr(memory);
    mr            inside{device_ref{lent}};
    CHECK_THROWS_AS((void)inside.allocate({}, 2000), over_limit);
    CHECK_THROWS_AS((void)inside.allocate_sync(2000), over_limit);
}

#ifdef VRAM_WITH_CCCL_BUFFERS
TEST_CASE("mr: a cuda::buffer takes memory of a stack, and its properties from the view") {
    machine const            here;
    stack                    memory = make_stack(1_MiB);
    cuda_stream const        s;
    ::cuda::stream_ref const on{s.get()};
    {
        auto const numbers = ::cuda::make_buffer<float>(on, as_mr(memory), 1000, ::cuda::no_init);
        static_assert(std::is_same_v<decltype(numbers),
                                     ::cuda::buffer<float, ::cuda::mr::device_accessible> const>);
        CHECK(numbers.size() == 1000);
        CHECK(memory.used() == 4000);
    }
    CHECK(memory.used() == 0);
    shared handle{make_stack(1_MiB)};
    {
        auto const numbers = ::cuda::make_buffer<float>(on, as_mr(handle), 1000, ::cuda::no_init);
        CHECK(handle.holders() == 2);
        CHECK(handle->used() == 4000);
        CHECK_THROWS_AS((void)::cuda::make_buffer<float>(on, as_mr(handle), 1_MiB, ::cuda::no_init),
                        over_limit);
    }
    CHECK(handle.holders() == 1);
}
#endif
