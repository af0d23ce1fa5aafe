//! Reads `by`: what has a bucket of its own.

use crate::fault::{FaultKind, Faults, Read};
use crate::fields::{Fields, Place};
use crate::file::names::read_header_name;
use crate::model::{KeyPart, KeySource, Normalizer};
use crate::yaml::Content;

/// The most parts of a key.
pub const MAX_KEY_PARTS: usize = 8;

/// The fields of a part of a key.
pub const KEY_PART: [&str; 4] = ["header", "descriptor", "source", "normalize"];

const BY_WANTED: &str = "`address`, `api_key`, `user`, `path`, `method`, `host`, \
                         `{header: x-tenant}`, `{descriptor: tenant}`, a list of these, or \
                         `everyone` for one bucket";
const SOURCES: [(&str, Source); 6] = [
    ("api_key", Source::ApiKey),
    ("user", Source::User),
    ("address", Source::Address),
    ("path", Source::Path),
    ("method", Source::Method),
    ("host", Source::Host),
];

#[derive(Clone, Copy)]
enum Source {
    ApiKey,
    User,
    Address,
    Path,
    Method,
    Host,
}

impl From<Source> for KeySource {
    fn from(source: Source) -> Self {
        match source {
            Source::ApiKey => Self::ApiKey,
            Source::User => Self::User,
            Source::Address => Self::ClientAddress,
            Source::Path => Self::Path,
            Source::Method => Self::Method,
            Source::Host => Self::Host,
        }
    }
}

const NORMALIZERS: [(&str, Fold); 3] = [
    ("trim", Fold::Trim),
    ("lowercase", Fold::Lowercase),
    ("nfc", Fold::Nfc),
];

#[derive(Clone, Copy, PartialEq)]
enum Fold {
    Trim,
    Lowercase,
    Nfc,
}

/// Reads `by`; `everyone` is a key without parts.
pub fn read_by(faults: &mut Faults, place: Place<'_>) -> Read<Vec<KeyPart>> {
    if let Content::Scalar { text, .. } = &place.node.content
        && text == "everyone"
    {
        return Ok(Vec::new());
    }
    let parts = place.one_or_list(faults, MAX_KEY_PARTS, BY_WANTED, read_key_part)?;
    for (index, part) in parts.iter().enumerate() {
        if parts[..index]
            .iter()
            .any(|earlier| earlier.source == part.source)
        {
            let problem = "is in this key already";
            return Err(place.fault_of_item(faults, index, FaultKind::Conflict, problem, None));
        }
    }
    Ok(parts)
}

fn read_key_part(faults: &mut Faults, place: Place<'_>) -> Read<KeyPart> {
    if let Content::Scalar { text, .. } = &place.node.content {
        if text == "everyone" {
            let problem = "stands beside other parts, but means that there are none";
            let help = "write `by: everyone` alone, or leave it out".to_owned();
            return Err(place.fault(faults, FaultKind::Conflict, problem, help));
        }
        if matches!(text.as_str(), "header" | "descriptor") {
            let problem = format!("`{text}` needs a name");
            let help = format!("write `{{{text}: x-tenant}}`");
            return Err(place.fault(faults, FaultKind::Malformed, problem, help));
        }
        if place.node.is_null() {
            return Err(place.wrong_type(faults, BY_WANTED));
        }
        let source = place.word(faults, &SOURCES)?;
        return Ok(KeyPart {
            source: source.into(),
            normalize: Normalizer::default(),
        });
    }
    let fields = Fields::open(faults, place, &KEY_PART)?;
    let header = fields
        .optional(faults, "header", read_header_name)
        .map(|name| name.map(KeySource::Header));
    let descriptor = fields
        .optional(faults, "descriptor", |faults, place| {
            place
                .text(faults, "a descriptor entry's key")
                .map(Into::into)
        })
        .map(|key| key.map(KeySource::Descriptor));
    let source = fields.optional(faults, "source", |faults, place| {
        place.word(faults, &SOURCES).map(KeySource::from)
    });
    let normalize = fields.optional(faults, "normalize", read_normalizer);
    let mut given = [header?, descriptor?, source?].into_iter().flatten();
    let source = match (given.next(), given.next()) {
        (Some(one), None) => one,
        (Some(_), Some(_)) => {
            let problem = "has more than one of `header`, `descriptor` and `source`";
            let help = "write a list with one part an item".to_owned();
            return Err(fields.fault(faults, FaultKind::Conflict, problem, help));
        }
        (None, _) => return Err(fields.missing(faults, "header", "x-tenant")),
    };
    let normalize = normalize?.unwrap_or_default();
    let folds = normalize != Normalizer::default();
    if folds && matches!(source, KeySource::ApiKey | KeySource::ClientAddress) {
        let problem = "folds what is compared as it is";
        let help = "leave `normalize` out for api_key and address".to_owned();
        return Err(fields.fault_of(faults, "normalize", FaultKind::Conflict, problem, help));
    }
    Ok(KeyPart { source, normalize })
}

fn read_normalizer(faults: &mut Faults, place: Place<'_>) -> Read<Normalizer> {
    let wanted = "`trim`, `lowercase`, `nfc`, or a list of these";
    let folds = place.one_or_list(faults, NORMALIZERS.len(), wanted, |faults, place| {
        place.word(faults, &NORMALIZERS)
    })?;
    Ok(Normalizer {
        trim: folds.contains(&Fold::Trim),
        lowercase: folds.contains(&Fold::Lowercase),
        nfc: folds.contains(&Fold::Nfc),
    })
}
