//! Names of nodes and clusters, and the number that a node's name stands for in the protocol.
//!
//! A name is part of certificates, subjects and metrics, so its grammar is one that needs no escaping in any of them.

use std::fmt;

use lease::id::NodeId;

/// The most bytes of a name.
const MOST_BYTES: usize = 63;

/// Why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is no name: 1 to {MOST_BYTES} of a-z, 0-9, '-', '_' and '.', the first a letter or a digit"
)]
pub struct NameError {
    /// The text, or its beginning.
    pub given: String,
}

impl NameError {
    /// What would be right.
    pub const RIGHT: &str = "1 to 63 of a-z, 0-9, '-', '_' and '.', the first a letter or a digit";
}

fn check(text: &str) -> Result<Box<str>, NameError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let right = (1..=MOST_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|byte| plain(byte) || matches!(byte, b'-' | b'_' | b'.'))
        && text.bytes().next().is_some_and(plain);
    if right {
        Ok(text.into())
    } else {
        Err(NameError {
            given: text.chars().take(MOST_BYTES + 1).collect(),
        })
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Reads a name.
            ///
            /// # Errors
            /// [`NameError`] if it is not of the grammar.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check(text).map(Self)
            }

            /// The name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of a node, the same after every restart.
    NodeName
);

name!(
    /// The name of a fleet: nodes of different ones refuse each other.
    ClusterName
);

impl NodeName {
    /// What the protocol calls this node: the first eight bytes of the BLAKE3 hash of its name, the first one highest.
    #[must_use]
    pub fn id(&self) -> NodeId {
        let hash = blake3::hash(self.0.as_bytes());
        let (first, _) = hash
            .as_bytes()
            .split_first_chunk()
            .expect("a BLAKE3 hash has 32 bytes");
        NodeId(u64::from_be_bytes(*first))
    }
}

/// A member of the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: NodeName,
    /// Where its peers reach it: `host:port`, the host a DNS name or an IP address (an IPv6 one in brackets). Empty
    /// where the transport needs none.
    pub address: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_grammar_or_refused() {
        let longest = "n".repeat(MOST_BYTES);
        for good in ["a", "0", "node-1", "eu_west.node-1.example", &longest] {
            assert_eq!(NodeName::new(good).unwrap().as_str(), good);
            assert_eq!(ClusterName::new(good).unwrap().to_string(), good);
        }
        let too_long = "n".repeat(MOST_BYTES + 1);
        for bad in [
            "", "A", "-a", ".a", "_a", "a/b", "a b", "ä", "a\0", "a*", &too_long,
        ] {
            let error = NodeName::new(bad).unwrap_err();
            assert!(error.to_string().contains("a-z"), "{error}");
            assert!(ClusterName::new(bad).is_err());
        }
        let huge = NodeName::new(&"x".repeat(1 << 20)).unwrap_err();
        assert_eq!(huge.given.len(), MOST_BYTES + 1);
    }

    #[test]
    fn ids_are_the_beginning_of_the_names_hash() {
        // `printf node-1 | b3sum`, the first 16 digits.
        let id = NodeName::new("node-1").unwrap().id();
        assert_eq!(
            format!("{:016x}", id.0),
            blake3::hash(b"node-1").to_hex()[..16]
        );
        assert_ne!(id, NodeName::new("node-2").unwrap().id());
    }
}
