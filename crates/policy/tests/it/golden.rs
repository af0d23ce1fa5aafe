//! Files in `testdata/policy`: what is valid loads, what is invalid is refused with just the text
//! beside it. `BLESS=1` writes the texts anew, to be read before they are committed.

use std::fs;
use std::path::{Path, PathBuf};

use leasehold_policy as policy;

pub fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/policy")
        .join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// A4 and A7 among them, in `bounds.yaml`: each limit beyond its bound is refused with the bound named.
#[test]
fn invalid_files_are_refused_in_these_words() {
    for file in files("invalid") {
        let errors = policy::file::read(&fs::read(&file).unwrap())
            .map(|_| panic!("{} was read", file.display()))
            .unwrap_err();
        let told = format!("{errors}\n");
        let expected_file = file.with_extension("txt");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&expected_file, &told).unwrap();
        }
        let expected = fs::read_to_string(&expected_file).unwrap_or_default();
        assert_eq!(told, expected, "{}", file.display());
    }
}

/// A7 among them, in `edges.yaml`: each limit at its bound is read.
#[test]
fn valid_files_are_read() {
    for file in files("valid") {
        if let Err(errors) = policy::file::read(&fs::read(&file).unwrap()) {
            panic!("{}:\n{errors}", file.display());
        }
    }
}
