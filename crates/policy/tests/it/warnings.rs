//! What is allowed but hardly meant is read, and told of.

use leasehold_policy as policy;

fn warnings(text: &str) -> Vec<String> {
    let (_, warnings) = policy::file::read_with_warnings(text.as_bytes())
        .unwrap_or_else(|errors| panic!("{errors}"));
    warnings.iter().map(ToString::to_string).collect()
}

fn trusting(ranges: &str) -> String {
    format!(
        "version: 1\nclient_address: {{trusted: {ranges}}}\nrules: [{{name: r, by: address, limits: [1/s]}}]\n"
    )
}

#[test]
fn trust_in_networks_of_clients_is_told_of() {
    for wide in [
        "0.0.0.0/0",
        "::/0",
        "128.0.0.0/1",
        "8.0.0.0/7",
        "2000::/3",
        "fe00::/7",
    ] {
        for (ranges, path) in [
            (format!("\"{wide}\""), "client_address.trusted"),
            (
                format!("[10.0.0.0/8, \"{wide}\"]"),
                "client_address.trusted[1]",
            ),
        ] {
            let told = warnings(&trusting(&ranges));
            let [told] = &told[..] else {
                panic!("{ranges}: {told:?}");
            };
            for words in [path, wide, "can name its own address"] {
                assert!(told.contains(words), "{ranges}: {told}");
            }
        }
    }
    let narrow = "[10.0.0.0/8, 127.0.0.0/8, \"fc00::/7\", \"fd00::/8\", 8.0.0.0/8, 192.0.2.7]";
    assert_eq!(warnings(&trusting(narrow)), [""; 0]);
}

/// A condition by address trusts nobody.
#[test]
fn a_rule_for_all_addresses_is_no_trust() {
    let text =
        "version: 1\nrules: [{name: r, when: {address: 0.0.0.0/0}, by: address, limits: [1/s]}]\n";
    assert_eq!(warnings(text), [""; 0]);
}

#[test]
fn two_limits_of_one_window_want_a_name() {
    let of = |name: &str| {
        format!(
            "version: 1\nrules: [{{name: r, by: address, limits: [{{rate: 9/m}}, {{rate: 5/m, algorithm: token_bucket{name}}}]}}]\n"
        )
    };
    let refused = policy::file::read(of("").as_bytes())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("another `name`"), "{refused}");
    assert!(policy::file::read(of(", name: smooth").as_bytes()).is_ok());
}
