// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `frame_rule` is the rule by which a caller's frame is found on the stack of x86-64.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring> // memcpy

#if defined __x86_64__ && defined __linux__ && __has_include(<unwind.h>)
#define VRAM_HAS_FRAME_RULES
#endif

namespace vram {
namespace detail {

#ifdef VRAM_HAS_FRAME_RULES
extern "C" {
struct vram_eh_bases {
    void* text;
    void* data;
    void* function; ///< first address of the function that contains `address`
};
/// Function of the compiler's runtime: returns the unwind table's entry for the function that
/// contains `address`, or null, and sets `found`. If no library defines it, `&vram_find_fde` is
/// null.
[[gnu::weak]] void const* vram_find_fde(void* address, vram_eh_bases* found) noexcept
    asm("_Unwind_Find_FDE");
}
#endif

/// How a stack walk gets from a function to its caller: where the return address and the caller's
/// value of the register rbp are, as distances from the stack pointer or from rbp. Read from the
/// unwind tables (DWARF, .eh_frame). If the class cannot express the rule, `from` is `unknown`.
struct frame_rule {
    enum class base : std::uint8_t {
        unknown,
        none, ///< no caller: the function is the outermost one, such as `_start`
        stack_pointer,
        rbp,
        stored ///< the address of the frame's end is in memory at rbp + `size` (aligned stack)
    };
    /// Where the caller's value of rbp is: still in rbp; in memory, `frame_rule::rbp` bytes from
    /// the end of the frame; or in memory, `frame_rule::rbp` bytes from the address in rbp.
    enum class place : std::uint8_t { in_rbp, from_end, from_rbp };

    base  from  = base::unknown;
    place saved = place::in_rbp;
    /// If `from` is a register: distance in bytes from the address in that register to the end of
    /// the function's stack frame. The 8 bytes below the end contain the return address.
    std::int32_t size = 0;
    std::int32_t rbp  = 0;

    friend bool operator==(frame_rule const&, frame_rule const&) = default;

    /// Returns the rule for the function that contains the call with this return address. If no
    /// rule can be read, `from` of the result is `unknown`.
    [[nodiscard]] static frame_rule of(void const* return_address) noexcept;
};

/// Reads the `frame_rule` of one call (how to get from the function with the call to its caller).
/// The source is the unwind table (DWARF, .eh_frame) of the library that contains the function.
class frame_table_reader {
public:
    explicit frame_table_reader(std::size_t offset) noexcept : offset_{offset} {}

    [[nodiscard]] frame_rule entry(std::uint8_t const* fde) noexcept {
        std::uint32_t const length = word<std::uint32_t>(fde);
        std::int32_t const  back   = word<std::int32_t>(fde + 4);
        if (length == 0 || length == 0xFFFF'FFFFU || !common(fde + 4 - back)) { return {}; }
        at_ = fde + 8 + 2 * pointer_size_;
        skip_augmentation();
        first_ = now_;
        return run(fde + 4 + length) ? now_ : frame_rule{};
    }

private:
    using base  = frame_rule::base;
    using place = frame_rule::place;
    enum : std::uint64_t { reg_rbp = 6, reg_rsp = 7, reg_return = 16 };
    static constexpr std::size_t deepest = 8;

    template <class Word>
    [[nodiscard]] static Word word(std::uint8_t const* from) noexcept {
        Word w;
        std::memcpy(&w, from, sizeof w);
        return w;
    }
    template <class Word>
    Word take() noexcept {
        auto const w = word<Word>(at_);
        at_ += sizeof w;
        return w;
    }
    /// Reads a number in the format LEB128 and returns it. `with_sign`: the number is signed.
    std::uint64_t take_unsigned(bool with_sign = false) noexcept {
        std::uint64_t value = 0;
        for (unsigned shift = 0;;) {
            std::uint8_t const byte = *at_++;
            if (shift < 64) { value |= std::uint64_t{byte & 0x7FU} << shift; }
            shift += 7;
            if (byte >= 0x80) { continue; }
            bool const negative = with_sign && (byte & 0x40) != 0;
            return negative && shift < 64 ? value | ~std::uint64_t{0} << shift : value;
        }
    }
    std::int64_t take_signed() noexcept { return static_cast<std::int64_t>(take_unsigned(true)); }
    void         skip_augmentation() noexcept {
        auto const size = take_unsigned();
        at_ += size;
    }
    /// Returns the size in bytes of a pointer stored with `encoding` (DW_EH_PE_...), or 0 if not
    /// supported.
    [[nodiscard]] static std::size_t size_of(std::uint8_t encoding) noexcept {
        switch (encoding & 0x0F) {
        case 0x00: return encoding == 0x50 ? 0 : 8; // 8-byte pointer; 0x50 is DW_EH_PE_aligned
        case 0x02:
        case 0x0A: return 2;
        case 0x03:
        case 0x0B: return 4;
        case 0x04:
        case 0x0C: return 8;
        default: return 0;
        }
    }

    /// Reads the entry of the unwind table that several functions share (DWARF's common information
    /// entry). Returns false if the entry uses a feature that is not supported.
    [[nodiscard]] bool common(std::uint8_t const* cie) noexcept {
        std::uint32_t const length  = word<std::uint32_t>(cie);
        std::uint8_t const  version = cie[8];
        char const* const   letters = reinterpret_cast<char const*>(cie + 9);
        if (length == 0xFFFF'FFFFU || (version != 1 && version != 3) || *letters != 'z') {
            return false;
        }
        at_          = cie + 9 + std::strlen(letters) + 1;
        code_factor_ = take_unsigned();
        data_factor_ = take_signed();
        if ((version == 1 ? *at_++ : take_unsigned()) != reg_return) { return false; }
        auto const          size  = take_unsigned();
        std::uint8_t const* after = at_ + size;
        for (char const* each = letters + 1; *each != '\0'; ++each) {
            switch (*each) {
            case 'R':
                pointer_size_ = size_of(*at_++);
                if (pointer_size_ == 0) { return false; }
                break;
            case 'P': {
                std::size_t const n = size_of(*at_++);
                if (n == 0) { return false; }
                at_ += n;
                break;
            }
            case 'L': ++at_; break;
            default: return false; // unsupported augmentation letter, such as 'S' (signal frame)
            }
        }
        at_ = after;
        return run(cie + 4 + length);
    }

    /// Executes the unwind instructions (DW_CFA opcodes) from `at_` to `end`. Stops early at those
    /// for code behind the call. Returns false if an instruction is not supported.
    [[nodiscard]] bool run(std::uint8_t const* end) noexcept {
        while (at_ < end && place_ <= offset_) {
            std::uint8_t const  op   = *at_++;
            std::uint64_t const low  = op & 0x3FU;
            bool                good = true;
            switch (op >> 6) {
            case 1: place_ += low * code_factor_; break;
            case 2: good = save(low, static_cast<std::int64_t>(take_unsigned())); break;
            case 3: good = restore(low); break;
            default: good = other(op); break;
            }
            if (!good) { return false; }
        }
        return true;
    }
    [[nodiscard]] bool other(std::uint8_t op) noexcept {
        switch (op) {
        // DW_CFA_nop: changes nothing.
        case 0x00: return true;
        // DW_CFA_advance_loc1, 2, 4: the next instructions are for code at a larger offset.
        case 0x02: place_ += take<std::uint8_t>() * code_factor_; return true;
        case 0x03: place_ += take<std::uint16_t>() * code_factor_; return true;
        case 0x04: place_ += take<std::uint32_t>() * code_factor_; return true;
        case 0x05: { // DW_CFA_offset_extended: a register's value is saved in the frame
            auto const which = take_unsigned();
            return save(which, static_cast<std::int64_t>(take_unsigned()));
        }
        case 0x06: return restore(take_unsigned());
        case 0x07: { // DW_CFA_undefined: the caller's value of the register is lost
            auto const which = take_unsigned();
            if (which == reg_return) { now_.from = base::none; }
            return which != reg_rbp;
        }
        case 0x08: // DW_CFA_same_value: the register has the caller's value, which is not saved
            return set_place(take_unsigned(), place::in_rbp, 0);
        case 0x0A: // DW_CFA_remember_state: pushes the current rule `now_` on `stack_`
            if (depth_ == deepest) { return false; }
            stack_[depth_++] = now_;
            return true;
        case 0x0B: // DW_CFA_restore_state: pops the rule pushed last from `stack_` into `now_`
            if (depth_ == 0) { return false; }
            now_ = stack_[--depth_];
            return true;
        case 0x0C: { // DW_CFA_def_cfa: the frame ends at a register plus an offset
            auto const which = take_unsigned();
            now_.size        = static_cast<std::int32_t>(take_unsigned());
            return set_base(which);
        }
        case 0x0D: return set_base(take_unsigned());
        case 0x0E: now_.size = static_cast<std::int32_t>(take_unsigned()); return true;
        case 0x0F: // DW_CFA_def_cfa_expression: a DWARF expression computes the end of the frame
            now_.from = take_formula(now_.size, true) ? base::stored : base::unknown;
            return true;
        // DW_CFA_expression computes where a register is saved, DW_CFA_val_expression its value.
        // For rbp, only the place at rbp plus a constant is supported.
        case 0x10:
        case 0x16: {
            auto const   which    = take_unsigned();
            std::int32_t from_rbp = 0;
            bool const   simple   = take_formula(from_rbp, false);
            set_place(which, place::from_rbp, from_rbp);
            return which == reg_rbp ? simple && op == 0x10 : which != reg_return;
        }
        case 0x2E: // DW_CFA_GNU_args_size: bytes of pushed arguments; not needed
            static_cast<void>(take_unsigned());
            return true;
        default: return false;
        }
    }
    /// Reads a DWARF expression. Returns true if it is rbp plus a constant, which is stored in
    /// `offset`. If `loaded`, the expression must also load the word at that address.
    bool take_formula(std::int32_t& offset, bool loaded) noexcept {
        auto const                size = take_unsigned();
        std::uint8_t const* const end  = at_ + size;
        bool                      good = size >= 2 && *at_++ == 0x76;
        if (good) { offset = static_cast<std::int32_t>(take_signed()); }
        if (good && loaded) { good = at_ < end && *at_++ == 0x06; }
        good = good && at_ == end;
        at_  = end;
        return good;
    }
    [[nodiscard]] bool set_base(std::uint64_t which) noexcept {
        now_.from = which == reg_rsp   ? base::stack_pointer
                    : which == reg_rbp ? base::rbp
                                       : base::unknown;
        return true;
    }
    bool set_place(std::uint64_t which, place saved, std::int32_t distance) noexcept {
        if (which == reg_rbp) { now_.saved = saved, now_.rbp = distance; }
        return true;
    }
    [[nodiscard]] bool save(std::uint64_t which, std::int64_t factored) noexcept {
        std::int64_t const distance = factored * data_factor_;
        set_place(which, place::from_end, static_cast<std::int32_t>(distance));
        return which != reg_return || distance == -8;
    }
    [[nodiscard]] bool restore(std::uint64_t which) noexcept {
        if (which == reg_rbp) { now_.saved = first_.saved, now_.rbp = first_.rbp; }
        return which != reg_return;
    }

    std::size_t         offset_; ///< bytes from the start of the function to the call
    std::uint8_t const* at_           = nullptr;
    std::uint64_t       code_factor_  = 1;
    std::int64_t        data_factor_  = 1;
    std::size_t         pointer_size_ = 8;
    /// The rule `now_` is for the code from this offset on. The offset is in bytes from the start
    /// of the function.
    std::uint64_t place_ = 0;
    frame_rule    now_{};
    frame_rule    first_{}; ///< rule at the start of the function, which DW_CFA_restore restores
    frame_rule    stack_[deepest]{};
    std::size_t   depth_ = 0;
};

inline frame_rule frame_rule::of(void const* return_address) noexcept {
#ifdef VRAM_HAS_FRAME_RULES
    if (&vram_find_fde == nullptr) { return {}; }
    auto* const       call = static_cast<std::uint8_t*>(const_cast<void*>(return_address)) - 1;
    vram_eh_bases     bases{};
    auto const* const entry = static_cast<std::uint8_t const*>(vram_find_fde(call, &bases));
    if (entry == nullptr) { return {}; }
    frame_table_reader read{
        static_cast<std::size_t>(call - static_cast<std::uint8_t*>(bases.function))};
    return read.entry(entry);
#else
    return static_cast<void>(return_address), frame_rule{};
#endif
}

} // namespace detail
} // namespace vram

#undef VRAM_HAS_FRAME_RULES
