//! Reads how paths, client addresses and identities are found: the parts of the file beside rules.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::fault::{FaultKind, Faults, Quoted, Read};
use crate::fields::{Fields, Place};
use crate::file::names::read_header_name;
use crate::model::{
    ClientAddressReading, ForwardingHeader, IdentityReading, IdentitySource, PathReading,
};

/// The most address ranges in one list.
pub const MAX_RANGES: usize = 1024;

/// The most places where an identity is looked for.
pub const MAX_SOURCES: usize = 16;

/// The fields of `paths`.
pub const PATHS: [&str; 5] = [
    "case_sensitive",
    "trailing_slash",
    "merge_slashes",
    "decode_slashes",
    "strip_parameters",
];

/// The fields of `client_address`.
pub const CLIENT_ADDRESS: [&str; 4] = ["trusted", "header", "ipv6_prefix", "ipv4_prefix"];

/// The fields of `identity`.
pub const IDENTITY: [&str; 2] = ["api_key", "user"];

/// The fields of one place where an identity is looked for.
pub const SOURCE: [&str; 2] = ["header", "descriptor"];

const RANGE_WANTED: &str = "an address range such as `10.0.0.0/8` or `2001:db8::/32`";
const SOURCE_WANTED: &str = "`bearer`, `{header: x-api-key}` or `{descriptor: api_key}`";

/// Reads `paths`.
pub fn read_paths(faults: &mut Faults, place: Place<'_>) -> Read<PathReading> {
    let fields = Fields::open(faults, place, &PATHS)?;
    let by_default = PathReading::default();
    let mut truth = |name: &str, otherwise: bool| {
        let read = fields.optional(faults, name, |faults, place| place.truth(faults));
        read.map(|given| given.unwrap_or(otherwise))
    };
    let case_sensitive = truth("case_sensitive", by_default.case_sensitive);
    let merge_slashes = truth("merge_slashes", by_default.merge_slashes);
    let decode_slashes = truth("decode_slashes", by_default.decode_slashes);
    let strip_parameters = truth("strip_parameters", by_default.strip_parameters);
    let trailing = fields.optional(faults, "trailing_slash", |faults, place| {
        place.word(faults, &[("ignore", false), ("significant", true)])
    });
    Ok(PathReading {
        case_sensitive: case_sensitive?,
        trailing_slash_significant: trailing?.unwrap_or(by_default.trailing_slash_significant),
        merge_slashes: merge_slashes?,
        decode_slashes: decode_slashes?,
        strip_parameters: strip_parameters?,
    })
}

/// Reads `client_address`.
pub fn read_client_address(faults: &mut Faults, place: Place<'_>) -> Read<ClientAddressReading> {
    let fields = Fields::open(faults, place, &CLIENT_ADDRESS)?;
    let by_default = ClientAddressReading::default();
    let trusted = fields.optional(faults, "trusted", |faults, place| {
        place.one_or_list(faults, MAX_RANGES, RANGE_WANTED, read_trusted)
    });
    let header = fields.optional(faults, "header", |faults, place| {
        let name = read_header_name(faults, place)?;
        Ok(match &*name {
            "x-forwarded-for" => ForwardingHeader::XForwardedFor,
            "forwarded" => ForwardingHeader::Forwarded,
            _ => ForwardingHeader::Single(name),
        })
    });
    let mut prefix = |name: &str, most: u8, otherwise: u8| {
        let read = fields.optional(faults, name, |faults, place| {
            place.number(faults, 1, most.into())
        });
        // The bound is a `u8`, and so is what it bounds.
        read.map(|given| {
            given
                .and_then(|bits| u8::try_from(bits).ok())
                .unwrap_or(otherwise)
        })
    };
    let ipv6_prefix = prefix("ipv6_prefix", 128, by_default.ipv6_prefix);
    let ipv4_prefix = prefix("ipv4_prefix", 32, by_default.ipv4_prefix);
    let (trusted, header) = (trusted?, header?);
    if header.is_some() && trusted.is_none() {
        let problem = "has a `header`, but no `trusted` proxies whose headers would be believed";
        let help = "write `trusted: [10.0.0.0/8]` with your proxies' addresses, or leave \
                    `header` out"
            .to_owned();
        return Err(fields.fault(faults, FaultKind::Conflict, problem, help));
    }
    Ok(ClientAddressReading {
        trusted: trusted.unwrap_or(by_default.trusted),
        header: header.unwrap_or(by_default.header),
        ipv6_prefix: ipv6_prefix?,
        ipv4_prefix: ipv4_prefix?,
    })
}

/// Reads one address range or a list of them.
pub fn read_ranges(faults: &mut Faults, place: Place<'_>) -> Read<Vec<IpNet>> {
    place.one_or_list(faults, MAX_RANGES, RANGE_WANTED, read_range)
}

/// Reads a range of proxies. One that many clients are in as well is allowed, since a network may be closed by other
/// means, but told of.
fn read_trusted(faults: &mut Faults, place: Place<'_>) -> Read<IpNet> {
    /// Of the IPv6 addresses, those that are private (RFC 4193) are this one range, and wide.
    const UNIQUE_LOCAL: IpNet = IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0),
        7,
    ));
    const NARROWEST: u8 = 8;
    let range = read_range(faults, place)?;
    if range.prefix_len() < NARROWEST && !UNIQUE_LOCAL.contains(&range) {
        let problem = format!(
            "{range} is a large part of all addresses: every client in it can name its own address, and so has as many \
             buckets as it likes"
        );
        let help = "list your proxies' addresses alone".to_owned();
        place.warn(faults, FaultKind::OutOfRange, problem, help);
    }
    Ok(range)
}

fn read_range(faults: &mut Faults, place: Place<'_>) -> Read<IpNet> {
    let text = place.text(faults, RANGE_WANTED)?;
    let parsed = text
        .parse::<IpNet>()
        .or_else(|error| text.parse::<IpAddr>().map(IpNet::from).map_err(|_| error));
    let Ok(range) = parsed else {
        let problem = format!("{} is not an address range", Quoted(text));
        let help = format!("write {RANGE_WANTED}");
        return Err(place.fault(faults, FaultKind::Malformed, problem, help));
    };
    if range.addr() != range.network() {
        let problem = format!("{} has address bits beyond its prefix", Quoted(text));
        let help = format!("write `{}`, if that range is meant", range.trunc());
        return Err(place.fault(faults, FaultKind::Malformed, problem, help));
    }
    if let Some(mapped) = unmapped(range) {
        let problem = format!("{} is a range of IPv4-mapped addresses", Quoted(text));
        let help = format!("they are read as IPv4: write `{mapped}`");
        return Err(place.fault(faults, FaultKind::Malformed, problem, help));
    }
    Ok(range)
}

/// The IPv4 range that an IPv6 range of mapped addresses (`::ffff:0:0/96`) stands for.
fn unmapped(range: IpNet) -> Option<IpNet> {
    const MAPPED_BITS: u8 = 96;
    let IpNet::V6(range) = range else { return None };
    let address = range.addr().to_ipv4_mapped()?;
    let bits = range.prefix_len().checked_sub(MAPPED_BITS)?;
    Ipv4Net::new(address, bits).ok().map(IpNet::V4)
}

/// Reads `identity`.
pub fn read_identity(faults: &mut Faults, place: Place<'_>) -> Read<IdentityReading> {
    let fields = Fields::open(faults, place, &IDENTITY)?;
    let by_default = IdentityReading::default();
    let api_key = fields.optional(faults, "api_key", read_sources);
    let user = fields.optional(faults, "user", read_sources);
    Ok(IdentityReading {
        api_key: api_key?.unwrap_or(by_default.api_key),
        user: user?.unwrap_or(by_default.user),
    })
}

fn read_sources(faults: &mut Faults, place: Place<'_>) -> Read<Vec<IdentitySource>> {
    place.one_or_list(faults, MAX_SOURCES, SOURCE_WANTED, read_source)
}

fn read_source(faults: &mut Faults, place: Place<'_>) -> Read<IdentitySource> {
    if let crate::yaml::Content::Scalar { .. } = place.node.content {
        let text = place.text(faults, SOURCE_WANTED)?;
        if text == "bearer" {
            return Ok(IdentitySource::Bearer);
        }
        let problem = format!("{} is not known here", Quoted(text));
        let help = format!("write {SOURCE_WANTED}");
        return Err(place.fault(faults, FaultKind::Malformed, problem, help));
    }
    let fields = Fields::open(faults, place, &SOURCE)?;
    let header = fields
        .optional(faults, "header", read_header_name)
        .map(|name| name.map(IdentitySource::Header));
    let descriptor = fields
        .optional(faults, "descriptor", |faults, place| {
            place
                .text(faults, "a descriptor entry's key")
                .map(Into::into)
        })
        .map(|key| key.map(IdentitySource::Descriptor));
    match (header?, descriptor?) {
        (Some(source), None) | (None, Some(source)) => Ok(source),
        (Some(_), Some(_)) => {
            let problem = "has both `header` and `descriptor`";
            let help = "write two items, in the order in which to look".to_owned();
            Err(fields.fault(faults, FaultKind::Conflict, problem, help))
        }
        (None, None) => Err(fields.missing(faults, "header", "x-api-key")),
    }
}
