//! Makes a failing run small: faults and streams that it fails without are left out, again and again, until each that
//! is left is needed (delta debugging; Zeller and Hildebrandt, 2002).

use std::mem::discriminant;

use crate::fleet::{Failure, Outcome, Setup, run};

/// The smallest run found that fails in the same way, and how it fails.
#[must_use]
pub fn shrink(setup: &Setup, failure: &Failure) -> (Setup, Failure) {
    let mut best = (setup.clone(), failure.clone());
    let same = |setup: &Setup| match run(setup) {
        Outcome {
            failure: Some(found),
            ..
        } if discriminant(&found) == discriminant(failure) => Some(found),
        _ => None,
    };
    let mut size = best.0.plan.len().div_ceil(2).max(1);
    loop {
        let before = best.0.plan.len();
        let mut from = 0;
        while from < best.0.plan.len() {
            let mut fewer = best.0.clone();
            let until = (from + size).min(fewer.plan.len());
            fewer.plan.drain(from..until);
            match same(&fewer) {
                Some(found) => best = (fewer, found),
                None => from += size,
            }
        }
        if size == 1 && best.0.plan.len() == before {
            break;
        }
        size = (size / 2).max(1);
    }
    let mut at = 0;
    while at < best.0.streams.len() {
        let mut fewer = best.0.clone();
        fewer.streams.remove(at);
        match same(&fewer) {
            Some(found) => best = (fewer, found),
            None => at += 1,
        }
    }
    best
}
