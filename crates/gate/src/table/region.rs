//! The table's memory: a header and slots, anonymous or in a shared file.
//!
//! This module alone turns bytes into references. It must never hand out a reference beyond the mapping, nor one to
//! anything but atomics: other processes write the same bytes.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

use super::header::{HEADER_BYTES, Header};
use super::slot::Slot;

/// A mapping of a header and `slots` slots.
pub(crate) struct Region {
    base: NonNull<u8>,
    slots: usize,
    /// Held open for its shared lock, which tells others that the file is in use.
    _file: Option<File>,
}

// SAFETY: the mapping is owned by this value and lives as long as it; all that can be reached through it are atomics,
// which any thread may use.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Bytes of a table of so many slots; `None` if they cannot be addressed.
pub(crate) fn bytes(slots: u64) -> Option<usize> {
    let bytes = slots
        .checked_mul(size_of::<Slot>() as u64)?
        .checked_add(HEADER_BYTES as u64)?;
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| isize::try_from(*bytes).is_ok())
}

impl Region {
    /// Fresh memory, all zero.
    pub fn anonymous(slots: u64) -> io::Result<Self> {
        let len = bytes(slots).ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice: it overlaps nothing of ours.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: exactly the mapping just made; the advice changes no content. Fewer TLB misses, if the kernel can;
        // if not, the table works all the same.
        let _ = unsafe { madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(Self {
            base,
            slots: slots as usize,
            _file: None,
        })
    }

    /// A file's bytes, shared with all who map it. The caller has seen that the file is as long as `slots` need.
    pub fn mapped(file: File, slots: u64) -> io::Result<Self> {
        let len = bytes(slots).ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice. What others write into the file is only ever
        // read through atomics, for which every bit pattern is a value.
        let base = unsafe { mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0)? };
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            base,
            slots: slots as usize,
            _file: Some(file),
        })
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping begins with HEADER_BYTES, is page-aligned as the header wants, and consists of atomics;
        // it lives as long as `self`.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// A slot.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn slot(&self, index: usize) -> &Slot {
        assert!(index < self.slots, "a slot beyond the table");
        // SAFETY: index < slots, and the mapping has HEADER_BYTES and `slots` slots of 64 bytes each; the offset is a
        // multiple of 64 from a page boundary, so aligned; a slot consists of atomics; the mapping outlives `&self`.
        unsafe {
            self.base
                .add(HEADER_BYTES)
                .cast::<Slot>()
                .add(index)
                .as_ref()
        }
    }

    /// Asks the processor to fetch a slot; a hint.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let slot: *const Slot = self.slot(index);
            // SAFETY: the address is of a live slot, and a prefetch reads nothing that could be observed.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(slot.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let len = bytes(self.slots as u64).expect("it was mapped with this length");
        // SAFETY: the whole mapping, made by this value; no reference outlives `self`. Failure would leak, no more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), len) };
    }
}
