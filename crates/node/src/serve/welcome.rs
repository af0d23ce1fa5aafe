//! What a person is told once the node serves: where, and what to try.

use std::fmt::Write as _;

use super::Addresses;

/// The text.
#[must_use]
pub fn text(addresses: Addresses) -> String {
    let mut text = format!("Leasehold {} serves. Try:\n", env!("CARGO_PKG_VERSION"));
    let mut line = |what: &str, command: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {what}\n    {command}");
    };
    if let Some(http) = addresses.http {
        line(
            "a decision (the sample policy admits five of these a minute)",
            format!(
                "curl -i http://{http}/v1/check -H 'X-Forwarded-Method: POST' -H 'X-Forwarded-Uri: /login'"
            ),
        );
    }
    if let Some(grpc) = addresses.grpc {
        line(
            "the gRPC services",
            format!("grpcurl -plaintext {grpc} list"),
        );
    }
    if let Some(admin) = addresses.admin {
        line("health", format!("curl http://{admin}/health"));
        line("metrics", format!("curl http://{admin}/metrics"));
    }
    text
}
