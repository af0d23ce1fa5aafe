//! The JSON Schema and the reader say the same of a file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use leasehold_policy as policy;
use policy::fault::{FaultKind, Faults};
use policy::file::schema::json_schema;
use policy::yaml::{Content, Node};
use serde_json::{Map, Value};

use crate::golden::files;

#[test]
fn the_schema_in_the_repository_is_the_program_s() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/policy.schema.json");
    let schema = serde_json::to_string_pretty(&json_schema()).unwrap() + "\n";
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &schema).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), schema);
}

#[test]
fn schema_and_reader_know_the_same_fields() {
    use policy::file::{key, limits, plans, rules, settings};
    let schema = json_schema();
    let cases: [(&str, &[&str]); 11] = [
        ("", &policy::file::FILE),
        ("Paths", &settings::PATHS),
        ("ClientAddress", &settings::CLIENT_ADDRESS),
        ("Identity", &settings::IDENTITY),
        ("Plan", &plans::PLAN),
        ("Subject", &plans::SUBJECT),
        ("Rule", &rules::RULE),
        ("When", &rules::WHEN),
        ("ValueCondition", &rules::VALUE),
        ("DetailedKeyPart", &key::KEY_PART),
        ("DetailedLimit", &limits::LIMIT),
    ];
    for (name, fields) in cases {
        let part = if name.is_empty() {
            &schema
        } else {
            &schema["definitions"][name]
        };
        let known: BTreeSet<&str> = part["properties"]
            .as_object()
            .expect(name)
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(known, fields.iter().copied().collect(), "{name}");
        assert_eq!(part["additionalProperties"], Value::Bool(false), "{name}");
    }
}

/// A file as JSON, its scalars read as YAML's core schema does.
fn json(node: &Node) -> Value {
    match &node.content {
        Content::Sequence(items) => items.iter().map(json).collect(),
        Content::Mapping(entries) => Value::Object(
            entries
                .iter()
                .map(|(key, node)| (key.text.clone(), json(node)))
                .collect::<Map<_, _>>(),
        ),
        Content::Scalar { .. } if node.is_null() => Value::Null,
        Content::Scalar { text, plain: true } => match text.replace('_', "").parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) if text == "true" || text == "false" => (text == "true").into(),
            Err(_) => text.as_str().into(),
        },
        Content::Scalar { text, plain: false } => text.as_str().into(),
    }
}

fn validator() -> (boon::Schemas, boon::SchemaIndex) {
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler.add_resource("policy.json", json_schema()).unwrap();
    let index = compiler.compile("policy.json", &mut schemas).unwrap();
    (schemas, index)
}

#[test]
fn files_that_are_valid_satisfy_the_schema() {
    let (schemas, index) = validator();
    for file in files("valid") {
        let tree = policy::yaml::parse(&fs::read(&file).unwrap(), &mut Faults::default()).unwrap();
        if let Err(error) = schemas.validate(&json(&tree), index) {
            panic!("{}: {error:#}", file.display());
        }
    }
}

#[test]
fn what_the_schema_can_see_it_refuses_as_the_reader_does() {
    let (schemas, index) = validator();
    let mut refused = 0;
    for file in files("invalid") {
        let source = fs::read(&file).unwrap();
        let Ok(tree) = policy::yaml::parse(&source, &mut Faults::default()) else {
            continue;
        };
        let errors = policy::file::read(&source).unwrap_err();
        let visible = errors.faults().iter().any(|fault| match fault.kind {
            FaultKind::UnknownField | FaultKind::WrongType | FaultKind::Empty => true,
            FaultKind::MissingField => {
                fault.path.starts_with("rules[") && !fault.path.contains("].")
                    || fault.path.is_empty()
            }
            _ => false,
        });
        if visible {
            assert!(
                schemas.validate(&json(&tree), index).is_err(),
                "{}",
                file.display()
            );
            refused += 1;
        }
    }
    assert!(refused >= 8, "only {refused} files tried");
}
