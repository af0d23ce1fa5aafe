//! The text of a scrape, made when it is asked for.
//!
//! It adds the shards up and hands the sums to the encoder; it changes no count.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use gate::table::TableStats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::FleetScrape;
use super::cells::{DURATION_BOUNDS_NS, LimitCounts};
use super::{Answer, ErrorKind, Surface, Telemetry};

/// The media type of a scrape.
pub const CONTENT_TYPE: &str = prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// The labels of limits beyond the bound, and of refusals by no limit. No rule can bear these names.
const OTHER: &str = "(other)";
const NONE: &str = "(none)";

pub(super) fn text(
    telemetry: &Telemetry,
    table: &TableStats,
    fleet: Option<FleetScrape>,
) -> String {
    let mut registry = Registry::default();
    if let Some(fleet) = fleet {
        registry.register_collector(Box::new(fleet));
    }
    registry.register_collector(Box::new(Figures::of(telemetry, table)));
    let mut text = String::with_capacity(16 * 1024);
    prometheus_client::encoding::prometheus_text::encode(&mut text, &registry)
        .expect("a String takes all that is written to it");
    text
}

#[derive(Debug)]
struct Durations {
    surface: Surface,
    /// Upper bounds in seconds and the counts between them; the encoder adds the one without bound.
    buckets: Vec<(f64, u64)>,
    count: u64,
    seconds: f64,
}

/// The sums at one scrape.
#[derive(Debug)]
struct Figures {
    answers: Vec<(Surface, Answer, u64)>,
    durations: Vec<Durations>,
    limits: Vec<(String, String, LimitCounts)>,
    blocked_without_limit: u64,
    errors: Vec<(ErrorKind, u64)>,
    table: TableStats,
    counts_lost: bool,
    lookups: u64,
    policy_refused: bool,
    reloads: [(&'static str, u64); 3],
    policy_version: String,
    policy_loaded_unix_ms: u64,
    started_unix_ms: u64,
    log_records_dropped: u64,
}

impl Figures {
    fn of(telemetry: &Telemetry, table: &TableStats) -> Self {
        let shards = &telemetry.shards;
        let names = telemetry
            .names
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // By labels, not by number: a limit whose algorithm has changed has another number and the same names, and a
        // scrape with a series twice is refused whole.
        let mut by_labels = BTreeMap::<_, LimitCounts>::new();
        for (number, labels) in names.iter() {
            let counts = by_labels.entry(labels).or_default();
            *counts = counts.and(shards.limit(number.0 as usize));
        }
        let mut limits: Vec<_> = by_labels
            .into_iter()
            .map(|((rule, limit), counts)| (rule.to_string(), limit.to_string(), counts))
            .collect();
        // Not learnt, or beyond the bound.
        let others = (0..=shards.shared_index())
            .filter(|index| {
                !u32::try_from(*index)
                    .is_ok_and(|n| names.contains_key(&gate::decision::LimitNumber(n)))
            })
            .map(|index| shards.limit(index))
            .fold(LimitCounts::default(), LimitCounts::and)
            .without_usage();
        if others != LimitCounts::default() {
            limits.push((OTHER.into(), OTHER.into(), others));
        }
        drop(names);
        let policy = &telemetry.policy;
        Self {
            answers: Surface::ALL
                .iter()
                .flat_map(|surface| Answer::ALL.iter().map(move |answer| (*surface, *answer)))
                .map(|(surface, answer)| (surface, answer, shards.answers(surface, answer)))
                .collect(),
            durations: Surface::ALL
                .iter()
                .map(|surface| {
                    let (counts, seconds) = shards.durations(*surface);
                    let bounds = DURATION_BOUNDS_NS.iter().map(|ns| *ns as f64 / 1e9);
                    Durations {
                        surface: *surface,
                        buckets: bounds.zip(counts).collect(),
                        count: counts.iter().sum(),
                        seconds,
                    }
                })
                .collect(),
            limits,
            blocked_without_limit: shards.blocked_without_limit(),
            errors: ErrorKind::ALL
                .iter()
                .map(|kind| (*kind, shards.errors(*kind)))
                .collect(),
            table: *table,
            counts_lost: telemetry.counts_lost.load(Relaxed),
            lookups: shards.lookups(),
            policy_refused: policy.refused.load(Relaxed),
            reloads: [
                ("applied", policy.applied.load(Relaxed)),
                ("unchanged", policy.unchanged.load(Relaxed)),
                ("refused", policy.refusals.load(Relaxed)),
            ],
            policy_version: policy
                .version
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            policy_loaded_unix_ms: policy.loaded_unix_ms.load(Relaxed),
            started_unix_ms: telemetry.started_unix_ms,
            log_records_dropped: telemetry.log_records_dropped.load(Relaxed),
        }
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = |name: &str, help: &str, kind: MetricType, write: &mut Write<'_>| {
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            write(&mut family)
        };
        // The encoder adds `_total` to counters, and a full stop to help texts.
        family(
            "throttle_requests",
            "Requests by surface and answer",
            MetricType::Counter,
            &mut |family| {
                for (surface, answer, count) in &self.answers {
                    let labels = [("surface", surface.label()), ("verdict", answer.label())];
                    counter(family, &labels, *count)?;
                }
                Ok(())
            },
        )?;
        family(
            "throttle_request_duration_seconds",
            "Time from a request's decoding to its answer",
            MetricType::Histogram,
            &mut |family| {
                for Durations {
                    surface,
                    buckets,
                    count,
                    seconds,
                } in &self.durations
                {
                    family
                        .encode_family(&[("surface", surface.label())])?
                        .encode_histogram::<NoLabelSet>(*seconds, *count, buckets, None)?;
                }
                Ok(())
            },
        )?;
        self.limits(&mut family)?;
        self.table(&mut family)?;
        self.policy(&mut family)?;
        family(
            "throttle_error",
            "Errors by kind",
            MetricType::Counter,
            &mut |family| {
                for (kind, count) in &self.errors {
                    counter(family, &[("kind", kind.label())], *count)?;
                }
                Ok(())
            },
        )?;
        family(
            "throttle_log_records_dropped",
            "Log records left out because of their rate",
            MetricType::Counter,
            &mut |family| plain_counter(family, self.log_records_dropped),
        )?;
        family(
            "throttle_start_time_seconds",
            "When the node started, in seconds since 1970",
            MetricType::Gauge,
            &mut |family| family.encode_gauge(&(self.started_unix_ms as f64 / 1000.0)),
        )?;
        family(
            "throttle_build",
            "The node's version",
            MetricType::Info,
            &mut |family| family.encode_info(&[("version", env!("CARGO_PKG_VERSION"))]),
        )
    }
}

type Write<'a> = dyn FnMut(&mut MetricEncoder<'_>) -> fmt::Result + 'a;
type Family<'a> = dyn FnMut(&str, &str, MetricType, &mut Write<'_>) -> fmt::Result + 'a;

impl Figures {
    fn limits(&self, family: &mut Family<'_>) -> fmt::Result {
        family(
            "throttle_requests_blocked",
            "Refused requests, each at the limit that holds out longest",
            MetricType::Counter,
            &mut |family| {
                for (rule, limit, counts) in &self.limits {
                    counter(family, &[("rule", rule), ("limit", limit)], counts.blocked)?;
                }
                counter(
                    family,
                    &[("rule", NONE), ("limit", NONE)],
                    self.blocked_without_limit,
                )
            },
        )?;
        family(
            "throttle_limit_admitted",
            "Requests that were admitted, at each limit that they met",
            MetricType::Counter,
            &mut |family| {
                for (rule, limit, counts) in &self.limits {
                    counter(family, &[("rule", rule), ("limit", limit)], counts.admitted)?;
                }
                Ok(())
            },
        )?;
        family(
            "throttle_limit_charged_units",
            "Units charged to each limit; what was given back later is not taken off",
            MetricType::Counter,
            &mut |family| {
                for (rule, limit, counts) in &self.limits {
                    let labels = [("rule", rule.as_str()), ("limit", limit.as_str())];
                    counter(family, &labels, counts.charged_units)?;
                }
                Ok(())
            },
        )?;
        family(
            "throttle_rate_limit_exceeded",
            "Requests for which a limit had no room, at each such limit; shadow ones refuse nothing",
            MetricType::Counter,
            &mut |family| {
                for (rule, limit, counts) in &self.limits {
                    let modes = [
                        ("enforce", counts.exceeded_enforced),
                        ("shadow", counts.exceeded_in_shadow),
                    ];
                    for (mode, count) in modes {
                        let labels = [
                            ("rule", rule.as_str()),
                            ("limit", limit.as_str()),
                            ("mode", mode),
                        ];
                        counter(family, &labels, count)?;
                    }
                }
                Ok(())
            },
        )?;
        family(
            "throttle_token_bucket_usage",
            "The used share, 0 to 1, of the bucket that a limit's latest decision met",
            MetricType::Gauge,
            &mut |family| {
                for (rule, limit, counts) in &self.limits {
                    if let Some(usage) = counts.usage() {
                        family
                            .encode_family(&[("rule", rule), ("limit", limit)])?
                            .encode_gauge(&usage)?;
                    }
                }
                Ok(())
            },
        )
    }

    fn table(&self, family: &mut Family<'_>) -> fmt::Result {
        let table = &self.table;
        let counters = [
            (
                "throttle_cache_hit",
                "Look-ups of buckets to be charged that found them in the table",
                // The two are read one after the other, a claim perhaps between them.
                self.lookups.saturating_sub(table.claimed),
            ),
            (
                "throttle_cache_miss",
                "Look-ups of buckets to be charged that put them into the table",
                table.claimed,
            ),
            (
                "throttle_table_reclaimed",
                "Slots taken over from buckets that were over",
                table.reclaimed,
            ),
            (
                "throttle_table_overflow",
                "Takes counted coarsely because the table was full of live buckets",
                table.overflow_takes,
            ),
            (
                "throttle_table_no_room",
                "Takes refused because the table had no room at all",
                table.no_room,
            ),
            (
                "throttle_table_damaged",
                "States found that no charge can have written",
                table.damaged,
            ),
        ];
        for (name, help, count) in counters {
            family(name, help, MetricType::Counter, &mut |family| {
                plain_counter(family, count)
            })?;
        }
        let gauges = [
            (
                "throttle_active_keys_count",
                "Buckets in use, estimated",
                table.live_estimate,
            ),
            (
                "throttle_table_slots",
                "Slots for buckets in all",
                table.slots,
            ),
            ("throttle_table_bytes", "Bytes of the table", table.bytes),
            (
                "throttle_table_counts_lost",
                "1 if the table's file was found damaged when the node started, and begun anew",
                u64::from(self.counts_lost),
            ),
        ];
        for (name, help, count) in gauges {
            family(name, help, MetricType::Gauge, &mut |family| {
                family.encode_gauge(&count)
            })?;
        }
        Ok(())
    }

    fn policy(&self, family: &mut Family<'_>) -> fmt::Result {
        family(
            "throttle_policy_reload_failed",
            "1 while the policy file on disk is refused and an older policy is in force",
            MetricType::Gauge,
            &mut |family| family.encode_gauge(&u64::from(self.policy_refused)),
        )?;
        family(
            "throttle_policy_reloads",
            "Policy files read, by what became of them",
            MetricType::Counter,
            &mut |family| {
                for (outcome, count) in &self.reloads {
                    counter(family, &[("outcome", *outcome)], *count)?;
                }
                Ok(())
            },
        )?;
        family(
            "throttle_policy_loaded_timestamp_seconds",
            "When the policy in force was put in force, in seconds since 1970",
            MetricType::Gauge,
            &mut |family| family.encode_gauge(&(self.policy_loaded_unix_ms as f64 / 1000.0)),
        )?;
        family(
            "throttle_policy",
            "The policy in force",
            MetricType::Info,
            &mut |family| family.encode_info(&[("version", self.policy_version.as_str())]),
        )
    }
}

fn counter<const N: usize, V>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, V); N],
    count: u64,
) -> fmt::Result
where
    V: prometheus_client::encoding::EncodeLabelValue + Clone,
{
    let labels: [(&str, V); N] = labels.clone();
    plain_counter(&mut family.encode_family(&labels)?, count)
}

fn plain_counter(family: &mut MetricEncoder<'_>, count: u64) -> fmt::Result {
    family.encode_counter::<NoLabelSet, u64, u64>(&count, None)
}
