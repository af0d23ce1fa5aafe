//! `ShouldRateLimit` over real connections.

mod statuses;
mod told;

use std::collections::BTreeMap;
use std::time::Duration;

use gate::table::TableStats;
use leasehold_node::config;
use leasehold_node::log::{AccessLog, Form};
use leasehold_node::render::Options;
use leasehold_node::rls::{Fields, Rls};
use leasehold_node::serve::Core;
use policy::envoy::{File, read_files};
use policy::model::{
    DescriptorDomain, DescriptorLimit, DescriptorNode, DescriptorValue, KeyPart, KeySource, Mode,
    Normalizer, OnAbsent, OnDegraded, PathPattern, Policy, RuleLimits, RuleName, Segment,
};
use proptest::prelude::*;
use tonic::Status;
use tonic::transport::Channel;
use wire::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use wire::envoy::r#type::v3::RateLimitUnit;
use wire::rls::rate_limit_descriptor::{Entry, RateLimitOverride};
use wire::rls::rate_limit_service_client::RateLimitServiceClient;
use wire::rls::{Code, DescriptorStatus, Overrides, RateLimitRequest, RateLimitResponse, Unit};

use crate::fixture::{Fixture, START, core, limit, policy, rule};
use crate::log::logged;

pub const RLS: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// A descriptor of these entries.
pub fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry {
        key: (*key).into(),
        value: (*value).into(),
    };
    RateLimitDescriptor {
        entries: entries.iter().map(entry).collect(),
        ..RateLimitDescriptor::default()
    }
}

/// A request with one descriptor for each value of the entry `user`.
pub fn request(users: &[&str]) -> RateLimitRequest {
    RateLimitRequest {
        domain: "api".into(),
        descriptors: users
            .iter()
            .map(|user| descriptor(&[("user", user)]))
            .collect(),
        hits_addend: 0,
    }
}

/// Asks for these users.
pub async fn ask(channel: Channel, users: &[&str]) -> Result<RateLimitResponse, Status> {
    send(channel, request(users)).await
}

/// Sends a request.
pub async fn send(
    channel: Channel,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let mut client = RateLimitServiceClient::new(channel);
    client
        .should_rate_limit(request)
        .await
        .map(tonic::Response::into_inner)
}

/// 2 per minute for each user.
fn two_per_minute() -> Policy {
    policy(vec![rule("per-user", "user", vec![limit(2, 60_000)])])
}

fn fields(response: &RateLimitResponse) -> BTreeMap<&str, &str> {
    let headers = &response.response_headers_to_add;
    assert!(
        headers.iter().all(|header| header.raw_value.is_empty()),
        "Envoy ignores raw_value"
    );
    let fields: BTreeMap<&str, &str> = headers
        .iter()
        .map(|header| (&*header.key, &*header.value))
        .collect();
    assert_eq!(fields.len(), headers.len(), "no field twice: {headers:?}");
    fields
}

/// The overall code, and each status as (code, remaining, seconds until the reset).
fn figures(response: &RateLimitResponse) -> (Code, Vec<(Code, u32, Option<i64>)>) {
    let status = |status: &DescriptorStatus| {
        let reset = status
            .duration_until_reset
            .inspect(|reset| assert_eq!(reset.nanos, 0));
        (
            status.code(),
            status.limit_remaining,
            reset.map(|reset| reset.seconds),
        )
    };
    (
        response.overall_code(),
        response.statuses.iter().map(status).collect(),
    )
}
