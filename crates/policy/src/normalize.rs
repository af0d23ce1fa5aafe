//! Folds the value of a key's part as its rule says, before it is hashed.
//!
//! In order: white space is trimmed, letters become lower case, the text is composed (Unicode normalisation form C,
//! UAX #15). Lower case is Unicode's mapping of one character at a time, without regard to language or context.
//!
//! A value that is not UTF-8 is folded as far as bytes can be: ASCII white space is trimmed and ASCII letters become
//! lower case; it has no composed form. So every value has a key, and two values that differ in bytes that are not
//! text never share one. This module must never fail, and it never allocates for a value that is already folded.

use smallvec::SmallVec;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use crate::model::Normalizer;

/// Room for a folded value; longer ones move to the heap.
pub type ValueBuffer = SmallVec<[u8; 256]>;

/// Folds a value; see the module for the rules.
///
/// Returns a slice of `value` if nothing in it has to be rewritten, else what was written to `buffer`, whose earlier
/// contents are lost. Folding the result again changes nothing.
#[must_use]
pub fn normalize_into<'a>(
    normalizer: Normalizer,
    value: &'a [u8],
    buffer: &'a mut ValueBuffer,
) -> &'a [u8] {
    let Normalizer {
        trim,
        lowercase,
        nfc,
    } = normalizer;
    if !(trim || lowercase || nfc) {
        return value;
    }
    match std::str::from_utf8(value) {
        Ok(text) if !text.is_ascii() => {
            let text = if trim { text.trim() } else { text };
            fold_text(lowercase, nfc, text, buffer)
        }
        Ok(_) | Err(_) => {
            let bytes = if trim { trim_ascii(value) } else { value };
            fold_bytes(lowercase, bytes, buffer)
        }
    }
}

/// As `str::trim` does for ASCII text: `u8::trim_ascii` leaves out the vertical tab.
fn trim_ascii(mut bytes: &[u8]) -> &[u8] {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    while let [first, rest @ ..] = bytes
        && is_space(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_space(*last)
    {
        bytes = rest;
    }
    bytes
}

fn fold_bytes<'a>(lowercase: bool, bytes: &'a [u8], buffer: &'a mut ValueBuffer) -> &'a [u8] {
    if !lowercase || !bytes.iter().any(u8::is_ascii_uppercase) {
        return bytes;
    }
    buffer.clear();
    buffer.extend(bytes.iter().map(u8::to_ascii_lowercase));
    buffer
}

fn fold_text<'a>(
    lowercase: bool,
    nfc: bool,
    text: &'a str,
    buffer: &'a mut ValueBuffer,
) -> &'a [u8] {
    let is_lower = |letter: char| letter.to_lowercase().eq([letter]);
    let lowers = lowercase && !text.chars().all(is_lower);
    let composes = nfc && is_nfc_quick(text.chars()) != IsNormalized::Yes;
    buffer.clear();
    let mut push = |letter: char| {
        buffer.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    };
    match (lowers, composes || nfc && lowers) {
        (false, false) => return text.as_bytes(),
        (true, false) => text
            .chars()
            .flat_map(char::to_lowercase)
            .for_each(&mut push),
        (false, true) => text.chars().nfc().for_each(&mut push),
        (true, true) => text
            .chars()
            .flat_map(char::to_lowercase)
            .nfc()
            .for_each(&mut push),
    }
    buffer
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Normalizer = Normalizer {
        trim: true,
        lowercase: true,
        nfc: true,
    };

    fn folded(normalizer: Normalizer, value: &[u8]) -> Vec<u8> {
        normalize_into(normalizer, value, &mut ValueBuffer::new()).to_vec()
    }

    #[test]
    fn each_switch_does_its_own() {
        let off = Normalizer::default();
        let cases = [
            (off, " A@x\u{e9}e\u{301} ", " A@x\u{e9}e\u{301} "),
            (
                Normalizer { trim: true, ..off },
                "\u{b} A@x\u{a0}\u{e9}\u{2003}",
                "A@x\u{a0}\u{e9}",
            ),
            (
                Normalizer {
                    lowercase: true,
                    ..off
                },
                " A@\u{c9}\u{212a} ",
                " a@\u{e9}k ",
            ),
            (Normalizer { nfc: true, ..off }, " E\u{301}", " \u{c9}"),
            (ALL, " A@x", "a@x"),
            (ALL, "a@x", "a@x"),
            (ALL, "\tE\u{301}T\u{c9}\n", "\u{e9}t\u{e9}"),
            (ALL, "\u{415}", "\u{435}"),
            (ALL, "", ""),
            (ALL, " \u{2003} ", ""),
        ];
        for (normalizer, value, expected) in cases {
            let got = folded(normalizer, value.as_bytes());
            assert_eq!(std::str::from_utf8(&got), Ok(expected));
        }
    }

    #[test]
    fn bytes_that_are_not_text_keep_their_own_key() {
        assert_eq!(folded(ALL, b" A\xff\0\n"), b"a\xff\0");
        assert_ne!(folded(ALL, b"a\xff"), folded(ALL, b"a\xfe"));
        assert_ne!(folded(ALL, b"a\xff"), folded(ALL, b"a"));
    }

    #[test]
    fn a_folded_value_is_lent_and_not_copied() {
        for value in ["a@x.example", "\u{e9}t\u{e9}", "\u{43f}\u{440}"] {
            let mut buffer = ValueBuffer::new();
            let got = normalize_into(ALL, value.as_bytes(), &mut buffer);
            assert_eq!(got.as_ptr(), value.as_ptr());
        }
    }

    fn normalizers() -> impl Strategy<Value = Normalizer> {
        any::<[bool; 3]>().prop_map(|[trim, lowercase, nfc]| Normalizer {
            trim,
            lowercase,
            nfc,
        })
    }

    proptest! {
        #[test]
        fn once_is_enough(normalizer in normalizers(), value in prop_oneof![
            any::<String>().prop_map(String::into_bytes),
            "[ \tAae\u{301}\u{c9}\u{212a}\u{130}\u{307}\u{345}\u{3a9}\u{2000}]{0,8}"
                .prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 0..300),
        ]) {
            let once = folded(normalizer, &value);
            prop_assert_eq!(folded(normalizer, &once), once);
        }

        #[test]
        fn composed_and_decomposed_are_one(text in any::<String>()) {
            let decomposed: String = text.nfd().collect();
            prop_assert_eq!(
                folded(ALL, text.as_bytes()),
                folded(ALL, decomposed.as_bytes())
            );
        }

        #[test]
        fn lower_case_of_all_letters_is_settled(letter in any::<char>(), mark in any::<char>()) {
            let value = format!("{letter}{mark}");
            let once = folded(ALL, value.as_bytes());
            prop_assert_eq!(folded(ALL, &once), once);
        }
    }
}
