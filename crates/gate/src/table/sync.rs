//! The atomics of the table: the real ones, or loom's when the interleavings are being searched.
//!
//! Every access in the table is sequentially consistent. The claim protocol rests on it (write one's own word, then
//! read the others'), it costs nothing on x86-64 beyond what the read-modify-writes cost anyway, and it lets the model
//! be exact: under loom each access is one step that sees the newest value, which is what that ordering promises.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// A tag and a state, read and changed as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Whose it is.
    pub tag: u64,
    /// What it holds.
    pub state: u64,
}

/// A [`Word`] in memory.
#[cfg(not(loom))]
#[repr(transparent)]
pub(crate) struct AtomicWord(portable_atomic::AtomicU128);

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the bucket table needs a 128-bit compare-and-swap: x86-64 or AArch64");

#[cfg(not(loom))]
impl AtomicWord {
    /// Reads both halves.
    #[inline]
    pub fn load(&self) -> Word {
        #[cfg(target_arch = "x86_64")]
        if let Some(word) = super::wide::load(&self.0) {
            return word;
        }
        let both = self.0.load(SeqCst);
        Word {
            tag: (both >> 64) as u64,
            state: both as u64,
        }
    }

    /// Puts `new` in if the word is still `old`; tells whether it did.
    #[inline]
    pub fn replace(&self, old: Word, new: Word) -> bool {
        #[cfg(target_arch = "x86_64")]
        return super::wide::replace(&self.0, old, new);
        #[cfg(not(target_arch = "x86_64"))]
        return self
            .0
            .compare_exchange(old.join(), new.join(), SeqCst, SeqCst)
            .is_ok();
    }
}

/// Whether this processor changes 128 bits in one step, as processes that share a file need: a lock in one of them
/// would not do.
#[cfg(not(loom))]
pub(crate) fn supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::wide::supported();
    #[cfg(not(target_arch = "x86_64"))]
    return portable_atomic::AtomicU128::is_lock_free();
}

#[cfg(loom)]
pub(crate) fn supported() -> bool {
    true
}

impl Word {
    #[cfg(not(any(loom, target_arch = "x86_64")))]
    #[inline]
    fn join(self) -> u128 {
        u128::from(self.tag) << 64 | u128::from(self.state)
    }
}

/// Raises `cell` to `to` if it is below. Partner: every load of the same cell; the value only ever grows.
#[inline]
pub(crate) fn raise(cell: &AtomicU64, to: u64) {
    if cell.load(SeqCst) < to {
        cell.fetch_max(to, SeqCst);
    }
}

/// Reads a cell in the table's one order.
#[inline]
pub(crate) fn read(cell: &AtomicU64) -> u64 {
    cell.load(SeqCst)
}

/// Puts `new` into a cell if it still holds `old`; tells whether it did.
pub(crate) fn replace(cell: &AtomicU64, old: u64, new: u64) -> bool {
    cell.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
}

/// Adds one and tells the value before.
pub(crate) fn bump(cell: &AtomicU64) -> u64 {
    cell.fetch_add(1, SeqCst)
}

#[cfg(loom)]
pub(crate) use modelled::{AtomicU64, AtomicWord};

/// Loom knows neither 128-bit atomics nor the full strength of sequential consistency. So each access here first does
/// a read-modify-write on a loom atomic (loom's scheduling point, which orders accesses to this cell and lets it
/// prune what commutes) and then, with no other thread able to run before the next such point, touches the value.
#[cfg(loom)]
mod modelled {
    use super::Word;
    use std::sync::Mutex;
    use std::sync::atomic::Ordering;

    struct Stepped<T> {
        step: loom::sync::atomic::AtomicUsize,
        value: Mutex<T>,
    }

    impl<T: Copy> Stepped<T> {
        fn new(value: T) -> Self {
            Self {
                step: loom::sync::atomic::AtomicUsize::new(0),
                value: Mutex::new(value),
            }
        }

        fn access<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
            self.step.fetch_add(1, Ordering::AcqRel);
            act(&mut self.value.lock().expect("never held across a panic"))
        }
    }

    pub(crate) struct AtomicWord(Stepped<Word>);

    impl AtomicWord {
        pub fn zeroed() -> Self {
            Self(Stepped::new(Word { tag: 0, state: 0 }))
        }

        pub fn load(&self) -> Word {
            self.0.access(|word| *word)
        }

        pub fn replace(&self, old: Word, new: Word) -> bool {
            self.0.access(|word| {
                let same = *word == old;
                if same {
                    *word = new;
                }
                same
            })
        }
    }

    pub(crate) struct AtomicU64(Stepped<u64>);

    impl AtomicU64 {
        pub fn new(value: u64) -> Self {
            Self(Stepped::new(value))
        }

        pub fn load(&self, _: Ordering) -> u64 {
            self.0.access(|value| *value)
        }

        pub fn store(&self, to: u64, _: Ordering) {
            self.0.access(|value| *value = to);
        }

        pub fn fetch_max(&self, to: u64, _: Ordering) -> u64 {
            self.0
                .access(|value| std::mem::replace(value, to.max(*value)))
        }

        pub fn compare_exchange(
            &self,
            old: u64,
            new: u64,
            _: Ordering,
            _: Ordering,
        ) -> Result<u64, u64> {
            self.0.access(|value| {
                if *value == old {
                    *value = new;
                    Ok(old)
                } else {
                    Err(*value)
                }
            })
        }

        pub fn fetch_add(&self, by: u64, _: Ordering) -> u64 {
            self.0
                .access(|value| std::mem::replace(value, value.wrapping_add(by)))
        }
    }
}
