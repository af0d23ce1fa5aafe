//! How a policy is written, as the command line names it.

use clap::ValueEnum;
use node::config::PolicyFormat;

/// How a policy is written.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Format {
    /// envoy if it has a `domain` at its top or is a directory, otherwise leasehold
    #[default]
    Auto,
    /// Leasehold's own (docs/policy.md)
    Leasehold,
    /// envoyproxy/ratelimit's (docs/envoy-ratelimit.md)
    #[value(alias = "envoy-ratelimit")]
    Envoy,
}

impl Format {
    /// Its name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Leasehold => "leasehold",
            Self::Envoy => "envoy",
        }
    }
}

impl From<Format> for PolicyFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Auto => Self::Auto,
            Format::Leasehold => Self::Leasehold,
            Format::Envoy => Self::Envoy,
        }
    }
}
