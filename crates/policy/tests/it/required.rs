//! F11: each field absent, misspelt or of the wrong type is refused with the field named.
//!
//! The cases are made from a valid file by changing one field at a time, so that a new field is
//! tried as soon as `everything.yaml` has it.

use std::fs;
use std::path::Path;

use leasehold_policy as policy;
use policy::fault::{FaultKind, Faults, PolicyErrors};
use policy::yaml::{Content, Node};

const REQUIRED: [&str; 5] = ["version", "rules", "name", "by", "limits"];

/// What is done to one field.
#[derive(Clone, Copy, Debug)]
enum Change {
    Absent,
    Misspelt,
    Null,
    EmptyMapping,
    Number,
}

fn everything() -> Node {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/policy/valid/everything.yaml");
    policy::yaml::parse(&fs::read(file).unwrap(), &mut Faults::default()).unwrap()
}

/// The tree as JSON-like YAML, the field at `target` changed.
fn write(node: &Node, way: &str, target: &str, change: Change, out: &mut String) {
    match &node.content {
        Content::Scalar { text, plain: true } => *out += text,
        Content::Scalar { text, plain: false } => *out += &format!("{text:?}"),
        Content::Sequence(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                write(item, &format!("{way}[{index}]"), target, change, out);
                *out += ", ";
            }
            out.push(']');
        }
        Content::Mapping(entries) => {
            out.push('{');
            for (key, value) in entries {
                let way = join(way, &key.text);
                let name = &key.text;
                if way == target {
                    match change {
                        Change::Absent => continue,
                        Change::Misspelt => *out += &format!("\"{name}x\": "),
                        Change::Null => {
                            *out += &format!("\"{name}\": ~, ");
                            continue;
                        }
                        Change::EmptyMapping => {
                            *out += &format!("\"{name}\": {{}}, ");
                            continue;
                        }
                        Change::Number => {
                            *out += &format!("\"{name}\": 3.5, ");
                            continue;
                        }
                    }
                } else {
                    *out += &format!("\"{name}\": ");
                }
                write(value, &way, target, change, out);
                *out += ", ";
            }
            out.push('}');
        }
    }
}

fn join(way: &str, key: &str) -> String {
    if way.is_empty() {
        key.to_owned()
    } else {
        format!("{way}.{key}")
    }
}

/// The ways to all fields whose names the format fixes.
fn fields(node: &Node, way: &str, out: &mut Vec<String>) {
    match &node.content {
        Content::Scalar { .. } => {}
        Content::Sequence(items) => {
            for (index, item) in items.iter().enumerate() {
                fields(item, &format!("{way}[{index}]"), out);
            }
        }
        Content::Mapping(entries) => {
            let free = way == "plans"
                || way.ends_with("headers")
                || way.ends_with("descriptor")
                || way != "rules" && way.ends_with("rules");
            for (key, value) in entries {
                let way = join(way, &key.text);
                if !free {
                    out.push(way.clone());
                }
                fields(value, &way, out);
            }
        }
    }
}

fn refused(root: &Node, target: &str, change: Change) -> Result<PolicyErrors, String> {
    let mut text = String::new();
    write(root, "", target, change, &mut text);
    match policy::file::read(text.as_bytes()) {
        Ok(_) => Err(format!("{change:?} {target} was read:\n{text}")),
        Err(errors) => Ok(errors),
    }
}

fn names(errors: &PolicyErrors, target: &str) -> bool {
    let (parent, name) = target.rsplit_once('.').unwrap_or(("", target));
    errors.faults().iter().any(|fault| {
        let at_parent = fault.path == parent && fault.problem.contains(&format!("`{name}`"));
        at_parent || fault.path.starts_with(target)
    })
}

#[test]
fn the_file_itself_is_valid_when_written_so() {
    let mut text = String::new();
    write(&everything(), "", "no field", Change::Absent, &mut text);
    policy::file::read(text.as_bytes()).unwrap();
}

#[test]
fn a_required_field_that_is_absent_is_named() {
    let root = everything();
    let mut all = Vec::new();
    fields(&root, "", &mut all);
    let mut tried = 0;
    for target in &all {
        let (parent, name) = target.rsplit_once('.').unwrap_or(("", target));
        let of_rule =
            parent.starts_with("rules[") && parent.ends_with(']') && !parent.contains('.');
        if !(parent.is_empty() || of_rule) || !REQUIRED.contains(&name) {
            continue;
        }
        let errors = refused(&root, target, Change::Absent).unwrap();
        assert!(names(&errors, target), "{target}:\n{errors}");
        let kinds: Vec<FaultKind> = errors.faults().iter().map(|fault| fault.kind).collect();
        assert!(
            kinds.contains(&FaultKind::MissingField),
            "{target}:\n{errors}"
        );
        tried += 1;
    }
    assert!(tried >= 2 + 3 * 5, "only {tried} fields tried");
}

#[test]
fn a_field_that_is_misspelt_is_named_and_the_right_one_suggested() {
    let root = everything();
    let mut all = Vec::new();
    fields(&root, "", &mut all);
    assert!(all.len() > 80, "only {} fields tried", all.len());
    for target in &all {
        let errors = refused(&root, target, Change::Misspelt).unwrap();
        let name = target.rsplit('.').next().unwrap();
        let fault = errors
            .faults()
            .iter()
            .find(|fault| fault.path == format!("{target}x"))
            .unwrap_or_else(|| panic!("{target}:\n{errors}"));
        assert_eq!(fault.kind, FaultKind::UnknownField, "{target}");
        assert_eq!(
            fault.help,
            Some(format!("did you mean `{name}`?")),
            "{target}"
        );
    }
}

#[test]
fn a_field_of_the_wrong_type_is_named() {
    let root = everything();
    let mut all = Vec::new();
    fields(&root, "", &mut all);
    for target in &all {
        for change in [Change::Null, Change::EmptyMapping, Change::Number] {
            // Settings have defaults for all their fields; a text may be a number; a path to a
            // list of paths may not.
            let name = target.rsplit('.').next().unwrap();
            let may = match change {
                Change::Null | Change::Absent | Change::Misspelt => false,
                Change::EmptyMapping => {
                    matches!(target.as_str(), "paths" | "client_address" | "identity")
                }
                Change::Number => {
                    matches!(
                        name,
                        "name" | "user" | "host" | "method" | "domain" | "is" | "prefix" | "header"
                    ) || name == "descriptor" && !target.ends_with("when.descriptor")
                }
            };
            if may {
                continue;
            }
            let errors = refused(&root, target, change).unwrap();
            assert!(names(&errors, target), "{change:?} {target}:\n{errors}");
        }
    }
}
