//! Every file that the documentation shows is valid.

use std::path::Path;

use leasehold_policy as policy;

#[test]
fn the_examples_of_docs_policy_md_are_valid() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let text = std::fs::read_to_string(file).unwrap();
    let examples: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(
        examples.len() >= 5,
        "only {} examples found",
        examples.len()
    );
    for example in examples {
        if let Err(errors) = policy::file::read(example.as_bytes()) {
            panic!("{errors}\nin\n{example}");
        }
    }
}
