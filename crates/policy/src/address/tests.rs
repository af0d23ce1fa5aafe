//! Forwarding headers, honest, forged and malformed.

use proptest::prelude::*;

use super::*;

const PEER: &str = "10.0.0.1";

fn reading(header: ForwardingHeader) -> ClientAddressReading {
    let trusted = ["10.0.0.0/8", "2001:db8:ffff::/48", "::ffff:172.16.0.0/108"];
    ClientAddressReading {
        trusted: trusted.iter().map(|net| net.parse().unwrap()).collect(),
        header,
        ..ClientAddressReading::default()
    }
}

fn found(header: ForwardingHeader, peer: &str, values: &[&[u8]]) -> (String, Found) {
    let reading = reading(header);
    let mut hops = ForwardedHops::new(&reading, peer.parse().unwrap());
    for value in values {
        hops.feed(value);
    }
    let client = hops.finish();
    (client.address.to_string(), client.found)
}

/// K1: ports are no part of the address. K4 to K6: forged, repeated and malformed headers, behind 0, 1 and 3 trusted hops.
#[test]
fn x_forwarded_for() {
    use Found::{FarthestTrusted, Hop, LastReadable, Peer};
    let cases: &[(&str, &[&str], &str, Found)] = &[
        // No trusted hop: what the client forges is not looked at.
        ("192.0.2.1", &["198.51.100.7"], "192.0.2.1", Peer),
        ("::ffff:192.0.2.1", &["198.51.100.7"], "192.0.2.1", Peer),
        // One trusted hop, with no header, one address, and forged ones to the left.
        (PEER, &[], PEER, Peer),
        (PEER, &[""], PEER, Peer),
        (PEER, &["192.0.2.1"], "192.0.2.1", Hop),
        (PEER, &["198.51.100.7, 192.0.2.1"], "192.0.2.1", Hop),
        (PEER, &["10.9.9.9,192.0.2.1"], "192.0.2.1", Hop),
        ("::ffff:10.0.0.1", &["192.0.2.1"], "192.0.2.1", Hop),
        // Three trusted hops.
        (
            PEER,
            &["198.51.100.7, 192.0.2.1, 10.1.1.1, 10.2.2.2"],
            "192.0.2.1",
            Hop,
        ),
        (
            PEER,
            &["192.0.2.1, 172.16.0.9, 2001:db8:ffff::1"],
            "192.0.2.1",
            Hop,
        ),
        (
            PEER,
            &["10.3.3.3, 10.1.1.1, 10.2.2.2"],
            "10.3.3.3",
            FarthestTrusted,
        ),
        // Repeated headers are one list.
        (PEER, &["192.0.2.1", "10.1.1.1"], "192.0.2.1", Hop),
        (
            PEER,
            &["198.51.100.7", "192.0.2.1, 10.1.1.1"],
            "192.0.2.1",
            Hop,
        ),
        (PEER, &["10.3.3.3", "10.1.1.1"], "10.3.3.3", FarthestTrusted),
        (
            PEER,
            &["junk", "10.2.2.2", "10.1.1.1"],
            "10.2.2.2",
            LastReadable,
        ),
        (PEER, &["192.0.2.1", "junk"], PEER, LastReadable),
        (
            PEER,
            &["192.0.2.1", "", " , ", "10.1.1.1"],
            "192.0.2.1",
            Hop,
        ),
        // Ports and brackets are no part of the address.
        (PEER, &["192.0.2.1:1"], "192.0.2.1", Hop),
        (PEER, &["192.0.2.1:65535"], "192.0.2.1", Hop),
        (PEER, &["[2001:db8::1]:9"], "2001:db8::1", Hop),
        (PEER, &["[2001:db8::1]"], "2001:db8::1", Hop),
        (PEER, &["2001:DB8::0:1"], "2001:db8::1", Hop),
        (PEER, &["::ffff:192.0.2.1"], "192.0.2.1", Hop),
        (PEER, &["[::ffff:c000:201]:80"], "192.0.2.1", Hop),
        // What names no address ends the walk at the hop before it.
        (PEER, &["192.0.2.1, unknown"], PEER, LastReadable),
        (
            PEER,
            &["192.0.2.1, junk, 10.1.1.1"],
            "10.1.1.1",
            LastReadable,
        ),
        (PEER, &["192.0.2.1, 192.0.2.01"], PEER, LastReadable),
        (PEER, &["192.0.2.256"], PEER, LastReadable),
        (PEER, &["192.0.2.1:x"], PEER, LastReadable),
        (PEER, &["192.0.2.1:"], PEER, LastReadable),
        (PEER, &["[2001:db8::1]9"], PEER, LastReadable),
        (PEER, &["[192.0.2.1]:9"], PEER, LastReadable),
        (PEER, &["fe80::1%eth0"], PEER, LastReadable),
        (PEER, &["\"192.0.2.1\""], PEER, LastReadable),
        (PEER, &["192.0.2.1 192.0.2.2"], PEER, LastReadable),
        (PEER, &[",,192.0.2.1,,"], "192.0.2.1", Hop),
    ];
    for (peer, values, address, how) in cases {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        let got = found(ForwardingHeader::XForwardedFor, peer, &values);
        assert_eq!(got, ((*address).to_owned(), *how), "{peer} {values:?}");
    }
    let not_text: &[u8] = b"192.0.2.1, \xff";
    let got = found(ForwardingHeader::XForwardedFor, PEER, &[not_text]);
    assert_eq!(got, (PEER.to_owned(), LastReadable));
}

#[test]
fn forwarded() {
    use Found::{FarthestTrusted, Hop, LastReadable};
    let cases: &[(&[&str], &str, Found)] = &[
        (&["for=192.0.2.1"], "192.0.2.1", Hop),
        (&["For=\"[2001:db8::1]:4711\""], "2001:db8::1", Hop),
        (&["for=192.0.2.1;proto=https;by=10.1.1.1"], "192.0.2.1", Hop),
        (&["by=10.1.1.1 ; FOR=192.0.2.1"], "192.0.2.1", Hop),
        (&["for=192.0.2.1, for=10.1.1.1"], "192.0.2.1", Hop),
        (&["for=10.2.2.2, for=10.1.1.1"], "10.2.2.2", FarthestTrusted),
        (&["for=\"192.0.2.1:_port\""], "192.0.2.1", Hop),
        (&["for=192.0.2.1;host=\"a,b;c\""], "192.0.2.1", Hop),
        (&["for=192.0.2.1;host=\"a\\\"b,\\\\\""], "192.0.2.1", Hop),
        // A quote left open by the client swallows nothing that its proxy wrote.
        (&["for=\"198.51.100.7, for=192.0.2.1"], "192.0.2.1", Hop),
        (&["for=\"198.51.100.7, for=\"192.0.2.1\""], "192.0.2.1", Hop),
        (&["for=x\\\", for=192.0.2.1"], "192.0.2.1", Hop),
        (&["for=192.0.2.1\""], PEER, LastReadable),
        (&["for=192.0.2.1, for=unknown"], PEER, LastReadable),
        (
            &["for=192.0.2.1, for=_hidden, for=10.1.1.1"],
            "10.1.1.1",
            LastReadable,
        ),
        (&["for=192.0.2.1, proto=https"], PEER, LastReadable),
        (&["for=192.0.2.1;for=192.0.2.2"], PEER, LastReadable),
        (&["for"], PEER, LastReadable),
        (&["for="], PEER, LastReadable),
        (&["for=\"192.0.2.1"], PEER, LastReadable),
        (&["for=192.0.2.1", "for=10.1.1.1"], "192.0.2.1", Hop),
    ];
    for (values, address, how) in cases {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        let got = found(ForwardingHeader::Forwarded, PEER, &values);
        assert_eq!(got, ((*address).to_owned(), *how), "{values:?}");
    }
}

#[test]
fn single_address() {
    use Found::{Hop, LastReadable, Peer};
    let cases: &[(&str, &[&[u8]], &str, Found)] = &[
        ("192.0.2.9", &[b"192.0.2.1"], "192.0.2.9", Peer),
        (PEER, &[b" 192.0.2.1 "], "192.0.2.1", Hop),
        (PEER, &[b"10.5.5.5"], "10.5.5.5", Hop),
        (PEER, &[], PEER, Peer),
        (PEER, &[b""], PEER, LastReadable),
        (PEER, &[b"192.0.2.1, 192.0.2.2"], PEER, LastReadable),
        (PEER, &[b"192.0.2.1", b"192.0.2.1"], PEER, LastReadable),
    ];
    for (peer, values, address, how) in cases {
        let got = found(ForwardingHeader::Single("x-real-ip".into()), peer, values);
        assert_eq!(got, ((*address).to_owned(), *how), "{peer} {values:?}");
    }
}

#[test]
fn the_walk_is_bounded() {
    let mut value = String::from("192.0.2.1");
    for _ in 0..MOST_HOPS - 1 {
        value.push_str(",10.1.1.1");
    }
    let header = || ForwardingHeader::XForwardedFor;
    let got = found(header(), PEER, &[value.as_bytes()]);
    assert_eq!(got, ("192.0.2.1".to_owned(), Found::Hop));
    value.push_str(",10.2.2.2");
    let got = found(header(), PEER, &[value.as_bytes()]);
    assert_eq!(got, ("10.1.1.1".to_owned(), Found::LastReadable));
}

#[test]
fn nothing_is_trusted_by_default() {
    let reading = ClientAddressReading::default();
    let mut hops = ForwardedHops::new(&reading, PEER.parse().unwrap());
    assert!(!hops.needs_header());
    hops.feed(b"192.0.2.1");
    assert_eq!(hops.finish().address.to_string(), PEER);
}

/// K3: 1,000 addresses of one IPv6 /64 are one, and IPv4-mapped addresses are IPv4.
#[test]
fn ranges_and_prefixes() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let held = |net: &str, text: &str| contains(&net.parse().unwrap(), address(text));
    assert!(held("10.0.0.0/8", "::ffff:10.1.2.3"));
    assert!(held("::ffff:10.0.0.0/104", "10.1.2.3"));
    assert!(!held("::ffff:10.0.0.0/104", "11.1.2.3"));
    assert!(!held("::/0", "10.1.2.3"));
    assert!(held("::/0", "2001:db8::1"));
    assert!(!held("0.0.0.0/0", "2001:db8::1"));

    let mut reading = ClientAddressReading::default();
    let first = cut(&reading, address("2001:db8:1:2::1"));
    for host in 0..1000_u32 {
        let neighbour = address(&format!("2001:db8:1:2:{host:x}::{host:x}"));
        assert_eq!(cut(&reading, neighbour), first);
    }
    assert_ne!(cut(&reading, address("2001:db8:1:3::1")), first);
    assert_eq!(
        cut(&reading, address("::ffff:192.0.2.7")),
        address("192.0.2.7")
    );
    reading.ipv4_prefix = 24;
    reading.ipv6_prefix = 128;
    assert_eq!(cut(&reading, address("192.0.2.7")), address("192.0.2.0"));
    assert_eq!(
        cut(&reading, address("2001:db8::7")),
        address("2001:db8::7")
    );
}

fn elements() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("10.1.1.1".to_owned()),
        Just("192.0.2.1".to_owned()),
        Just("junk".to_owned()),
        Just("for=\"".to_owned()),
        Just("for=\"[2001:db8::1]:1\"".to_owned()),
        Just("for=10.1.1.1".to_owned()),
        "[\\\\\",;= a-f0-9:._\\[\\]-]{0,12}",
    ]
}

fn headers() -> impl Strategy<Value = ForwardingHeader> {
    prop_oneof![
        Just(ForwardingHeader::XForwardedFor),
        Just(ForwardingHeader::Forwarded)
    ]
}

proptest! {
    /// Whatever the client sent, what its trusted proxy appended decides.
    #[test]
    fn forgery_changes_nothing(
        forged in prop::collection::vec(elements(), 0..6),
        is_repeated in any::<bool>(),
    ) {
        let forged = forged.join(",");
        let appended = "for=192.0.2.77, for=10.1.1.1";
        let whole = format!("{forged},{appended}");
        let values: Vec<&[u8]> = if is_repeated {
            vec![forged.as_bytes(), appended.as_bytes()]
        } else {
            vec![whole.as_bytes()]
        };
        let (address, how) = found(ForwardingHeader::Forwarded, PEER, &values);
        prop_assert_eq!((address.as_str(), how), ("192.0.2.77", Found::Hop));
    }

    /// K5: one list in one header or in several is the same.
    #[test]
    fn repeated_headers_are_one_list(
        header in headers(),
        list in prop::collection::vec(prop_oneof![
            Just("10.1.1.1"), Just("192.0.2.1"), Just("junk"), Just(""),
            Just("for=10.1.1.1"), Just("for=192.0.2.1;by=x"), Just("for=_hid"),
        ], 0..8),
        split in 0_usize..8,
    ) {
        let (left, right) = list.split_at(split.min(list.len()));
        let (left, right, whole) = (left.join(","), right.join(","), list.join(","));
        prop_assert_eq!(
            found(header.clone(), PEER, &[left.as_bytes(), right.as_bytes()]),
            found(header, PEER, &[whole.as_bytes()])
        );
    }

    #[test]
    fn any_bytes_have_an_answer(
        header in headers(),
        values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..4),
    ) {
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let (address, _) = found(header, PEER, &values);
        prop_assert!(address.parse::<IpAddr>().is_ok());
    }
}
