//! Authorities and certificates, made for each test.

use std::path::Path;
use std::time::{Duration, SystemTime};

use leasehold_node::peers::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// Before and after [`super::super::fixture::START`], in days, a certificate is valid.
#[derive(Clone, Copy)]
pub struct Valid {
    pub from_days: i64,
    pub until_days: i64,
}

pub const NOW: Valid = Valid {
    from_days: -1,
    until_days: 30,
};

const START_UNIX_SECONDS: u64 = 1_796_067_255;

fn day(days: i64) -> SystemTime {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(START_UNIX_SECONDS);
    let by = Duration::from_secs(days.unsigned_abs() * 86_400);
    if days < 0 { start - by } else { start + by }
}

pub struct Issued {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = day(-365).into();
        params.not_after = day(365).into();
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate with these URIs as its names.
    pub fn issue(&self, names: &[&str], valid: Valid) -> Issued {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names
            .iter()
            .map(|name| SanType::URI((*name).try_into().unwrap()))
            .collect();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.not_before = day(valid.from_days).into();
        params.not_after = day(valid.until_days).into();
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        Issued {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }
}

pub fn files(directory: &Path) -> TlsFiles {
    TlsFiles {
        ca: directory.join("ca.pem"),
        cert: directory.join("cert.pem"),
        key: directory.join("key.pem"),
    }
}

/// Writes a node's files.
pub fn write(directory: &Path, ca: &str, issued: &Issued) -> TlsFiles {
    let files = files(directory);
    std::fs::write(&files.ca, ca).unwrap();
    std::fs::write(&files.cert, &issued.cert).unwrap();
    std::fs::write(&files.key, &issued.key).unwrap();
    files
}
