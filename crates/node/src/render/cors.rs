//! What a browser needs to read an answer of another origin, and which requests are preflights.
//!
//! On admitted requests the API's own answer says who may read it; Leasehold adds `Access-Control-Allow-Origin` only
//! where it answers itself, on refusals, lest the field appear twice and browsers reject both.

/// The fields that scripts of other origins may read, for `Access-Control-Expose-Headers`.
pub(super) const EXPOSED: &str = "retry-after, ratelimit, ratelimit-policy, x-ratelimit-limit, \
     x-ratelimit-remaining, x-ratelimit-reset, x-ratelimit-reset-ms, x-ratelimit-degraded, x-request-id";

/// Which origins may read refusals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cors {
    any: bool,
    origins: Vec<String>,
    credentials: bool,
}

/// Why CORS settings were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorsError {
    /// Not an origin.
    #[error(
        "answer.allow_origins: {0:?} is not an origin: write scheme://host[:port], or \"*\" alone"
    )]
    NotAnOrigin(String),
    /// Any origin, with credentials.
    #[error("answer.allow_credentials: not allowed with the origin \"*\": name the origins")]
    CredentialsForAny,
}

impl Cors {
    /// Allows the given origins (`scheme://host[:port]`, or `*` for all) to read refusals.
    ///
    /// # Errors
    /// If an origin is not of that form, or `*` is combined with others or with credentials.
    pub fn new(origins: Vec<String>, credentials: bool) -> Result<Self, CorsError> {
        if origins == ["*"] {
            if credentials {
                return Err(CorsError::CredentialsForAny);
            }
            return Ok(Self {
                any: true,
                origins: Vec::new(),
                credentials,
            });
        }
        match origins.iter().find(|origin| !is_origin(origin)) {
            Some(wrong) => Err(CorsError::NotAnOrigin(wrong.clone())),
            None => Ok(Self {
                any: false,
                origins,
                credentials,
            }),
        }
    }

    /// The value of `Access-Control-Allow-Origin` for a request from `origin`, if it may read.
    pub(super) fn allowed<'a>(&'a self, origin: &'a str) -> Option<&'a str> {
        if self.any {
            return Some("*");
        }
        self.origins
            .iter()
            .find(|allowed| *allowed == origin)
            .map(String::as_str)
    }

    /// Whether credentials may be sent along.
    pub(super) const fn credentials(&self) -> bool {
        self.credentials
    }

    /// Whether the answer depends on who asks.
    pub(super) const fn varies(&self) -> bool {
        !self.origins.is_empty()
    }
}

/// `scheme://host[:port]`, without path, user or white space.
fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else {
        return false;
    };
    let host_fits = |c: u8| c.is_ascii_alphanumeric() || b"-._:[]".contains(&c);
    !scheme.is_empty()
        && scheme
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"+-.".contains(&c))
        && !authority.is_empty()
        && authority.bytes().all(host_fits)
}

/// Whether a request is a CORS preflight, which the browser sends of its own accord and which therefore spends
/// nothing: `OPTIONS` with `Origin` and `Access-Control-Request-Method` (Fetch standard, "CORS-preflight request").
#[must_use]
pub fn is_preflight(method: &str, has_origin: bool, has_request_method: bool) -> bool {
    method == "OPTIONS" && has_origin && has_request_method
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_checked() {
        for good in [
            "https://app.example",
            "http://localhost:3000",
            "http://[::1]:80",
        ] {
            assert!(Cors::new(vec![good.into()], true).is_ok(), "{good}");
        }
        for wrong in [
            "",
            "app.example",
            "https://",
            "https://a/b",
            "https://a b",
            "https://a\r\nX: y",
            "null",
        ] {
            assert_eq!(
                Cors::new(vec![wrong.into()], false),
                Err(CorsError::NotAnOrigin(wrong.into())),
                "{wrong}"
            );
        }
        assert_eq!(
            Cors::new(vec!["*".into()], true),
            Err(CorsError::CredentialsForAny)
        );
        assert!(Cors::new(vec!["*".into(), "https://a".into()], false).is_err());
    }

    #[test]
    fn only_the_browsers_own_question_is_a_preflight() {
        assert!(is_preflight("OPTIONS", true, true));
        assert!(!is_preflight("OPTIONS", true, false));
        assert!(!is_preflight("OPTIONS", false, true));
        assert!(!is_preflight("GET", true, true));
        assert!(!is_preflight("options", true, true));
    }
}
