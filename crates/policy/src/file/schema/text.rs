//! The texts of a policy file, each with the pattern that an editor can check.

use schemars::{JsonSchema, Schema, json_schema};

macro_rules! text_schema {
    ($name:ident, $schema:tt) => {
        pub(super) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

text_schema!(Name, {
    "description": "1 to 128 letters, digits or any of _.:/-",
    "type": "string",
    "pattern": "^[A-Za-z0-9_.:/-]{1,128}$"
});

text_schema!(HeaderName, {
    "description": "A header's name; case does not matter.",
    "type": "string",
    "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$",
    "examples": ["x-tenant"]
});

text_schema!(Text, {
    "description": "Text. A number or truth value counts as it is written.",
    "type": ["string", "number", "boolean"],
    "minLength": 1
});

text_schema!(RateText, {
    "description": "Units per window, `unlimited`, or `deny`. 0 units deny all.",
    "type": "string",
    "pattern": "^(unlimited|deny|[0-9][0-9_]* *(/| per ) *([0-9][0-9_]* *)?(ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hr|hours?|d|days?|w|weeks?|months?|y|years?)|[0-9][0-9_]* *(/| per ) *forever)$",
    "examples": ["100/s", "1000 per 15m", "5_000_000/day", "5 per hour", "1000/forever", "unlimited", "deny"]
});

text_schema!(WindowText, {
    "description": "A length of time from 100ms to 100 years, or `forever` for a quota that never renews.",
    "type": "string",
    "pattern": "^(([0-9][0-9_]* *)?(ms|milliseconds?|s|sec|seconds?|m|min|minutes?|h|hr|hours?|d|days?|w|weeks?|months?|y|years?)|forever)$",
    "examples": ["100ms", "s", "15m", "2 hours", "day", "forever"]
});

text_schema!(PathText, {
    "description": "A path pattern: literal segments, `{name}` or `*` for one segment, `*` within a segment for any run of characters, `**` or `{*name}` at the end for any number of segments.",
    "type": "string",
    "pattern": "^/[^?#]*$",
    "examples": ["/login", "/users/{id}", "/assets/*.js", "/api/**"]
});

text_schema!(MethodText, {
    "description": "A method; case does not matter.",
    "type": "string",
    "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$",
    "examples": ["GET", "POST"]
});

text_schema!(HostText, {
    "description": "A host without port; `*.` in front for all subdomains.",
    "type": "string",
    "pattern": "^((\\*\\.)?[A-Za-z0-9_.-]+|\\[[0-9A-Fa-f:.]+\\])$",
    "examples": ["api.example.com", "*.example.com"]
});

text_schema!(RangeText, {
    "description": "An address or a range of addresses.",
    "type": "string",
    "pattern": "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$",
    "examples": ["10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]
});

text_schema!(ApiKeyHashText, {
    "description": "The keyed hash of an API key, as `leasehold policy hash-key` prints it. Never a key.",
    "type": "string",
    "pattern": "^v[1-9][0-9]*\\.[0-9A-Fa-f]{64}$"
});
