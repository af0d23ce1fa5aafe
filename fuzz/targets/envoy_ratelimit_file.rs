//! Files of envoyproxy/ratelimit: read whole or refused, the same each time, and each limit is found where it is.
#![no_main]

use std::collections::HashSet;

use leasehold_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;
use policy::envoy::{File, Index, read_files};
use policy::model::{DescriptorNode, DescriptorValue};

fuzz_target!(|bytes: &[u8]| {
    let file = File {
        name: "a.yaml",
        bytes,
    };
    let read = read_files(&[file]);
    assert_eq!(read, read_files(&[file]), "the same file reads differently");
    let read = match read {
        Ok(read) => read,
        Err(errors) => {
            assert!(
                errors
                    .files
                    .iter()
                    .all(|(_, errors)| !errors.faults().is_empty())
            );
            assert_printable(&errors.to_string());
            return;
        }
    };
    for (_, warning) in &read.warnings {
        assert_printable(&warning.to_string());
    }
    let twice = read_files(&[
        file,
        File {
            name: "b.yaml",
            bytes,
        },
    ]);
    assert!(twice.is_err(), "one domain in two files");

    let index = Index::new(&read.domains);
    let mut names = HashSet::new();
    for limit in index.limits() {
        let name = limit.rule.as_str();
        assert!(
            (1..=128).contains(&name.len()) && name.is_ascii(),
            "{name:?}"
        );
        assert!(names.insert(name), "two limits are named {name}");
    }
    let domain = &read.domains[0];
    assert!(index.has_domain(&domain.name));
    walk(&index, &domain.name, &domain.descriptors, &mut Vec::new());
});

/// A node with a value is found by its own text, since that goes before all wildcards.
fn walk<'n>(
    index: &Index,
    domain: &str,
    nodes: &'n [DescriptorNode],
    entries: &mut Vec<(&'n str, &'n str)>,
) {
    for node in nodes {
        let DescriptorValue::Pattern(value) = &node.value else {
            continue;
        };
        entries.push((&node.key, value));
        let found = index.find(domain, entries);
        assert_eq!(
            found.map(|found| &found.limit.rule),
            node.limit.as_ref().map(|at| &at.rule)
        );
        walk(index, domain, &node.descriptors, entries);
        entries.pop();
    }
}
