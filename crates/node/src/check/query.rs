//! The query of `/v1/check`: `mode=403` and `hits=N`, and nothing else.
//!
//! It must be the operator's, yet some proxies (Caddy's `forward_auth`) put the client's own query in its place. A query
//! that is also the client's is therefore not taken at its word: what is unknown in it is the client's and means
//! nothing, and `hits`, by which a client would set its own price, is refused.

use super::fault::Fault;

/// The most hits that one request may take or give back, as in Envoy's protocol.
pub const MOST_HITS: u64 = u32::MAX as u64;

/// What the query asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Refusals are answered with 403, which nginx's `auth_request` understands.
    pub refuse_with_403: bool,
    /// Hits that the request takes.
    pub hits: Option<u64>,
}

impl Query {
    /// Reads a query, without its question mark.
    ///
    /// # Errors
    /// [`Fault`] for a parameter that is unknown, repeated or has no usable value.
    pub fn read(text: Option<&str>) -> Result<Self, Fault> {
        let mut query = Self::default();
        for parameter in text.unwrap_or("").split('&').filter(|p| !p.is_empty()) {
            match parameter.split_once('=') {
                Some(("mode", "403")) if !query.refuse_with_403 => query.refuse_with_403 = true,
                Some(("mode", "403")) => {
                    return Err(Fault::Repeated {
                        field: "mode".into(),
                    });
                }
                Some(("mode", _)) => {
                    return Err(Fault::Unusable {
                        field: "mode".into(),
                        problem: "unknown mode; only `mode=403` is known".into(),
                    });
                }
                Some(("hits", _)) if query.hits.is_some() => {
                    return Err(Fault::Repeated {
                        field: "hits".into(),
                    });
                }
                Some(("hits", number)) => query.hits = Some(hits(number)?),
                Some(_) | None => {
                    return Err(Fault::Unusable {
                        field: "query".into(),
                        problem: "unknown parameter; only `mode=403` and `hits=N` are known, and \
                                  the proxy must not hand on the client's query"
                            .into(),
                    });
                }
            }
        }
        Ok(query)
    }

    /// Reads a query beside that of the request which is asked about.
    ///
    /// # Errors
    /// [`Fault`] as of [`Self::read`], and if the client may have set `hits`.
    pub fn beside(text: Option<&str>, clients: Option<&[u8]>) -> Result<Self, Fault> {
        let read = Self::read(text);
        match text {
            Some(text) if !text.is_empty() && clients == Some(text.as_bytes()) => match read {
                Ok(Self { hits: Some(_), .. }) => Err(Fault::Unusable {
                    field: "hits".into(),
                    problem: "the query is also the client's; have the proxy drop the client's \
                              query from this address"
                        .into(),
                }),
                Ok(Self {
                    hits: None,
                    refuse_with_403,
                }) => Ok(Self {
                    refuse_with_403,
                    hits: None,
                }),
                Err(_) => Ok(Self::default()),
            },
            Some(_) | None => read,
        }
    }

    /// Whether a query asks for 403, even if something else in it is wrong: a proxy that understands nothing else
    /// must not take a fault for the absence of an answer.
    #[must_use]
    pub fn wants_403(text: Option<&str>) -> bool {
        text.unwrap_or("")
            .split('&')
            .any(|parameter| parameter == "mode=403")
    }
}

fn hits(number: &str) -> Result<u64, Fault> {
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    number
        .parse()
        .ok()
        .filter(|hits| digits && *hits <= MOST_HITS)
        .ok_or(Fault::Unusable {
            field: "hits".into(),
            problem: "not a whole number from 0 to 4294967295".into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(text: &str) -> String {
        Query::read(Some(text))
            .expect_err("this query is wrong")
            .field()
            .to_owned()
    }

    #[test]
    fn what_is_known_is_read() {
        assert_eq!(Query::read(None), Ok(Query::default()));
        assert_eq!(Query::read(Some("")), Ok(Query::default()));
        assert_eq!(
            Query::read(Some("mode=403&hits=5")),
            Ok(Query {
                refuse_with_403: true,
                hits: Some(5)
            })
        );
        assert_eq!(Query::read(Some("hits=0")).map(|q| q.hits), Ok(Some(0)));
        assert_eq!(
            Query::read(Some("hits=4294967295")).map(|q| q.hits),
            Ok(Some(MOST_HITS))
        );
    }

    #[test]
    fn all_else_is_refused_by_name() {
        for wrong in [
            "hits=",
            "hits=-1",
            "hits=1.5",
            "hits=+1",
            "hits=4294967296",
            "hits=1e3",
            "hits=%31",
        ] {
            assert_eq!(field(wrong), "hits", "{wrong}");
        }
        assert_eq!(field("hits=1&hits=1"), "hits");
        assert_eq!(field("mode=200"), "mode");
        assert_eq!(field("mode=403&mode=403"), "mode");
        for wrong in ["x", "x=1", "Hits=1", "hits", "mode", "&mode=403&="] {
            assert_eq!(field(wrong), "query", "{wrong}");
        }
    }

    #[test]
    fn a_query_that_is_the_clients_decides_nothing() {
        let beside = |query: &str| Query::beside(Some(query), Some(query.as_bytes()));
        assert_eq!(beside("page=2&sort=up"), Ok(Query::default()));
        assert_eq!(beside("page=2&hits=0"), Ok(Query::default()));
        assert_eq!(
            beside("mode=403"),
            Ok(Query {
                refuse_with_403: true,
                hits: None
            })
        );
        assert!(beside("hits=0").is_err_and(|fault| fault.field() == "hits"));
        assert!(beside("mode=403&hits=0").is_err_and(|fault| fault.field() == "hits"));
        // One that is not the client's is the operator's, and read strictly.
        assert_eq!(
            Query::beside(Some("hits=5"), Some(b"hits=0")).map(|q| q.hits),
            Ok(Some(5))
        );
        assert_eq!(
            Query::beside(Some("hits=5"), None).map(|q| q.hits),
            Ok(Some(5))
        );
        assert!(Query::beside(Some("page=2"), Some(b"page=3")).is_err());
        assert_eq!(Query::beside(Some(""), Some(b"")), Ok(Query::default()));
    }

    #[test]
    fn a_fault_does_not_hide_the_mode() {
        assert!(Query::wants_403(Some("hits=x&mode=403")));
        assert!(!Query::wants_403(Some("hits=x&mode=4033")));
        assert!(!Query::wants_403(None));
    }
}
