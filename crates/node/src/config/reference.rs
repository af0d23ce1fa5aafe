//! The reference of all keys, as `docs/configuration.md` carries it. A test keeps the two the same.

use super::Config;
use super::keys::KEYS;
use super::setting::Bounds;
use super::sources::variable;

/// The reference in Markdown.
#[must_use]
pub fn markdown() -> String {
    let defaults = Config::default();
    let mut text = String::new();
    for key in KEYS {
        text += &format!("### `{}`\n\n{}\n\n", key.name, key.doc);
        text += &format!("Default: `{}`. ", (key.show)(&defaults));
        let Bounds { least, most } = key.bounds;
        if (least, most) != (Bounds::NONE.least, Bounds::NONE.most) {
            text += &format!("From {least} to {most}. ");
        }
        text += &format!("Environment: `{}`.\n\n", variable(key.name));
    }
    text
}
