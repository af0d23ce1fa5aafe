//! The checked policy: plain data that [`crate`]'s readers produce and the gate compiles.
//!
//! Every value here has passed its checks. Nothing in it says where it came from: our own file and
//! envoyproxy/ratelimit's both end here.

use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use crate::rate::{Rate, RateError};

/// Everything that the gate enforces, as one unit: it is installed whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// How request paths are read before rules see them.
    pub paths: PathReading,
    /// How the client's address is found.
    pub client_address: ClientAddressReading,
    /// Where the API key and the user of a request are found.
    pub identity: IdentityReading,
    /// The plans, by name.
    pub plans: BTreeMap<PlanName, Plan>,
    /// The plan of a subject that names none; rules with [`RuleLimits::Plan`] need it.
    pub default_plan: Option<PlanName>,
    /// Callers with a plan or with limits of their own.
    pub subjects: Vec<Subject>,
    /// The rules, in the order of the file. All that match apply.
    pub rules: Vec<Rule>,
    /// Rule trees read from envoyproxy/ratelimit files, one a domain.
    pub domains: Vec<DescriptorDomain>,
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a name that the reader has checked: 1 to 128 characters of `[A-Za-z0-9_.:/-]`, and of `*` in the names
            /// of descriptors' limits.
            #[must_use]
            pub fn new(checked: &str) -> Self {
                Self(checked.into())
            }

            /// The name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// A rule's name, unique in its policy. It is part of each of its limits' identity and a metric label.
    RuleName
);
name_type!(
    /// A plan's name.
    PlanName
);
name_type!(
    /// A limit's label in metrics and answers; by default its window (`1s`, `15m`, `forever`).
    LimitName
);

/// A set of limits that callers are given together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The limits for rules that say `limits: plan`.
    pub limits: Vec<Limit>,
    /// Limits that replace those of the named rules for callers on this plan.
    pub rules: BTreeMap<RuleName, Vec<Limit>>,
}

/// A caller that the policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Who it is.
    pub id: SubjectId,
    /// Its plan; the default plan if none.
    pub plan: Option<PlanName>,
    /// Limits that replace those of the named rules for this caller alone; they win over its plan's.
    pub rules: BTreeMap<RuleName, Vec<Limit>>,
}

/// How a subject is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SubjectId {
    /// The keyed hash of an API key: `v1.` and 64 hexadecimal digits (BLAKE3 keyed with the hash secret).
    ApiKeyHash(ApiKeyHash),
    /// A user's name, as the user source of [`IdentityReading`] gives it.
    User(Arc<str>),
}

/// The keyed hash of an API key. The only form in which keys are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApiKeyHash {
    /// The version of the hash secret.
    pub version: u32,
    /// BLAKE3, keyed.
    pub digest: [u8; 32],
}

impl std::fmt::Display for ApiKeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v{}.", self.version)?;
        self.digest
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Text is no API key hash: not `v`, a version from 1, a dot and 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an API key hash: `v1.` and 64 hexadecimal digits")]
pub struct NotAnApiKeyHash;

impl std::str::FromStr for ApiKeyHash {
    type Err = NotAnApiKeyHash;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (version, hex) = text
            .strip_prefix('v')
            .and_then(|rest| rest.split_once('.'))
            .ok_or(NotAnApiKeyHash)?;
        let begins_well = version.starts_with(|c: char| matches!(c, '1'..='9'));
        let version = version
            .parse()
            .ok()
            .filter(|_| begins_well)
            .ok_or(NotAnApiKeyHash)?;
        let mut digest = [0; 32];
        if hex.len() != 2 * digest.len() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(NotAnApiKeyHash);
        }
        for (index, byte) in digest.iter_mut().enumerate() {
            let pair = &hex[2 * index..2 * index + 2];
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NotAnApiKeyHash)?;
        }
        Ok(Self { version, digest })
    }
}

impl std::fmt::Debug for ApiKeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "v{}.{:02x}{:02x}..",
            self.version, self.digest[0], self.digest[1]
        )
    }
}

/// One rule: which requests, counted by what, under which limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub name: RuleName,
    /// Which requests it applies to.
    pub when: When,
    /// What its buckets are keyed by, in order; empty means one bucket for all.
    pub by: Vec<KeyPart>,
    /// What happens if a part of the key is absent from a request.
    pub on_absent: OnAbsent,
    /// Enforce or only count.
    pub mode: Mode,
    /// The limits.
    pub limits: RuleLimits,
}

/// Where a rule's limits come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleLimits {
    /// The same for each caller, unless its plan or its subject replaces them. At least one.
    Own(Vec<Limit>),
    /// Those of the caller's plan.
    Plan,
}

/// Conditions, all of which must hold. An empty list of a kind does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// Path patterns, any of which must match the normalised path.
    pub paths: Vec<PathPattern>,
    /// Methods, upper case, any of which must be the request's.
    pub methods: Vec<Arc<str>>,
    /// Host patterns, any of which must match: lower case, without port, `*.` in front for all subdomains.
    pub hosts: Vec<Arc<str>>,
    /// Header conditions, all of which must hold.
    pub headers: Vec<HeaderCondition>,
    /// The Envoy domain.
    pub domain: Option<Arc<str>>,
    /// Envoy descriptor entries, all of which must be present in the descriptor.
    pub descriptor: Vec<EntryCondition>,
    /// Client address ranges, any of which must hold the client's address.
    pub addresses: Vec<IpNet>,
}

/// A path pattern over `/`-separated segments: literal text, `{name}` for one segment, `*` within a segment for any
/// run of characters, and a last segment `**` (or `{*name}`) for any number of segments, none included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathPattern {
    /// As written, for messages.
    pub source: Arc<str>,
    /// Its segments, normalised as request paths are.
    pub segments: Vec<Segment>,
}

/// A part of a [`PathPattern`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// Exactly this text.
    Literal(Arc<str>),
    /// Any one segment, not empty.
    Any,
    /// One segment with `*` for runs of characters: the literal pieces between the stars, in order.
    Glob(Arc<[Arc<str>]>),
    /// All that remains, even nothing. Only last.
    Rest,
}

/// A condition on one header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderCondition {
    /// Lower case.
    pub name: Arc<str>,
    /// What its value must be.
    pub value: ValueCondition,
}

/// A condition on one descriptor entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryCondition {
    /// The entry's key.
    pub key: Arc<str>,
    /// What its value must be.
    pub value: ValueCondition,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueCondition {
    /// Present, whatever its value.
    Present,
    /// Not there at all.
    Absent,
    /// Exactly this.
    Is(Arc<str>),
    /// Begins with this.
    Prefix(Arc<str>),
}

/// One part of a bucket's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPart {
    /// Where its value comes from.
    pub source: KeySource,
    /// How its value is folded before it is hashed.
    pub normalize: Normalizer,
}

/// Where a part of a key comes from. A value that is empty, or given several times and not always the same, counts as
/// absent: which one the upstream would believe cannot be known, and a caller must not choose its bucket by it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// The API key.
    ApiKey,
    /// The user.
    User,
    /// The client's address, IPv6 cut to the prefix.
    ClientAddress,
    /// A header's value (lower-case name).
    Header(Arc<str>),
    /// A descriptor entry's value.
    Descriptor(Arc<str>),
    /// The normalised path.
    Path,
    /// The method.
    Method,
    /// The host, lower case, without port.
    Host,
}

/// How a value is folded before it is hashed. All off: the bytes as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Normalizer {
    /// Strip white space at both ends.
    pub trim: bool,
    /// Unicode lower case.
    pub lowercase: bool,
    /// Unicode normalisation form C.
    pub nfc: bool,
}

/// What a rule does with a request that lacks a part of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnAbsent {
    /// All such requests share one bucket under the rule's limits.
    #[default]
    Share,
    /// The rule does not apply.
    Skip,
    /// The request is refused.
    Deny,
}

/// Whether a rule refuses or only counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Over the limit is refused.
    #[default]
    Enforce,
    /// Over the limit is counted and admitted.
    Shadow,
}

/// How the nodes of a fleet share a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Not at all: each node admits the limit's units by itself.
    #[default]
    Local,
    /// Credit is leased to the nodes where requests come: together they never admit more than the limit.
    Lease,
    /// Each node has the same fixed share.
    Fixed,
}

/// One limit. Its identity is (rule, window, algorithm): a change of units keeps its counters. Whether it is counted at
/// a node or shared belongs to it as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its label.
    pub name: LimitName,
    /// How much.
    pub amount: Amount,
    /// Units that one hit costs; at least 1.
    pub cost: u32,
    /// What happens when its credit cannot be renewed.
    pub on_degraded: OnDegraded,
    /// How the nodes of a fleet share it; `None` is as the deployment says.
    pub sharing: Option<Sharing>,
    /// Whether answers to clients may show its figures.
    pub disclose: bool,
}

/// How much a limit admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// No bound.
    Unlimited,
    /// Nothing. Also what 0 units mean.
    Deny,
    /// A rate under an algorithm, checked together: see [`crate::rate`].
    Metered {
        /// Units per window.
        rate: Rate,
        /// How they are counted.
        algorithm: Algorithm,
    },
}

impl Amount {
    /// A rate under an algorithm; 0 units are [`Amount::Deny`].
    ///
    /// # Errors
    /// A [`RateError`] that names the bound, if the algorithm cannot count the rate exactly.
    pub const fn metered(rate: Rate, algorithm: Algorithm) -> Result<Self, RateError> {
        if rate.units == 0 {
            return Ok(Self::Deny);
        }
        match crate::rate::check(rate, algorithm) {
            Ok(()) => Ok(Self::Metered { rate, algorithm }),
            Err(error) => Err(error),
        }
    }
}

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Windows that start at the key's own phase. Up to twice the units can pass around a boundary.
    FixedWindow,
    /// The current window and a share of the one before, by the time that is left of it. Exact if the window before was
    /// used evenly; at worst, all of it used at its very end, close to twice the units can pass in a window's length.
    SlidingWindow,
    /// Token bucket as GCRA: refills evenly, holds up to `burst`.
    TokenBucket {
        /// Tokens that a full bucket holds; at least 1.
        burst: u64,
    },
}

impl Algorithm {
    /// Its name in policy files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindow => "sliding_window",
            Self::TokenBucket { .. } => "token_bucket",
        }
    }
}

/// What a limit does when its credit cannot be renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDegraded {
    /// Each node goes on with its fair share.
    #[default]
    FairShare,
    /// Admit, up to the backstop.
    FailOpen,
    /// Refuse with 503.
    FailClosed,
}

/// How request paths are read, as the upstream would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathReading {
    /// Whether `/Login` and `/login` are different paths.
    pub case_sensitive: bool,
    /// Whether `/login/` and `/login` are different paths.
    pub trailing_slash_significant: bool,
    /// Whether `//` is read as `/`.
    pub merge_slashes: bool,
    /// Whether `%2F` (and `%5C`) is read as a separator.
    pub decode_slashes: bool,
    /// Whether a segment ends at its first `;`, as servlet containers route.
    pub strip_parameters: bool,
}

impl Default for PathReading {
    fn default() -> Self {
        Self {
            case_sensitive: true,
            trailing_slash_significant: false,
            merge_slashes: true,
            decode_slashes: true,
            strip_parameters: false,
        }
    }
}

/// How the client's address is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAddressReading {
    /// Proxies whose forwarding headers are believed. Empty: the peer is the client.
    pub trusted: Vec<IpNet>,
    /// The header they write.
    pub header: ForwardingHeader,
    /// IPv6 addresses are cut to this many bits, 1 to 128.
    pub ipv6_prefix: u8,
    /// IPv4 addresses are cut to this many bits, 1 to 32.
    pub ipv4_prefix: u8,
}

impl Default for ClientAddressReading {
    fn default() -> Self {
        Self {
            trusted: Vec::new(),
            header: ForwardingHeader::XForwardedFor,
            ipv6_prefix: 64,
            ipv4_prefix: 32,
        }
    }
}

/// A header that carries addresses of hops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardingHeader {
    /// `X-Forwarded-For`: a list, the nearest hop last.
    XForwardedFor,
    /// `Forwarded` (RFC 7239), its `for` parameters.
    Forwarded,
    /// A header with one address, such as `X-Real-IP` or `CF-Connecting-IP`.
    Single(Arc<str>),
}

/// Where the API key and the user of a request are found. If several places hold values, they must be the same: a
/// caller that could choose between them could choose its bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityReading {
    /// The API key.
    pub api_key: Vec<IdentitySource>,
    /// The user.
    pub user: Vec<IdentitySource>,
}

impl Default for IdentityReading {
    fn default() -> Self {
        Self {
            api_key: vec![IdentitySource::Header("x-api-key".into())],
            user: vec![IdentitySource::Header("x-user-id".into())],
        }
    }
}

/// A place where a request carries who it is from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IdentitySource {
    /// A header's value (lower-case name).
    Header(Arc<str>),
    /// The token of `Authorization: Bearer`.
    Bearer,
    /// A descriptor entry's value.
    Descriptor(Arc<str>),
}

/// A tree of descriptors for one Envoy domain, as envoyproxy/ratelimit reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorDomain {
    /// The domain.
    pub name: Arc<str>,
    /// The top level.
    pub descriptors: Vec<DescriptorNode>,
}

/// One node of a descriptor tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorNode {
    /// The entry's key.
    pub key: Arc<str>,
    /// The entry's value.
    pub value: DescriptorValue,
    /// `share_threshold`: all values that this node matches by a wildcard count as one, its pattern.
    pub share_threshold: bool,
    /// The limit of a descriptor that ends here.
    pub limit: Option<DescriptorLimit>,
    /// Below it.
    pub descriptors: Vec<DescriptorNode>,
}

/// What a descriptor entry's value must be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DescriptorValue {
    /// Any, each value with a bucket of its own.
    Any,
    /// This. Each `*` in it stands for any run of characters, none included; each full value has a bucket of its own,
    /// unless `share_threshold` is set.
    Pattern(Arc<str>),
}

/// The limit at a node of a descriptor tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorLimit {
    /// The rule name under which it is counted and identified: the domain and the path of keys and values.
    pub rule: RuleName,
    /// The limit.
    pub limit: Limit,
    /// Enforce or only count.
    pub mode: Mode,
    /// `quota_mode`: a request is refused for its quota descriptors only once all of them are over their limits.
    pub quota_mode: bool,
    /// `rate_limit.name`, by which others replace it.
    pub replaced_as: Option<Arc<str>>,
    /// `rate_limit.replaces`: limits of these names do not apply to a request in which this one does.
    pub replaces: Vec<Arc<str>>,
}
