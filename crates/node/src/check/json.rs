//! The form in which programs ask: one JSON object.
//!
//! A question names a method and a path, or a domain and entries: rules that choose by them would silently not apply to
//! one without. Every other field may be absent, none may be unknown. A fault names the field and never repeats a value.

use std::net::IpAddr;

use gate::request::{HeaderLookup, Hits};
use serde::Deserialize as Derive;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use super::fault::Fault;
use super::query::MOST_HITS;

/// A question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Derive)]
#[serde(deny_unknown_fields, default)]
pub struct Question {
    /// The request's method.
    pub method: Option<String>,
    /// Its target: path, with or without a query.
    pub path: Option<String>,
    /// Its host.
    pub host: Option<String>,
    /// Its headers: a value or a list of values by name.
    pub headers: JsonHeaders,
    /// The address at the other end of the API's connection.
    pub peer: Option<IpAddr>,
    /// The API key, wherever it came from; it wins over one in the headers.
    pub api_key: Option<String>,
    /// The user, wherever it came from; it wins over one in the headers.
    pub user: Option<String>,
    /// The Envoy domain.
    pub domain: Option<String>,
    /// The entries of an Envoy descriptor.
    pub entries: Vec<Entry>,
    /// Hits that it takes, 1 if not said; 0 only looks.
    pub hits: Option<u64>,
    /// Only look: charge nothing.
    pub peek: Option<bool>,
    /// Hits that it gives back.
    pub give_back: Option<u64>,
}

/// A descriptor's entry.
#[derive(Clone, Debug, PartialEq, Eq, Derive)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

/// Headers with lower-case names, in the order of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonHeaders(Vec<(String, String)>);

impl HeaderLookup for JsonHeaders {
    fn values<'s>(&'s self, name: &str, each: &mut dyn FnMut(&'s [u8])) {
        for (_, value) in self.0.iter().filter(|(known, _)| known == name) {
            each(value.as_bytes());
        }
    }
}

impl JsonHeaders {
    /// The header's first value.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl JsonHeaders {
    /// Gives the header this one value, whatever it had.
    pub(super) fn replace(&mut self, name: &str, value: String) {
        self.0.retain(|(known, _)| known != name);
        self.0.push((name.to_owned(), value));
    }
}

impl<'de> Deserialize<'de> for JsonHeaders {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        #[derive(Derive)]
        #[serde(
            untagged,
            expecting = "a header value must be a string or a list of strings"
        )]
        enum Values {
            One(String),
            Many(Vec<String>),
        }

        impl<'de> Visitor<'de> for Pairs {
            type Value = JsonHeaders;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of header names and values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonHeaders, A::Error> {
                let mut pairs = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let name = http::HeaderName::from_bytes(name.as_bytes())
                        .map_err(|_| de::Error::custom("a key is not a header name"))?;
                    match map.next_value::<Values>()? {
                        Values::One(value) => pairs.push((name.as_str().to_owned(), value)),
                        Values::Many(values) => pairs.extend(
                            values
                                .into_iter()
                                .map(|value| (name.as_str().to_owned(), value)),
                        ),
                    }
                }
                Ok(JsonHeaders(pairs))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

impl Question {
    /// Reads a body.
    ///
    /// # Errors
    /// [`Fault`] naming the first field that is wrong.
    pub fn read(body: &[u8]) -> Result<Self, Fault> {
        if body.is_empty() {
            return Err(Fault::Missing {
                field: "body",
                expected: "send a JSON object, or name the request in X-Original-Method and \
                           X-Original-URI",
            });
        }
        // serde would also read an array, its items as fields in order.
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(Fault::Unusable {
                field: "body".into(),
                problem: "not a JSON object".into(),
            });
        }
        let mut json = serde_json::Deserializer::from_slice(body);
        let question: Self =
            serde_path_to_error::deserialize(&mut json).map_err(|error| not_json(&error))?;
        json.end().map_err(|_| Fault::Unusable {
            field: "body".into(),
            problem: "more follows the JSON object; send one object".into(),
        })?;
        question.check()?;
        Ok(question)
    }

    /// What it takes.
    #[must_use]
    pub fn takes(&self) -> Hits {
        match (self.peek, self.give_back) {
            (Some(true), _) => Hits::Take(0),
            (_, Some(back)) => Hits::GiveBack(back),
            (Some(false) | None, None) => Hits::Take(self.hits.unwrap_or(1)),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        let unusable = |field: &'static str, problem: &'static str| {
            Err(Fault::Unusable {
                field: field.into(),
                problem: problem.into(),
            })
        };
        if self
            .method
            .as_ref()
            .is_some_and(|m| http::Method::from_bytes(m.as_bytes()).is_err())
        {
            return unusable("method", "not an HTTP method");
        }
        if self
            .path
            .as_ref()
            .is_some_and(|path| !path.starts_with(['/', '*']))
        {
            return unusable("path", "not a path: it must begin with `/`");
        }
        for (field, hits) in [("hits", self.hits), ("give_back", self.give_back)] {
            if hits.is_some_and(|hits| hits > MOST_HITS) {
                return unusable(field, "not a whole number from 0 to 4294967295");
            }
        }
        let kinds = [
            self.hits.is_some(),
            self.peek == Some(true),
            self.give_back.is_some(),
        ];
        if kinds.into_iter().filter(|given| *given).count() > 1 {
            return unusable(
                "hits",
                "more than one of `hits`, `peek` and `give_back`; send one",
            );
        }
        if self.entries.iter().any(|entry| entry.key.is_empty()) {
            return unusable(
                "entries",
                "an entry with an empty `key`; name what its value is",
            );
        }
        if self.domain.is_none() || self.entries.is_empty() {
            for (field, is_there) in [
                ("method", self.method.is_some()),
                ("path", self.path.is_some()),
            ] {
                if !is_there {
                    return Err(Fault::Missing {
                        field,
                        expected: "send the request's `method` and `path`, or a `domain` and `entries`",
                    });
                }
            }
        }
        Ok(())
    }
}

/// Names the field; of what was sent, nothing but field names is repeated.
fn not_json(error: &serde_path_to_error::Error<serde_json::Error>) -> Fault {
    let json = error.inner();
    let at = format!("line {}, column {}", json.line(), json.column());
    let (field, problem) = match json.classify() {
        serde_json::error::Category::Syntax => ("body".into(), format!("not JSON at {at}")),
        serde_json::error::Category::Eof => {
            ("body".into(), "JSON that breaks off before its end".into())
        }
        serde_json::error::Category::Io => ("body".into(), "not readable".into()),
        serde_json::error::Category::Data => {
            let problem = format!("{} at {at}", without_values(&json.to_string()));
            let path = error.path().to_string();
            (if path == "." { "body".into() } else { path }, problem)
        }
    };
    Fault::Unusable {
        field: field.into(),
        problem: problem.into(),
    }
}

/// serde's message, less its position and the value that it found: `invalid type: string "secret", expected u64`
/// becomes `invalid type, expected u64`.
fn without_values(message: &str) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    match (message.split_once(": "), message.rsplit_once(", expected ")) {
        (
            Some((kind @ ("invalid type" | "invalid value" | "invalid length"), _)),
            Some((_, expected)),
        ) => {
            format!("{kind}, expected {expected}")
        }
        (Some((kind @ ("invalid type" | "invalid value" | "invalid length"), _)), None) => {
            kind.into()
        }
        (Some(_) | None, _) => message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Question {
        Question::read(text.as_bytes()).expect("a question")
    }

    fn fault(text: &str) -> String {
        Question::read(text.as_bytes())
            .expect_err("this is wrong")
            .to_string()
    }

    #[test]
    fn every_field_is_read() {
        let question = read(
            r#"{"method":"GET","path":"/a?b","host":"h","headers":{"X-A":"1","x-b":["2","3"]},
                "peer":"192.0.2.1","api_key":"k","user":"u","domain":"d",
                "entries":[{"key":"a","value":"b"}],"hits":3}"#,
        );
        assert_eq!(question.headers.first("x-a"), Some("1"));
        let mut seen = Vec::new();
        question
            .headers
            .values("x-b", &mut |value| seen.push(value));
        assert_eq!(seen, [b"2", b"3"]);
        assert_eq!(question.takes(), Hits::Take(3));
        let takes = |more: &str| read(&format!(r#"{{"method":"GET","path":"/"{more}}}"#)).takes();
        assert_eq!(takes(""), Hits::Take(1));
        assert_eq!(takes(r#","hits":0"#), Hits::Take(0));
        assert_eq!(takes(r#","peek":true"#), Hits::Take(0));
        assert_eq!(takes(r#","peek":false,"hits":2"#), Hits::Take(2));
        assert_eq!(takes(r#","give_back":2"#), Hits::GiveBack(2));
    }

    #[test]
    fn a_question_says_what_rules_choose_by() {
        let entries = r#""entries":[{"key":"a","value":"b"}]"#;
        for (text, told) in [
            ("{}".to_owned(), "method: missing"),
            (r#"{"path":"/x"}"#.into(), "method: missing"),
            (r#"{"method":"GET"}"#.into(), "path: missing"),
            (r#"{"domain":"d"}"#.into(), "method: missing"),
            (r#"{"domain":"d","entries":[]}"#.into(), "method: missing"),
            (format!("{{{entries}}}"), "method: missing"),
            (format!(r#"{{"method":"GET",{entries}}}"#), "path: missing"),
        ] {
            let fault = fault(&text);
            assert!(fault.starts_with(told), "{text}: {fault}");
        }
        for text in [
            r#"{"method":"GET","path":"/x"}"#.to_owned(),
            format!(r#"{{"domain":"d",{entries}}}"#),
        ] {
            read(&text);
        }
    }

    #[test]
    fn every_wrong_field_is_named_and_no_value_repeated() {
        for (text, told) in [
            ("", "body: missing"),
            ("{", "body: JSON that breaks off"),
            ("nonsense", "body: not a JSON object"),
            ("{nonsense", "body: not JSON at line 1, column 2"),
            ("{}{}", "body: more follows"),
            ("[]", "body: not a JSON object"),
            ("null", "body: not a JSON object"),
            (
                r#"{"metod":"GET"}"#,
                "metod: unknown field `metod`, expected one of `method`",
            ),
            (r#"{"hits":1,"hits":2}"#, "body: duplicate field `hits`"),
            (
                r#"{"domain":"d","entries":[{"key":"","value":"SECRET"}]}"#,
                "entries: an entry with an empty `key`",
            ),
            (r#"{"hits":"SECRET"}"#, "hits: invalid type, expected u64"),
            (r#"{"hits":-1}"#, "hits: invalid value, expected u64"),
            (r#"{"hits":1.5}"#, "hits: invalid type, expected u64"),
            (r#"{"hits":4294967296}"#, "hits: not a whole number"),
            (
                r#"{"hits":99999999999999999999}"#,
                "hits: invalid type, expected u64",
            ),
            (
                r#"{"give_back":4294967296}"#,
                "give_back: not a whole number",
            ),
            (r#"{"hits":1,"peek":true}"#, "hits: more than one of"),
            (r#"{"hits":1,"give_back":1}"#, "hits: more than one of"),
            (r#"{"peer":"SECRET"}"#, "peer: invalid IP address syntax"),
            (
                r#"{"peer":"1.2.3.4:80"}"#,
                "peer: invalid IP address syntax",
            ),
            (r#"{"path":"SECRET"}"#, "path: not a path"),
            (r#"{"path":""}"#, "path: not a path"),
            (r#"{"method":"A B"}"#, "method: not an HTTP method"),
            (
                r#"{"headers":{"a b":"SECRET"}}"#,
                "headers: a key is not a header name",
            ),
            (
                r#"{"headers":{"a":1}}"#,
                "headers.a: a header value must be a string",
            ),
            (
                r#"{"headers":["SECRET"]}"#,
                "headers: invalid type, expected an object",
            ),
            (
                r#"{"entries":[{"key":"a"}]}"#,
                "entries[0]: missing field `value`",
            ),
            (
                r#"{"entries":[{"key":"a","value":"b","x":1}]}"#,
                "entries[0].x: unknown field",
            ),
            (
                r#"{"entries":[{"key":"a","value":7}]}"#,
                "entries[0].value: invalid type, expected a string",
            ),
            (
                r#"{"api_key":["SECRET"]}"#,
                "api_key: invalid type, expected a string",
            ),
        ] {
            let fault = fault(text);
            assert!(fault.starts_with(told), "{text}: {fault}");
            assert!(!fault.contains("SECRET"), "{text}: {fault}");
        }
    }

    #[test]
    fn text_of_any_kind_is_a_question() {
        // NUL, newline, Cyrillic: they are hashed, not interpreted.
        let question = read(
            "{\"method\":\"GET\",\"path\":\"/\\u0000\\n\\u0430\",\"api_key\":\"\\u0000\",\"user\":\"\"}",
        );
        assert_eq!(question.path.as_deref(), Some("/\0\n\u{430}"));
        assert!(Question::read(b"{\"user\":\"\xff\"}").is_err());
    }
}
