//! The 128-bit steps on x86-64, in place and without a call.
//!
//! `portable-atomic` does the same, but decides at every access, through a pointer, how this processor does it;
//! at a few nanoseconds a decision that is a tenth of the whole. Here the compare-and-swap is required once, when a
//! table is made ([`supported`]).
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::__m128i;

use super::sync::Word;

/// Whether this processor has the compare-and-swap: all x86-64 processors since 2006 or so.
pub(super) fn supported() -> bool {
    std::arch::is_x86_feature_detected!("cmpxchg16b")
}

/// Reads 16 bytes in one step. `None` if this processor does not promise that.
#[inline]
pub(super) fn load(cell: &portable_atomic::AtomicU128) -> Option<Word> {
    if !std::arch::is_x86_feature_detected!("avx") {
        return None;
    }
    let both: __m128i;
    // SAFETY: the address is of a live, 16-byte aligned cell. Processors with AVX read aligned 16 bytes of ordinary
    // memory in one step (Intel SDM vol. 3A 9.1.1; AMD APM vol. 2 7.3.2). The assembly counts as reading any memory,
    // so the compiler moves no access across it; x86-64 lets no later read pass it, which together with the locked
    // writes is a sequentially consistent load.
    unsafe {
        asm!(
            "vmovdqa {both}, xmmword ptr [{cell}]",
            cell = in(reg) cell.as_ptr(),
            both = out(xmm_reg) both,
            options(nostack, preserves_flags),
        );
    }
    // SAFETY: any 16 bytes are two words.
    let [state, tag]: [u64; 2] = unsafe { std::mem::transmute(both) };
    Some(Word { tag, state })
}

/// Puts `new` in if the cell holds `old`; tells whether it did. Sequentially consistent, as locked instructions are.
#[inline]
pub(super) fn replace(cell: &portable_atomic::AtomicU128, old: Word, new: Word) -> bool {
    let done: u8;
    // SAFETY: the address is of a live, 16-byte aligned cell that is only ever accessed by atomic steps; a table is
    // made only where the instruction exists. It takes its new low half in rbx, which the compiler keeps for itself:
    // so it is swapped in and put back. The named registers are all others that are used.
    unsafe {
        asm!(
            "xchg rsi, rbx",
            "lock cmpxchg16b xmmword ptr [rdi]",
            "sete r8b",
            "mov rbx, rsi",
            in("rdi") cell.as_ptr(),
            inout("rsi") new.state => _,
            in("rcx") new.tag,
            inout("rax") old.state => _,
            inout("rdx") old.tag => _,
            out("r8b") done,
            options(nostack),
        );
    }
    done != 0
}

#[cfg(test)]
mod tests {
    use portable_atomic::AtomicU128;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    #[test]
    fn halves_are_where_portable_atomic_has_them() {
        let cell = AtomicU128::new(7 << 64 | 9);
        let old = Word { tag: 7, state: 9 };
        assert!(load(&cell).is_none_or(|word| word == old));
        let new = Word {
            tag: u64::MAX - 1,
            state: 3,
        };
        assert!(!replace(&cell, Word { state: 8, ..old }, new));
        assert!(!replace(&cell, Word { tag: 8, ..old }, new));
        assert!(replace(&cell, old, new));
        assert_eq!(cell.load(SeqCst), u128::from(u64::MAX - 1) << 64 | 3);
        assert!(load(&cell).is_none_or(|word| word == new));
    }

    /// Two threads that write words whose halves agree, and a third that must never see halves that do not.
    #[test]
    fn no_reader_sees_half_a_word() {
        let cell = AtomicU128::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut written = 0;
                    while written < 20_000 {
                        let old = load(&cell).unwrap_or(Word { tag: 0, state: 0 });
                        let next = old.state.wrapping_mul(3).wrapping_add(1);
                        let new = Word {
                            tag: next,
                            state: next,
                        };
                        written += u64::from(replace(&cell, old, new));
                        if load(&cell).is_none() {
                            return;
                        }
                    }
                });
            }
            for _ in 0..200_000 {
                assert!(load(&cell).is_none_or(|word| word.tag == word.state));
            }
        });
    }
}
