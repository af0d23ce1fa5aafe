//! The JSON Schema of the policy file, for editors and for other tools.
//!
//! These types are the file's shape and nothing else: no value of them is ever made. The readers
//! beside this module are what decides; tests hold the two against each other.

#![allow(dead_code, reason = "these types exist for their schema")]

mod text;

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, json_schema};

use self::text::{
    ApiKeyHashText, HeaderName, HostText, MethodText, Name, PathText, RangeText, RateText, Text,
    WindowText,
};

/// The JSON Schema (draft 7, which editors know best) of the policy file.
#[must_use]
pub fn json_schema() -> serde_json::Value {
    let settings = SchemaSettings::draft07().with_transform(NeverNull);
    settings
        .into_generator()
        .into_root_schema_for::<File>()
        .to_value()
}

/// Optional fields may be left out, but not be null.
#[derive(Clone, Debug)]
struct NeverNull;

impl Transform for NeverNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if let Some(serde_json::Value::Array(types)) = schema.get_mut("type") {
            types.retain(|kind| kind != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                schema.insert("type".into(), only);
            }
        }
        let Some(serde_json::Value::Array(choices)) = schema.get_mut("anyOf") else {
            return;
        };
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [only] = choices.as_slice()
            && let Some(only) = only.as_object().cloned()
        {
            schema.remove("anyOf");
            if schema.get("description").is_some() {
                schema.insert("allOf".into(), vec![serde_json::Value::Object(only)].into());
            } else {
                for (name, value) in only {
                    schema.insert(name, value);
                }
            }
        }
    }
}

/// Who is limited, by what, and to how much. See docs/policy.md.
#[derive(JsonSchema)]
#[schemars(title = "Leasehold policy", deny_unknown_fields, rename = "Policy")]
struct File {
    /// The version of this format.
    version: Version,
    /// How request paths are read before rules see them.
    paths: Option<Paths>,
    /// How the client's address is found.
    client_address: Option<ClientAddress>,
    /// Where a request's API key and user are found.
    identity: Option<Identity>,
    /// The plans, by name: sets of limits that callers are given together.
    #[schemars(extend("minProperties" = 1))]
    plans: Option<BTreeMap<String, Plan>>,
    /// The plan of callers that name none. Rules with `limits: plan` need it.
    default_plan: Option<Name>,
    /// Callers with a plan or with limits of their own.
    #[schemars(length(min = 1))]
    subjects: Option<Vec<Subject>>,
    /// The rules. All that match a request apply to it.
    #[schemars(length(min = 1, max = 10_000))]
    rules: Vec<Rule>,
}

struct Version;

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        json_schema!({ "const": super::VERSION })
    }
}

/// One value or a list of values.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
enum OneOrList<T> {
    One(T),
    List(#[schemars(length(min = 1))] Vec<T>),
}

/// How request paths are read. Set these to what your upstream does, so that aliases of a path do
/// not evade a rule.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Paths {
    /// Whether `/Login` and `/login` are different paths. Default: true.
    case_sensitive: Option<bool>,
    /// Whether `/login/` and `/login` are different paths. Default: ignore.
    trailing_slash: Option<TrailingSlash>,
    /// Whether `//` is read as `/`. Default: true.
    merge_slashes: Option<bool>,
    /// Whether `%2F`, `\` and `%5C` are read as `/`. Default: true.
    decode_slashes: Option<bool>,
    /// Whether a segment ends at its first `;`, as servlet containers route. Default: false.
    strip_parameters: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
enum TrailingSlash {
    /// `/login/` and `/login` are one path.
    Ignore,
    /// They are two.
    Significant,
}

/// How the client's address is found.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ClientAddress {
    /// Proxies whose forwarding headers are believed. Default: none; the peer is the client.
    trusted: Option<OneOrList<RangeText>>,
    /// The header that they write: `x-forwarded-for`, `forwarded`, or one with a single address
    /// such as `cf-connecting-ip`. Default: x-forwarded-for.
    header: Option<HeaderName>,
    /// IPv6 addresses are cut to this many bits. Default: 64.
    #[schemars(range(min = 1, max = 128))]
    ipv6_prefix: Option<u8>,
    /// IPv4 addresses are cut to this many bits. Default: 32.
    #[schemars(range(min = 1, max = 32))]
    ipv4_prefix: Option<u8>,
}

/// Where a request's API key and user are found. The first place that holds one counts.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Identity {
    /// Default: the header x-api-key.
    api_key: Option<OneOrList<IdentitySource>>,
    /// Default: the header x-user-id.
    user: Option<OneOrList<IdentitySource>>,
}

/// A place where a request carries who it is from.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum IdentitySource {
    /// The token of `Authorization: Bearer`.
    Bearer,
    /// A header's value.
    Header(HeaderName),
    /// An Envoy descriptor entry's value.
    Descriptor(Text),
}

/// A set of limits that callers are given together.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Plan {
    /// The limits for rules that say `limits: plan`.
    limits: Option<LimitList>,
    /// Limits that replace those of the named rules.
    #[schemars(extend("minProperties" = 1))]
    rules: Option<BTreeMap<String, LimitList>>,
}

/// A caller with a plan or with limits of its own. One of `api_key_hash` and `user` names it.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Subject {
    /// The keyed hash of its API key.
    api_key_hash: Option<ApiKeyHashText>,
    /// Its user name.
    user: Option<Text>,
    /// Its plan. Default: the policy's `default_plan`.
    plan: Option<Name>,
    /// Limits that replace those of the named rules, and those of its plan.
    #[schemars(extend("minProperties" = 1))]
    rules: Option<BTreeMap<String, LimitList>>,
}

/// Which requests, counted by what, under which limits.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Rule {
    /// Unique in the policy. Counters and metrics are kept by it.
    name: Name,
    /// Which requests. Default: all.
    when: Option<When>,
    /// What has a bucket of its own; `everyone` for one bucket in all.
    by: By,
    /// What happens to a request that lacks a part of `by`. Default: share.
    on_absent: Option<OnAbsent>,
    /// Whether the rule refuses, or only counts. Default: enforce.
    mode: Option<Mode>,
    /// The limits, or `plan` for those of the caller's plan.
    limits: RuleLimits,
}

/// Conditions, all of which must hold. A list holds if any of its items does.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("minProperties" = 1))]
struct When {
    /// The path.
    path: Option<OneOrList<PathText>>,
    /// The method.
    method: Option<OneOrList<MethodText>>,
    /// The host.
    host: Option<OneOrList<HostText>>,
    /// The client's address.
    address: Option<OneOrList<RangeText>>,
    /// Headers and what their values must be.
    #[schemars(extend("minProperties" = 1))]
    headers: Option<BTreeMap<String, Value>>,
    /// The domain of an Envoy filter.
    domain: Option<Text>,
    /// Envoy descriptor entries and what their values must be.
    #[schemars(extend("minProperties" = 1))]
    descriptor: Option<BTreeMap<String, Value>>,
}

/// What a value must be.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum Value {
    /// Exactly this.
    Exact(Text),
    /// A condition.
    Condition(ValueCondition),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, extend("minProperties" = 1, "maxProperties" = 1))]
struct ValueCondition {
    /// Exactly this.
    is: Option<Text>,
    /// Begins with this.
    prefix: Option<Text>,
    /// Whether it must be there at all.
    present: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum By {
    Everyone(Everyone),
    Parts(OneOrList<KeyPart>),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum Everyone {
    /// One bucket for all requests.
    Everyone,
}

/// A part of what has a bucket of its own.
#[derive(JsonSchema)]
#[schemars(untagged)]
enum KeyPart {
    Source(KeySource),
    Detailed(DetailedKeyPart),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum KeySource {
    /// The API key.
    ApiKey,
    /// The user.
    User,
    /// The client's address.
    Address,
    /// The path, as `paths` says to read it.
    Path,
    /// The method.
    Method,
    /// The host, without port.
    Host,
}

/// One of `header`, `descriptor` and `source`, and how its value is folded.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DetailedKeyPart {
    /// A header's value.
    header: Option<HeaderName>,
    /// An Envoy descriptor entry's value.
    descriptor: Option<Text>,
    /// Another part of the request.
    source: Option<KeySource>,
    /// How the value is folded before it is hashed. Default: not at all.
    normalize: Option<OneOrList<Fold>>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum Fold {
    /// Strip white space at both ends.
    Trim,
    /// Unicode lower case.
    Lowercase,
    /// Unicode normalization form C.
    Nfc,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
enum OnAbsent {
    /// All such requests share one bucket.
    Share,
    /// The rule does not apply.
    Skip,
    /// The request is refused.
    Deny,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
enum Mode {
    /// Over the limit is refused.
    Enforce,
    /// Over the limit is counted and admitted.
    Shadow,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
enum RuleLimits {
    Plan(ByPlan),
    Own(LimitList),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
enum ByPlan {
    /// The limits of the caller's plan.
    Plan,
}

/// Limits, all of which must have room.
#[derive(JsonSchema)]
struct LimitList(#[schemars(length(min = 1, max = 16))] Vec<LimitForm>);

/// A limit.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "Limit")]
enum LimitForm {
    Rate(RateText),
    Detailed(DetailedLimit),
}

/// A limit in detail: `rate`, or `units` and `window`, and how they are counted.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct DetailedLimit {
    /// Units per window.
    rate: Option<RateText>,
    /// Units; 0 denies all.
    #[schemars(range(max = 9_223_372_036_854_775_807_u64))]
    units: Option<u64>,
    /// The window.
    window: Option<WindowText>,
    /// How units are counted. Default: fixed_window.
    algorithm: Option<AlgorithmName>,
    /// Tokens that a full bucket holds; token_bucket only. Default: the units.
    #[schemars(range(min = 1))]
    burst: Option<u64>,
    /// Units that one hit costs. Default: 1.
    #[schemars(range(min = 1))]
    cost: Option<u32>,
    /// What happens when the limit's credit cannot be renewed. Default: fair_share.
    on_degraded: Option<OnDegraded>,
    /// How the nodes of a fleet share the limit. Default: as the node is configured.
    sharing: Option<Sharing>,
    /// Whether answers to clients may show this limit's figures. Default: false.
    disclose: Option<bool>,
    /// Its label in metrics and answers. Default: its window.
    name: Option<Name>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
enum AlgorithmName {
    /// Windows that begin at the key's own phase. Up to twice the units can pass around the end of one.
    FixedWindow,
    /// The current window and a share of the one before.
    SlidingWindow,
    /// A bucket that refills evenly and holds up to `burst`.
    TokenBucket,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
enum OnDegraded {
    /// Each node goes on with its fair share.
    FairShare,
    /// Admit.
    FailOpen,
    /// Refuse with 503.
    FailClosed,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", inline)]
enum Sharing {
    /// Not at all: each node admits the limit's units by itself.
    Local,
    /// Credit is leased to the nodes where requests come.
    Lease,
    /// Each node has the same fixed share.
    Fixed,
}
