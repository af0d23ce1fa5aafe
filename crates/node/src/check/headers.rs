//! The form in which proxies ask: about the request that they hold, told in header fields.
//!
//! nginx's `auth_request` sends `X-Original-Method` and `X-Original-URI`; Caddy, Traefik and APISIX send
//! `X-Forwarded-Method`, `-Uri` and `-Host`. They are believed because only proxies can reach this listener, which is
//! the operator's to see to. A client may still slip fields through a proxy that does not clear them: hence what is
//! repeated or disagrees is refused, never chosen from. The client's address is the policy's to find
//! (`client_address`), from the peer and the forwarding header; this form takes no address from a field of its own.

use http::{HeaderMap, HeaderValue, Method};

use super::fault::Fault;

const METHOD_FIELDS: [&str; 2] = ["x-original-method", "x-forwarded-method"];
const URI_FIELDS: [&str; 2] = ["x-original-uri", "x-forwarded-uri"];

/// The request that a proxy asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Original<'a> {
    /// Its method.
    pub method: &'a str,
    /// Its path and query, as they were sent. A query without a path is one of the path `/`.
    pub target: &'a [u8],
    /// Its host, as it was sent.
    pub host: Option<&'a str>,
}

/// Whether a question is asked in this form: any of its fields is there.
#[must_use]
pub fn is_asked(headers: &HeaderMap) -> bool {
    METHOD_FIELDS
        .iter()
        .chain(&URI_FIELDS)
        .any(|name| headers.contains_key(*name))
}

impl<'a> Original<'a> {
    /// Reads the fields. `authority` is the question's own, if it came by HTTP/2.
    ///
    /// # Errors
    /// [`Fault`] if method or target are missing, or any field is malformed, repeated or contradicted.
    pub fn read(headers: &'a HeaderMap, authority: Option<&'a str>) -> Result<Self, Fault> {
        let method = one_of(headers, METHOD_FIELDS)?.ok_or(Fault::Missing {
            field: "X-Original-Method or X-Forwarded-Method",
            expected: "have the proxy send the client's method in one of them",
        })?;
        let method = method
            .1
            .to_str()
            .ok()
            .filter(|text| Method::from_bytes(text.as_bytes()).is_ok())
            .ok_or_else(|| unusable(method.0, "not an HTTP method"))?;

        let target = one_of(headers, URI_FIELDS)?.ok_or(Fault::Missing {
            field: "X-Original-URI or X-Forwarded-Uri",
            expected: "have the proxy send the client's path and query in one of them",
        })?;
        let (field, target) = (target.0, target.1.as_bytes());
        let host = host(headers, authority)?;
        if matches!(target.first(), Some(b'/' | b'*')) {
            return Ok(Self {
                method,
                target,
                host: host.map(|(_, host)| host),
            });
        }

        // In absolute form, as Caddy hands it on (RFC 9112 section 3.2.2): its authority is the host that counts, and
        // Caddy goes by it, so a different host beside it was slipped in.
        let (authority, target) = absolute(target).ok_or_else(|| {
            unusable(
                field,
                "neither a path, beginning with `/`, nor http://HOST/PATH",
            )
        })?;
        match host {
            Some((second, host)) if !host.eq_ignore_ascii_case(authority) => {
                Err(Fault::Disagreeing {
                    first: field,
                    second,
                })
            }
            Some(_) | None => Ok(Self {
                method,
                target,
                host: Some(authority),
            }),
        }
    }

    /// The query of the target, without its question mark.
    #[must_use]
    pub fn query(&self) -> Option<&'a [u8]> {
        let at = self.target.iter().position(|byte| *byte == b'?')?;
        Some(&self.target[at + 1..])
    }
}

/// The authority of an absolute form, and the path and query after it: `/` if there is none, as RFC 9110 section 4.2.3
/// has it. None if it is not one of `http` or `https`, or names a user, which no client may send.
fn absolute(target: &[u8]) -> Option<(&str, &[u8])> {
    let (scheme, rest) = target.split_at_checked(target.iter().position(|byte| *byte == b':')?)?;
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return None;
    }
    let rest = rest.strip_prefix(b"://")?;
    let ends = |byte: &u8| matches!(byte, b'/' | b'?' | b'#' | b'\\');
    let end = rest.iter().position(ends).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = std::str::from_utf8(authority).ok()?;
    let plain = |c: char| c.is_ascii_graphic() && c != '@' && c != ',';
    if authority.is_empty() || !authority.chars().all(plain) {
        return None;
    }
    match path.first() {
        None => Some((authority, b"/")),
        Some(b'/' | b'?') => Some((authority, path)),
        Some(_) => None,
    }
}

/// The host, and the field that tells it.
fn host<'a>(
    headers: &'a HeaderMap,
    authority: Option<&'a str>,
) -> Result<Option<(&'static str, &'a str)>, Fault> {
    let (name, value) = match only(headers, "x-forwarded-host")? {
        Some(value) => ("x-forwarded-host", value),
        None => match only(headers, "host")? {
            Some(value) => ("host", value),
            None => return Ok(authority.map(|authority| (":authority", authority))),
        },
    };
    let text = value
        .to_str()
        .map_err(|_| unusable(name, "not printable ASCII"))?;
    if text.contains(',') {
        return Err(unusable(
            name,
            "a list; send the one host that the client asked for",
        ));
    }
    Ok(Some((name, text)))
}

/// The value that either field or both have.
fn one_of<'a>(
    headers: &'a HeaderMap,
    names: [&'static str; 2],
) -> Result<Option<(&'static str, &'a HeaderValue)>, Fault> {
    let [first, second] = names;
    match (only(headers, first)?, only(headers, second)?) {
        (None, None) => Ok(None),
        (Some(value), None) => Ok(Some((first, value))),
        (None, Some(value)) => Ok(Some((second, value))),
        (Some(one), Some(other)) if one == other => Ok(Some((first, one))),
        (Some(_), Some(_)) => Err(Fault::Disagreeing { first, second }),
    }
}

/// The field's one value; an empty one is as good as none.
fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a HeaderValue>, Fault> {
    let mut values = headers
        .get_all(name)
        .iter()
        .filter(|value| !value.is_empty());
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(Fault::Repeated { field: name.into() }),
    }
}

fn unusable(field: &'static str, problem: &'static str) -> Fault {
    Fault::Unusable {
        field: field.into(),
        problem: problem.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static [u8])]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| {
                (
                    http::HeaderName::from_static(name),
                    HeaderValue::from_bytes(value).expect("a header value"),
                )
            })
            .collect()
    }

    fn fault(fields: &[(&'static str, &'static [u8])]) -> Fault {
        Original::read(&map(fields), None).expect_err("these fields are wrong")
    }

    const METHOD: (&str, &[u8]) = ("x-original-method", b"GET");
    const URI: (&str, &[u8]) = ("x-original-uri", b"/a?b=c");

    #[test]
    fn what_each_proxy_sends() {
        let nginx = map(&[METHOD, URI, ("host", b"api.example")]);
        let read = Original::read(&nginx, None).expect("nginx's form");
        assert_eq!(
            (read.method, read.target, read.host),
            ("GET", &b"/a?b=c"[..], Some("api.example"))
        );
        assert_eq!(read.query(), Some(&b"b=c"[..]));

        let traefik = map(&[
            ("x-forwarded-method", b"POST"),
            ("x-forwarded-proto", b"https"),
            ("x-forwarded-host", b"api.example:8443"),
            ("x-forwarded-uri", b"/a"),
            ("x-forwarded-for", b"192.0.2.1"),
            ("host", b"leasehold:8080"),
        ]);
        let read = Original::read(&traefik, None).expect("Traefik's form");
        assert_eq!(
            (read.method, read.target, read.host),
            ("POST", &b"/a"[..], Some("api.example:8443"))
        );
        assert_eq!(read.query(), None);
    }

    #[test]
    fn what_a_client_slipped_in_is_not_chosen_from() {
        assert_eq!(
            fault(&[METHOD, URI, ("x-forwarded-uri", b"/cheap")]),
            Fault::Disagreeing {
                first: "x-original-uri",
                second: "x-forwarded-uri"
            }
        );
        assert_eq!(
            fault(&[METHOD, URI, ("x-original-uri", b"/cheap")]),
            Fault::Repeated {
                field: "x-original-uri".into()
            }
        );
        assert_eq!(
            fault(&[METHOD, ("x-forwarded-method", b"OPTIONS"), URI]),
            Fault::Disagreeing {
                first: "x-original-method",
                second: "x-forwarded-method"
            }
        );
        let same = map(&[
            METHOD,
            URI,
            ("x-forwarded-uri", b"/a?b=c"),
            ("x-forwarded-method", b""),
        ]);
        assert!(Original::read(&same, None).is_ok());
    }

    #[test]
    fn every_missing_or_malformed_field_is_named() {
        for (fields, named) in [
            (&[URI][..], "X-Original-Method or X-Forwarded-Method"),
            (&[METHOD][..], "X-Original-URI or X-Forwarded-Uri"),
            (
                &[METHOD, ("x-original-uri", b"")][..],
                "X-Original-URI or X-Forwarded-Uri",
            ),
            (&[METHOD, ("x-original-uri", b"a")][..], "x-original-uri"),
            (
                &[("x-original-method", &b"G ET"[..]), URI][..],
                "x-original-method",
            ),
            (
                &[("x-original-method", &b"G\xffT"[..]), URI][..],
                "x-original-method",
            ),
            (
                &[METHOD, URI, ("x-forwarded-host", b"a, b")][..],
                "x-forwarded-host",
            ),
            (&[METHOD, URI, ("host", b"\xff")][..], "host"),
        ] {
            assert_eq!(fault(fields).field(), named, "{fields:?}");
        }
    }

    #[test]
    fn an_absolute_form_is_read_as_its_path() {
        for (target, path) in [
            (&b"http://api.example/a?b=c"[..], &b"/a?b=c"[..]),
            (b"HTTPS://API.example/a/../b", b"/a/../b"),
            (b"http://api.example", b"/"),
            (b"http://api.example?b=c", b"?b=c"),
            (b"http://api.example/http://other/", b"/http://other/"),
        ] {
            for host in [&b"api.example"[..], b"API.EXAMPLE", b""] {
                let fields = [METHOD, ("x-forwarded-uri", target), ("host", host)];
                let headers = map(&fields);
                let read = Original::read(&headers, None).expect("an absolute form");
                assert_eq!(read.target, path);
                let host = read.host.expect("a host");
                assert!(host.eq_ignore_ascii_case("api.example"), "{host}");
            }
        }
        for target in [
            &b"http:/a"[..],
            b"http:a",
            b"http:///a",
            b"http://user@api.example/a",
            b"http://api.example\\a",
            b"http://api.example#a",
            b"http://api.example, other/a",
            b"http://\xff/a",
            b"ftp://api.example/a",
            b"api.example:443",
            b"://api.example/a",
        ] {
            assert_eq!(
                fault(&[METHOD, ("x-forwarded-uri", target)]).field(),
                "x-forwarded-uri",
                "{target:?}"
            );
        }
        let slipped = [
            METHOD,
            ("x-forwarded-uri", b"http://api.example/a"),
            ("x-forwarded-host", b"other.example"),
        ];
        assert_eq!(
            fault(&slipped),
            Fault::Disagreeing {
                first: "x-forwarded-uri",
                second: "x-forwarded-host"
            }
        );
    }

    #[test]
    fn a_target_of_any_bytes_is_taken_as_it_is() {
        let odd = map(&[METHOD, ("x-original-uri", b"/\xff\xd0\xb0%00//..")]);
        assert_eq!(
            Original::read(&odd, None).map(|o| o.target),
            Ok(&b"/\xff\xd0\xb0%00//.."[..])
        );
    }
}
