//! Reads limits: how much, counted how, and what is told of it.
//!
//! A limit that cannot be counted exactly as written is refused; none is ever widened.

use crate::fault::{FaultKind, Faults, Quoted, Read, Reported};
use crate::fields::{Fields, Place};
use crate::file::names::read_name;
use crate::model::{Algorithm, Amount, Limit, LimitName, OnDegraded, Sharing};
use crate::rate::text::{self, RateTextError, Written};
use crate::rate::{Rate, RateError, Window};
use crate::yaml::Content;

/// The most limits in one list.
pub const MAX_LIMITS: usize = 16;

/// The fields of a limit.
pub const LIMIT: [&str; 10] = [
    "rate",
    "units",
    "window",
    "algorithm",
    "burst",
    "cost",
    "on_degraded",
    "sharing",
    "disclose",
    "name",
];

const LIMIT_WANTED: &str = "a rate such as `100/s`, or a mapping such as \
                            `{rate: 100/s, algorithm: token_bucket}`";

/// What is asked for a list of limits.
pub const LIMITS_WANTED: &str = "a list of limits such as `[100/s, 5000/day]`";

/// How a limit counts if its file does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counting {
    Fixed,
    Sliding,
    Bucket,
}

const ALGORITHMS: [(&str, Counting); 3] = [
    ("fixed_window", Counting::Fixed),
    ("sliding_window", Counting::Sliding),
    ("token_bucket", Counting::Bucket),
];

const ON_DEGRADED: [(&str, OnDegraded); 3] = [
    ("fair_share", OnDegraded::FairShare),
    ("fail_open", OnDegraded::FailOpen),
    ("fail_closed", OnDegraded::FailClosed),
];

const SHARING: [(&str, Sharing); 3] = [
    ("local", Sharing::Local),
    ("lease", Sharing::Lease),
    ("fixed", Sharing::Fixed),
];

/// Reads a list of limits, in which no two may share a name or a counter.
pub fn read_limits(faults: &mut Faults, place: Place<'_>) -> Read<Vec<Limit>> {
    let limits = place.list(faults, MAX_LIMITS, LIMITS_WANTED, read_limit)?;
    for (index, limit) in limits.iter().enumerate() {
        for (other, earlier) in limits[..index].iter().enumerate() {
            check_apart(faults, place, index, limit, other, earlier)?;
        }
    }
    let unbounded = limits.iter().any(|limit| limit.amount == Amount::Unlimited);
    if unbounded && limits.len() > 1 {
        let problem = "has `unlimited` beside other limits";
        let help = "leave out either `unlimited` or the others".to_owned();
        return Err(place.fault(faults, FaultKind::Conflict, problem, help));
    }
    Ok(limits)
}

fn check_apart(
    faults: &mut Faults,
    list: Place<'_>,
    index: usize,
    limit: &Limit,
    other: usize,
    earlier: &Limit,
) -> Read<()> {
    let shares_counter = counter(limit).is_some() && counter(limit) == counter(earlier);
    let (problem, help) = if shares_counter {
        let problem = format!(
            "has the window and the algorithm of item [{other}], so that both would share a counter"
        );
        (
            problem,
            "keep one of the two, or change its window or algorithm".to_owned(),
        )
    } else if limit.name == earlier.name {
        let problem = format!("has the name of item [{other}], `{}`", limit.name);
        (problem, "give one of the two another `name`".to_owned())
    } else {
        return Ok(());
    };
    Err(list.fault_of_item(faults, index, FaultKind::Conflict, problem, help))
}

/// What a limit's counter is identified by within its rule.
const fn counter(limit: &Limit) -> Option<(Window, &'static str)> {
    match limit.amount {
        Amount::Metered { rate, algorithm } => Some((rate.window, algorithm.name())),
        Amount::Unlimited | Amount::Deny => None,
    }
}

fn read_limit(faults: &mut Faults, place: Place<'_>) -> Read<Limit> {
    if let Content::Scalar { .. } = place.node.content {
        let written = read_rate(faults, place)?;
        let amount = metered(faults, place, None, written, Counting::Fixed, None)?;
        return Ok(Limit {
            name: default_name(amount),
            amount,
            cost: 1,
            on_degraded: OnDegraded::default(),
            sharing: None,
            disclose: false,
        });
    }
    let fields = Fields::open(faults, place, &LIMIT)?;
    let amount = read_amount(faults, place, &fields);
    let cost = fields.optional(faults, "cost", |faults, place| {
        place.number(faults, 1, u32::MAX.into())
    });
    let on_degraded = fields.optional(faults, "on_degraded", |faults, place| {
        place.word(faults, &ON_DEGRADED)
    });
    let sharing = fields.optional(faults, "sharing", |faults, place| {
        place.word(faults, &SHARING)
    });
    let disclose = fields.optional(faults, "disclose", |faults, place| place.truth(faults));
    let name = fields.optional(faults, "name", |faults, place| {
        read_name(faults, place, "a name for the limit").map(LimitName::new)
    });
    let amount = amount?;
    let cost = check_cost(faults, &fields, amount, cost?)?;
    let sharing = check_sharing(faults, &fields, amount, sharing?)?;
    Ok(Limit {
        name: name?.unwrap_or_else(|| default_name(amount)),
        amount,
        cost,
        on_degraded: on_degraded?.unwrap_or_default(),
        sharing,
        disclose: disclose?.unwrap_or(false),
    })
}

/// A quota that never renews has no windows to lease credit for.
fn check_sharing(
    faults: &mut Faults,
    fields: &Fields<'_>,
    amount: Amount,
    sharing: Option<Sharing>,
) -> Read<Option<Sharing>> {
    match (amount, sharing) {
        (Amount::Metered { rate, .. }, Some(Sharing::Lease | Sharing::Fixed))
            if rate.window == Window::Forever =>
        {
            let problem = "shares a quota that never renews";
            let help =
                "write `local`, and give each node its part; or give the limit a window".to_owned();
            Err(fields.fault_of(faults, "sharing", FaultKind::Conflict, problem, help))
        }
        (_, sharing) => Ok(sharing),
    }
}

fn default_name(amount: Amount) -> LimitName {
    match amount {
        Amount::Unlimited => LimitName::new("unlimited"),
        Amount::Deny => LimitName::new("deny"),
        Amount::Metered { rate, .. } => LimitName::new(&rate.window.to_string()),
    }
}

fn read_amount(faults: &mut Faults, place: Place<'_>, fields: &Fields<'_>) -> Read<Amount> {
    let algorithm = fields.optional(faults, "algorithm", |faults, place| {
        place.word(faults, &ALGORITHMS)
    });
    let burst = fields.optional(faults, "burst", |faults, place| {
        place.number(faults, 0, u64::MAX)
    });
    let written = read_written(faults, fields);
    let (algorithm, burst, written) = (algorithm?, burst?, written?);
    let counting = algorithm.unwrap_or(Counting::Fixed);
    if burst == Some(0) {
        let (kind, problem) = (FaultKind::OutOfRange, RateError::ZeroBurst.to_string());
        return Err(fields.fault_of(faults, "burst", kind, problem, None));
    }
    if burst.is_some() && counting != Counting::Bucket {
        let problem = "has a meaning for token_bucket only";
        let help = if algorithm.is_some() {
            "leave it out, or write `algorithm: token_bucket`"
        } else {
            "write `algorithm: token_bucket` beside it, or leave it out"
        };
        let (kind, help) = (FaultKind::Conflict, help.to_owned());
        return Err(fields.fault_of(faults, "burst", kind, problem, help));
    }
    if written == Written::Unlimited && algorithm.is_some() {
        let problem = "has an algorithm, but `unlimited` counts nothing";
        let help = "leave the algorithm out".to_owned();
        return Err(fields.fault(faults, FaultKind::Conflict, problem, help));
    }
    metered(faults, place, Some(fields), written, counting, burst)
}

/// The rate: either `rate`, or `units` and `window`.
fn read_written(faults: &mut Faults, fields: &Fields<'_>) -> Read<Written> {
    let apart = fields.has("units") || fields.has("window");
    if fields.has("rate") && apart {
        let problem = "has both `rate` and `units` or `window`";
        let help = "write one: `rate: 100/s`, or `units: 100` and `window: s`".to_owned();
        return Err(fields.fault(faults, FaultKind::Conflict, problem, help));
    }
    if !apart {
        return fields.required(faults, "rate", "100/s", read_rate);
    }
    let units = fields.required(faults, "units", "100", |faults, place| {
        place.number(faults, 0, crate::rate::MAX_UNITS_FOREVER)
    });
    let window = fields.required(faults, "window", "15m", |faults, place| {
        let text = place.text(faults, "a window such as `s`, `15m`, `2 days` or `forever`")?;
        text::parse_window(text).map_err(|error| rate_fault(faults, place, text, &error))
    });
    let (units, window) = (units?, window?);
    Ok(if units == 0 {
        Written::Deny
    } else {
        Written::Per(Rate { units, window })
    })
}

fn read_rate(faults: &mut Faults, place: Place<'_>) -> Read<Written> {
    let text = place.text(faults, LIMIT_WANTED)?;
    text::parse(text).map_err(|error| rate_fault(faults, place, text, &error))
}

fn rate_fault(
    faults: &mut Faults,
    place: Place<'_>,
    text: &str,
    error: &RateTextError,
) -> Reported {
    let (kind, problem) = match error {
        RateTextError::Window(error) => (FaultKind::OutOfRange, error.to_string()),
        RateTextError::UnitsTooMany => (FaultKind::OutOfRange, format!("{} {error}", Quoted(text))),
        RateTextError::NotARate | RateTextError::NotWhole | RateTextError::NotAWindow => {
            (FaultKind::Malformed, format!("{} {error}", Quoted(text)))
        }
    };
    let help = if text == "plan" {
        "write `limits: plan`, without brackets, for the limits of the caller's plan"
    } else {
        error.help()
    };
    place.fault(faults, kind, problem, help.to_owned())
}

/// Checks a rate under its algorithm; names the field that a bound speaks of.
fn metered(
    faults: &mut Faults,
    place: Place<'_>,
    fields: Option<&Fields<'_>>,
    written: Written,
    counting: Counting,
    burst: Option<u64>,
) -> Read<Amount> {
    let rate = match written {
        Written::Unlimited => return Ok(Amount::Unlimited),
        Written::Deny => return Ok(Amount::Deny),
        Written::Per(rate) => rate,
    };
    let algorithm = match counting {
        Counting::Fixed => Algorithm::FixedWindow,
        Counting::Sliding => Algorithm::SlidingWindow,
        Counting::Bucket => Algorithm::TokenBucket {
            burst: burst.unwrap_or(rate.units),
        },
    };
    Amount::metered(rate, algorithm).map_err(|error| {
        let names: &[&str] = match error {
            RateError::ZeroBurst | RateError::BurstTooLarge { .. } => &["burst"],
            RateError::Endless { .. } => &["window", "rate"],
            RateError::WindowTooShort { .. } | RateError::WindowTooLong { .. } => {
                &["window", "rate"]
            }
            RateError::TooManyUnits { .. } | RateError::UnevenRefill { .. } => &["units", "rate"],
        };
        let problem = error.to_string();
        let field = fields.and_then(|fields| {
            names
                .iter()
                .find(|name| fields.has(name))
                .map(|name| (fields, *name))
        });
        match field {
            Some((fields, name)) => {
                fields.fault_of(faults, name, FaultKind::OutOfRange, problem, None)
            }
            None => place.fault(faults, FaultKind::OutOfRange, problem, None),
        }
    })
}

/// A hit that costs more than the limit ever holds would never pass.
fn check_cost(
    faults: &mut Faults,
    fields: &Fields<'_>,
    amount: Amount,
    cost: Option<u64>,
) -> Read<u32> {
    let cost = cost.unwrap_or(1);
    let most = match amount {
        Amount::Unlimited | Amount::Deny => u64::MAX,
        Amount::Metered {
            algorithm: Algorithm::TokenBucket { burst },
            ..
        } => burst,
        Amount::Metered { rate, .. } => rate.units,
    };
    match u32::try_from(cost) {
        Ok(fits) if cost <= most => Ok(fits),
        Ok(_) | Err(_) => {
            let problem =
                format!("one hit costs {cost}, but the limit holds {most}: none would ever pass");
            let help = "lower the cost, raise the limit, or write `deny`".to_owned();
            Err(fields.fault_of(faults, "cost", FaultKind::OutOfRange, problem, help))
        }
    }
}
