use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::rls::Fields;

fn read(text: &str) -> Result<Loaded, ConfigError> {
    Loaded::from_text(Path::new("node.toml"), text)
}

fn refusal(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

/// Kubernetes makes `LEASEHOLD_PORT` and the like of a service named so: no setting, and no reason to speak.
#[test]
fn variables_with_too_few_underscores_are_told_of() {
    let pairs = environment(&[
        ("LEASEHOLD_HTTP_LISTEN", "x"),
        ("LEASEHOLD_TABLE__LIVE_BUCKETS", "x"),
        ("LEASEHOLD_SECRET", "x"),
        ("LEASEHOLD_PORT", "tcp://10.0.0.1:8080"),
        ("LEASEHOLD_SERVICE_HOST", "10.0.0.1"),
        ("LEASEHOLD__LOG__LEVEL", "warn"),
        ("OTHER_HTTP_LISTEN", "x"),
    ]);
    let loaded = Loaded::read(None, pairs, &[]).unwrap();
    assert_eq!(loaded.config.http, Config::default().http);
    let told: Vec<_> = loaded
        .nearly_ours
        .iter()
        .map(|(variable, meant)| (variable.as_str(), meant.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("LEASEHOLD_HTTP_LISTEN", "LEASEHOLD__HTTP__LISTEN"),
            ("LEASEHOLD_SECRET", "LEASEHOLD__SECRET"),
            (
                "LEASEHOLD_TABLE__LIVE_BUCKETS",
                "LEASEHOLD__TABLE__LIVE_BUCKETS"
            ),
        ]
    );
}

fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

#[test]
fn an_empty_configuration_is_the_default() {
    assert_eq!(read("").unwrap().config, Config::default());
    assert_eq!(read("[grpc]\n[http]").unwrap().config, Config::default());
    assert_eq!(
        Loaded::read(None, [], &[]).unwrap().config,
        Config::default()
    );
}

#[test]
fn later_sources_win_and_each_value_knows_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    std::fs::write(
        &path,
        "[drain]\ngrace_ms = 1\ntimeout_ms = 2\n[grpc]\nmax_streams = 3\n",
    )
    .unwrap();
    let loaded = Loaded::read(
        Some(&path),
        environment(&[
            ("LEASEHOLD__DRAIN__TIMEOUT_MS", "20"),
            ("LEASEHOLD__GRPC__MAX_STREAMS", "30"),
            ("LEASEHOLD_PORT", "tcp://10.0.0.1:80"),
            ("PATH", "/bin"),
        ]),
        &["grpc.max_streams=300".to_owned()],
    )
    .unwrap();
    let config = &loaded.config;
    assert_eq!(config.drain.grace, Duration::from_millis(1));
    assert_eq!(config.drain.timeout, Duration::from_millis(20));
    assert_eq!(config.grpc.max_streams, 300);
    assert_eq!(
        loaded.origin("drain.grace_ms"),
        Origin::File { path, line: 2 }
    );
    let variable = "LEASEHOLD__DRAIN__TIMEOUT_MS".to_owned();
    assert_eq!(
        loaded.origin("drain.timeout_ms"),
        Origin::Environment { variable }
    );
    assert_eq!(loaded.origin("grpc.max_streams"), Origin::CommandLine);
    assert_eq!(loaded.origin("log.level"), Origin::Default);
}

#[test]
fn unknown_keys_are_refused_with_the_nearest() {
    let cases = [
        (
            "[grpc]\nlisten = \"off\"\nmax_stream = 1",
            "node.toml:3: unknown key `grpc.max_stream`; did you mean `grpc.max_streams`?",
        ),
        (
            "[http]\nmax_message_bytes = 1",
            "node.toml:2: unknown key `http.max_message_bytes`; did you mean `grpc.max_message_bytes`?",
        ),
        (
            "[nonsense]\nzzzzzz = 1",
            "node.toml:2: unknown key `nonsense.zzzzzz`",
        ),
        ("[grcp]", "node.toml:1: unknown key `grcp`"),
        ("http = 1", "node.toml:1: unknown key `http`"),
        (
            "secret.file = \"x\"",
            "node.toml:1: unknown key `secret.file`",
        ),
    ];
    for (text, expected) in cases {
        let refusal = refusal(text);
        assert!(refusal.contains(expected), "{refusal}");
    }
    let error =
        Loaded::read(None, environment(&[("LEASEHOLD__HTTP__LISTN", "x")]), &[]).unwrap_err();
    assert!(error.to_string().contains(
        "environment variable LEASEHOLD__HTTP__LISTN: unknown key `http.listn`; did you mean `http.listen`?"
    ));
    let error = Loaded::read(None, [], &["foo=1".to_owned(), "bar".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("--set: unknown key `foo`"));
    assert!(
        error
            .to_string()
            .contains("--set \"bar\": expected KEY=VALUE")
    );
}

#[test]
fn wrong_values_are_refused_with_what_would_be_right() {
    let cases = [
        (
            "[http]\nlisten = \"localhost\"",
            "`http.listen` is \"localhost\": expected an IP address and a port",
        ),
        (
            "[http]\nlisten = 8080",
            "`http.listen` is 8080: expected an IP address and a port",
        ),
        (
            "[grpc]\nmax_streams = 0",
            "`grpc.max_streams` is 0: expected a whole number from 1 to 1000000",
        ),
        (
            "[grpc]\nmax_streams = -1",
            "`grpc.max_streams` is -1: expected a whole number",
        ),
        (
            "[grpc]\nmax_streams = 1.5",
            "`grpc.max_streams` is a number with a fraction: expected a whole",
        ),
        (
            "[grpc]\nmax_streams = \"9\"",
            "`grpc.max_streams` is \"9\": expected a whole number",
        ),
        (
            "[grpc]\nmax_streams = 99999999999",
            "`grpc.max_streams` is 99999999999: expected",
        ),
        (
            "[grpc]\nreflection = 1",
            "`grpc.reflection` is 1: expected true or false",
        ),
        (
            "[drain]\ngrace_ms = true",
            "`drain.grace_ms` is true: expected whole milliseconds from 0",
        ),
        (
            "[answer]\nbody = \"html\"",
            "`answer.body` is \"html\": expected one of \"problem\", \"error-object\"",
        ),
        (
            "[answer]\nallow_origins = [1]",
            "`answer.allow_origins` is an array: expected an array of strings",
        ),
        (
            "[answer]\nallow_origins = [\"x\"]",
            "`answer.allow_origins` is [\"x\"]: expected origins",
        ),
        (
            "[answer]\nallow_origins = [\"*\"]\nallow_credentials = true",
            "`answer.allow_credentials` is true",
        ),
        (
            "[policy]\npath = []",
            "`policy.path` is an array: expected a path",
        ),
        (
            "[log]\nlevel = \"verbose\"",
            "`log.level` is \"verbose\": expected error, warn",
        ),
        (
            "[log]\nlevel = \"\"",
            "`log.level` is \"\": expected error, warn",
        ),
        (
            "[log]\nlevel = \"inof\"",
            "`log.level` is \"inof\": expected error, warn",
        ),
        (
            "[log]\nlevel = \"debug,foo=bar\"",
            "`log.level` is \"debug,foo=bar\": expected error, warn",
        ),
        (
            "[log]\nlevel = \"info,hyper\"",
            "`log.level` is \"info,hyper\": expected error, warn",
        ),
        (
            "[log]\nlevel = \"a=b=c\"",
            "`log.level` is \"a=b=c\": expected error, warn",
        ),
        (
            "[table]\nlive_buckets = {}",
            "`table.live_buckets` is a table: expected a whole number",
        ),
        (
            "[http]\nlisten = \"127.0.0.1:8081\"",
            "`http.listen` and `grpc.listen`: both are 127.0.0.1:8081",
        ),
        (
            "[http]\nlisten = \"off\"\n[grpc]\nlisten = \"off\"",
            "both are off",
        ),
        ("[http", "node.toml:1: not TOML"),
        (
            "[http]\nlisten = \"off\"\nlisten = \"off\"",
            "node.toml:3: not TOML",
        ),
    ];
    for (text, expected) in cases {
        let refusal = refusal(text);
        assert!(refusal.contains(expected), "{refusal}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let error = read("[http]\nlisten = 1\nx = 2\n[grpc]\nmax_streams = 0\n").unwrap_err();
    assert_eq!(error.0.len(), 3, "{error}");
}

#[test]
fn a_secret_in_the_wrong_place_is_not_repeated() {
    let refusal = refusal("secret = \"0123456789abcdef\"");
    assert!(
        refusal.contains("`secret` is not usable: expected \"file:PATH\""),
        "{refusal}"
    );
    assert!(!refusal.contains("0123456789abcdef"), "{refusal}");
}

#[test]
fn what_is_printed_reads_back_the_same() {
    let loaded = read(
        "secret = \"env:S\"\n[http]\nlisten = \"[::1]:0\"\n[grpc]\nlisten = \"off\"\n[policy]\npath = \"a\\\"b\\n#\"\n\
         [answer]\ndialect = \"github\"\nallow_origins = [\"https://a.example\", \"https://b.example:8443\"]\n",
    )
    .unwrap();
    let again = read(&loaded.print()).unwrap();
    assert_eq!(again.config, loaded.config);
    assert!(
        loaded.print().contains("listen = \"off\" # node.toml:5"),
        "{}",
        loaded.print()
    );
}

#[test]
fn every_word_of_every_choice_reads_back() {
    fn all<C: Choice + std::fmt::Debug>() {
        for (word, value) in C::WORDS {
            let raw = setting::Raw::Text((*word).to_owned());
            assert_eq!(C::read(&raw, setting::Bounds::NONE), Ok(*value));
            assert_eq!(value.show(), setting::quoted(word));
        }
    }
    all::<PolicyFormat>();
    all::<render::Dialect>();
    all::<render::BodyForm>();
    all::<render::SubSecond>();
    all::<Fields>();
    all::<LogFormat>();
    all::<AccessLog>();
}

#[test]
fn every_key_is_set_from_the_environment_by_the_text_that_shows_its_default() {
    for key in KEYS {
        let shown = (key.show)(&Config::default());
        let text = shown.trim_matches(['"', '[', ']']);
        let loaded = Loaded::read(
            None,
            environment(&[(&sources::variable(key.name), text)]),
            &[],
        )
        .unwrap();
        assert_eq!(loaded.config, Config::default(), "{}", key.name);
        assert_ne!(loaded.origin(key.name), Origin::Default, "{}", key.name);
    }
}

#[test]
fn the_reference_in_the_docs_is_that_of_the_keys() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(&docs).unwrap();
    let marker =
        "<!-- The rest is written by the program: see crates/node/src/config/reference.rs -->\n\n";
    let (head, written) = text.split_once(marker).expect("the marker line");
    if std::env::var_os("LEASEHOLD_WRITE_DOCS").is_some() {
        std::fs::write(&docs, format!("{head}{marker}{}", reference::markdown())).unwrap();
    } else {
        assert!(
            written == reference::markdown(),
            "docs/configuration.md is stale: run this test with LEASEHOLD_WRITE_DOCS=1"
        );
    }
}

#[test]
fn huge_and_missing_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let huge = dir.path().join("huge.toml");
    std::fs::write(&huge, "#".repeat((1 << 20) + 1)).unwrap();
    let error = Loaded::read(Some(&huge), [], &[]).unwrap_err().to_string();
    assert!(error.contains("1048577 bytes are too many"), "{error}");
    let error = Loaded::read(Some(&dir.path().join("none")), [], &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains("none: cannot be read"), "{error}");
    let binary = dir.path().join("binary");
    std::fs::write(&binary, [0xFF, 0xFE]).unwrap();
    assert!(Loaded::read(Some(&binary), [], &[]).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}", section in "[a-z]{1,6}", key in "[a-z_]{1,12}") {
        let _ = read(&text);
        let _ = read(&format!("[{section}]\n{key} = {text}"));
        let _ = Loaded::read(None, environment(&[(&format!("LEASEHOLD__{section}__{key}"), &text)]), &[text]);
    }
}
