//! The section of a fleet: who belongs to it, and what that demands of the other sections.
//!
//! What each key means to an operator is in [`super::keys`]. What the keys demand of each other is checked here, before
//! anything starts.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use policy::model::Sharing;

use super::error::Fault;
use super::nats::Nats;
use super::peers::Peers;
use super::secret::SecretSource;
use super::setting::{Bounds, Choice, Listen, Raw, Setting, quoted};
use crate::peers::{ClusterName, Identity, Member, NameError, NodeName};

/// The most members of a list.
const MOST_MEMBERS: usize = 1000;

/// Who belongs to the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// Its name.
    pub cluster: Option<ClusterName>,
    /// This node's name.
    pub node: Option<NodeName>,
    /// All members.
    pub members: ListedMembers,
    /// Where this node keeps what must survive.
    pub data_dir: Option<PathBuf>,
    /// Whether it leaves a list that the fleet keeps for itself when it is told to stop.
    pub leave_on_stop: bool,
    /// Whether the fleet has never run before.
    pub first_start: bool,
    /// How limits are shared that do not say.
    pub sharing: DefaultSharing,
    /// After so long without an owner its limits' `on_degraded` applies.
    pub degraded_after: Duration,
    /// Under `fail_open`, so many times the limit is admitted then.
    pub backstop_multiple: u32,
}

impl Default for Fleet {
    fn default() -> Self {
        let protocol = lease::config::Config::default();
        Self {
            cluster: None,
            node: None,
            members: ListedMembers::default(),
            data_dir: None,
            leave_on_stop: true,
            first_start: false,
            sharing: DefaultSharing::default(),
            degraded_after: protocol.degraded_after,
            backstop_multiple: protocol.backstop_multiple,
        }
    }
}

/// Who says who the members are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedMembers {
    /// The configuration: these, this node among them. None: it is of no fleet.
    Fixed(Vec<Member>),
    /// The fleet itself, in JetStream.
    View,
}

impl Default for ListedMembers {
    fn default() -> Self {
        Self::Fixed(Vec::new())
    }
}

impl ListedMembers {
    /// The word for [`ListedMembers::View`].
    const VIEW: &'static str = "view";

    /// Whether there is no fleet.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        match self {
            Self::Fixed(members) => members.is_empty(),
            Self::View => false,
        }
    }

    /// The members that the configuration names.
    #[must_use]
    pub fn fixed(&self) -> &[Member] {
        match self {
            Self::Fixed(members) => members,
            Self::View => &[],
        }
    }
}

/// How limits are shared that do not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefaultSharing {
    /// By leased credit.
    #[default]
    Lease,
    /// Each member has a fixed share.
    Fixed,
    /// Not at all.
    Local,
}

impl DefaultSharing {
    /// The policy's word for it.
    #[must_use]
    pub const fn sharing(self) -> Sharing {
        match self {
            Self::Lease => Sharing::Lease,
            Self::Fixed => Sharing::Fixed,
            Self::Local => Sharing::Local,
        }
    }
}

impl Choice for DefaultSharing {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("lease", Self::Lease),
        ("fixed", Self::Fixed),
        ("local", Self::Local),
    ];
}

impl Fleet {
    /// Who this node is, if it is of a fleet.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        Some(Identity {
            cluster: self.cluster.clone()?,
            node: self.node.clone()?,
        })
    }
}

macro_rules! name_setting {
    ($($name:ident),*) => {$(
        /// A name, or none if it is empty.
        impl Setting for Option<$name> {
            fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
                match raw.text() {
                    Some("") => Ok(None),
                    Some(text) => $name::new(text).map(Some).map_err(|_| NameError::RIGHT.to_owned()),
                    None => Err(NameError::RIGHT.to_owned()),
                }
            }

            fn show(&self) -> String {
                quoted(self.as_ref().map_or("", $name::as_str))
            }
        }
    )*};
}
name_setting!(ClusterName, NodeName);

/// Members; `NAME=ADDRESS` separated by commas in the environment and on the command line. The word `view` alone is no
/// member of that name.
impl Setting for ListedMembers {
    fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
        if raw.text() == Some(Self::VIEW) {
            return Ok(Self::View);
        }
        let members: Vec<Member> = match raw {
            Raw::List(items) => items.iter().map(listed).collect::<Result<_, _>>()?,
            Raw::Text(text) => text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| {
                    let (name, address) = item.split_once('=').unwrap_or((item, ""));
                    member(name, address)
                })
                .collect::<Result<_, _>>()?,
            Raw::String(_) | Raw::Integer(_) | Raw::Boolean(_) | Raw::Table(_) | Raw::Other(_) => {
                return Err(members_expected());
            }
        };
        if members.len() > MOST_MEMBERS {
            return Err(format!("at most {MOST_MEMBERS} members"));
        }
        for (index, member) in members.iter().enumerate() {
            // Two names of one number could not be told apart: hardly ever, but then it must not start.
            if members[..index]
                .iter()
                .any(|other| other.name.id() == member.name.id())
            {
                return Err(format!(
                    "each member once; {} is there twice",
                    quoted(member.name.as_str())
                ));
            }
        }
        Ok(Self::Fixed(members))
    }

    fn show(&self) -> String {
        if *self == Self::View {
            return quoted(Self::VIEW);
        }
        let members: Vec<String> = self
            .fixed()
            .iter()
            .map(|Member { name, address }| {
                let (name, address) = (quoted(name.as_str()), quoted(address));
                format!("{{ name = {name}, address = {address} }}")
            })
            .collect();
        format!("[{}]", members.join(", "))
    }
}

fn members_expected() -> String {
    "members, each as { name = \"node-1\", address = \"10.0.0.1:7400\" }, or \"view\" for a list that the fleet keeps"
        .to_owned()
}

fn listed(item: &Raw) -> Result<Member, String> {
    let Raw::Table(entries) = item else {
        return Err(members_expected());
    };
    let (mut name, mut address) = (None, "");
    for (key, value) in entries {
        let text = value.text().ok_or_else(members_expected)?;
        match key.as_str() {
            "name" => name = Some(text),
            "address" => address = text,
            _ => {
                return Err(format!(
                    "{}; there is no {}",
                    members_expected(),
                    quoted(key)
                ));
            }
        }
    }
    member(name.ok_or_else(members_expected)?, address)
}

fn member(name: &str, address: &str) -> Result<Member, String> {
    let name =
        NodeName::new(name).map_err(|_| format!("a member's name of {}", NameError::RIGHT))?;
    if !address.is_empty() && host(address).is_none() {
        return Err(format!(
            "an address as \"HOST:PORT\" for member {}, the host a DNS name or an IP address, an IPv6 one in brackets",
            quoted(name.as_str())
        ));
    }
    Ok(Member {
        name,
        address: address.to_owned(),
    })
}

/// The host of `host:port`, if that is what it is.
fn host(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let right = match bracketed {
        Some(host) => matches!(host.parse(), Ok(IpAddr::V6(_))),
        None => {
            let plain =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            (1..=253).contains(&host.len()) && host.bytes().all(plain)
        }
    };
    (right && port != 0).then(|| bracketed.unwrap_or(host))
}

fn is_loopback(address: &str) -> bool {
    host(address).is_some_and(|host| {
        host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
    })
}

/// What the keys of both sections demand of each other.
pub(super) fn check(
    fleet: &Fleet,
    peers: &Peers,
    nats: &Nats,
    secret: &SecretSource,
    faults: &mut Vec<Fault>,
) {
    let mut conflict = |key, other, problem: String| {
        faults.push(Fault::Conflict {
            key,
            other,
            problem,
        });
    };
    if fleet.members == ListedMembers::View {
        if fleet.cluster.is_none() {
            conflict(
                "fleet.cluster",
                "fleet.members",
                "a list that the fleet keeps is kept under its name: give it one".to_owned(),
            );
        }
        if nats.servers.is_empty() {
            conflict(
                "nats.servers",
                "fleet.members",
                "the list of members is kept in JetStream: name the servers".to_owned(),
            );
        }
        if peers.listen != Listen::Off {
            conflict(
                "peers.listen",
                "fleet.members",
                "members of a list that the fleet keeps reach each other by way of NATS: set it to \"off\""
                    .to_owned(),
            );
        }
    }
    if !fleet.members.is_none() {
        let fixed = fleet.members.fixed();
        match &fleet.node {
            None => conflict(
                "fleet.node",
                "fleet.members",
                "there are members, but this node has no name: say which of them it is".to_owned(),
            ),
            Some(node) if !fixed.is_empty() && fixed.iter().all(|member| member.name != *node) => {
                conflict(
                    "fleet.node",
                    "fleet.members",
                    format!(
                        "{} is not among the members: all nodes need the same list, with themselves in it",
                        quoted(node.as_str())
                    ),
                );
            }
            Some(_) => {}
        }
        if fleet.data_dir.is_none() {
            conflict(
                "fleet.data_dir",
                "fleet.members",
                "a member must find after a restart how far its clock had got: name a directory of its own".to_owned(),
            );
        }
        if *secret == SecretSource::Generate {
            conflict(
                "secret",
                "fleet.members",
                "members know keys by their hashes: give all of them the same secret, in a file or a variable".to_owned(),
            );
        }
    }
    let Listen::At(listen) = peers.listen else {
        return;
    };
    if fleet.node.is_none() {
        conflict(
            "peers.listen",
            "fleet.node",
            "peers need to know who this node is: give it a name".to_owned(),
        );
    }
    if fleet.cluster.is_none() {
        conflict(
            "peers.listen",
            "fleet.cluster",
            "peers need to know which fleet this is: give it a name".to_owned(),
        );
    }
    for member in fleet
        .members
        .fixed()
        .iter()
        .filter(|member| member.address.is_empty())
    {
        conflict(
            "peers.listen",
            "fleet.members",
            format!(
                "{} has no address to connect to",
                quoted(member.name.as_str())
            ),
        );
    }
    if peers.backoff_least > peers.backoff_most {
        conflict(
            "peers.backoff_least_ms",
            "peers.backoff_most_ms",
            "the least is more than the most".to_owned(),
        );
    }
    let files = [
        ("peers.tls.ca", &peers.tls.ca),
        ("peers.tls.cert", &peers.tls.cert),
        ("peers.tls.key", &peers.tls.key),
    ];
    if !peers.insecure {
        for (key, file) in files {
            if file.is_none() {
                conflict(
                    "peers.listen",
                    key,
                    "peers prove who they are by certificates: name the file".to_owned(),
                );
            }
        }
        return;
    }
    for (key, file) in files {
        if file.is_some() {
            conflict(
                "peers.insecure",
                key,
                "with certificates there is no need for `peers.insecure`: take one away".to_owned(),
            );
        }
    }
    if !listen.ip().is_loopback() {
        conflict(
            "peers.insecure",
            "peers.listen",
            format!("{listen} is no loopback address: without certificates, keep to this machine"),
        );
    }
    for member in fleet.members.fixed() {
        if !member.address.is_empty() && !is_loopback(&member.address) {
            conflict(
                "peers.insecure",
                "fleet.members",
                format!(
                    "{} is no loopback address: without certificates, keep to this machine",
                    quoted(&member.address)
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Loaded;

    fn refusal(text: &str) -> String {
        Loaded::from_text(Path::new("node.toml"), text)
            .unwrap_err()
            .to_string()
    }

    const WHOLE: &str = "secret = \"file:secret\"\n[fleet]\ndata_dir = \"data\"\ncluster = \"prod\"\nnode = \"b\"\nmembers = [{ name = \"a\", address = \"a.example:7400\" },\n\
         { address = \"[2001:db8::1]:7400\", name = \"b\" }]\n[peers]\nlisten = \"0.0.0.0:7400\"\n\
         [peers.tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\nlook_every_ms = 1000\n";

    #[test]
    fn a_fleet_is_read_and_shown_and_read_the_same() {
        let loaded = Loaded::from_text(Path::new("node.toml"), WHOLE).unwrap();
        let Fleet { members, .. } = &loaded.config.fleet;
        assert_eq!(members.fixed()[1].address, "[2001:db8::1]:7400");
        let identity = loaded.config.fleet.identity().unwrap();
        assert_eq!(identity.to_string(), "leasehold://prod/b");
        assert_eq!(
            loaded.config.peers.tls.files().unwrap().key,
            Path::new("key.pem")
        );
        let again = Loaded::from_text(Path::new("node.toml"), &loaded.print()).unwrap();
        assert_eq!(again.config, loaded.config);
        let given = [
            "fleet.node=a".to_owned(),
            "fleet.members=a=h:1, b = c:2".to_owned(),
        ];
        assert!(Loaded::read(None, [], &given).is_err(), "`b ` is no name");
        let given = [
            "fleet.node=a".to_owned(),
            "fleet.members=a=h:1, b=c:2,c".to_owned(),
            "fleet.data_dir=data".to_owned(),
            "secret=file:secret".to_owned(),
        ];
        let members = Loaded::read(None, [], &given).unwrap().config.fleet.members;
        assert_eq!(
            members.show(),
            "[{ name = \"a\", address = \"h:1\" }, { name = \"b\", address = \"c:2\" }, { name = \"c\", address = \"\" }]"
        );
    }

    #[test]
    fn a_list_that_the_fleet_keeps_needs_nats_and_no_mesh() {
        let whole = "secret = \"file:secret\"\n[fleet]\ndata_dir = \"data\"\ncluster = \"prod\"\nnode = \"b\"\n\
            members = \"view\"\n[nats]\nservers = [\"nats://h:4222\"]\n";
        let loaded = Loaded::from_text(Path::new("node.toml"), whole).unwrap();
        assert_eq!(loaded.config.fleet.members, ListedMembers::View);
        let again = Loaded::from_text(Path::new("node.toml"), &loaded.print()).unwrap();
        assert_eq!(again.config, loaded.config);
        for (without, expected) in [
            (
                "secret = \"file:secret\"",
                "`secret` and `fleet.members`: members know keys by their hashes",
            ),
            (
                "data_dir = \"data\"",
                "`fleet.data_dir` and `fleet.members`",
            ),
            ("cluster = \"prod\"", "`fleet.cluster` and `fleet.members`"),
            ("node = \"b\"", "`fleet.node` and `fleet.members`"),
            (
                "servers = [\"nats://h:4222\"]",
                "`nats.servers` and `fleet.members`: the list of members is kept in JetStream",
            ),
        ] {
            let told = refusal(&whole.replace(without, ""));
            assert!(told.contains(expected), "{told}");
        }
        let mesh = format!("{whole}[peers]\nlisten = \"127.0.0.1:7400\"\ninsecure = true\n");
        let told = refusal(&mesh);
        assert!(
            told.contains(
                "`peers.listen` and `fleet.members`: members of a list that the fleet keeps"
            ),
            "{told}"
        );
        let told = refusal("[fleet]\nmembers = \"views\"\n");
        assert!(told.contains("or \"view\" for a list"), "{told}");
    }

    #[test]
    fn members_that_are_none_are_refused_with_what_would_be_right() {
        for (members, expected) in [
            ("\"a\"", "expected members, each as { name"),
            ("[\"a\"]", "expected members, each as { name"),
            (
                "[{ address = \"h:1\" }]",
                "expected members, each as { name",
            ),
            ("[{ name = 1 }]", "expected members, each as { name"),
            ("[{ name = \"a\", port = \"1\" }]", "there is no \"port\""),
            ("[{ name = \"A\" }]", "a member's name of 1 to 63 of a-z"),
            (
                "[{ name = \"a\", address = \"h\" }]",
                "an address as \"HOST:PORT\" for member \"a\"",
            ),
            (
                "[{ name = \"a\", address = \"h:0\" }]",
                "an address as \"HOST:PORT\"",
            ),
            (
                "[{ name = \"a\", address = \"h:65536\" }]",
                "an address as \"HOST:PORT\"",
            ),
            (
                "[{ name = \"a\", address = \":1\" }]",
                "an address as \"HOST:PORT\"",
            ),
            (
                "[{ name = \"a\", address = \"::1:1\" }]",
                "an address as \"HOST:PORT\"",
            ),
            (
                "[{ name = \"a\", address = \"[::1:1\" }]",
                "an address as \"HOST:PORT\"",
            ),
            (
                "[{ name = \"a\", address = \"http://h:1\" }]",
                "an address as \"HOST:PORT\"",
            ),
            (
                "[{ name = \"a\" }, { name = \"a\" }]",
                "each member once; \"a\" is there twice",
            ),
        ] {
            let told = refusal(&format!("[fleet]\nnode = \"a\"\nmembers = {members}\n"));
            assert!(
                told.contains("`fleet.members`") && told.contains(expected),
                "{told}"
            );
        }
        let many: Vec<String> = (0..=MOST_MEMBERS)
            .map(|n| format!("{{ name = \"n{n}\" }}"))
            .collect();
        let told = refusal(&format!("[fleet]\nmembers = [{}]", many.join(", ")));
        assert!(told.contains("at most 1000 members"), "{told}");
        let told = refusal("[fleet]\ncluster = \"Prod\"\nnode = 7\n");
        assert_eq!(told.matches("1 to 63 of a-z").count(), 2, "{told}");
    }

    #[test]
    fn what_contradicts_is_refused() {
        for (change, with, expected) in [
            (
                "node = \"b\"\n",
                "",
                "`fleet.node` and `fleet.members`: there are members",
            ),
            (
                "node = \"b\"",
                "node = \"c\"",
                "\"c\" is not among the members",
            ),
            ("node = \"b\"\n", "", "`peers.listen` and `fleet.node`"),
            (
                "cluster = \"prod\"\n",
                "",
                "`peers.listen` and `fleet.cluster`",
            ),
            (
                ", address = \"a.example:7400\"",
                "",
                "\"a\" has no address to connect to",
            ),
            ("ca = \"ca.pem\"\n", "", "`peers.listen` and `peers.tls.ca`"),
            (
                "cert = \"cert.pem\"\n",
                "",
                "`peers.listen` and `peers.tls.cert`",
            ),
            (
                "key = \"key.pem\"\n",
                "",
                "`peers.listen` and `peers.tls.key`",
            ),
            (
                "[peers]\n",
                "[peers]\nbackoff_least_ms = 5000\n",
                "the least is more than the most",
            ),
            (
                "[peers]\n",
                "[peers]\ninsecure = true\n",
                "`peers.insecure` and `peers.tls.ca`",
            ),
            (
                "[peers]\n",
                "[peers]\ninsecure = true\n",
                "0.0.0.0:7400 is no loopback address",
            ),
            (
                "[peers]\n",
                "[peers]\ninsecure = true\n",
                "\"a.example:7400\" is no loopback address",
            ),
            ("0.0.0.0:7400", "127.0.0.1:8080", "both are 127.0.0.1:8080"),
        ] {
            assert!(WHOLE.contains(change));
            let told = refusal(&WHOLE.replacen(change, with, 1));
            assert!(told.contains(expected), "{told}: expected {expected}");
        }
        for (change, with, expected) in [
            (
                "data_dir = \"data\"\n",
                "",
                "`fleet.data_dir` and `fleet.members`",
            ),
            (
                "secret = \"file:secret\"\n",
                "",
                "`secret` and `fleet.members`",
            ),
        ] {
            assert!(WHOLE.contains(change));
            let told = refusal(&WHOLE.replacen(change, with, 1));
            assert!(told.contains(expected), "{told}: expected {expected}");
        }
        let local = "secret = \"file:secret\"\nfleet = { data_dir = \"data\", cluster = \"dev\", node = \"a\", members = [{ name = \"a\", address = \"127.0.0.1:1\" },\n\
             { name = \"b\", address = \"localhost:2\" }, { name = \"c\", address = \"[::1]:3\" }] }\n\
             peers = { listen = \"127.0.0.1:1\", insecure = true }\n";
        Loaded::from_text(Path::new("node.toml"), local).unwrap();
    }
}
