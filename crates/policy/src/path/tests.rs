//! Aliases of paths, and the promises of the normal form.

use proptest::prelude::*;

use super::*;

fn normal(reading: &PathReading, target: &[u8]) -> String {
    let mut buffer = PathBuffer::new();
    let path = normalize_into(reading, target, &mut buffer);
    String::from_utf8(path.to_vec()).expect("the normal form is UTF-8")
}

fn default_normal(target: &str) -> String {
    normal(&PathReading::default(), target.as_bytes())
}

const FOLDING: PathReading = PathReading {
    case_sensitive: false,
    trailing_slash_significant: false,
    merge_slashes: true,
    decode_slashes: true,
    strip_parameters: true,
};

const LITERAL: PathReading = PathReading {
    case_sensitive: true,
    trailing_slash_significant: true,
    merge_slashes: false,
    decode_slashes: false,
    strip_parameters: false,
};

#[test]
fn aliases_of_a_path_read_the_same() {
    let aliases = [
        "/api/login",
        "/api/login/",
        "//api//login",
        "/./api/./login",
        "/api/x/../login",
        "/api/%2e%2E/api/login",
        "/api/%2e/login",
        "/%61pi/lo%67in",
        "/api%2Flogin",
        "/api%2flogin%2F",
        "/api\\login",
        "/api%5Clogin",
        "/api/login?next=/x",
        "/api/login#top",
        "/api/login/.",
        "/api/login/x/..",
        "/../../api/login",
        "/..%2fapi/login",
        "api/login",
        "%2fapi/login",
        "http://user@example.com:80/api/login?q",
        "HTTPS://example.com\\api/login",
        "/a//../api/login",
    ];
    for alias in aliases {
        assert_eq!(default_normal(alias), "/api/login", "{alias}");
    }
}

#[test]
fn what_is_configured_as_different_stays_different() {
    let cases = [
        ("/Login", "/Login"),
        ("/login/", "/login/"),
        ("//a//b", "//a//b"),
        ("/a%2fb", "/a%2Fb"),
        ("/a\\b", "/a%5Cb"),
        ("/a%5cb", "/a%5Cb"),
        ("/a/..%2fb", "/a/..%2Fb"),
        ("/a//../b", "/a/b"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/a%3Bv", "/a;v"),
    ];
    for (target, expected) in cases {
        assert_eq!(normal(&LITERAL, target.as_bytes()), expected, "{target}");
    }
}

#[test]
fn folding_and_parameters() {
    let cases = [
        ("/LOGIN", "/login"),
        ("/%4cOGIN;jsessionid=1", "/login"),
        ("/a/..;x/login", "/login"),
        ("/;x/login", "/login"),
        ("/a%3bb", "/a%3Bb"),
        ("/%C3%89T%C3%89", "/été"),
        ("/ÉTÉ", "/été"),
        ("/A%FFB", "/a%FFb"),
    ];
    for (target, expected) in cases {
        assert_eq!(normal(&FOLDING, target.as_bytes()), expected, "{target}");
    }
}

#[test]
fn odd_targets_have_a_defined_reading() {
    let cases: [(&[u8], &str); 18] = [
        (b"", "/"),
        (b"/", "/"),
        (b"//", "/"),
        (b"?x", "/"),
        (b"*", "*"),
        (b"/*", "/*"),
        (b"%2A", "/*"),
        (b"http://example.com", "/"),
        (b"http://example.com?q", "/"),
        (b"example.com:443", "/example.com:443"),
        (b"/a%00b", "/a%00b"),
        (b"/a\0b", "/a%00b"),
        (b"/a\xffb", "/a%FFb"),
        (b"/a%zz%4", "/a%25zz%254"),
        (b"/a%252e%252e/b", "/a%252e%252e/b"),
        (b"/a%3Fb%23c%25d", "/a%3Fb%23c%25d"),
        (b"/%C0%AFx", "/%C0%AFx"),
        (b"/\xC3%A9", "/\u{e9}"),
    ];
    for (target, expected) in cases {
        let reading = PathReading::default();
        assert_eq!(
            normal(&reading, target),
            expected,
            "{}",
            target.escape_ascii()
        );
    }
}

#[test]
fn a_normal_path_is_lent_and_not_copied() {
    let reading = PathReading::default();
    for target in [
        "/",
        "/api/login",
        "/.well-known/x",
        "/a/..b/c.d",
        "/a;b/~x:y@z",
        "/A",
    ] {
        let mut buffer = PathBuffer::new();
        let with_query = format!("{target}?q=%2e");
        let path = normalize_into(&reading, with_query.as_bytes(), &mut buffer);
        assert_eq!(path, target.as_bytes());
        assert_eq!(path.as_ptr(), with_query.as_ptr());
    }
}

#[test]
fn every_lower_case_mapping_is_settled_in_one_step() {
    for letter in '\u{0}'..=char::MAX {
        for lower in letter.to_lowercase() {
            assert!(lower.to_lowercase().eq([lower]), "{letter:?}");
            assert!(!lower.is_ascii() || letter.is_ascii() || lower.is_ascii_alphabetic());
        }
    }
}

fn readings() -> impl Strategy<Value = PathReading> {
    any::<[bool; 5]>().prop_map(|[a, b, c, d, e]| PathReading {
        case_sensitive: a,
        trailing_slash_significant: b,
        merge_slashes: c,
        decode_slashes: d,
        strip_parameters: e,
    })
}

fn targets() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("/"),
        Just("."),
        Just(".."),
        Just("%2e"),
        Just("%2F"),
        Just("%5c"),
        Just("\\"),
        Just("%25"),
        Just("%"),
        Just(";"),
        Just("%3b"),
        Just("?"),
        Just("%00"),
        Just("%C3"),
        Just("%A9"),
        Just("É"),
        Just("a"),
        Just("B"),
        Just("http://h"),
        Just("*"),
        Just("İ"),
    ];
    prop_oneof![
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..600),
    ]
}

proptest! {
    #[test]
    fn normal_form_holds_its_promises(reading in readings(), target in targets()) {
        let once = normal(&reading, &target);
        prop_assert_eq!(&normal(&reading, once.as_bytes()), &once, "not idempotent");
        if target == b"*" {
            return Ok(());
        }
        prop_assert!(once.starts_with('/'));
        prop_assert!(!once.contains(['?', '#', '\\']));
        prop_assert!(!once.bytes().any(|byte| byte < 0x20 || byte == 0x7f));
        prop_assert!(!once.split('/').any(|segment| segment == "." || segment == ".."));
        if reading.merge_slashes {
            prop_assert!(!once.contains("//"));
        }
        if reading.decode_slashes {
            prop_assert!(!once.contains("%2F") && !once.contains("%5C"));
        }
        if !reading.trailing_slash_significant {
            prop_assert!(once == "/" || !once.ends_with('/'));
        }
    }

    #[test]
    fn escaping_any_byte_changes_nothing(
        reading in readings(),
        text in "[a-zA-Zé.]{1,6}(/[a-zA-Z0-9.é~-]{1,6}){0,4}",
        mask in any::<u64>(),
    ) {
        let plain = format!("/{text}");
        let mut escaped = String::new();
        for (at, byte) in plain.bytes().enumerate() {
            if byte != b'/' && (mask >> (at % 64) & 1 == 1 || !byte.is_ascii()) {
                escaped.push_str(&format!("%{byte:02x}"));
            } else {
                escaped.push(byte as char);
            }
        }
        prop_assert_eq!(
            normal(&reading, plain.as_bytes()),
            normal(&reading, escaped.as_bytes())
        );
    }

    #[test]
    fn quick_check_agrees(reading in readings(), target in targets()) {
        if is_normal(&reading, &target) {
            prop_assert_eq!(normal(&reading, &target).into_bytes(), target);
        }
    }
}
