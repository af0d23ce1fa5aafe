//! NATS: the connection that all uses share, and the names that stand for clusters and nodes on it.
//!
//! It must never give up on a server, whatever the server says: it may be mended while we run. It must never show a
//! secret, in an error, in a log or in `Debug`.

mod ledger;
mod link;
mod members;

pub use self::ledger::NatsLedger;
pub use self::link::{
    Credentials, LinkError, LinkState, NatsLink, NatsSettings, Secret, Tls, check_servers,
};
pub use self::members::{Fleet, Kept, MembersError, NatsMembers, SharedMembership};

/// A name as one token of a subject, and as part of a stream's name: `.` would divide it, so `_` becomes `__` and `.`
/// becomes `_-`. No two names become the same token.
///
/// The name must be one of a cluster or a node: letters, digits, `-`, `_` and `.`. Anything else in it becomes `_x`
/// and its number in hexadecimal digits, and `_`.
#[must_use]
pub fn token(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '_' => token.push_str("__"),
            '.' => token.push_str("_-"),
            plain if plain.is_ascii_alphanumeric() || plain == '-' => token.push(plain),
            other => token.push_str(&format!("_x{:x}_", u32::from(other))),
        }
    }
    token
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_are_readable_and_divide_nothing() {
        for (name, expected) in [
            ("node-1", "node-1"),
            ("eu_west.node-1", "eu__west_-node-1"),
            ("a.to.b", "a_-to_-b"),
            ("*", "_x2a_"),
            ("a b>", "a_x20_b_x3e_"),
        ] {
            assert_eq!(token(name), expected);
        }
    }

    proptest! {
        #[test]
        fn no_two_names_become_one_token(a in "[a-c_.x2-]{0,6}|.{0,4}", b in "[a-c_.x2-]{0,6}|.{0,4}") {
            let (one, other) = (token(&a), token(&b));
            prop_assert!(!one.contains(['.', '*', '>', ' ', '/', '\\']));
            prop_assert_eq!(one == other, a == b);
        }
    }
}
