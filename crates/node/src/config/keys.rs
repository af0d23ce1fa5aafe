//! The keys of the configuration: all there are, what each means, and how it is set and shown.
//!
//! This table alone knows the keys. The loader, `--print-config` and the reference in `docs/configuration.md` all work
//! from it, so none of them can forget one.

use super::Config;
use super::setting::{Bounds, Raw, Setting};

/// One key.
pub struct Key {
    /// Its name, with its section.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// The numbers it may have, if it is one.
    pub bounds: Bounds,
    /// Whether its value, if wrong, may be a secret written in the wrong place.
    pub secret: bool,
    /// Sets it.
    pub set: fn(&mut Config, &Raw, Bounds) -> Result<(), String>,
    /// Shows it as the file would have it.
    pub show: fn(&Config) -> String,
}

macro_rules! key {
    ($name:literal, $($field:ident).+, $doc:literal) => {
        key!($name, $($field).+, in Bounds::NONE, $doc)
    };
    ($name:literal, $($field:ident).+, in $bounds:expr, $doc:literal) => {
        Key {
            name: $name,
            doc: $doc,
            bounds: $bounds,
            secret: false,
            set: |config, raw, bounds| {
                config.$($field).+ = Setting::read(raw, bounds)?;
                Ok(())
            },
            show: |config| config.$($field).+.show(),
        }
    };
}

const fn within(least: u64, most: u64) -> Bounds {
    Bounds { least, most }
}

const HOUR_MS: u64 = 3_600_000;
const GIB: u64 = 1 << 30;

/// All keys, section by section.
pub const KEYS: &[Key] = &[
    Key {
        secret: true,
        ..key!(
            "secret",
            secret,
            "Where the secret is that keys are hashed with: `file:PATH`, `env:VARIABLE`, or `generate`. It is 64 \
             hexadecimal digits, with `vN.` in front if it is not version 1. `generate` makes one at random: with \
             `table.path` it is kept beside the table in a file `<table.path>.secret` with mode 0600, otherwise it \
             lasts as long as the process. Nodes that share buckets or API key hashes need the same one."
        )
    },
    key!(
        "http.listen",
        http.listen,
        "Where the HTTP surface (`/v1/check`, health) listens: an IP address and a port, or `off`. Port 0 takes a \
         free port; the log line `listening` tells it."
    ),
    key!(
        "http.max_connections",
        http.max_connections,
        in within(1, 1_000_000),
        "The most HTTP connections at once. Further \
         ones wait to be accepted."
    ),
    key!(
        "http.max_body_bytes",
        http.max_body_bytes,
        in within(0, GIB),
        "The largest request body. A larger one is answered \
         with 413."
    ),
    key!(
        "http.max_header_bytes",
        http.max_header_bytes,
        in within(8192, 16_777_216),
        "The largest request head. A larger one \
         is answered with 431."
    ),
    key!(
        "http.max_headers",
        http.max_headers,
        in within(16, 10_000),
        "The most header fields of an HTTP/1 request. More are \
         answered with 431."
    ),
    key!(
        "http.header_timeout_ms",
        http.header_timeout,
        in within(100, HOUR_MS),
        "How long a client may take to send a \
         request's head, and how long a connection may stay idle between requests."
    ),
    key!(
        "http.body_timeout_ms",
        http.body_timeout,
        in within(100, HOUR_MS),
        "How long a client may then take to send the request's body. A slower one is answered with 408."
    ),
    key!(
        "grpc.listen",
        grpc.listen,
        "Where the gRPC surface (Envoy's rate limit service, health, reflection) listens: an IP address and a port, \
         or `off`."
    ),
    key!(
        "grpc.max_connections",
        grpc.max_connections,
        in within(1, 1_000_000),
        "The most gRPC connections at once. Further \
         ones wait to be accepted."
    ),
    key!(
        "grpc.max_message_bytes",
        grpc.max_message_bytes,
        in within(1024, GIB),
        "The largest request message. A larger one is answered with the gRPC status OUT_OF_RANGE, which nobody takes \
         for a refusal; but Envoy admits on an error unless `failure_mode_deny` is set, so keep this well above what \
         its descriptors can hold."
    ),
    key!(
        "grpc.max_streams",
        grpc.max_streams,
        in within(1, 1_000_000),
        "The most calls at once on one connection."
    ),
    key!(
        "grpc.max_reset_streams",
        grpc.max_reset_streams,
        in within(20, 1_000_000),
        "The most calls that a client may have cancelled before the node looked at them. With more, the connection is \
         closed as an attack. Envoy cancels a call at its time-out, so a stall cancels many at once."
    ),
    key!(
        "grpc.keepalive_interval_ms",
        grpc.keepalive_interval,
        in within(0, HOUR_MS),
        "After how long a silent connection is \
         pinged, to find dead peers. 0: never."
    ),
    key!(
        "grpc.keepalive_timeout_ms",
        grpc.keepalive_timeout,
        in within(100, HOUR_MS),
        "How long a ping may go unanswered \
         before the connection is closed."
    ),
    key!(
        "grpc.reflection",
        grpc.reflection,
        "Whether gRPC reflection (v1 and v1alpha) is served, as `grpcurl` needs."
    ),
    key!(
        "grpc.accept_overrides",
        grpc.accept_overrides,
        "Whether a limit that a descriptor brings along (Envoy's rate limit override) is taken in place of the one that \
         an envoyproxy/ratelimit policy has for it. Off: it is not looked at. Leasehold's own rules never take it."
    ),
    key!(
        "grpc.fields",
        grpc.fields,
        "Which response fields Envoy is told to add: `all` of `answer.dialect`; `beside-envoys`, all but \
         `X-RateLimit-Limit`, `-Remaining` and `-Reset`, which Envoy makes itself with \
         `enable_x_ratelimit_headers`; or `none`."
    ),
    key!(
        "admin.listen",
        admin.listen,
        "Where the operators' surface (`/metrics`, health) listens: an IP address and a port, or `off`. Keep it off \
         public networks."
    ),
    key!(
        "policy.path",
        policy.path,
        "The policy file, or a directory of envoyproxy/ratelimit files. Empty: the built-in sample policy."
    ),
    key!(
        "policy.format",
        policy.format,
        "How the policy is written: `leasehold`, `envoy` (envoyproxy/ratelimit's YAML), or `auto`: a directory, or a \
         file with `domain` at its top, is `envoy`, all else `leasehold`. A running node stays with what it began with."
    ),
    key!(
        "policy.watch",
        policy.watch,
        "Whether the policy is read again when it changes. SIGHUP reads it again in \
         any case."
    ),
    key!(
        "table.live_buckets",
        table.live_buckets,
        in within(1, 1_000_000_000),
        "How many buckets (keys times limits) the table is made for. Its memory is fixed by this. With more live \
         buckets, counts become coarser, never looser."
    ),
    key!(
        "table.path",
        table.path,
        "The file that the table is mapped from, so that counts survive a restart of the process. Put it on a memory \
         file system such as `/dev/shm` or `/run`. Empty: anonymous memory, and a restart forgets all counts."
    ),
    key!(
        "table.on_damage",
        table.on_damage,
        "What happens at the start if the file of `table.path` is cut off, or holds what no table writes: `start-anew` \
         keeps a copy of it at `<table.path>.damaged` and forgets all counts, so every key has its whole quota again; \
         `refuse` does not start. A file that is no table, or that another process is using, is refused in any case."
    ),
    key!(
        "answer.dialect",
        answer.dialect,
        "Which response fields tell of limits: `draft-11` (`RateLimit`, `RateLimit-Policy` and plain \
         `X-RateLimit-*`), `draft-03` (`X-RateLimit-*` as Envoy sends them), `github` (reset as an epoch), or `none`."
    ),
    key!(
        "answer.body",
        answer.body,
        "The body of a refusal: `problem` (`application/problem+json`, RFC 9457) or `error-object` \
         (`{\"error\":{...}}`)."
    ),
    key!(
        "answer.sub_second",
        answer.sub_second,
        "What `Retry-After` says of less than a second: `zero-with-ms` (0, and `X-RateLimit-Reset-Ms`) or `one`."
    ),
    key!(
        "answer.allow_origins",
        answer.allow_origins,
        "Origins (`scheme://host[:port]`) whose scripts may read refusals, or `*` alone for all. In the environment \
         and on the command line, separated by commas."
    ),
    key!(
        "answer.allow_credentials",
        answer.allow_credentials,
        "Whether those origins may send credentials."
    ),
    key!(
        "drain.grace_ms",
        drain.grace,
        in within(0, HOUR_MS),
        "After SIGTERM: for how long the node says that it goes (`/ready` 503, gRPC health NOT_SERVING) and still \
         takes new requests, so that balancers can turn away first."
    ),
    key!(
        "drain.timeout_ms",
        drain.timeout,
        in within(0, HOUR_MS),
        "For how long the node then waits for calls under way before it cuts them off."
    ),
    key!(
        "log.format",
        log.format,
        "What log lines look like: `json`, `text`, or `auto`: text on a terminal, \
         otherwise JSON."
    ),
    key!(
        "log.level",
        log.level,
        "What is logged: `error`, `warn`, `info`, `debug` or `trace`, or `target=level` \
         directives separated by commas."
    ),
    key!(
        "log.access",
        log.access,
        "Which requests are logged: `off`, `refused` or `all`; at most 100 a second, further ones are counted in \
         `throttle_log_records_dropped_total`."
    ),
    key!(
        "log.access_one_in",
        log.access_one_in,
        in within(1, 1_000_000_000),
        "Of the requests that `log.access` selects, one \
         in so many is logged."
    ),
    key!(
        "fleet.cluster",
        fleet.cluster,
        "The fleet's name, the same at all its nodes: 1 to 63 of `a-z`, `0-9`, `-`, `_` and `.`, the first a letter or \
         a digit. Nodes of another cluster are refused. Empty: none."
    ),
    key!(
        "fleet.node",
        fleet.node,
        "This node's name, of the same form, the same after every restart. A node whose data was lost takes a new one. \
         Empty: none."
    ),
    key!(
        "fleet.members",
        fleet.members,
        "All members, the same list at all of them, this node in it: `[{ name = \"node-1\", address = \
         \"10.0.0.1:7400\" }, ...]`, the address where the others reach it. In the environment and on the command \
         line: `node-1=10.0.0.1:7400,...`. Without an address, members are reached by way of NATS alone. Or `view`: the \
         fleet keeps the list itself, in JetStream, and nodes join and leave it."
    ),
    key!(
        "fleet.data_dir",
        fleet.data_dir,
        "A directory of this node's own, on a disk that outlives it: how often it was started, how far its clock has \
         got, and the ledger of its durable limits. Needed with `fleet.members`. Empty: none."
    ),
    key!(
        "fleet.leave_on_stop",
        fleet.leave_on_stop,
        "With `fleet.members` `view`: whether a node that is told to stop leaves the list, which takes up to 15 s. Set it \
         to `false` for a restart that changes no list; who is not back then counts as dead when its lease ends."
    ),
    key!(
        "fleet.first_start",
        fleet.first_start,
        "Says that this fleet has never run before, so that windows which began before its start may be served. Only \
         counts while `fleet.data_dir` is empty. Never set it for a node whose data was lost."
    ),
    key!(
        "fleet.sharing",
        fleet.sharing,
        "How members share limits that do not say: `lease`, `fixed` or `local`."
    ),
    key!(
        "fleet.degraded_after_ms",
        fleet.degraded_after,
        in within(200, HOUR_MS),
        "After so long without an owner of limits its limits are enforced as their `on_degraded` says, and responses say \
         `X-RateLimit-Degraded: true`."
    ),
    key!(
        "fleet.backstop_multiple",
        fleet.backstop_multiple,
        in within(1, 1000),
        "Under `on_degraded: fail_open`, a node that has lost a limit's owner admits so many times the limit by itself."
    ),
    key!(
        "peers.listen",
        peers.listen,
        "Where other members connect to: an IP address and a port, or `off`, and then there is no mesh."
    ),
    key!(
        "peers.insecure",
        peers.insecure,
        "Whether peers speak in plain text and are believed to be who they say. Only on loopback addresses, for trying \
         things out: whoever can connect can forge credit."
    ),
    key!(
        "peers.connect_timeout_ms",
        peers.connect_timeout,
        in within(10, 60_000),
        "How long a connection to or from a peer may take to be made, with its handshake."
    ),
    key!(
        "peers.keepalive_interval_ms",
        peers.keepalive_interval,
        in within(100, HOUR_MS),
        "After how long a silent connection to or from a peer is pinged."
    ),
    key!(
        "peers.keepalive_timeout_ms",
        peers.keepalive_timeout,
        in within(100, HOUR_MS),
        "How long a ping may go unanswered before the connection is closed and made anew."
    ),
    key!(
        "peers.backoff_least_ms",
        peers.backoff_least,
        in within(1, 60_000),
        "How long to wait before connecting again after the first failure. It doubles with each, and each wait is cut \
         at random by up to a half."
    ),
    key!(
        "peers.backoff_most_ms",
        peers.backoff_most,
        in within(1, HOUR_MS),
        "The longest such wait."
    ),
    key!(
        "peers.queue_frames",
        peers.queue_frames,
        in within(1, 1_000_000),
        "The most messages that wait to be sent to one member, and that wait to be read from one. When there are more, \
         the oldest go."
    ),
    key!(
        "peers.queue_bytes",
        peers.queue_bytes,
        in within(1_048_576, GIB),
        "The most bytes of those messages, for each member and each way."
    ),
    key!(
        "peers.tls.ca",
        peers.tls.ca,
        "The PEM file with the authorities that peers' certificates must come from."
    ),
    key!(
        "peers.tls.cert",
        peers.tls.cert,
        "The PEM file with this node's certificate, then those between it and the authority. It must have the subject \
         alternative name `URI:leasehold://CLUSTER/NODE`, and serve for both ends of a connection."
    ),
    key!(
        "peers.tls.key",
        peers.tls.key,
        "The PEM file with the certificate's private key."
    ),
    key!(
        "peers.tls.look_every_ms",
        peers.tls.look_every,
        in within(100, HOUR_MS),
        "How often the three files are looked at. New ones are put in force together, without a restart; if peers would \
         refuse them, the old ones stay, with a log line and a count."
    ),
    key!(
        "nats.servers",
        nats.servers,
        "NATS servers, `nats://HOST:PORT`, of one cluster. One of them is taken, and others of the cluster are learned. \
         Empty: NATS is not used. What the servers must do is in `docs/nats.md`."
    ),
    key!(
        "nats.user",
        nats.user,
        "The user that this node is at NATS. Each node needs one of its own, whose permissions let it speak as itself \
         alone."
    ),
    key!(
        "nats.password_file",
        nats.password_file,
        "The file with the user's password, and nothing else."
    ),
    key!(
        "nats.token_file",
        nats.token_file,
        "The file with a token, for servers that know no users. Then nodes are not kept from speaking as each other."
    ),
    key!(
        "nats.nkey_file",
        nats.nkey_file,
        "The file with the seed of this node's nkey (`SU...`)."
    ),
    key!(
        "nats.credentials_file",
        nats.credentials_file,
        "This node's credentials file (`.creds`: a JWT and its seed)."
    ),
    key!(
        "nats.plaintext",
        nats.plaintext,
        "Whether the connection is not encrypted. Then whoever is on the way can forge credit."
    ),
    key!(
        "nats.replicas",
        nats.replicas,
        in within(1, 5),
        "How many servers keep the ledger of durable limits and the list of members, when this node makes them."
    ),
    key!(
        "nats.tls.ca",
        nats.tls.ca,
        "The PEM file with the authorities that a server's certificate must come from. Empty: the system's."
    ),
    key!(
        "nats.tls.cert",
        nats.tls.cert,
        "The PEM file with this node's certificate, for servers that ask for one. Read again for each connection."
    ),
    key!(
        "nats.tls.key",
        nats.tls.key,
        "The PEM file with the certificate's private key."
    ),
];

/// Whether a name is that of a section.
#[must_use]
pub fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| {
        key.name
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.'))
    })
}

/// The key that somebody may have meant, if one is near enough.
#[must_use]
pub fn nearest(unknown: &str) -> Option<&'static str> {
    // A third of the letters may be wrong, and a known name in the wrong section is near.
    let last = unknown.rsplit('.').next().unwrap_or(unknown);
    KEYS.iter()
        .map(|key| (strsim::damerau_levenshtein(key.name, unknown), key.name))
        .filter(|(distance, name)| *distance <= name.len() / 3)
        .min()
        .map(|(_, name)| name)
        .or_else(|| {
            let mut same_last = KEYS
                .iter()
                .filter(|key| key.name.rsplit('.').next() == Some(last));
            same_last.next().map(|key| key.name)
        })
}
