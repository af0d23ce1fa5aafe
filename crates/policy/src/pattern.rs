//! Reads path patterns, normalised as the paths that they are to match.
//!
//! A pattern and a request's path go through the same [`crate::path`], wild cards aside, so that no
//! spelling of a path escapes a rule. A pattern whose meaning is in doubt is refused.

use std::sync::Arc;

use crate::model::{PathPattern, PathReading, Segment};
use crate::path::normalize;

/// The most segments of a pattern.
pub const MAX_SEGMENTS: usize = 64;

/// Why text is no path pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// It does not begin with a slash.
    #[error("does not begin with `/`")]
    NotRooted,
    /// It has a `?` or `#`.
    #[error("has a `{0}`, but a query or fragment is no part of a path")]
    NotAPath(char),
    /// `**` or `{*name}` stands elsewhere than at the end.
    #[error("has `**` elsewhere than as its last segment")]
    RestNotLast,
    /// Braces that are no `{name}` or `{*name}` filling a segment.
    #[error("has braces that are not a whole segment such as `{{name}}`")]
    Braces,
    /// A character that stands for a wild card inside.
    #[error("has the private-use character U+{0:04X}")]
    Reserved(u32),
    /// Too many segments.
    #[error("has {0} segments: at most {MAX_SEGMENTS}")]
    TooManySegments(usize),
}

impl PatternError {
    /// What would be right.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::NotRooted => "write for example `/login`, `/users/{id}`, or `/**` for every path",
            Self::NotAPath(_) => "leave it out, or write it escaped: `%3F` or `%23`",
            Self::RestNotLast => "write `*` for a run of characters in one segment",
            Self::Braces => "write `{name}` for one segment, `{*name}` at the end for the rest",
            Self::Reserved(_) => "write it escaped, such as `%EF%A3%BD`",
            Self::TooManySegments(_) => "end the pattern earlier, with `**`",
        }
    }
}

// Wild cards pass the normaliser as characters that it leaves alone and that have no case.
const STAR: char = '\u{f8ff}';
const ANY: char = '\u{f8fe}';
const REST: char = '\u{f8fd}';

impl PathPattern {
    /// Reads a pattern. A literal `*`, `{` or `}` is written escaped, as `%2A`, `%7B` or `%7D`.
    ///
    /// The segments of the normal form are what its slashes part after the first; `/` alone has none.
    ///
    /// # Errors
    /// [`PatternError`].
    pub fn parse(reading: &PathReading, source: &str) -> Result<Self, PatternError> {
        if !source.starts_with('/') {
            return Err(PatternError::NotRooted);
        }
        for c in source.chars() {
            match c {
                '?' | '#' => return Err(PatternError::NotAPath(c)),
                STAR | ANY | REST => return Err(PatternError::Reserved(c.into())),
                _ => {}
            }
        }
        let marked = source
            .split('/')
            .map(mark)
            .collect::<Result<Vec<_>, _>>()?
            .join("/");
        let normal = normalize(reading, &marked);
        let path = normal.strip_prefix('/').unwrap_or(&normal);
        let segments: Vec<&str> = if path.is_empty() {
            Vec::new()
        } else {
            path.split('/').collect()
        };
        if segments.len() > MAX_SEGMENTS {
            return Err(PatternError::TooManySegments(segments.len()));
        }
        let last = segments.len().saturating_sub(1);
        let segments = segments
            .into_iter()
            .enumerate()
            .map(|(index, text)| segment(text, index == last))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            source: source.into(),
            segments,
        })
    }
}

/// Puts the inner characters for the wild cards of one segment as written.
fn mark(segment: &str) -> Result<String, PatternError> {
    match segment {
        "**" => return Ok(REST.into()),
        "*" => return Ok(ANY.into()),
        _ => {}
    }
    if segment.contains("**") {
        return Err(PatternError::RestNotLast);
    }
    if !segment.contains(['{', '}']) {
        return Ok(segment.replace('*', STAR.encode_utf8(&mut [0; 4])));
    }
    let name = segment
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    let (name, mark) = match name.map(|name| (name, name.strip_prefix('*'))) {
        Some((_, Some(rest))) => (rest, REST),
        Some((name, None)) => (name, ANY),
        None => return Err(PatternError::Braces),
    };
    let named = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || !name.chars().all(named) {
        return Err(PatternError::Braces);
    }
    Ok(mark.into())
}

fn segment(text: &str, is_last: bool) -> Result<Segment, PatternError> {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(ANY), None) => return Ok(Segment::Any),
        (Some(REST), None) if is_last => return Ok(Segment::Rest),
        _ => {}
    }
    if text.contains(REST) {
        return Err(PatternError::RestNotLast);
    }
    if text.contains(ANY) {
        // An escaped slash is text where it does not part segments: `{id}%2Fx`.
        return Err(PatternError::Braces);
    }
    if !text.contains(STAR) {
        return Ok(Segment::Literal(text.into()));
    }
    let pieces: Vec<Arc<str>> = text.split(STAR).map(Into::into).collect();
    Ok(Segment::Glob(pieces.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(source: &str) -> Result<Vec<Segment>, PatternError> {
        PathPattern::parse(&PathReading::default(), source).map(|pattern| pattern.segments)
    }

    fn literal(text: &str) -> Segment {
        Segment::Literal(text.into())
    }

    fn glob(pieces: &[&str]) -> Segment {
        Segment::Glob(pieces.iter().map(|piece| (*piece).into()).collect())
    }

    #[test]
    fn patterns_are_normalised_like_paths() {
        assert_eq!(read("/"), Ok(vec![]));
        assert_eq!(read("/login/"), Ok(vec![literal("login")]));
        assert_eq!(
            read("//a/./b/../c%41"),
            Ok(vec![literal("a"), literal("cA")])
        );
        assert_eq!(read("/a%2Fb"), Ok(vec![literal("a"), literal("b")]));
        assert_eq!(
            read("/users/{id}"),
            Ok(vec![literal("users"), Segment::Any])
        );
        assert_eq!(read("/users/*"), Ok(vec![literal("users"), Segment::Any]));
        assert_eq!(
            read("/v*/x*y.js"),
            Ok(vec![glob(&["v", ""]), glob(&["x", "y.js"])])
        );
        assert_eq!(read("/%2A/%7B%7D"), Ok(vec![literal("*"), literal("{}")]));
        for rest in ["/api/**", "/api/{*rest}", "/api/**/"] {
            assert_eq!(
                read(rest),
                Ok(vec![literal("api"), Segment::Rest]),
                "{rest}"
            );
        }
        assert_eq!(read("/**"), Ok(vec![Segment::Rest]));
    }

    #[test]
    fn case_and_trailing_slash_follow_the_reading() {
        let reading = PathReading {
            case_sensitive: false,
            trailing_slash_significant: true,
            ..PathReading::default()
        };
        let read = |source| PathPattern::parse(&reading, source).map(|pattern| pattern.segments);
        assert_eq!(read("/LogIn/"), Ok(vec![literal("login"), literal("")]));
        assert_eq!(read("/A*B"), Ok(vec![glob(&["a", "b"])]));
        assert_eq!(read("/a/**/"), Err(PatternError::RestNotLast));
    }

    #[test]
    fn doubtful_patterns_are_refused() {
        for (source, error) in [
            ("", PatternError::NotRooted),
            ("*", PatternError::NotRooted),
            ("login", PatternError::NotRooted),
            ("http://a/b", PatternError::NotRooted),
            ("/a?b=c", PatternError::NotAPath('?')),
            ("/a#b", PatternError::NotAPath('#')),
            ("/**/a", PatternError::RestNotLast),
            ("/{*rest}/a", PatternError::RestNotLast),
            ("/a**", PatternError::RestNotLast),
            ("/v{n}", PatternError::Braces),
            ("/{}", PatternError::Braces),
            ("/{a b}", PatternError::Braces),
            ("/{*}", PatternError::Braces),
            ("/a}", PatternError::Braces),
            ("/\u{f8ff}", PatternError::Reserved(0xf8ff)),
        ] {
            assert_eq!(read(source), Err(error), "{source}");
        }
        let deep = "/a".repeat(MAX_SEGMENTS + 1);
        assert_eq!(
            read(&deep),
            Err(PatternError::TooManySegments(MAX_SEGMENTS + 1))
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(source in "/[a-zA-Z*{}%/.;0-9]{0,20}|\\PC{0,12}") {
            let _ = read(&source);
        }

        #[test]
        fn a_pattern_of_literals_is_the_path_s_normal_form(path in "(/[a-zA-Z.%0-9]{0,4}){1,5}") {
            let Ok(segments) = read(&path) else { return Ok(()) };
            let texts: Vec<&str> = segments.iter().map(|segment| match segment {
                Segment::Literal(text) => &**text,
                Segment::Any | Segment::Glob(_) | Segment::Rest => panic!("no wild card given"),
            }).collect();
            let normal = normalize(&PathReading::default(), &path);
            prop_assert_eq!(format!("/{}", texts.join("/")), normal);
        }
    }
}
