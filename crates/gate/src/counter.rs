//! The processor's time stamp counter, as it stands. It is here because no other crate may hold `unsafe` code: the gate
//! itself reads no clock and no counter, and the node's clock alone may call this.
#![allow(unsafe_code)]

/// Whether this kind of processor has a counter that is read here.
pub const PRESENT: bool = cfg!(target_arch = "x86_64");

/// Reads it, in ticks of a length that only the processor knows; 0 without one. Unfenced: the processor may read it as
/// early as instructions before it wait for memory, so it orders nothing, and nothing waits for it.
#[inline(always)]
#[must_use]
pub fn read() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction takes and changes nothing but its two result registers. Linux lets every process use it,
    // but for those that have asked to be killed for it.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}
