//! What clients choose of a request's identity: path, host, forwarding headers, and values that keys are made of.
#![no_main]

use std::net::IpAddr;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use policy::address::{ForwardedHops, Found, cut};
use policy::host;
use policy::model::{ClientAddressReading, ForwardingHeader, Normalizer, PathReading};
use policy::{normalize, path};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    switches: u8,
    path: &'a [u8],
    host: &'a str,
    headers: Vec<&'a [u8]>,
    value: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let on = |bit: u8| input.switches >> bit & 1 == 1;
    let reading = PathReading {
        case_sensitive: on(0),
        trailing_slash_significant: on(1),
        merge_slashes: on(2),
        decode_slashes: on(3),
        strip_parameters: on(4),
    };
    check_path(&reading, input.path);
    check_host(input.host);
    let header = if on(5) {
        ForwardingHeader::Forwarded
    } else {
        ForwardingHeader::XForwardedFor
    };
    check_address(header, &input.headers);
    let normalizer = Normalizer {
        trim: on(5),
        lowercase: on(6),
        nfc: on(7),
    };
    check_value(normalizer, input.value);
});

fn check_path(reading: &PathReading, target: &[u8]) {
    let normal = |target: &[u8]| {
        path::normalize_into(reading, target, &mut path::PathBuffer::new()).to_vec()
    };
    let once = normal(target);
    let text = std::str::from_utf8(&once).expect("the normal form is text");
    assert_eq!(normal(&once), once, "normalising twice differs");
    if path::is_normal(reading, target) {
        assert_eq!(once, target);
    }
    if target == b"*" {
        return;
    }
    assert!(text.starts_with('/') && !text.contains(['?', '#', '\\', '\0']));
    assert!(
        !text
            .split('/')
            .any(|segment| segment == "." || segment == "..")
    );
    assert!(!reading.merge_slashes || !text.contains("//"));

    // Escaping all of it but the slashes hides nothing.
    if !target.contains(&b'%') && !target.contains(&b'?') && !target.contains(&b'#') {
        let mut escaped = b"/".to_vec();
        let mut plain = b"/".to_vec();
        for &byte in target {
            plain.push(byte);
            // An escaped `;` does not end a segment, and an escaped backslash is no other than a plain one.
            if byte == b'/' || byte == b';' {
                escaped.push(byte);
            } else {
                escaped.extend(format!("%{byte:02x}").bytes());
            }
        }
        assert_eq!(normal(&escaped), normal(&plain), "an escape evades");
    }
}

fn check_host(name: &str) {
    let normal = |name: &str| host::normalize_into(name, &mut host::HostBuffer::new()).to_owned();
    let once = normal(name);
    assert_eq!(normal(&once), once);
    assert_eq!(normal(&name.to_ascii_uppercase()), once, "case evades");
}

fn check_address(header: ForwardingHeader, values: &[&[u8]]) {
    let reading = ClientAddressReading {
        trusted: vec!["10.0.0.0/8".parse().expect("a range")],
        header,
        ..ClientAddressReading::default()
    };
    let peer = IpAddr::from([10, 0, 0, 1]);
    let mut hops = ForwardedHops::new(&reading, peer);
    values.iter().for_each(|value| hops.feed(value));
    let found = hops.finish();
    assert_eq!(
        cut(&reading, cut(&reading, found.address)),
        cut(&reading, found.address)
    );

    // Whatever came before, what the trusted proxy adds decides.
    hops.feed(match reading.header {
        ForwardingHeader::Forwarded => b"for=192.0.2.7;by=x, for=10.9.9.9",
        ForwardingHeader::XForwardedFor | ForwardingHeader::Single(_) => b"192.0.2.7:80,10.9.9.9",
    });
    let client = hops.finish();
    assert_eq!(
        (client.address, client.found),
        (IpAddr::from([192, 0, 2, 7]), Found::Hop)
    );

    // And from an untrusted peer nothing is believed.
    let stranger = IpAddr::from([192, 0, 2, 9]);
    let mut hops = ForwardedHops::new(&reading, stranger);
    values.iter().for_each(|value| hops.feed(value));
    assert_eq!(hops.finish().address, stranger);
}

fn check_value(normalizer: Normalizer, value: &[u8]) {
    let fold = |value: &[u8]| {
        normalize::normalize_into(normalizer, value, &mut normalize::ValueBuffer::new()).to_vec()
    };
    let once = fold(value);
    assert_eq!(fold(&once), once);
    assert_eq!(
        std::str::from_utf8(&once).is_ok(),
        std::str::from_utf8(value).is_ok()
    );
}
