//! One JSON object a line, as nginx (`log_format ... escape=json`), Envoy (`json_format`) and Caddy write them.
//!
//! Fields are found by the names that these programs and their manuals use. Nested objects are looked into by dotted
//! names (`request.remote_ip`), to a bounded depth; of a list its first member counts.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::bad::BadLine;
use super::fields::{Fields, is_method, present, request_line, status, target_parts};
use super::key::KeyField;
use super::time;

/// Where the time is looked for; the finest comes first.
const TIME: &[&str] = &[
    "msec",
    "start_time",
    "ts",
    "time_iso8601",
    "timestamp",
    "@timestamp",
    "time",
    "time_local",
];
const ADDRESS: &[&str] = &[
    "remote_addr",
    "downstream_remote_address",
    "request.client_ip",
    "request.remote_ip",
    "client_ip",
    "remote_ip",
];
const METHOD: &[&str] = &["request_method", "method", "request.method"];
const PATH: &[&str] = &["request_uri", "path", "request.uri", "uri"];
const REQUEST: &[&str] = &["request"];
const HOST: &[&str] = &[
    "http_host",
    "host",
    "authority",
    "request.host",
    "server_name",
];
const STATUS: &[&str] = &["status", "response_code"];
const USER: &[&str] = &["remote_user", "user_id", "user"];

/// Names longer than this, dots included, are not looked into. It bounds what nesting can cost.
const MOST_NAME_BYTES: usize = 256;
/// How many objects within each other are looked into.
const MOST_DEPTH: usize = 4;

/// Takes a line apart. `forwarding` is the forwarding header's name in lower case.
pub(super) fn read<'l>(
    line: &'l str,
    key: &KeyField,
    forwarding: &str,
) -> Result<Fields<'l>, BadLine> {
    let mut members = Members(Vec::with_capacity(32));
    let mut input = serde_json::Deserializer::from_str(line);
    Object {
        members: &mut members.0,
        prefix: "",
        depth: 0,
    }
    .deserialize(&mut input)
    .and_then(|()| input.end())
    .map_err(|error| BadLine::NotJson {
        column: error.column(),
    })?;

    let timed = members.take("time", TIME)?;
    if timed.is_empty() {
        return Err(BadLine::NoField {
            what: "time",
            names: TIME,
        });
    }
    let time_unix_ns = time::parse(&timed)?;
    let mut method = members.take("method", METHOD)?;
    let mut path = members.take("path", PATH)?;
    let mut host = members.take("host", HOST)?;
    let request = members.take("request", REQUEST)?;
    if method.is_empty() && path.is_empty() {
        let (line_method, line_path, line_host) = request_line(&request);
        if !line_host.is_empty() {
            host = Cow::Owned(line_host.to_owned());
        }
        method = Cow::Owned(line_method.to_owned());
        path = Cow::Owned(line_path.to_owned());
    } else if path.starts_with("http") {
        let (target_host, target_path) = target_parts(&path);
        if !target_host.is_empty() {
            (host, path) = (
                Cow::Owned(target_host.to_owned()),
                Cow::Owned(target_path.to_owned()),
            );
        }
    }
    if !is_method(&method) {
        method = Cow::Borrowed("");
    }
    let named = match key {
        KeyField::Address | KeyField::User => Cow::Borrowed(""),
        KeyField::Header(name) => members.header(name)?,
        KeyField::Field(name) => members.take("key", &[name.as_str()])?,
    };
    Ok(Fields {
        time_unix_ns,
        address: members.take("address", ADDRESS)?,
        forwarded: members.header(forwarding)?,
        user: members.take("user", USER)?,
        status: status(&members.take("status", STATUS)?)?,
        method,
        path,
        host,
        named,
    })
}

/// The scalars of a line by dotted name, in its order.
struct Members<'l>(Vec<(Cow<'l, str>, Cow<'l, str>)>);

impl<'l> Members<'l> {
    /// The value of the first of these names that has one; empty if none has.
    fn take(&self, what: &'static str, names: &[&str]) -> Result<Cow<'l, str>, BadLine> {
        for wanted in names {
            let value = self.only(what, |name| name == *wanted)?;
            if !value.is_empty() {
                return Ok(value);
            }
        }
        Ok(Cow::Borrowed(""))
    }

    /// The value of a request header (its name in lower case), under any of the names that it may be logged by:
    /// `http_x_api_key` (nginx), `x_api_key` (Envoy), `request.headers.X-Api-Key` (Caddy).
    fn header(&self, header: &str) -> Result<Cow<'l, str>, BadLine> {
        self.only("header", |name| is_header(name, header))
    }

    fn only(
        &self,
        what: &'static str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Cow<'l, str>, BadLine> {
        let mut found = self.0.iter().filter(|(name, _)| is_wanted(name));
        let Some((_, value)) = found.next() else {
            return Ok(Cow::Borrowed(""));
        };
        match found.next() {
            Some(_) => Err(BadLine::Twice(what)),
            None => Ok(present(value.clone())),
        }
    }
}

/// Whether a member's name means the header.
fn is_header(name: &str, header: &str) -> bool {
    let is_same = |name: &str| {
        name.len() == header.len()
            && name
                .bytes()
                .zip(header.bytes())
                .all(|(a, b)| a.eq_ignore_ascii_case(&b) || (a == b'_' && b == b'-'))
    };
    is_same(name)
        || name.strip_prefix("http_").is_some_and(is_same)
        || name.strip_prefix("request.headers.").is_some_and(is_same)
}

/// Collects the scalars of an object.
struct Object<'m, 'l> {
    members: &'m mut Vec<(Cow<'l, str>, Cow<'l, str>)>,
    prefix: &'m str,
    depth: usize,
}

impl<'l> DeserializeSeed<'l> for Object<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_map(self)
    }
}

/// A member's name, borrowed unless it holds escapes.
#[derive(Deserialize)]
struct Name<'l>(#[serde(borrow)] Cow<'l, str>);

impl<'l> Visitor<'l> for Object<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            let name = if self.prefix.is_empty() {
                name
            } else {
                Cow::Owned(format!("{}.{name}", self.prefix))
            };
            if name.len() > MOST_NAME_BYTES {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            map.next_value_seed(Value {
                members: self.members,
                name,
                depth: self.depth,
            })?;
        }
        Ok(())
    }
}

/// Collects a value under a name.
struct Value<'m, 'l> {
    members: &'m mut Vec<(Cow<'l, str>, Cow<'l, str>)>,
    name: Cow<'l, str>,
    depth: usize,
}

impl<'l> Value<'_, 'l> {
    fn add(self, value: Cow<'l, str>) {
        self.members.push((self.name, value));
    }
}

impl<'l> DeserializeSeed<'l> for Value<'_, 'l> {
    type Value = ();

    fn deserialize<D: Deserializer<'l>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'l> Visitor<'l> for Value<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'l str) -> Result<(), E> {
        self.add(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.add(Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.add(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.add(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.add(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.add(Cow::Borrowed(if value { "true" } else { "false" }));
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.add(Cow::Borrowed(""));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'l>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.depth < MOST_DEPTH {
            let first = Value {
                depth: self.depth + 1,
                ..self
            };
            seq.next_element_seed(first)?;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<(), A::Error> {
        if self.depth < MOST_DEPTH {
            return Object {
                members: self.members,
                prefix: &self.name,
                depth: self.depth + 1,
            }
            .visit_map(map);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(line: &str) -> BadLine {
        read(line, &KeyField::Address, "x-forwarded-for").unwrap_err()
    }

    #[test]
    fn headers_are_found_under_every_program_s_name() {
        for name in [
            "x_api_key",
            "http_x_api_key",
            "X-Api-Key",
            "request.headers.X-Api-Key",
        ] {
            assert!(is_header(name, "x-api-key"), "{name}");
        }
        for name in [
            "x_api_keys",
            "resp_headers.X-Api-Key",
            "sent_http_x_api_key",
            "api_key",
        ] {
            assert!(!is_header(name, "x-api-key"), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        assert_eq!(error("{"), BadLine::NotJson { column: 1 });
        assert_eq!(error("[]"), BadLine::NotJson { column: 0 });
        assert!(matches!(
            error(r#"{"a":"\x22"}"#),
            BadLine::NotJson { column: 8 }
        ));
        assert!(matches!(error(r#"{"msec":1}{"#), BadLine::NotJson { .. }));
        assert!(matches!(error("{}"), BadLine::NoField { what: "time", .. }));
        assert_eq!(error(r#"{"msec":1,"msec":2}"#), BadLine::Twice("time"));
        assert!(matches!(error(r#"{"msec":true}"#), BadLine::Time(_)));
        assert_eq!(error(r#"{"msec":1,"status":"ok"}"#), BadLine::Status);
    }

    #[test]
    fn nesting_costs_no_more_than_its_bound() {
        let mut deep = String::from(r#"{"msec":1,"remote_addr":"a","#);
        for _ in 0..100 {
            deep.push_str(&format!(r#""{}":{{"#, "n".repeat(200)));
        }
        deep.push_str(r#""x":1"#);
        deep.push_str(&"}".repeat(101));
        let fields = read(&deep, &KeyField::Field("x".into()), "x-forwarded-for").unwrap();
        assert_eq!((&*fields.address, &*fields.named), ("a", ""));
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "\\PC{0,200}", json in r#"[{}\[\]",:a-z0-9\\. -]{0,200}"#) {
            for line in [line, json] {
                let _ = read(&line, &KeyField::Header("x-api-key".into()), "x-forwarded-for");
                let _ = super::super::common::read(&line, &KeyField::Field("9".into()));
            }
        }
    }
}
