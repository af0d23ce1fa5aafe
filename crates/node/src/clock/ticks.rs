//! The monotonic clock told by the processor's counter: a third of the time that asking the kernel's takes, and the
//! processor need not wait for what it does at the moment.
//!
//! Each thread draws a line through what the two said together, tells the time by the line for [`SPAN`] ticks, and then
//! draws the next. It must never tell a thread less than it told that thread before: a line begins no lower than the one
//! before it ended, and if that is ahead of the kernel's clock, is drawn flatter until it meets it. And it must only be
//! used where the kernel itself tells the time by this counter ([`trusted`]).
//!
//! How far it is from the kernel's clock: ordinarily well below a microsecond. While the kernel changes its own clock's
//! rate (by 10% at most, in practice 0.05%), that part of a span, which is some milliseconds.

use std::cell::Cell;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use gate::counter;

use super::Reading;

/// How long a line is used: 2 to 17 ms on processors whose counter runs at 4 GHz to 500 MHz.
const SPAN: u64 = 1 << 23;

/// The most ticks between two readings of the counter for a reading of the kernel's clock between them to count: if
/// there were more, something came in between.
const MOST_APART: u64 = 1 << 12;

/// How often to try for that.
const TRIES: usize = 4;

/// Nanoseconds per 2^32 ticks of a counter that is used: one that runs at 16 GHz to 500 MHz. A line over a slower one would
/// last too long while the kernel changes its rate.
const RATES: std::ops::Range<u64> = 1 << 28..1 << 33;

/// Rates differ from line to line by at most one part in so many; else they are measured anew.
const STEADY: u64 = 1000;

/// After so many rates that were not steady, in all threads together, the counter is not asked any more.
const MOST_DOUBTS: u32 = 1000;

/// Only ever counts up; it guards nothing, so Relaxed throughout.
static DOUBTS: AtomicU32 = AtomicU32::new(0);

/// What the counter and the kernel's clock said at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    ticks: u64,
    ns: u64,
}

/// A thread's present line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    /// What was read where the line begins.
    from: Pair,
    /// What is told there: nothing below it may be told any more.
    told_ns: u64,
    /// Nanoseconds per 2^32 ticks by which the time is told.
    slope: u64,
    /// The same as measured, without what brings the line back to the kernel's clock. 0 while it is not known.
    rate: u64,
    /// The ticks that the line is good for; 0 while the rate is not known.
    span: u64,
}

impl Line {
    const NONE: Self = Self::measuring(Pair { ticks: 0, ns: 0 }, 0);

    /// No line yet: it needs a second pair.
    const fn measuring(from: Pair, told_ns: u64) -> Self {
        Self {
            from,
            told_ns,
            slope: 0,
            rate: 0,
            span: 0,
        }
    }

    /// The time at `ticks`, if the line reaches so far.
    #[inline]
    fn at(&self, ticks: u64) -> Option<u64> {
        let elapsed = ticks.wrapping_sub(self.from.ticks);
        (elapsed < self.span).then(|| self.after(elapsed))
    }

    /// `elapsed` is at most [`SPAN`] and a slope below 2^33, so the product fits.
    #[inline]
    fn after(&self, elapsed: u64) -> u64 {
        self.told_ns + ((elapsed * self.slope) >> 32)
    }

    /// The line from `pair` on, this one being at its end.
    fn next(self, pair: Pair) -> Self {
        if self.from.ns == 0 {
            return Self::measuring(pair, self.told_ns);
        }
        let ticks = pair.ticks.wrapping_sub(self.from.ticks);
        if ticks < SPAN {
            // Too short to measure by.
            return self;
        }
        let told_ns = pair.ns.max(self.after(self.span));
        let measured = u128::from(pair.ns.saturating_sub(self.from.ns)) << 32;
        let rate = (measured / u128::from(ticks)) as u64;
        let ahead = (u128::from(told_ns - pair.ns) << 32) / u128::from(SPAN);
        let steady = self.rate == 0 || rate.abs_diff(self.rate) <= self.rate / STEADY;
        if !steady || !RATES.contains(&rate) || ahead > u128::from(rate / 2) {
            DOUBTS.fetch_add(1, Ordering::Relaxed);
            return Self::measuring(pair, told_ns);
        }
        Self {
            from: pair,
            told_ns,
            slope: rate - ahead as u64,
            rate,
            span: SPAN,
        }
    }

    /// The time by the kernel's clock, for which there is no line. Nothing below it will be told.
    fn without(&mut self, monotonic: Reading) -> Reading {
        let told_ns = self.after(self.span).max(monotonic.0);
        *self = Self::measuring(self.from, told_ns);
        Reading(told_ns)
    }
}

thread_local! {
    static LINE: Cell<Line> = const { Cell::new(Line::NONE) };
}

/// The time on the kernel's monotonic clock, never less than this thread was told before.
#[inline]
#[allow(clippy::disallowed_methods)] // This is the node's clock.
pub(super) fn now() -> Reading {
    LINE.with(|line| match line.get().at(counter::read()) {
        Some(ns) => Reading(ns),
        None => draw(line),
    })
}

/// Draws the next line, or tells what the kernel's clock says.
#[cold]
fn draw(cell: &Cell<Line>) -> Reading {
    let mut line = cell.get();
    let trusted = DOUBTS.load(Ordering::Relaxed) < MOST_DOUBTS;
    let pair = trusted.then(|| (0..TRIES).find_map(|_| pair())).flatten();
    let told = pair.and_then(|pair| {
        line = line.next(pair);
        line.at(pair.ticks)
    });
    let told = match told {
        Some(ns) => Reading(ns),
        None => line.without(Reading::take()),
    };
    cell.set(line);
    told
}

/// Asks both.
#[allow(clippy::disallowed_methods)] // As above.
fn pair() -> Option<Pair> {
    let before = counter::read();
    let Reading(ns) = Reading::take();
    let apart = counter::read().wrapping_sub(before);
    (apart < MOST_APART).then(|| Pair {
        ticks: before.wrapping_add(apart / 2),
        ns,
    })
}

/// Whether the kernel tells the time by this counter: then it has seen that it runs evenly, at rest too, and alike on
/// all cores.
pub(super) fn trusted() -> bool {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    *TRUSTED.get_or_init(|| {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        counter::PRESENT && fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel's clock that runs at `rate` parts in a million against a counter of 3 GHz, from where it stood before.
    fn on(from: Pair, ticks: u64, rate: u64) -> Pair {
        Pair {
            ticks: from.ticks.wrapping_add(ticks),
            ns: from.ns + ticks * rate / 3_000_000,
        }
    }

    const START: Pair = Pair {
        ticks: 77_000_000_000,
        ns: 5_000_000_000,
    };

    /// Reads every `step` ticks while the kernel's clock runs at each of `rates` for a second in turn. Gives the
    /// greatest distance from it.
    fn farthest(mhz: u64, step: u64, rates: &[u64]) -> u64 {
        let (mut line, mut at, mut latest, mut farthest) = (Line::NONE, START, 0, 0);
        for rate in rates {
            let end = at.ticks + mhz * 1_000_000;
            while at.ticks < end {
                // `on` is of a counter of 3 GHz.
                let rate = rate * 3_000 / mhz;
                at = on(at, step, rate);
                let told = line.at(at.ticks).unwrap_or_else(|| {
                    line = line.next(at);
                    let told = line.at(at.ticks);
                    told.unwrap_or_else(|| line.without(Reading(at.ns)).0)
                });
                assert!(told >= latest, "{told} after {latest}");
                latest = told;
                farthest = farthest.max(told.abs_diff(at.ns));
            }
        }
        farthest
    }

    #[test]
    fn the_line_stays_with_the_kernels_clock_and_never_goes_back() {
        for mhz in [3_000, 1_000, 600] {
            for step in [300_000, 1_234_567, SPAN, 50_000_000] {
                let farthest = |rates| farthest(mhz, step, rates);
                let slower = 3_000 / mhz;
                let even = farthest(&[1_000_000; 3]);
                assert!(even <= 10, "{even} ns, {mhz} MHz, {step}");
                let wobbling = farthest(&[1_000_000, 1_000_400, 999_600, 1_000_000]);
                assert!(
                    wobbling <= slower * 3_000,
                    "{wobbling} ns, {mhz} MHz, {step}"
                );
                let turned = farthest(&[1_000_000, 1_100_000, 900_000, 1_000_000]);
                assert!(turned <= slower * 600_000, "{turned} ns, {mhz} MHz, {step}");
            }
        }
    }

    #[test]
    fn a_line_needs_two_pairs_a_span_apart() {
        let line = Line::NONE.next(START);
        assert_eq!(line, Line::measuring(START, 0));
        assert_eq!(line.next(on(START, SPAN - 1, 1_000_000)), line);
        let end = on(START, SPAN, 1_000_000);
        let line = line.next(end);
        assert_eq!(line.at(end.ticks), Some(end.ns));
        assert_eq!(line.at(end.ticks + SPAN), None);
        assert_eq!(line.at(end.ticks - 1), None);
    }

    /// A counter that starts anew, stands still, or runs at a rate that none has.
    #[test]
    fn a_counter_that_does_what_none_should_is_not_followed() {
        let second = on(START, SPAN, 1_000_000);
        let line = Line::NONE.next(START).next(second);
        let end_ns = line.after(SPAN);
        for ticks in [0, second.ticks + SPAN * 100, u64::MAX] {
            let pair = Pair {
                ticks,
                ns: second.ns + 3_000_000,
            };
            let next = line.next(pair);
            assert_eq!(next, Line::measuring(pair, pair.ns.max(end_ns)));
        }
        let still = Pair {
            ns: second.ns + 1_000_000_000,
            ..second
        };
        assert_eq!(line.next(still), line);
    }

    #[test]
    fn threads_are_told_the_kernels_time() {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let (start, mut latest) = (Reading::take().0, 0);
                    // Several spans, so that lines are drawn and followed.
                    while latest < start + 50_000_000 {
                        let before = Reading::take().0;
                        let Reading(told) = now();
                        let after = Reading::take().0;
                        assert!(told >= latest, "{told} after {latest}");
                        // What the kernel's own rate may change by within a span.
                        let most = 1_000_000;
                        assert!(told + most > before && told < after + most);
                        latest = told;
                    }
                });
            }
        });
    }
}
