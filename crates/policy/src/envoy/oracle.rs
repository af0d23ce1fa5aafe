//! The matching rules of envoyproxy/ratelimit, written as plainly as they are stated: what [`super::Index`] is held
//! against. It shares no code with it.

use crate::model::{DescriptorDomain, DescriptorNode, DescriptorValue};

fn composite(node: &DescriptorNode) -> String {
    let mut key = node.key.to_string();
    if let DescriptorValue::Pattern(value) = &node.value {
        key.push('_');
        key.push_str(value);
    }
    key
}

/// The name of the limit found, and the values that make up its bucket's key.
pub(super) fn find(
    domain: &DescriptorDomain,
    entries: &[(&str, &str)],
) -> Option<(String, Vec<String>)> {
    let mut level = &domain.descriptors;
    let mut values = Vec::new();
    for (at, (key, value)) in entries.iter().enumerate() {
        let wanted = format!("{key}_{value}");
        let mut counted = (*value).to_owned();
        let exact = level.iter().find(|node| composite(node) == wanted);
        let wild = || {
            level.iter().find(|node| {
                let composite = composite(node);
                let parts: Vec<&str> = composite.split('*').collect();
                parts.len() > 1 && matches(&parts, &wanted)
            })
        };
        let node = match exact {
            Some(node) => node,
            None => match wild() {
                Some(node) => {
                    if node.share_threshold {
                        let composite = composite(node);
                        let front = format!("{key}_");
                        counted = composite
                            .strip_prefix(&front)
                            .unwrap_or(&composite)
                            .to_owned();
                    }
                    node
                }
                None => level.iter().find(|node| composite(node) == *key)?,
            },
        };
        values.push(counted);
        if at + 1 == entries.len() {
            let limit = node.limit.as_ref()?;
            return Some((limit.rule.to_string(), values));
        }
        if node.descriptors.is_empty() {
            return None;
        }
        level = &node.descriptors;
    }
    None
}

/// Whether a pattern, split at its stars, matches all of a text: by trying every way.
pub(super) fn matches(parts: &[&str], text: &str) -> bool {
    match parts {
        [] => text.is_empty(),
        [only] => *only == text,
        [first, rest @ ..] => text.strip_prefix(first).is_some_and(|after| {
            let ends = (0..=after.len()).filter(|at| after.is_char_boundary(*at));
            ends.into_iter().any(|at| matches(rest, &after[at..]))
        }),
    }
}
