//! Who a certificate says a node is.
//!
//! The name is a URI among the subject alternative names, `leasehold://CLUSTER/NODE`. DNS names and addresses in a
//! certificate are not looked at: a node may move, its name stays. No certificate speaks for two nodes.

use std::fmt;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::name::{ClusterName, NodeName};

const SCHEME: &str = "leasehold://";

/// A node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterName,
    /// The node.
    pub node: NodeName,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.cluster, self.node)
    }
}

/// Why a certificate names no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// It cannot be read.
    #[error("the certificate cannot be read: {0}")]
    Unreadable(webpki::Error),
    /// It has no such URI.
    #[error(
        "the certificate names no node: it needs the subject alternative name URI:leasehold://CLUSTER/NODE"
    )]
    Absent,
    /// It has several.
    #[error("the certificate names more than one node")]
    Ambiguous,
    /// The URI is none of a node.
    #[error("the certificate names {0:?}: expected leasehold://CLUSTER/NODE")]
    Malformed(String),
}

impl Identity {
    /// Reads the URI form.
    fn parse(uri: &str) -> Option<Self> {
        let (cluster, node) = uri.strip_prefix(SCHEME)?.split_once('/')?;
        Some(Self {
            cluster: ClusterName::new(cluster).ok()?,
            node: NodeName::new(node).ok()?,
        })
    }

    /// Who a certificate says its holder is. That the certificate is to be believed is for the handshake to check.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, IdentityError> {
        let certificate =
            EndEntityCert::try_from(certificate).map_err(IdentityError::Unreadable)?;
        let mut names = certificate
            .valid_uri_names()
            .filter(|uri| uri.starts_with(SCHEME));
        let uri = names.next().ok_or(IdentityError::Absent)?;
        if names.next().is_some() {
            return Err(IdentityError::Ambiguous);
        }
        Self::parse(uri).ok_or_else(|| IdentityError::Malformed(uri.chars().take(200).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_a_cluster_and_a_node() {
        let identity = Identity::parse("leasehold://prod/node-1.example").unwrap();
        assert_eq!(identity.cluster.as_str(), "prod");
        assert_eq!(identity.node.as_str(), "node-1.example");
        assert_eq!(identity.to_string(), "leasehold://prod/node-1.example");
        for wrong in [
            "",
            "leasehold://",
            "leasehold://prod",
            "leasehold:///node",
            "leasehold://prod/",
            "leasehold://prod/a/b",
            "leasehold://PROD/a",
            "https://prod/a",
        ] {
            assert_eq!(Identity::parse(wrong), None, "{wrong}");
        }
    }
}
