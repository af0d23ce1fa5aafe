//! Whether one path pattern matches one normalised path.

use policy::model::{PathPattern, Segment};

use crate::trie::glob_matches;

/// Whether the pattern matches the whole path.
pub(crate) fn matches(pattern: &PathPattern, path: &[u8]) -> bool {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let mut given = (!path.is_empty()).then(|| path.split(|&byte| byte == b'/'));
    for wanted in &pattern.segments {
        if *wanted == Segment::Rest {
            return true;
        }
        let Some(segment) = given.as_mut().and_then(Iterator::next) else {
            return false;
        };
        let fits = match wanted {
            Segment::Literal(text) => text.as_bytes() == segment,
            Segment::Any => !segment.is_empty(),
            Segment::Glob(pieces) => {
                let pieces: smallvec::SmallVec<[&[u8]; 8]> =
                    pieces.iter().map(|piece| piece.as_bytes()).collect();
                glob_matches(&pieces, segment)
            }
            Segment::Rest => true,
        };
        if !fits {
            return false;
        }
    }
    given.as_mut().and_then(Iterator::next).is_none()
}
