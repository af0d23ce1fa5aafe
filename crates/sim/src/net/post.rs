//! Messages under way, by place. Places are used again, so a long run needs no more of them than are under way at once.

use bytes::Bytes;

/// One copy of one message.
#[derive(Debug, Default)]
pub(crate) struct Letter {
    /// The machine that sent it: what a transport proves about it.
    pub(crate) from: u16,
    /// The machine that it goes to.
    pub(crate) to: u16,
    /// What it says.
    pub(crate) bytes: Bytes,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Post {
    letters: Vec<Letter>,
    free: Vec<u32>,
}

impl Post {
    pub(crate) fn put(&mut self, letter: Letter) -> u32 {
        if let Some(place) = self.free.pop() {
            self.letters[place as usize] = letter;
            place
        } else {
            self.letters.push(letter);
            (self.letters.len() - 1) as u32
        }
    }

    /// The machine that the letter at a place goes to.
    pub(crate) fn to(&self, place: u32) -> u16 {
        self.letters[place as usize].to
    }

    /// The letter at a place, which is free from now on.
    pub(crate) fn take(&mut self, place: u32) -> Letter {
        self.free.push(place);
        std::mem::take(&mut self.letters[place as usize])
    }
}
