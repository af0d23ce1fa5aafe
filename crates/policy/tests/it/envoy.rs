//! Files of envoyproxy/ratelimit: what its own examples and tests say of them.

use leasehold_policy::envoy::{Domains, File, FileErrors, Index, Match, read_files};
use leasehold_policy::model::{Amount, Mode};

fn read(text: &str) -> Result<Domains, FileErrors> {
    read_files(&[File {
        name: "config.yaml",
        bytes: text.as_bytes(),
    }])
}

fn data(name: &str) -> String {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/envoy-ratelimit/"
    );
    std::fs::read_to_string(format!("{folder}{name}")).expect("the case is there")
}

/// The entries of `(key, value) (key, value)`.
fn entries(text: &str) -> Vec<(&str, &str)> {
    let pairs = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    let pairs = pairs.expect("a descriptor is in brackets").split(") (");
    pairs
        .map(|pair| pair.split_once(", ").expect("a key and a value"))
        .collect()
}

fn rendered(found: Option<&Match<'_>>, entries: &[(&str, &str)]) -> String {
    let Some(found) = found else {
        return "none".to_owned();
    };
    let limit = found.limit;
    let amount = match limit.limit.amount {
        Amount::Unlimited => "unlimited".to_owned(),
        Amount::Deny => "deny".to_owned(),
        Amount::Metered { rate, algorithm } => {
            assert_eq!(algorithm.name(), "fixed_window");
            assert_eq!(limit.limit.name.as_str(), rate.window.to_string());
            format!("{} per {}", rate.units, rate.window)
        }
    };
    let mut text = format!("{} {amount}", limit.rule);
    if limit.mode == Mode::Shadow {
        text += " shadow";
    }
    if limit.quota_mode {
        text += " quota";
    }
    if let Some(name) = &limit.replaced_as {
        text += &format!(" name={name}");
    }
    if !limit.replaces.is_empty() {
        text += &format!(" replaces={}", limit.replaces.join(","));
    }
    let own: Vec<&str> = entries.iter().map(|(_, value)| *value).collect();
    let values = entries.iter().enumerate();
    let counted: Vec<&str> = values
        .map(|(level, (key, value))| found.key_value(level, key, value))
        .collect();
    if counted != own {
        text += &format!(" key={}", counted.join(","));
    }
    text
}

#[track_caller]
fn check(name: &str) {
    let file = data(&format!("{name}.yaml"));
    let domains = read(&file)
        .unwrap_or_else(|errors| panic!("{errors}"))
        .domains;
    let index = Index::new(&domains);
    let mut told = String::new();
    let expected = data(&format!("{name}.lookups"));
    for line in expected.lines() {
        let line = match line.split_once(" -> ").filter(|_| !line.starts_with('#')) {
            Some((descriptor, _)) => {
                let entries = entries(descriptor);
                let found = index.find(&domains[0].name, &entries);
                format!("{descriptor} -> {}", rendered(found.as_ref(), &entries))
            }
            None => line.to_owned(),
        };
        told += &line;
        told.push('\n');
    }
    assert_eq!(told, expected, "\nwhat was found:\n{told}");
}

#[test]
fn nested_descriptors() {
    check("messaging");
}

#[test]
fn a_value_goes_before_the_key_alone() {
    check("per-address");
}

#[test]
fn levels_units_and_scalars() {
    check("levels");
}

#[test]
fn shadow_mode() {
    check("shadow");
}

#[test]
fn replaces() {
    check("replaces");
}

#[test]
fn wildcards() {
    check("wildcards");
}

#[test]
fn share_threshold() {
    check("share-threshold");
}

#[test]
fn quota_mode_and_what_has_no_effect() {
    check("quota");
}

/// The one fault of a file, as it is told.
#[track_caller]
fn fault(text: &str) -> String {
    let errors = match read(text) {
        Ok(domains) => panic!("was read: {domains:?}"),
        Err(errors) => errors,
    };
    let faults = errors.files[0].1.faults();
    assert_eq!(faults.len(), 1, "{errors}");
    faults[0].to_string()
}

/// A file with one descriptor, written as fields in braces.
fn one(fields: &str) -> String {
    format!("domain: d\ndescriptors:\n  - {{ {fields} }}\n")
}

/// A file with one limit, written as fields in braces.
fn limit(fields: &str) -> String {
    one(&format!("key: k, value: v, rate_limit: {{ {fields} }}"))
}

#[test]
fn what_that_project_refuses_is_refused() {
    let cases = [
        // Its test/config: bad_limit_unit, empty_domain, empty_key, duplicate_key.
        (
            limit("unit: foo, requests_per_unit: 5"),
            "3:45: descriptors[0].rate_limit.unit: `foo` is not a unit",
        ),
        ("descriptors:\n".to_owned(), "1:1: `domain` is missing"),
        ("domain: ''\n".to_owned(), "1:9: domain: is empty"),
        ("domain:\n".to_owned(), "1:7: domain: is empty"),
        (
            String::new(),
            "is empty; write a mapping with `domain` and `descriptors`",
        ),
        (one("value: v"), "descriptors[0]: `key` is missing"),
        (one("key: ''"), "descriptors[0].key: is empty"),
        (
            "domain: d\ndescriptors:\n- { key: a, value: b }\n- { key: a_b }\n".to_owned(),
            "4:3: descriptors[1]: the key and value of `a_b` are those of line 3, under `d`",
        ),
        // replaces_self, replaces_empty.
        (
            limit("name: self, replaces: [{ name: self }], unit: day, requests_per_unit: 5"),
            "rate_limit.replaces: `self` is the name of this very limit",
        ),
        (
            limit("replaces: [{ name: }], unit: day, requests_per_unit: 5"),
            "rate_limit.replaces[0].name: is empty",
        ),
        // bad_yaml, misspelled_key, misspelled_key2, non_string_key, non_map_list.
        ("'''\n".to_owned(), "1:"),
        (
            one("key: k, ratelimit: { unit: day }"),
            "descriptors[0].ratelimit: unknown field; did you mean `rate_limit`?",
        ),
        (
            limit("unit: day, requestsperunit: 5"),
            "rate_limit.requestsperunit: unknown field; did you mean `requests_per_unit`?",
        ),
        (
            "0.25: d\ndomain: d\n".to_owned(),
            "1:1: [`0.25`]: unknown field",
        ),
        (
            "domain: d\ndescriptors: [a]\n".to_owned(),
            "descriptors[0]: is a single value",
        ),
        // unlimited_with_unit, and a wildcard that is none.
        (
            limit("unlimited: true, unit: day, requests_per_unit: 25"),
            "rate_limit.unit: an unlimited rate has no unit",
        ),
        (
            one("key: k, value: v, share_threshold: true"),
            "descriptors[0].share_threshold: shares the threshold of a wildcard, but there is no `*` in the value",
        ),
        // Numbers that do not fit, and what is no number.
        (
            limit("unit: day, requests_per_unit: 4294967296"),
            "`4294967296` is out of range; write a whole number from 0 to 4294967295",
        ),
        (
            limit("unit: day, requests_per_unit: -1"),
            "`-1` is not a whole number",
        ),
        (
            limit("unit: day, requests_per_unit: 1.5"),
            "`1.5` is not a whole number",
        ),
        (
            limit("unit: day, requests_per_unit: '5'"),
            "`5` in quotes is not a whole number",
        ),
        (
            limit("unit: 5, requests_per_unit: 5"),
            "rate_limit.unit: `5` is not a unit",
        ),
        (
            limit("unit: unknown, requests_per_unit: 5"),
            "rate_limit.unit: `unknown` is not a unit",
        ),
        (
            one("key: k, shadow_mode: maybe"),
            "descriptors[0].shadow_mode: `maybe` is not a truth value",
        ),
        (
            one("key: k, shadow_mode: 'true'"),
            "descriptors[0].shadow_mode:",
        ),
        (one("key: [k]"), "descriptors[0].key: is a list"),
        (
            one("key: k, rate_limit: 5"),
            "descriptors[0].rate_limit: is a single value",
        ),
    ];
    for (text, expected) in cases {
        let told = fault(&text);
        assert!(told.contains(expected), "{text}\n{told}");
    }
}

#[test]
fn what_that_project_would_read_as_no_limit_or_otherwise_is_refused() {
    let cases = [
        // Read there as no limit at all.
        (
            one("key: k, rate_limit:"),
            "descriptors[0].rate_limit: is empty; write `unit`",
        ),
        (
            one("key: k, unlimited: true"),
            "descriptors[0].unlimited: unknown field",
        ),
        (
            limit("shadow_mode: true, unit: day, requests_per_unit: 5"),
            "rate_limit.shadow_mode: unknown field",
        ),
        // Read there as 0, which denies all.
        (
            limit("unit: day"),
            "rate_limit: `requests_per_unit` is missing",
        ),
        (
            limit("requests_per_unit: 5"),
            "rate_limit: `unit` is missing",
        ),
        // Read there in base eight.
        (
            limit("unit: day, requests_per_unit: 010"),
            "`010` begins with 0",
        ),
        // Read there up to the second document, or with the last of two values.
        ("domain: d\n---\ndomain: e\n".to_owned(), "second document"),
        (one("key: k, key: l"), "`key` is given twice"),
    ];
    for (text, expected) in cases {
        let told = fault(&text);
        assert!(told.contains(expected), "{text}\n{told}");
    }
}

#[test]
fn nothing_is_an_empty_list() {
    for text in [
        "domain: d\n",
        "domain: d\ndescriptors:\n",
        "domain: d\ndescriptors: []\n",
    ] {
        let read = read(text).unwrap();
        assert_eq!(&*read.domains[0].name, "d");
        assert!(read.domains[0].descriptors.is_empty());
        assert!(Index::new(&read.domains).has_domain("d"));
    }
    let text = limit("unit: day, requests_per_unit: 5, name: '', replaces:");
    let read = read(&text).unwrap();
    let limit = read.domains[0].descriptors[0].limit.as_ref().unwrap();
    assert_eq!(
        (limit.replaced_as.as_ref(), limit.replaces.len()),
        (None, 0)
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let text =
        "domain: d\ndescriptors:\n- { key: '' }\n- { key: a, rate_limit: { unit: x } }\n- b\n";
    let errors = read(text).unwrap_err();
    let lines: Vec<usize> = errors.files[0]
        .1
        .faults()
        .iter()
        .map(|fault| fault.at.line)
        .collect();
    assert_eq!(lines, [3, 4, 4, 5], "{errors}");
}

#[test]
fn files_are_read_together_or_not_at_all() {
    let file = |name, text: &'static str| File {
        name,
        bytes: text.as_bytes(),
    };
    let first = file(
        "a.yaml",
        "domain: a\ndescriptors: [{ key: k, rate_limit: { unlimited: yes } }]\n",
    );
    let other = file("b.yaml", "domain: b\n");
    let again = file("c.yaml", "domain: a\n");
    let broken = file("d.yaml", "domain: [\n");

    let read = read_files(&[first, other]).unwrap();
    let names: Vec<&str> = read.domains.iter().map(|domain| &*domain.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(!read.limit_nothing());
    let warned: Vec<&str> = read.warnings.iter().map(|(file, _)| &**file).collect();
    assert_eq!(warned, ["b.yaml"]);
    assert!(read_files(&[other]).unwrap().limit_nothing());
    assert_eq!(read_files(&[]), Ok(Domains::default()));

    let errors = read_files(&[first, again, broken]).unwrap_err();
    let told = errors.to_string();
    assert!(
        told.starts_with("c.yaml:\n1:9: domain: the domain `a` is in a.yaml too"),
        "{told}"
    );
    assert!(told.contains("\nd.yaml:\n"), "{told}");
}

#[test]
fn what_has_no_effect_is_told() {
    let warnings = |text: &str| -> Vec<String> {
        let read = read(text).unwrap_or_else(|errors| panic!("{errors}"));
        read.warnings
            .iter()
            .map(|(file, fault)| format!("{file}:{fault}"))
            .collect()
    };
    let told = warnings(&data("quota.yaml"));
    let expected = [
        "config.yaml:8:5: descriptors[0].metadata: has no effect: answers carry no dynamic metadata",
        "config.yaml:15:5: descriptors[2].detailed_metric: has no effect: metrics here are by rule and limit",
        "config.yaml:21:40: descriptors[3].descriptors[0].rate_limit.requests_per_unit: has no effect beside `unlimited: true`",
    ];
    assert_eq!(told, expected);
    assert_eq!(
        warnings(&one("key: k, shadow_mode: true")),
        [
            "config.yaml:3:15: descriptors[0].shadow_mode: has no effect without a rate_limit beside it",
            "config.yaml:1:1: descriptors: no descriptor here has a limit: nothing in `d` is limited; give a descriptor a `rate_limit`, or remove the file",
        ]
    );
    let told = warnings(&limit("unlimited: true, replaces: [{ name: nobody }]"));
    assert!(
        told[0].contains("`replaces` names `nobody`, which no limit here bears"),
        "{told:?}"
    );
    assert_eq!(warnings(&data("replaces.yaml")), [""; 0]);
}

#[test]
fn deep_and_repeated_files_are_bounded() {
    let mut deep = String::from("domain: d\ndescriptors: ");
    deep.push_str(&"[{ key: k, descriptors: ".repeat(40));
    deep.push_str(&"}]".repeat(40));
    let told = fault(&deep);
    assert!(told.contains("recursion limit exceeded"), "{told}");

    let bomb =
        "domain: d\ndescriptors:\n- &a { key: k, value: v, metadata: { x: &b [1, 2, *c] } }\n";
    assert!(read(bomb).is_err());
    assert!(
        read_files(&[File {
            name: "x",
            bytes: b"domain: \xff\n"
        }])
        .is_err()
    );
}
