//! The region as loom sees it: the same slots, on the heap.

use super::header::Header;
use super::slot::Slot;

/// What a table of so many slots would take.
pub(crate) fn bytes(slots: u64) -> Option<usize> {
    usize::try_from(slots * 64 + 4096).ok()
}

pub(crate) struct Region {
    header: Header,
    slots: Box<[Slot]>,
}

impl Region {
    pub fn anonymous(slots: u64) -> std::io::Result<Self> {
        let slots = (0..slots).map(|_| Slot::zeroed()).collect();
        Ok(Self {
            header: Header::zeroed(),
            slots,
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    pub fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    pub fn prefetch(&self, _: usize) {}
}
