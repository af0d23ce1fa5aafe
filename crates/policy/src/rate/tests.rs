use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1000;
const DAY: u64 = 24 * 3600 * 1000;

fn rate(units: u64, ms: u64) -> Rate {
    Rate {
        units,
        window: Window::Millis(WindowMs::new(ms).expect("in range")),
    }
}

fn bucket(units: u64, ms: u64, burst: u64) -> Result<(), RateError> {
    check(rate(units, ms), Algorithm::TokenBucket { burst })
}

/// A7: 2^32 - 1 and 2^32 a second.
#[test]
fn envoys_widest_limit_fits_a_fixed_window_of_a_second() {
    assert_eq!(max_units_fixed(SECOND), u64::from(u32::MAX));
    assert_eq!(max_units_sliding(SECOND), u64::from(u32::MAX) / 2);
    for units in [6_000, 2_000_000_000, u64::from(u32::MAX)] {
        assert_eq!(check(rate(units, SECOND), Algorithm::FixedWindow), Ok(()));
    }
    let error = check(rate(1 << 32, SECOND), Algorithm::FixedWindow).unwrap_err();
    assert_eq!(
        error.to_string(),
        "4294967296 units per 1s are too many for fixed_window: at most 4294967295"
    );
}

/// A7: i64::MAX.
#[test]
fn a_quota_that_never_renews_takes_i64_max_in_fixed_windows_only() {
    let forever = |units| Rate {
        units,
        window: Window::Forever,
    };
    assert_eq!(
        check(forever(MAX_UNITS_FOREVER), Algorithm::FixedWindow),
        Ok(())
    );
    assert!(check(forever(MAX_UNITS_FOREVER + 1), Algorithm::FixedWindow).is_err());
    for algorithm in [
        Algorithm::SlidingWindow,
        Algorithm::TokenBucket { burst: 1 },
    ] {
        assert_eq!(
            check(forever(1), algorithm),
            Err(RateError::Endless {
                algorithm: algorithm.name()
            })
        );
    }
}

#[test]
fn a_token_bucket_refuses_rates_that_it_would_round() {
    assert_eq!(bucket(6_000, SECOND, 6_000), Ok(()));
    assert_eq!(bucket(2_000_000_000, SECOND, 2_000_000_000), Ok(()));
    let error = bucket(3_000_000_000, SECOND, 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a token bucket cannot refill at 3000000000 per 1s exactly enough: its nearest rates \
         are 2666666667 and 4000000000 per 1s; or use fixed_window"
    );
    assert!(bucket(u64::MAX, SECOND, 1).is_err());
}

#[test]
fn a_token_bucket_refuses_a_burst_of_zero_or_of_decades() {
    assert_eq!(bucket(1, DAY, 0), Err(RateError::ZeroBurst));
    assert_eq!(bucket(1, DAY, 20 * 366), Ok(()));
    let error = bucket(1, DAY, 20 * 366 + 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a burst of 7321 would take longer than 20 years to refill at 1 per 1d: at most 7320"
    );
    assert_eq!(bucket(1, DAY + 1, 73_199), Ok(()));
    assert!(bucket(1, DAY + 1, 73_200).is_err());
    assert!(bucket(1, LONGEST_WINDOW_MS, 2).is_ok());
    assert!(bucket(1, LONGEST_WINDOW_MS, 3).is_err());
}

proptest! {
    #[test]
    fn window_numbers_of_a_century_fit_their_bits(ms in SHORTEST_WINDOW_MS..=LONGEST_WINDOW_MS) {
        let bits = index_bits(ms);
        let last = LONGEST_WINDOW_MS.div_ceil(ms);
        prop_assert!(bits >= 2 && last >> bits == 0);
        prop_assert!(u128::from(max_units_fixed(ms)) == (1_u128 << (64 - bits)) - 1);
        prop_assert!(max_units_sliding(ms) == max_units_fixed(ms) / 2);
    }

    #[test]
    fn what_a_token_bucket_accepts_is_never_fast_and_at_most_a_thousandth_slow(
        units in 1..5_000_000_000_u64,
        ms in prop_oneof![Just(100), Just(1000), Just(DAY), SHORTEST_WINDOW_MS..=LONGEST_WINDOW_MS],
    ) {
        let Window::Millis(window) = rate(units, ms).window else { unreachable!() };
        let interval = interval_ticks(window, units);
        let length = u128::from(ms) * 1_000_000 * u128::from(ticks_per_nano(ms));
        let spent = u128::from(units) * u128::from(interval);
        prop_assert!(spent >= length, "faster than asked");
        match bucket(units, ms, 1) {
            Ok(()) => prop_assert!(spent * 999 <= length * 1000),
            Err(RateError::UnevenRefill { below, above, .. }) => {
                prop_assert!(below <= units && above.is_none_or(|above| above > units));
                prop_assert_eq!(bucket(below, ms, 1), Ok(()));
                if let Some(above) = above {
                    prop_assert_eq!(bucket(above, ms, 1), Ok(()));
                }
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}
