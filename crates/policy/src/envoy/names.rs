//! Names the limits of descriptor trees: `domain.key_value.key`, as that project's metrics do.
//!
//! A name must be unique and fit where rule names go (128 characters of a small set). One that does not is rewritten
//! and given a hash of the unambiguous path, so that it stays the same from one reading to the next.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::model::RuleName;

const LONGEST: usize = 128;
/// A hyphen and 16 hexadecimal digits.
const SUFFIX: usize = 17;

/// The names given so far.
#[derive(Debug, Default)]
pub(super) struct RuleNames {
    taken: HashSet<String>,
}

impl RuleNames {
    /// Names the limit at the end of a path: the domain and the composite key at each level.
    pub(super) fn name(&mut self, path: &[String]) -> RuleName {
        let full = path.join(".");
        let mut name: String = full
            .chars()
            .map(|c| if is_allowed(c) { c } else { '_' })
            .collect();
        // Every character is ASCII now: lengths in bytes are lengths in characters.
        if name != full || name.len() > LONGEST || self.taken.contains(&name) {
            let mut unambiguous = Vec::new();
            for part in path {
                unambiguous.extend_from_slice(&(part.len() as u64).to_le_bytes());
                unambiguous.extend_from_slice(part.as_bytes());
            }
            name.truncate(LONGEST - SUFFIX);
            name = format!("{name}-{:016x}", xxh3_64(&unambiguous));
        }
        self.taken.insert(name.clone());
        RuleName::new(&name)
    }
}

const fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '/' | '-' | '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(names: &mut RuleNames, path: &[&str]) -> String {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        names.name(&path).to_string()
    }

    #[test]
    fn plain_paths_keep_their_text_and_others_get_a_hash() {
        let mut names = RuleNames::default();
        assert_eq!(name(&mut names, &["d", "k_v", "n"]), "d.k_v.n");
        assert_eq!(name(&mut names, &["d", "path_/a/*"]), "d.path_/a/*");
        let mail = name(&mut names, &["d", "user_a@x"]);
        assert_eq!(mail, "d.user_a_x-04d77c2f294f88d4");
        assert_eq!(name(&mut RuleNames::default(), &["d", "user_a@x"]), mail);
        assert_ne!(name(&mut names, &["d", "user_a+x"]), mail);
    }

    #[test]
    fn paths_that_read_alike_have_names_of_their_own() {
        let mut names = RuleNames::default();
        let first = name(&mut names, &["d", "a.b"]);
        let second = name(&mut names, &["d", "a", "b"]);
        assert_eq!(first, "d.a.b");
        assert_ne!(first, second);
    }

    #[test]
    fn long_paths_fit() {
        let mut names = RuleNames::default();
        let long = "é".repeat(500);
        let name = name(&mut names, &["d", &long]);
        assert_eq!(name.len(), LONGEST);
        assert!(name.is_ascii());
    }
}
