//! What a node has promised an owner (S8): the window starts for which it will not give itself credit unasked.
//!
//! Forgetting a promise is safe, as more is held back then; remembering one that was not made is not.

use crate::message::Pledge;
use crate::time::Wall;

/// The most separate spans that are kept: a promise mostly continues the one before.
const MOST_SPANS: usize = 8;

/// The union of promises, in order, as spans that do not touch.
#[derive(Debug, Default)]
pub(crate) struct Pledges {
    spans: Vec<Pledge>,
}

impl Pledges {
    pub fn add(&mut self, pledge: Pledge) {
        if pledge.from >= pledge.until {
            return;
        }
        let mut merged = pledge;
        self.spans.retain(|span| {
            let touches = span.from <= merged.until && merged.from <= span.until;
            if touches {
                merged.from = merged.from.min(span.from);
                merged.until = merged.until.max(span.until);
            }
            !touches
        });
        let place = self.spans.partition_point(|span| span.from < merged.from);
        self.spans.insert(place, merged);
        if self.spans.len() > MOST_SPANS {
            self.spans.remove(0);
        }
    }

    /// Whether one promise covers every start from `first` to `last`.
    pub fn covers_all(&self, first: Wall, last: Wall) -> bool {
        self.spans
            .iter()
            .any(|span| span.from <= first && last < span.until)
    }

    pub fn covers(&self, start: Wall) -> bool {
        self.spans
            .iter()
            .any(|span| span.from <= start && start < span.until)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_start_is_covered_if_one_of_the_promises_covers_it(
            promises in proptest::collection::vec((0_u64..60, 0_u64..12), 0..8), start in 0_u64..80,
        ) {
            let mut pledges = Pledges::default();
            for (from, length) in &promises {
                pledges.add(Pledge { from: Wall(*from), until: Wall(from + length) });
            }
            let expected = promises.iter().any(|(from, length)| (*from..from + length).contains(&start));
            prop_assert_eq!(pledges.covers(Wall(start)), expected);
        }
    }
}
